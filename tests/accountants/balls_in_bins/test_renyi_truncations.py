"""Truncations: never below the exact moments, ordered as proved, equal to the reference."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.balls_in_bins import renyi_truncations as truncations
from accountants.balls_in_bins.gram import lag_maxima
from tests import tolerances
from tests.accountants.balls_in_bins.cases import REFERENCE, enumerated_log_moment, gram, label, random_gram


def logs(majorant: truncations.Majorant, sigma: float, order: int) -> np.ndarray:
    return majorant.moments(sigma=sigma, order=order).upper_logs()


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 4), st.floats(0.5, 4.0))
def test_is_never_below_the_exact_moments(seed, bins, bandwidth, sigma):
    matrix = random_gram(np.random.default_rng(seed), bins)
    exact = [enumerated_log_moment(matrix, sigma=sigma, order=t) for t in (2, 3, 4)]
    found = {
        "published": logs(truncations.published(matrix, bandwidth=bandwidth), sigma, 4)[2:],
        "shifted": logs(truncations.shifted(matrix, bandwidth=bandwidth), sigma, 4)[2:],
        "semidefinite": logs(truncations.semidefinite(truncations.shifted(matrix, bandwidth=bandwidth)), sigma, 4)[2:],
        "row_wise": [truncations.row_wise_log_moment(matrix, sigma=sigma, order=t, bandwidth=bandwidth) for t in (2, 3, 4)],
    } | {
        f"thinned {stride}": logs(truncations.thinned(matrix, stride=stride, bandwidth=bandwidth), sigma, 4)[2:]
        for stride in range(1, bins + 1)
    }
    for name, bounds in found.items():
        assert np.all(np.array(bounds) >= np.array(exact) - tolerances.MOMENT * (1 + np.abs(exact))), name
    assert np.all(found["shifted"] <= found["published"] + tolerances.MOMENT * (1 + np.abs(found["published"])))


@pytest.mark.parametrize(
    "case", REFERENCE["truncation"], ids=lambda case: f"{case['kind']}{case['p']}-{case['b']}x{case['k']}-{case['sigma']}-{case['p_eff']}"
)
def test_matches_the_reference(case):
    matrix, orders = gram(case), np.array(case["alpha"])
    divergences = lambda majorant: logs(majorant, case["sigma"], orders.max())[orders] / (orders - 1)
    assert divergences(truncations.published(matrix, bandwidth=case["p_eff"])) == pytest.approx(case["R_paper"], rel=tolerances.TABULATED)
    assert divergences(truncations.shifted(matrix, bandwidth=case["p_eff"])) == pytest.approx(case["R_shift"], rel=tolerances.TABULATED)
    for order, (tabulated, stride, bandwidth) in zip(orders, case["R_thinned_best"]):
        found = logs(truncations.thinned(matrix, stride=stride, bandwidth=bandwidth), case["sigma"], order)[order] / (order - 1)
        # The reference takes maxima over all offsets also where the stride divides b.
        assert found <= tabulated * (1 + tolerances.TABULATED)
        if order <= 3:
            assert found >= case[f"exact_R{order}"] * (1 - tolerances.TABULATED)


def smallest_at_integers(log_moments: np.ndarray, delta: float) -> tuple[float, int]:
    """(ε, α) by the conversion at integer α, as the reference does it."""
    orders = np.arange(2, len(log_moments))
    epsilons = (log_moments[2:] + orders * np.log1p(-1 / orders) - np.log(delta) - np.log(orders - 1)) / (orders - 1)
    return float(epsilons.min()), int(orders[np.argmin(epsilons)])


@pytest.mark.slow
@pytest.mark.parametrize("case", REFERENCE["eps_delta"], ids=label)
def test_remove_epsilon_matches_the_reference(case):
    matrix, tabulated = gram(case), case["renyi_paper_grid"]
    grid = {1: 40} if case["kind"] == "identity" else {2: 25, 4: 7, 8: 4}
    found = min(
        smallest_at_integers(logs(truncations.published(matrix, bandwidth=bandwidth), case["sigma"], order), case["delta"])
        for bandwidth, order in grid.items()
    )
    assert found == (pytest.approx(tabulated["eps_remove"], rel=tolerances.TABULATED), tabulated["alpha_remove"])
    if exact := case.get("renyi_exact_ext"):
        found = smallest_at_integers(logs(truncations.exact(matrix), case["sigma"], exact["alpha_max"]), case["delta"])
        assert found == (pytest.approx(exact["eps_remove"], rel=tolerances.TABULATED), exact["alpha"])


def test_exact_majorant_keeps_the_matrix():
    case = {"kind": "bsr", "p": 2, "b": 5, "k": 2}
    majorant = truncations.exact(gram(case))
    assert (majorant.bandwidth, majorant.constant, majorant.stride) == (2, 0.0, 1)
    assert truncations.semidefinite(majorant) is majorant


@pytest.mark.parametrize(("bins", "stride"), [(12, 3), (12, 5), (10, 4), (7, 7)])
def test_thinned_gram_is_above_every_offset(bins, stride):
    matrix = random_gram(np.random.default_rng(bins), bins)
    thinned, kept = truncations.thinned_gram(matrix, stride=stride), bins // stride
    offsets = range(stride if bins % stride == 0 else bins)
    for offset in offsets:
        chosen = (offset + stride * np.arange(kept)) % bins
        assert np.all(matrix[np.ix_(chosen, chosen)] <= thinned)
    if bins % stride == 0:
        covered = np.sort(np.concatenate([offset + stride * np.arange(kept) for offset in offsets]))
        assert np.array_equal(covered, np.arange(bins))
    else:
        assert np.array_equal(np.diag(thinned), np.full(kept, lag_maxima(matrix)[0]))


def test_semidefinite_majorant_is_semidefinite():
    majorant = truncations.semidefinite(truncations.shifted(gram({"kind": "bisr", "p": 3, "b": 9, "k": 2}), bandwidth=2))
    assert np.linalg.eigvalsh(majorant.band + majorant.constant)[0] >= 0


def test_strides_leave_every_number_of_bins_once():
    assert [20 // stride for stride in truncations.strides(20)] == sorted({20 // stride for stride in range(1, 21)}, reverse=True)
    assert truncations.strides(20)[-1] == 20


def test_operations_count_states_times_tokens():
    assert truncations.operations(bins=10, bandwidth=1, order=8, wraps=False) == 640
    chain, cycle = (truncations.operations(bins=10, bandwidth=3, order=8, wraps=wraps) for wraps in (False, True))
    assert cycle - chain == 10 * (math.comb(14, 6) - math.comb(12, 4))
