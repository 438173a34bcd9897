"""δ(ε): the same numbers as the accountants', and nothing that is not a number."""

import math

import pytest

from accountants.base import Accountant
from accountants.evidence import Evidence
from accountants.fixed_size import statements
from accountants.monte_carlo.accountant import MonteCarloAccountant
from accountants.registry import ACCOUNTANTS, asked_by_default
from engine.report import curves as module
from engine.report.curves import fixed_size_curves, privacy_curves
from search_spaces.errors import NumericalError
from tests import tolerances


@pytest.fixture(scope="module")
def mechanism(contents):
    return contents.strategy.mechanism


@pytest.fixture(scope="module")
def made(mechanism):
    return privacy_curves(mechanism, epsilon=2.0, seed=5)


def test_every_accountant_in_both_directions(made, mechanism):
    assert {curve.accountant for curve in made.curves} == set(asked_by_default(mechanism))
    for name in asked_by_default(mechanism):
        found = [curve for curve in made.curves if curve.accountant == name]
        assert [curve.direction for curve in found] == ["remove", "add"]
        assert {curve.kind for curve in found} == {ACCOUNTANTS[name].kind}
        assert all((len(curve.errors) == len(curve.deltas)) == (curve.kind == "estimate") for curve in found)


def test_bounds_are_those_of_the_accountants_and_hold_for_both_ends(made, mechanism):
    for curve in (curve for curve in made.curves if curve.kind == "bound"):
        assert len(curve.epsilons) == module.POINTS and 2.0 in curve.epsilons and curve.epsilons[0] == 0.0 and curve.epsilons[-1] == 4.0
        assert list(curve.deltas) == sorted(curve.deltas, reverse=True)
        for place in (0, 16, 32):
            pair = ACCOUNTANTS[curve.accountant].delta(mechanism, epsilon=curve.epsilons[place])
            assert curve.deltas[place] == pair[("remove", "add").index(curve.direction)].delta


def test_one_set_of_samples_gives_what_the_accountant_estimates(made, mechanism):
    stated = MonteCarloAccountant(samples=module.SAMPLES, seed=5).delta(mechanism, epsilon=2.0)
    for one in stated:
        (curve,) = [c for c in made.curves if (c.accountant, c.direction) == ("monte_carlo", one.direction)]
        place = curve.epsilons.index(2.0)
        assert curve.deltas[place] == pytest.approx(one.delta, rel=tolerances.LAST_DIGITS)
        assert curve.errors[place] == pytest.approx(one.standard_error, rel=tolerances.LAST_DIGITS)


def test_the_same_seed_gives_the_same_curves(made, mechanism):
    monte_carlo = [ACCOUNTANTS["monte_carlo"]]
    again = privacy_curves(mechanism, epsilon=2.0, seed=5, accountants=monte_carlo).curves
    assert again == made.curves[-2:] != privacy_curves(mechanism, epsilon=2.0, seed=6, accountants=monte_carlo).curves


class Troubled(Accountant):
    """Has no answer below ε = 1, and an infinite one beyond 3."""

    name, kind = "troubled", "bound"

    def unsupported(self, mechanism):
        return None

    def delta(self, mechanism, *, epsilon):
        if epsilon < 1.0:
            raise NumericalError("lost mass\nin the fog")
        where = {"epsilon": math.inf, "details": {"reason": "beyond the grid"}} if epsilon > 3.0 else {"epsilon": epsilon}
        return tuple(Evidence(accountant=self.name, direction=one, kind="bound", delta=0.5, **where) for one in ("remove", "add"))

    def epsilon(self, mechanism, *, delta):
        raise NotImplementedError


def test_what_is_not_finite_is_left_out_with_a_note(mechanism):
    made = privacy_curves(mechanism, epsilon=2.0, seed=0, accountants=[Troubled()])
    assert [curve.epsilons[0] for curve in made.curves] == [1.0, 1.0] and [curve.epsilons[-1] for curve in made.curves] == [3.0, 3.0]
    (note,) = made.notes
    assert note.startswith("troubled: 16 of 33 points between ε = 0 and 4 are left out: beyond the grid")


def test_unresolved_estimates_are_left_out_with_a_note(mechanism, monkeypatch):
    monkeypatch.setattr(module, "FEWEST_EFFECTIVE_SAMPLES", 1e9)
    made = privacy_curves(mechanism, epsilon=2.0, seed=0, accountants=[ACCOUNTANTS["monte_carlo"]])
    assert made.curves == () and [note.split(":")[0] for note in made.notes] == ["monte_carlo, remove", "monte_carlo, add"]


def test_fixed_size_curves_are_the_statements(fixed_size):
    from engine.report.contents import read_contents

    strategy = read_contents(fixed_size).strategy
    made = fixed_size_curves(strategy.mechanism, epsilon=2.0)
    assert made.notes == () and {curve.direction for curve in made.curves} == {"replace"}
    for one, curve in zip(statements(mechanism=strategy.mechanism, epsilon=2.0), made.curves, strict=True):
        assert curve.accountant == module.name_of(one) and curve.deltas[curve.epsilons.index(2.0)] == one.delta
