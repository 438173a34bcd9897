"""Toeplitz strategies against dense linear algebra, their families and their refusals."""

import dataclasses
import functools
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.errors import InputError, NumericalError
from search_spaces.space import r_from_position
from search_spaces.strategies import (
    LARGEST_GAIN,
    ToeplitzStrategy,
    banded_square_root,
    harmonic,
    harmonic_range,
    identity,
)
from tests import tolerances

SAMPLE = [
    identity(iterations=7),
    harmonic(iterations=40, bandwidth=1, r=0.2),
    harmonic(iterations=40, bandwidth=8, r=0.05),
    harmonic(iterations=40, bandwidth=40, r=-0.02),
    harmonic(iterations=33, bandwidth=10, r=0.49),
    banded_square_root(iterations=40, bandwidth=13),
    ToeplitzStrategy(iterations=12, coefficients=(0.5, 0.7, 0.0, 0.2)),
    ToeplitzStrategy(iterations=12, coefficients=(3.0, 2.0, 1.0, 0.0)),
    ToeplitzStrategy(iterations=1, coefficients=(2.0,)),
]
each = pytest.mark.parametrize("strategy", SAMPLE, ids=lambda s: f"{s.family}-T{s.iterations}-b{s.bandwidth}")


def close(actual: object, exact: object) -> None:
    scale = max(1.0, float(np.max(np.abs(exact), initial=0.0)))
    np.testing.assert_allclose(actual, exact, rtol=0, atol=tolerances.LINEAR_ALGEBRA * scale)


def assert_lower_limit(strategy: ToeplitzStrategy) -> None:
    """RMSE ≥ √((T+1)/(2T))/μ at the σ at which K participations move the output by μ standard deviations along v."""
    mu, participations = 0.925, 3
    rmse = strategy.rmse(sigma=participations * strategy.kappa / mu, participations=participations)
    limit = math.sqrt((strategy.iterations + 1) / (2 * strategy.iterations)) / mu
    assert rmse >= limit * (1 - tolerances.ENUMERATION)


@st.composite
def problems_of_harmonic(draw: st.DrawFn) -> tuple[int, int, float]:
    """(T, b, r) with r anywhere inside the open range."""
    iterations = draw(st.integers(1, 60))
    bandwidth = draw(st.integers(1, iterations))
    low, high = harmonic_range(bandwidth)
    r = draw(st.floats(low, high, exclude_min=True, exclude_max=True))
    return iterations, bandwidth, r


class TestDenseAlgebra:
    @each
    def test_dense_matrix_has_the_coefficients_on_its_diagonals(self, strategy):
        dense = strategy.dense()
        for row in range(strategy.iterations):
            for column in range(strategy.iterations):
                lag = row - column
                assert dense[row, column] == (strategy.coefficients[lag] if 0 <= lag < strategy.bandwidth else 0.0)

    @each
    def test_inverse(self, strategy):
        close(strategy.inverse_coefficients, np.linalg.inv(strategy.dense())[:, 0])

    @each
    def test_prefix_noise_and_participation_direction(self, strategy):
        prefix_sums = np.tril(np.ones((strategy.iterations,) * 2)) @ np.linalg.inv(strategy.dense())
        close(strategy.prefix_noise, prefix_sums[:, 0])
        direction = np.linalg.solve(strategy.dense().T, np.ones(strategy.iterations))
        close(strategy.participation_direction, direction)
        close(strategy.dense().T @ strategy.participation_direction, np.ones(strategy.iterations))
        close(strategy.kappa, 1 / np.linalg.norm(direction))

    @each
    def test_every_schedule_moves_the_output_equally_far_along_the_direction(self, strategy):
        """⟨Cx, v/‖v‖⟩ = κ·(number of participations), the fact behind the Gaussian factor."""
        rng = np.random.default_rng(31)
        x = (rng.random((20, strategy.iterations)) < 0.4).astype(float)
        unit = strategy.participation_direction / np.linalg.norm(strategy.participation_direction)
        close(strategy.apply(x) @ unit, strategy.kappa * x.sum(axis=1))

    @each
    def test_error_is_the_frobenius_norm_of_the_prefix_sums_of_the_noise(self, strategy):
        prefix_sums = np.tril(np.ones((strategy.iterations,) * 2)) @ np.linalg.inv(strategy.dense())
        frobenius = np.linalg.norm(prefix_sums)
        for sigma, participations in ((1.0, 1), (0.37, 1), (2.5, 3)):
            close(strategy.total_squared_error(sigma=sigma), sigma**2 * frobenius**2)
            exact = sigma * frobenius / math.sqrt(strategy.iterations) / participations
            close(strategy.rmse(sigma=sigma, participations=participations), exact)

    @each
    def test_window_energies_and_column_norm(self, strategy):
        columns = np.linalg.norm(strategy.dense(), axis=0)
        close(strategy.window_energies, columns**2 / 2)
        close(strategy.column_norm, columns.max())

    @each
    def test_apply_and_its_transpose(self, strategy):
        rng = np.random.default_rng(32)
        for shape in ((), (3,), (2, 0), (2, 3)):
            x = rng.standard_normal((*shape, strategy.iterations))
            assert strategy.apply(x).shape == strategy.apply_transpose(x).shape == x.shape
            close(strategy.apply(x), np.einsum("ij,...j->...i", strategy.dense(), x))
            close(strategy.apply_transpose(x), np.einsum("ji,...j->...i", strategy.dense(), x))

    @each
    def test_arrays_are_float64_and_cannot_be_changed(self, strategy):
        for array in (strategy.window_energies, strategy.inverse_coefficients, strategy.prefix_noise, strategy.participation_direction):
            assert array.shape == (strategy.iterations,) and array.dtype == np.float64
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0.0

    @each
    @pytest.mark.parametrize("extra", [-1, 1])
    def test_nothing_is_applied_beyond_the_horizon(self, strategy, extra):
        """Step n+1 of an n-step mechanism has no noise row."""
        for shape in ((strategy.iterations + extra,), (2, strategy.iterations + extra), (strategy.iterations, strategy.iterations + extra)):
            for apply in (strategy.apply, strategy.apply_transpose):
                with pytest.raises(InputError, match=f"to be the {strategy.iterations} iterations"):
                    apply(np.ones(shape))


