"""The comparison: the search over bandwidths and r on known surfaces, and the order of the schemes at a small problem."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.registry import ACCOUNTANTS
from engine import compare
from search_spaces.dense_strategies import DenseStrategy, inverse_square_root, make_mechanism
from search_spaces.errors import CalibrationError, InputError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import Problem
from search_spaces.schemes import BallsInBins
from search_spaces.space import SchemeSpace, position_from_r
from search_spaces.strategies import harmonic
from tests import tolerances

SMALL = Problem(iterations=64, participations=4, epsilon=4.0, delta=1e-3)


class TestBandwidths:
    @given(st.integers(1, 300), st.floats(0.0, 6.0), st.floats(0.1, 10.0))
    def test_finds_the_minimum_of_a_smooth_valley(self, largest, center, steepness):
        asked = []

        def rmse(bandwidth):
            asked.append(bandwidth)
            return 1.0 + steepness * (math.log(bandwidth) - center) ** 2

        best = compare._best_bandwidth(range(1, largest + 1), rmse)
        true = min(range(1, largest + 1), key=rmse)
        assert max(best, true) / min(best, true) <= compare.FINEST_RATIO or abs(best - true) <= 1
        assert len(set(asked[: -largest])) <= 16

    @given(st.sets(st.integers(1, 500), min_size=1, max_size=12))
    def test_stays_inside_an_admissible_set(self, bandwidths):
        admissible = sorted(bandwidths)
        assert compare._best_bandwidth(admissible, lambda b: abs(b - 50)) in admissible

    def test_stops_on_the_ladder_once_the_error_rises(self):
        asked = []
        compare._best_bandwidth([2**i for i in range(9)], lambda b: asked.append(b) or abs(math.log2(b) - 5))
        assert min(asked) == 8

    def test_unranked_bandwidths_are_passed_over(self):
        assert compare._best_bandwidth([1, 2, 4, 8, 16], lambda b: math.inf if b > 4 else abs(b - 2)) == 2


class TestR:
    @given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(-1.0, 1.0))
    def test_finds_the_minimum_of_the_product(self, first, center, tilt):
        sigma = lambda p: math.exp(tilt * p + 0.2 * p**2)
        unit = lambda p: math.exp(2.0 * (p - center) ** 2)
        solved = {}
        for position in compare._positions_to_solve(first, solved, unit):
            assert 0 <= position <= 1
            solved[position] = SimpleNamespace(sigma=sigma(position), rmse=sigma(position) * unit(position))
        grid = [i / 1000 for i in range(1001)]
        best = min(sigma(p) * unit(p) for p in grid)
        assert len(solved) <= compare.MOST_R
        if abs(min(grid, key=lambda p: sigma(p) * unit(p)) - first) < 2.5 * compare.R_STEP:
            assert min(o.rmse for o in solved.values()) <= best * (1 + tolerances.R_SEARCH)


def stubbed(monkeypatch, sigma):
    """Replaces the accounting by a formula σ(scheme, bandwidth, position)."""

    def evaluate(problem, *, scheme, bandwidth, r, samples, seed):
        value = sigma(scheme, bandwidth, position_from_r(bandwidth, r))
        rmse = value * compare._unit_rmse(problem, bandwidth)(position_from_r(bandwidth, r))
        return SimpleNamespace(
            sigma=value, rmse=rmse, rmse_standard_error=None, kind="bound", accountant="formula", multiple_of_limit=rmse, samples=samples,
            resolved=value < 50 or (bandwidth == 16 and samples > 300),
        )

    monkeypatch.setattr(compare, "evaluate", evaluate)


class TestRows:
    def test_one_row_per_scheme_with_ratios(self, monkeypatch):
        stubbed(monkeypatch, lambda scheme, bandwidth, position: 1.0 + 0.001 * bandwidth)
        told = []
        rows = compare.compare(SMALL, workers=1, progress=lambda *arguments: told.append(arguments))
        names = [row.scheme for row in rows]
        assert names == list(dict.fromkeys(names)) and len(rows) == 9
        reference = rows[names.index("cyclic_poisson")].rmse
        assert all(row.ratio_to_cyclic_poisson == row.rmse / reference for row in rows)
        assert [done for _, done, _ in told] == list(range(1, 10)) and {total for *_, total in told} == {9}

    def test_a_scheme_that_cannot_be_ranked_says_why(self, monkeypatch):
        stubbed(monkeypatch, lambda scheme, bandwidth, position: 100.0 if scheme == "nested_ra" else 1.0)
        row, other = compare.compare(SMALL, schemes=["nested_ra", "min_sep_ra"], bandwidths=[1, 2, 4, 8], samples=100, workers=1)
        assert row.rmse is None and row.sigma is None and "400 samples" in row.note
        assert other.rmse is not None and other.note == ""

    def test_samples_are_raised_where_too_few_are_effective(self, monkeypatch):
        stubbed(monkeypatch, lambda scheme, bandwidth, position: 100.0)
        (row,) = compare.compare(SMALL, schemes=["min_sep_ra"], bandwidths=[8, 16], samples=100)
        assert row.bandwidth == 16 and row.samples == 400 and "of 6 configurations" in row.note

    def test_a_failed_calibration_is_that_configurations_failure(self, monkeypatch):
        def fail(*_, **__):
            raise CalibrationError("no sigma up to 1e6")

        monkeypatch.setattr(compare, "evaluate", fail)
        (row,) = compare.compare(SMALL, schemes=["cyclic_ra"])
        assert row.rmse is None and row.note.endswith("no sigma up to 1e6.")

    def test_a_given_matrix_gets_the_sigma_of_the_tightest_bound(self, monkeypatch):
        stubbed(monkeypatch, lambda scheme, bandwidth, position: 1.0)
        strategy, told = inverse_square_root(iterations=16, bandwidth=2), []
        problem = dataclasses.replace(SMALL, iterations=16)
        reference, row, other = compare.compare(
            problem, schemes=["cyclic_poisson"], bandwidths=[1], workers=1, progress=lambda *arguments: told.append(arguments),
            matrices={"C.npy": DenseStrategy(matrix=strategy.dense()), "D.npy": DenseStrategy(matrix=np.eye(16))},
        )
        assert [(r.scheme, r.matrix) for r in (row, other)] == [("balls_in_bins", "C.npy"), ("balls_in_bins", "D.npy")]
        assert row.kind == "bound" and row.bandwidth == 16 and row.r is None and row.multiple_of_limit is None
        assert row.rmse == pytest.approx(strategy.rmse(sigma=row.sigma, participations=4))
        assert row.ratio_to_cyclic_poisson == row.rmse / reference.rmse
        assert [(done, total) for _, done, total in told] == [(1, 3), (2, 3), (3, 3)] and "C.npy" in told[1][0]
        mechanism = make_mechanism(scheme=BallsInBins(iterations=16, participations=4), strategy=strategy, sigma=1.0)
        accountant = ACCOUNTANTS[row.accountant]
        meets = lambda sigma: max(e.delta for e in accountant.delta(mechanism.with_sigma(sigma), epsilon=4.0)) <= 1e-3
        assert meets(row.sigma * (1 + tolerances.LAST_DIGITS)) and not meets(row.sigma * (1 - 2 * compare.MATRIX_TOLERANCE))

    def test_balls_in_bins_has_a_deterministic_sigma_beside_the_estimate(self):
        problem = dataclasses.replace(SMALL, iterations=16)
        row, other = compare.compare(problem, schemes=["cyclic_ra", "balls_in_bins"], bandwidths=[2], samples=2048, workers=1)
        row, other = (row, other) if row.scheme == "balls_in_bins" else (other, row)
        assert other.bound_sigma is None and row.kind == "estimate"
        mechanism = Mechanism(
            scheme=BallsInBins(iterations=16, participations=4, bandwidth=2), strategy=harmonic(iterations=16, bandwidth=2, r=row.r), sigma=1.0,
        )
        bound = ACCOUNTANTS[row.bound_accountant].delta(mechanism.with_sigma(row.bound_sigma), epsilon=problem.epsilon)
        assert {e.kind for e in bound} == {"bound"} and max(e.delta for e in bound) <= problem.delta
        assert row.bound_sigma >= 0.97 * row.sigma and row.bound_rmse / row.rmse == pytest.approx(row.bound_sigma / row.sigma)

    def test_a_matrix_without_a_sigma_says_why(self, monkeypatch):
        stubbed(monkeypatch, lambda scheme, bandwidth, position: 1.0)

        def fail(*_, **__):
            raise CalibrationError("no sigma up to 1e6")

        monkeypatch.setattr(compare, "tightest_bound", fail)
        matrices = {"C.npy": DenseStrategy(matrix=np.eye(64))}
        *_, row = compare.compare(SMALL, schemes=["cyclic_ra"], bandwidths=[1], workers=1, matrices=matrices)
        assert (row.matrix, row.rmse, row.note) == ("C.npy", None, "no sigma up to 1e6")

    def test_a_matrix_of_another_size_is_refused(self):
        with pytest.raises(InputError, match="matrix='C.npy' with 32 rows to have iterations=64"):
            compare.compare(SMALL, matrices={"C.npy": DenseStrategy(matrix=np.eye(32))})

    @pytest.mark.parametrize("argument", [{"samples": 0}, {"seed": -1}, {"workers": 0}, {"bandwidths": [17]}, {"schemes": ["nope"]}])
    def test_bad_input(self, argument):
        with pytest.raises(InputError):
            compare.compare(SMALL, **argument)


@pytest.mark.slow
def test_order_of_the_schemes_at_a_small_problem():
    schemes = ("cyclic_poisson", "cyclic_ra", "nested_ra", "min_sep_ra")
    problem = Problem(iterations=256, participations=4, epsilon=4.0, delta=1e-4)
    rows = compare.compare(problem, schemes=schemes, bandwidths=(4, 8, 16, 32, 64), samples=1024, seed=5, workers=1)
    assert sorted(rows, key=lambda row: -row.rmse) == rows
    assert [row.kind for row in rows] == ["bound", "bound", "estimate", "estimate"]
    assert all(row.multiple_of_limit > 1 for row in rows if row.scheme != "cyclic_poisson")
    again = compare.compare(problem, schemes=("nested_ra",), bandwidths=(4, 8, 16, 32, 64), samples=1024, seed=5)
    unchanging = {"seconds": 0.0, "ratio_to_cyclic_poisson": None}
    assert dataclasses.replace(again[0], **unchanging) == dataclasses.replace(rows[2], **unchanging)


@pytest.mark.slow
def test_rows_do_not_depend_on_the_number_of_workers(ray_session):
    alone, together = (
        compare.compare(SMALL, schemes=("cyclic_poisson", "nested_ra"), bandwidths=(4, 8), samples=256, workers=workers) for workers in (1, 2)
    )
    assert [dataclasses.replace(row, seconds=0.0) for row in alone] == [dataclasses.replace(row, seconds=0.0) for row in together]


def test_space_of_one_bandwidth():
    part = SchemeSpace(scheme="deterministic", bandwidths=(3,))
    row = compare.best_of_scheme(SMALL, part, samples=64, seed=0)
    assert row.bandwidth == 3 and row.kind == "bound" and row.configurations == 1
