"""Several accountants at once, and σ and T by the best of the bounds."""

import pytest

from accountants.fixed_size import FixedSizeMechanism, calibrate, largest_iterations, longest, statements, tightest
from search_spaces.errors import InputError, NumericalError
from search_spaces.problem import FixedSizeProblem
from search_spaces.strategies import identity

MECHANISM = FixedSizeMechanism(dataset_size=100, batch_size=10, iterations=20, sigma=2.0)
TARGET = {"dataset_size": 100, "batch_size": 10, "epsilon": 2.0, "delta": 1e-3}


def names(evidence) -> list[tuple[str, object, str]]:
    return [(e.accountant, e.details.get("geometry"), e.kind) for e in evidence]


def test_bounds_only_unless_named():
    bounds = [("renyi", "pairwise", "bound"), ("renyi", "ball", "bound"), ("pld", None, "bound")]
    assert names(statements(mechanism=MECHANISM, delta=1e-3)) == bounds
    named = statements(mechanism=MECHANISM, epsilon=1.0, accountants=["wang", "renyi", "birrell"])
    assert names(named) == [("wang", None, "estimate"), *bounds[:2], ("birrell", None, "estimate")]
    assert {e.adjacency for e in named} == {e.direction for e in named} == {"replace"}


def test_one_without_an_answer_is_left_out_with_a_warning(monkeypatch):
    from accountants.fixed_size import accounting

    def fails(mechanism, *, delta):
        raise NumericalError("no answer here")

    monkeypatch.setitem(accounting.ACCOUNTANTS, "pld", (fails, fails))
    with pytest.warns(UserWarning, match="pld has no answer: no answer here"):
        assert {e.accountant for e in statements(mechanism=MECHANISM, delta=1e-3)} == {"renyi"}
    with pytest.raises(NumericalError, match="no answer here"):
        statements(mechanism=MECHANISM, delta=1e-3, accountants=["pld"])


@pytest.mark.parametrize(
    "given",
    [{}, {"delta": 0.1, "epsilon": 1.0}, {"delta": 0}, {"delta": 0.1, "accountants": ["gdp"]}, {"delta": 0.1, "accountants": []}],
)
def test_bad_questions_are_refused(given):
    with pytest.raises(InputError):
        statements(mechanism=MECHANISM, **given)


def test_best_of_the_bounds():
    mechanism, evidence = tightest(FixedSizeProblem(**TARGET, iterations=20))
    sigmas = {name: calibrate(**TARGET, iterations=20, accountant=name, geometry="ball")[0].sigma for name in ("renyi", "pld")}
    assert mechanism.sigma == min(sigmas.values()) and evidence.epsilon <= 2.0 and evidence.kind == "bound"
    assert tightest(FixedSizeProblem(**TARGET, iterations=20), accountants=["renyi"])[0].sigma == sigmas["renyi"]

    mechanism, evidence = longest(**TARGET, sigma=2.0)
    most = {name: largest_iterations(**TARGET, sigma=2.0, accountant=name, geometry="ball")[0].iterations for name in ("renyi", "pld")}
    assert mechanism.iterations == max(most.values()) and evidence.epsilon <= 2.0 and evidence.kind == "bound"


def test_rmse_is_that_of_the_identity_at_the_same_number_of_participations():
    assert MECHANISM.participations == 2
    assert MECHANISM.rmse == pytest.approx(identity(iterations=20).rmse(sigma=2.0, participations=2), rel=1e-14)