class TestFamilies:
    @pytest.mark.parametrize("bandwidth", [1, 2, 5, 1000])
    def test_banded_square_root_squares_to_the_prefix_sum(self, bandwidth):
        """The full square root of the all-ones lower triangle; banding keeps its first coefficients up to a factor."""
        column = np.array(banded_square_root(iterations=1000, bandwidth=bandwidth).coefficients)
        ratio = column / column[0]
        np.testing.assert_allclose(np.convolve(ratio, ratio)[:bandwidth], 1.0, rtol=tolerances.ENUMERATION)
        exact = [math.comb(2 * i, i) / 4**i for i in range(bandwidth)]
        np.testing.assert_allclose(ratio, exact, rtol=tolerances.ENUMERATION)

    @given(problems_of_harmonic())
    def test_harmonic_coefficients(self, problem):
        iterations, bandwidth, r = problem
        strategy = harmonic(iterations=iterations, bandwidth=bandwidth, r=r)
        column = np.array(strategy.coefficients)
        assert strategy.bandwidth == bandwidth and strategy.r == r and strategy.family == "harmonic"
        assert np.all(column > 0) and np.all(np.diff(column) <= 0)
        assert abs(strategy.column_norm - 1) < tolerances.ENUMERATION
        weights = 1 / np.arange(1, bandwidth + 1) + r
        np.testing.assert_allclose(column * weights[0], column[0] * weights, rtol=tolerances.ENUMERATION)

    @given(st.integers(1, 200), st.floats(0, 1e300), st.booleans())
    def test_harmonic_refuses_r_outside_its_range(self, bandwidth, excess, above):
        low, high = harmonic_range(bandwidth)
        r = high + excess if above else low - excess
        with pytest.raises(InputError) as caught:
            harmonic(iterations=200, bandwidth=bandwidth, r=r)
        assert f"r={r!r}" in str(caught.value) and "strictly between" in str(caught.value)

    @pytest.mark.parametrize("r", [math.nan, math.inf, -math.inf, None, "0.1", True, 1j, 10**400])
    def test_harmonic_refuses_what_is_no_number(self, r):
        with pytest.raises(InputError, match="Expected r="):
            harmonic(iterations=10, bandwidth=4, r=r)

    @pytest.mark.parametrize("bandwidth", [0, -1, 11, 2.0, True, None, math.nan])
    def test_families_refuse_a_bandwidth_outside_the_horizon(self, bandwidth):
        for family in (functools.partial(harmonic, r=0), banded_square_root):
            with pytest.raises(InputError) as caught:
                family(iterations=10, bandwidth=bandwidth)
            assert str(caught.value) == f"Expected bandwidth={bandwidth!r} to be an integer in [1, 10]."

    def test_bandwidth_one_is_the_identity_whatever_r(self):
        for r in (-0.9, 0.0, 0.3):
            assert harmonic(iterations=9, bandwidth=1, r=r).coefficients == identity(iterations=9).coefficients == (1.0,)
        assert banded_square_root(iterations=9, bandwidth=1).coefficients == (1.0,)

    def test_arguments_are_keyword_only(self):
        for call, arguments in ((harmonic, (10, 4, 0)), (banded_square_root, (10, 4)), (identity, (10,)), (ToeplitzStrategy, (10, [1]))):
            with pytest.raises(TypeError):
                call(*arguments)
        with pytest.raises(TypeError):
            SAMPLE[0].rmse(1.0, 2)


