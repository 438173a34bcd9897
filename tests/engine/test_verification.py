"""A strategy file is believed only as far as it can be computed again."""

import json

import pytest

from accountants.certificates.records import certificate_from_dict, certificate_to_dict
from engine.certification import certify
from engine.results import read_strategy, write_strategy
from engine.verification import verify
from search_spaces.errors import InputError
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("strategy") / "strategy.json"
    certify(
        scheme=make_scheme("nested_ra", iterations=16, participations=2, bandwidth=4),
        strategy=harmonic(iterations=16, bandwidth=4, r=0.1), epsilon=2.0, delta=1e-2, seed=1, out=path,
    )
    return path


def rewritten(original, tmp_path, change):
    """A file with a valid seal and one thing changed."""
    document = read_strategy(original)
    change(document)
    path = tmp_path / "changed.json"
    write_strategy(path, document)
    return path


def test_an_honest_file_holds_on_new_samples(original):
    verification = verify(original, seed=12)
    assert verification.holds and verification.failures == ()
    assert set(verification.means) == {"remove", "add"}
    assert all(verification.means[d] <= verification.thresholds[d] for d in verification.means)
    assert verify(original, seed=12).means == verification.means != verify(original, seed=13).means


def test_the_seed_comes_from_the_system_unless_given(original):
    assert verify(original).seed != verify(original).seed


def lower_sigma(document):
    """A consistent file whose certificate is that of a larger σ: everything is restated for 0.9σ but the samples' outcomes."""
    made = certificate_to_dict(certificate_from_dict(document["certificate"]))
    mechanism = made["candidates"][made["selected"]]["mechanism"]
    mechanism["sigma"] *= 0.9
    document["rmse"] *= 0.9
    document["deterministic"]["ratio"] *= 0.9
    document["sigma"] = mechanism["sigma"]
    document["certificate"] = made


def claim_less(document):
    document["evidence"][0]["delta"] *= 0.5


def change_seed(document):
    document["certificate"]["seed"] += 1


def forget_evidence(document):
    document["evidence"] = document["evidence"][1:]


def other_target(document):
    document["problem"]["delta"] = 2e-2


def lower_deterministic_sigma(document):
    stated = document["deterministic"]
    document["deterministic"] = stated | {"sigma": 0.8 * stated["sigma"], "ratio": stated["ratio"] / 0.8}


def by_an_estimate(document):
    document["deterministic"]["accountant"] = "monte_carlo"


@pytest.mark.parametrize(("change", "named"), [
    (lower_deterministic_sigma, "above the target"), (by_an_estimate, "makes no deterministic bound"),
    (lower_sigma, "above the stated bound"), (claim_less, "its certificate says"), (change_seed, "may be younger than its samples"),
    (forget_evidence, "does not repeat"), (other_target, "another epsilon or delta"),
])
def test_a_file_that_claims_too_much_is_refused_and_says_why(original, tmp_path, change, named):
    verification = verify(rewritten(original, tmp_path, change), seed=1)
    assert not verification.holds
    assert any(named in failure for failure in verification.failures), verification.failures


def test_a_sigma_that_new_samples_do_not_support_is_refused(original, monkeypatch):
    # A certificate whose samples happened to be kind, or were chosen: the file is consistent, only new samples can tell.
    from engine import verification as module

    monkeypatch.setattr(module, "failures", lambda _: [])
    monkeypatch.setattr(module, "_disagreements", lambda *_: [])
    document = read_strategy(original)
    candidate = document["certificate"]["candidates"][document["certificate"]["selected"]]
    for test in candidate["tests"]:
        test["threshold"] *= 0.5
    monkeypatch.setattr(module, "read_strategy", lambda _: document)
    verification = module.verify(original, seed=1)
    assert not verification.holds and "exceeds the threshold" in verification.failures[0]


@pytest.mark.parametrize("damage", [
    lambda text: text[:-20], lambda text: text.replace('"sigma": ', '"sigma": 1', 1), lambda text: "", lambda text: "[]",
    lambda text: text.replace('"method": "tail_sum"', '"method": "trust me"'),
])
def test_a_damaged_file_is_one_sentence(original, tmp_path, damage):
    path = tmp_path / "damaged.json"
    path.write_text(damage(original.read_text()))
    with pytest.raises(InputError, match="strategy file"):
        verify(path, seed=1)


def test_a_resealed_certificate_of_an_unknown_kind_is_one_sentence(original, tmp_path):
    document = json.loads(json.dumps(read_strategy(original)))
    document["certificate"]["method"] = "trust me"
    path = tmp_path / "resealed.json"
    write_strategy(path, document)
    with pytest.raises(InputError, match="method='trust me'"):
        verify(path, seed=1)
