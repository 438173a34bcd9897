"""The sweep: equal to the plain recurrence for any law, in plain numbers and in logs, with nothing lost at the ends of float64."""

import math

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from accountants.monte_carlo import sweep
from search_spaces.recurrences import Recurrence
from tests import tolerances
from tests.plain_recurrence import likelihood_ratio

TERMS, PADDED, ROWS, SAMPLES, WINDOW = 7, 8, 3, 2, 6
jitted = jax.jit(sweep.log_likelihood_ratio, static_argnames=("window", "counted", "plain"))


def swept(log_terms: np.ndarray, law: Recurrence, *, plain: bool, window: int = WINDOW) -> np.ndarray:
    """(samples,): what the sweep makes of (M, samples) terms; the padding is filled with large numbers that must not count."""
    padded = np.vstack([log_terms, np.full((PADDED - law.terms, log_terms.shape[1]), 300.0)])
    with jax.enable_x64(True):
        arrays = {
            "fire_probability": jnp.asarray(np.pad(law.fire_probability, ((0, 0), (0, PADDED - law.terms)))),
            "after_fire": jnp.asarray(law.after_fire, jnp.int32),
            "after_skip": jnp.asarray(law.after_skip, jnp.int32),
            "starts": jnp.asarray(law.starts, jnp.int32),
        }
        return np.asarray(jitted(jnp.asarray(padded), arrays, window=window, counted=law.counted, plain=plain))


@st.composite
def laws(draw) -> Recurrence:
    """Any law at all, also ones that belong to no scheme."""
    counted = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    fire = rng.choice([0.0, 1.0, 0.5], size=(ROWS if counted else 1, TERMS))
    if draw(st.booleans()):
        fire = fire * rng.uniform(0.0, 1.0, size=TERMS)
    steps = st.integers(1, WINDOW - 1)
    return Recurrence(
        fire_probability=fire, after_fire=draw(steps), after_skip=draw(steps), starts=draw(st.integers(1, WINDOW)), counted=counted
    )


@hypothesis.given(law=laws(), spread=st.sampled_from([0.1, 3.0, 30.0]), seed=st.integers(0, 1 << 30))
def test_any_law_against_the_plain_recurrence(law, spread, seed):
    log_terms = spread * np.random.default_rng(seed).standard_normal((TERMS, SAMPLES))
    expected = np.log([likelihood_ratio(law, np.exp(column)) for column in log_terms.T])
    for plain in (True, False):
        result = swept(log_terms, law, plain=plain)
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerances.SWEEP)


def uniform_law(probability: float) -> Recurrence:
    return Recurrence(fire_probability=np.full((1, TERMS), probability), after_fire=1, after_skip=1, counted=False)


@pytest.mark.parametrize("size", [-1e5, -800.0, 800.0, 1e5, 1e300])
def test_logs_hold_where_plain_numbers_do_not(size):
    """LR = Π (1 − p + pℓ): with all ℓ alike its logarithm is T times that of one factor."""
    log_terms = np.full((TERMS, SAMPLES), size)
    expected = TERMS * float(np.logaddexp(math.log(0.75), math.log(0.25) + size))
    np.testing.assert_allclose(swept(log_terms, uniform_law(0.25), plain=False), expected, rtol=tolerances.SWEEP)
    if size > 0:
        assert not np.isfinite(swept(log_terms, uniform_law(0.25), plain=True)).any(), "an overflow must show"


@pytest.mark.parametrize("plain", [True, False])
def test_certain_participation_adds_up_the_terms(plain):
    log_terms = np.linspace(-3.0, 5.0, TERMS * SAMPLES).reshape(TERMS, SAMPLES)
    np.testing.assert_allclose(swept(log_terms, uniform_law(1.0), plain=plain), log_terms.sum(axis=0), rtol=tolerances.SWEEP)


def test_the_number_of_starts_keeps_all_its_digits():
    """log(starts) of an integer is a float32 unless said otherwise: five starts without participation have ratio 1 and logarithm 0."""
    law = Recurrence(fire_probability=np.zeros((1, TERMS)), after_fire=1, after_skip=1, starts=5, counted=False)
    for plain in (True, False):
        assert np.abs(swept(np.zeros((TERMS, SAMPLES)), law, plain=plain)).max() < 1e-15


class TestPlainIsSafe:
    def test_is_the_condition_of_the_mathematics(self):
        """K‖c‖²/(2σ²) + 12√K‖c‖/σ < 600 (math/batch-schemes.md): at K = 4, ‖c‖ = 1 that is σ > 2/24.6."""
        threshold = 2 / (-12 + math.sqrt(12**2 + 2 * 600))
        assert sweep.plain_is_safe(energy=4.0, sigma=1.001 * threshold)
        assert not sweep.plain_is_safe(energy=4.0, sigma=0.999 * threshold)

    @hypothesis.given(
        energy=st.floats(1e-6, 1e6), sigma=st.floats(1e-300, 1e10), theta=st.floats(0.0, 10.0), more=st.floats(1.0, 10.0),
    )
    def test_never_turns_safe_by_more_signal_or_less_noise(self, energy, sigma, theta, more):
        if not sweep.plain_is_safe(energy=energy, sigma=sigma, theta=theta):
            assert not sweep.plain_is_safe(energy=energy * more, sigma=sigma, theta=theta)
            assert not sweep.plain_is_safe(energy=energy, sigma=sigma / more, theta=theta)
            assert not sweep.plain_is_safe(energy=energy, sigma=sigma, theta=max(theta, 1.0) * more)

    def test_is_a_bool_so_that_it_picks_one_program(self):
        for sigma in (1.0, np.float64(1.0), 1e-200, np.float64(1e-200)):
            assert type(sweep.plain_is_safe(energy=np.float64(4.0), sigma=sigma)) is bool
        assert not sweep.plain_is_safe(energy=4.0, sigma=1e-200)