class TestError:
    @given(problems_of_harmonic(), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.integers(1, 50))
    def test_rmse_is_proportional_to_sigma_and_to_one_over_k(self, problem, sigma, factor, participations):
        iterations, bandwidth, r = problem
        strategy = harmonic(iterations=iterations, bandwidth=bandwidth, r=r)
        rmse, total = strategy.rmse(sigma=sigma, participations=1), strategy.total_squared_error(sigma=sigma)
        scaled = strategy.rmse(sigma=factor * sigma, participations=participations)
        assert math.isclose(scaled, factor * rmse / participations, rel_tol=1e-12)
        assert math.isclose(strategy.total_squared_error(sigma=factor * sigma), factor**2 * total, rel_tol=1e-12)
        assert math.isclose(rmse**2 * iterations, total, rel_tol=1e-12)

    @given(problems_of_harmonic(), st.floats(1e-6, 1e6))
    def test_scaling_the_coefficients_trades_error_for_sensitivity(self, problem, scale):
        """Coefficients are used as given: s·C has s times the norm, 1/s times the error, and s times κ."""
        iterations, bandwidth, r = problem
        strategy = harmonic(iterations=iterations, bandwidth=bandwidth, r=r)
        scaled = ToeplitzStrategy(iterations=iterations, coefficients=[scale * c for c in strategy.coefficients])
        assert math.isclose(scaled.column_norm, scale, rel_tol=1e-12)
        assert math.isclose(scaled.rmse(sigma=scale, participations=2), strategy.rmse(sigma=1, participations=2), rel_tol=1e-9)
        assert math.isclose(scaled.kappa, scale * strategy.kappa, rel_tol=1e-9)

    @given(problems_of_harmonic())
    def test_the_harmonic_family_obeys_the_lower_limit(self, problem):
        """σ ≥ K/(‖v‖μ) gives RMSE ≥ √((T+1)/(2T))/μ where Σ(T−j)h_j² ≥ ½(T+1)Σh_j² (math/certificates.md, the Gaussian factor).

        A non-increasing h suffices for that; the family's h rises a little at j = b, and obeys the inequality all the same.
        """
        iterations, bandwidth, r = problem
        assert_lower_limit(harmonic(iterations=iterations, bandwidth=bandwidth, r=r))

    @pytest.mark.parametrize("iterations", [2, 5, 100, 1024])
    def test_every_band_obeys_the_lower_limit(self, iterations):
        for bandwidth in sorted({1, 2, iterations // 8 or 1, iterations // 4 or 1, iterations}):
            assert_lower_limit(banded_square_root(iterations=iterations, bandwidth=bandwidth))
            for position in (0.0, 0.25, 0.5, 0.75, 1.0):
                assert_lower_limit(harmonic(iterations=iterations, bandwidth=bandwidth, r=r_from_position(bandwidth, position)))

    def test_a_non_increasing_prefix_noise_obeys_the_lower_limit(self):
        for bandwidth in (3, 40):
            strategy = banded_square_root(iterations=bandwidth, bandwidth=bandwidth)
            assert np.all(np.diff(strategy.prefix_noise) <= 0)
            assert_lower_limit(strategy)

    def test_a_growing_prefix_noise_does_not_obey_the_lower_limit(self):
        strategy = ToeplitzStrategy(iterations=5, coefficients=(1.0, 2.0))
        with pytest.raises(AssertionError):
            assert_lower_limit(strategy)

    def test_the_lower_limit_is_attained_by_the_identity_and_is_0765_at_the_anchor(self):
        strategy = identity(iterations=1024)
        assert abs(strategy.rmse(sigma=4 * strategy.kappa / 0.925, participations=4) - math.sqrt(1025 / 2048) / 0.925) < 1e-12
        assert abs(math.sqrt(1025 / 2048) / 0.925 - 0.765) < 5e-4

    @pytest.mark.parametrize("sigma", [0, -1.0, math.nan, math.inf, True, None, "1", 10**400])
    def test_sigma_must_be_positive(self, sigma):
        for call in (lambda: SAMPLE[2].rmse(sigma=sigma, participations=2), lambda: SAMPLE[2].total_squared_error(sigma=sigma)):
            with pytest.raises(InputError) as caught:
                call()
            assert str(caught.value) == f"Expected sigma={sigma!r} to be a finite number > 0."

    @pytest.mark.parametrize("participations", [0, -1, 1.0, True, math.nan])
    def test_participations_must_be_a_count(self, participations):
        with pytest.raises(InputError, match="Expected participations="):
            SAMPLE[2].rmse(sigma=1, participations=participations)


class TestBadCoefficients:
    @pytest.mark.parametrize(
        ("coefficients", "named"),
        [
            ((1.0, -0.1), "coefficients[1]=-0.1"), ((1.0, math.nan), "coefficients[1]=nan"), ((math.inf,), "coefficients[0]=inf"),
            ((0.0, 1.0), "coefficients[0]=0.0"), ((), "coefficients=()"), ((1.0, "2"), "coefficients[1]='2'"),
            ((True,), "coefficients[0]=True"), ((1.0, None), "coefficients[1]=None"), ((1j,), "coefficients[0]=1j"),
            ("1.0", "coefficients='1.0'"), (None, "coefficients=None"), (1.0, "coefficients=1.0"),
            ((10**400,), f"coefficients[0]={10**400}"),
            ((1.0,) * 6, "bandwidth=6"),
        ],
    )
    def test_are_refused_by_name(self, coefficients, named):
        with pytest.raises(InputError) as caught:
            ToeplitzStrategy(iterations=5, coefficients=coefficients)
        assert named in str(caught.value) and str(caught.value).startswith("Expected")

    @pytest.mark.parametrize("coefficients", [(1e-200,), (1e-320, 1e-320), (1e200, 1e200), (1e308, 1e308)])
    def test_whose_squares_would_vanish_or_overflow_are_refused(self, coefficients):
        """A norm computed as 0 would be a sensitivity of 0: the worst kind of wrong."""
        with pytest.raises(InputError, match="Expected the norm"):
            ToeplitzStrategy(iterations=5, coefficients=coefficients)

    @pytest.mark.parametrize("factor", [1e-99, 1e99])
    def test_of_extreme_but_allowed_norm_are_exact(self, factor):
        strategy = ToeplitzStrategy(iterations=8, coefficients=(3 * factor, 4 * factor))
        assert math.isclose(strategy.column_norm, 5 * factor, rel_tol=1e-14)
        reference = ToeplitzStrategy(iterations=8, coefficients=(3, 4)).rmse(sigma=1, participations=2)
        assert math.isclose(strategy.rmse(sigma=factor, participations=2), reference, rel_tol=1e-12)

    @pytest.mark.parametrize("coefficients", [(1e-3, 1.0), (1e-300, 1.0), (1.0, 2.0, 4.0)])
    def test_with_an_exploding_inverse_raise_a_named_error(self, coefficients):
        strategy = ToeplitzStrategy(iterations=2000, coefficients=coefficients)
        for use in (
            lambda: strategy.inverse_coefficients, lambda: strategy.participation_direction, lambda: strategy.kappa,
            lambda: strategy.rmse(sigma=1, participations=1), lambda: strategy.total_squared_error(sigma=1),
        ):
            with pytest.raises(NumericalError, match=re.escape(f"beyond {LARGEST_GAIN:g}")):
                use()

    def test_a_total_error_beyond_float64_raises_while_a_small_one_does_not_vanish(self):
        strategy = identity(iterations=4)
        with pytest.raises(NumericalError, match="total squared error"):
            strategy.total_squared_error(sigma=1e200)
        with pytest.raises(NumericalError, match="RMSE"):
            strategy.rmse(sigma=1.7e308, participations=1)
        assert strategy.rmse(sigma=1e-200, participations=1) == pytest.approx(1e-200 * math.sqrt(2.5), rel=1e-12)


def test_strategies_are_values():
    first, again = (harmonic(iterations=12, bandwidth=4, r=0.1) for _ in range(2))
    assert first == again and hash(first) == hash(again)
    assert first.rmse(sigma=1, participations=1) > 0 and first == again, "what was computed does not enter the comparison"
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.iterations = 3
    assert ToeplitzStrategy(iterations=3, coefficients=np.array([1.0, 0.5])) == ToeplitzStrategy(iterations=3, coefficients=[1, 0.5])
