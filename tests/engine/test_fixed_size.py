"""Fixed-size batches: the strategy file, its check, and what must not be mistaken for it."""

import copy
import json
import re

import pytest

from accountants.evidence import Evidence
from engine.compare import compare
from engine.exports import export
from engine.files import readable_json, sha256_of
from engine.fixed_size import tune_fixed_size
from engine.imports import read_run
from engine.results import check_document, mechanism_of, read_strategy, write_strategy
from engine.run_folder import RunFolder
from engine.verification import verify
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.problem import FixedSizeProblem, Problem

PROBLEM = FixedSizeProblem(dataset_size=100, batch_size=10, iterations=20, epsilon=2.0, delta=1e-3)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    return tune_fixed_size(PROBLEM, out=tmp_path_factory.mktemp("runs") / "fixed")


@pytest.fixture(scope="module")
def document(tuned):
    return read_strategy(RunFolder.existing(tuned.folder).strategy)


def forged(document, folder, change):
    """A file with a change and a seal that fits it."""
    changed = copy.deepcopy(document)
    change(changed)
    path = folder / "forged.json"
    path.write_text(readable_json(changed | {"sha256": sha256_of(changed)}))
    return path


def test_the_file_says_replace_everywhere_and_holds(tuned, document):
    assert document == tuned.document()
    assert document["problem"]["adjacency"] == "replace" and document["scheme"] == "fixed_size"
    assert {(e["adjacency"], e["direction"], e["kind"]) for e in document["evidence"]} == {("replace", "replace", "bound")}
    assert min(e["epsilon"] for e in document["evidence"]) <= PROBLEM.epsilon
    assert min(e["epsilon"] for e in document["evidence"]) == pytest.approx(PROBLEM.epsilon, rel=1e-5)
    checked = verify(RunFolder.existing(tuned.folder).strategy)
    assert checked.holds and checked.failures == () and checked.means == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(sigma=0.9 * d["sigma"], rmse=0.9 * d["rmse"]), "epsilon=2.0 at delta=0.001 is not confirmed"),
        (lambda d: d["problem"].update(epsilon=1.9), "epsilon=1.9 at delta=0.001 is not confirmed"),
        (lambda d: d["evidence"][1].update(epsilon=1.0), r"claims epsilon=1.0 at delta=0.001 by renyi \(ball\)"),
        (lambda d: d["evidence"].pop(), "does not say what pld does"),
        (lambda d: d["evidence"].append(d["evidence"][0]), "repeats or cannot support"),
        (lambda d: d["evidence"][2].update(accountant="wang"), "cannot support a statement of kind bound by wang"),
    ],
)
def test_a_forged_statement_does_not_hold(document, tmp_path, change, said):
    checked = verify(forged(document, tmp_path, change))
    assert not checked.holds
    assert any(re.search(said, failure) for failure in checked.failures), checked.failures


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(sigma=0.9 * d["sigma"]), "rmse="),
        (lambda d: d.update(coefficients=[1.0, 0.5]), "coefficients="),
        (lambda d: d.update(bandwidth=2), "bandwidth=2"),
        (lambda d: d.update(certificate={}), "certificate="),
        (lambda d: d["problem"].update(adjacency="add_remove"), "adjacency='add_remove'"),
        (lambda d: d["problem"].pop("adjacency"), "adjacency=None"),
        (lambda d: d["problem"].update(participations=2), "problem"),
        (lambda d: d["problem"].update(batch_size=101), "batch_size=101"),
        (lambda d: d["problem"].update(iterations=20.5), "iterations=20.5"),
        (lambda d: d["evidence"][0].update(adjacency="add_remove", direction="remove"), "adjacency='add_remove'"),
        (lambda d: d.update(scheme="poisson"), "problem"),
    ],
)
def test_parts_that_do_not_fit_are_refused(document, tmp_path, change, said):
    with pytest.raises(InputError, match=said):
        verify(forged(document, tmp_path, change))


def test_an_edited_file_is_refused(tuned, tmp_path):
    text = RunFolder.existing(tuned.folder).strategy.read_text()
    (tmp_path / "edited.json").write_text(text.replace('"epsilon": 2.0', '"epsilon": 1.0', 1))
    with pytest.raises(InputError, match="sha256"):
        verify(tmp_path / "edited.json")


def test_it_is_never_taken_for_an_add_remove_guarantee(tuned, document, tmp_path):
    path = RunFolder.existing(tuned.folder).strategy
    for take in (
        lambda: mechanism_of(document), lambda: read_run(path),
        lambda: export(path, to="arrays", out=tmp_path / "exported", clip_norm=1.0, normalize_by=10.0),
    ):
        with pytest.raises(UnsupportedError, match="replacing an example"):
            take()
    assert not (tmp_path / "exported").exists()


def test_replace_evidence_is_refused_in_an_add_remove_file(document):
    from tests.engine.test_results import make_document

    other = make_document()
    other["evidence"].append(Evidence.from_dict(document["evidence"][0]).to_dict())
    with pytest.raises(InputError, match="replace"):
        check_document(other)


def test_results_are_never_overwritten(tuned):
    with pytest.raises(InputError, match="not to exist"):
        tune_fixed_size(PROBLEM, out=tuned.folder)
    assert json.loads(RunFolder.existing(tuned.folder).strategy.read_text())["sigma"] == tuned.mechanism.sigma
    with pytest.raises(InputError):
        write_strategy(tuned.folder / "other.json", tuned.document() | {"rmse": 1.0})


def test_comparison_row():
    problem = Problem(iterations=20, participations=2, epsilon=2.0, delta=1e-3, dataset_size=100)
    seen = []
    deterministic, fixed = compare(
        problem, schemes=["fixed_size", "deterministic"], bandwidths=[4], workers=1, batch_size=10, progress=lambda *said: seen.append(said[1:]),
    )
    assert seen == [(1, 2), (2, 2)]
    assert (deterministic.scheme, deterministic.adjacency) == ("deterministic", "add_remove")
    assert (fixed.scheme, fixed.adjacency, fixed.bandwidth, fixed.kind) == ("fixed_size", "replace", 1, "bound")
    assert fixed.rmse == pytest.approx(fixed.sigma * (21 / 2) ** 0.5 / 2)
    assert fixed.ratio_to_cyclic_poisson is None and fixed.multiple_of_limit is None


@pytest.mark.parametrize(
    ("dataset_size", "batch_size", "schemes", "said"),
    [
        (None, None, ["fixed_size"], "dataset_size and batch_size"),
        (None, 10, None, "dataset_size"),
        (100, 101, None, "batch_size=101"),
        (100, 11, None, "batch_size=11 to be 10,"),
        (105, 12, None, "batch_size=12 to be 10 or 11,"),
    ],
)
def test_comparison_is_about_one_training(dataset_size, batch_size, schemes, said):
    problem = Problem(iterations=20, participations=2, epsilon=2.0, delta=1e-3, dataset_size=dataset_size)
    with pytest.raises(InputError, match=said):
        compare(problem, schemes=schemes, batch_size=batch_size, workers=1)
