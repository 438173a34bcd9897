"""Streaming noise in JAX: dense linear algebra, checkpoints, the horizon, and float32 over a long run."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal

from engine.exports.noise_jax import init_noise, next_noise
from search_spaces.errors import HorizonExceeded, InputError
from search_spaces.strategies import ToeplitzStrategy, banded_square_root, harmonic, identity
from tests import tolerances

LIKE = {"w": jax.ShapeDtypeStruct((3, 2), np.float32), "b": [jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((4,), np.float32)]}
KEY = jax.random.key(61)


def all_noise(strategy, *, stddev=1.0, like=LIKE, key=KEY):
    """(T, d) NumPy: the noises of a compiled run, leaves side by side."""
    state = init_noise(strategy, like=like, key=key)
    step = jax.jit(functools.partial(next_noise, strategy, stddev=stddev))
    rows = []
    for _ in range(strategy.iterations):
        noise, state = step(state=state)
        rows.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(noise)]))
    return np.array(rows)


STRATEGIES = [
    identity(iterations=7), harmonic(iterations=9, bandwidth=2, r=0.3), harmonic(iterations=12, bandwidth=5, r=-0.1),
    banded_square_root(iterations=8, bandwidth=8), ToeplitzStrategy(iterations=11, coefficients=(2.0, 0.0, 1.0)),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: f"{s.family}-{s.bandwidth}")
def test_noise_is_the_dense_inverse_times_white_noise(strategy):
    """C is the only thing that differs from white noise with the same key."""
    white = all_noise(identity(iterations=strategy.iterations), stddev=2.5)
    np.testing.assert_allclose(all_noise(strategy, stddev=2.5), np.linalg.solve(strategy.dense(), white), rtol=0, atol=2e-5)


def test_noise_in_float64_is_exact():
    with jax.enable_x64(True):
        like = [jax.ShapeDtypeStruct((5,), np.float64)]
        strategy = harmonic(iterations=40, bandwidth=7, r=0.02)
        white = all_noise(identity(iterations=40), like=like)
        noise = all_noise(strategy, like=like)
    assert noise.dtype == np.float64
    np.testing.assert_allclose(noise, np.linalg.solve(strategy.dense(), white), rtol=0, atol=tolerances.LINEAR_ALGEBRA)
    assert not jax.config.jax_enable_x64


def test_white_noise_is_standard_normal_and_independent_between_steps_and_leaves():
    like = [jax.ShapeDtypeStruct((400,), np.float32)] * 2
    white = all_noise(identity(iterations=30), like=like, stddev=3.0).reshape(30, 2, 400).reshape(60, 400) / 3.0
    covariance = white @ white.T / 400
    # Entries of the empirical covariance of n standard normals have variance 1/n off the diagonal and 2/n on it.
    assert np.abs(covariance - np.eye(60)).max() < tolerances.STANDARD_DEVIATIONS * np.sqrt(2 / 400)
    assert abs(white.mean()) < tolerances.STANDARD_DEVIATIONS / np.sqrt(white.size)


def test_another_key_gives_other_noise():
    strategy = STRATEGIES[1]
    assert not np.array_equal(all_noise(strategy), all_noise(strategy, key=jax.random.key(62)))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: f"{s.family}-{s.bandwidth}")
def test_a_restored_state_goes_on_as_if_it_had_never_stopped(strategy):
    whole = all_noise(strategy)
    step = jax.jit(functools.partial(next_noise, strategy, stddev=1.0))
    state = init_noise(strategy, like=LIKE, key=KEY)
    for stop in range(strategy.iterations):
        saved = jax.tree.map(np.asarray, state._replace(key=jax.random.key_data(state.key)))
        restored = jax.tree.map(jnp.asarray, saved)
        restored = restored._replace(key=jax.random.wrap_key_data(restored.key))
        noise, state = step(state=restored)
        assert np.array_equal(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(noise)]), whole[stop])


def test_compiled_noise_equals_the_plain_one():
    strategy = harmonic(iterations=9, bandwidth=4, r=0.1)
    state = init_noise(strategy, like=LIKE, key=KEY)
    rows = []
    for _ in range(9):
        noise, state = next_noise(strategy, state=state, stddev=1.5)
        rows.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(noise)]))
    np.testing.assert_allclose(rows, all_noise(strategy, stddev=1.5), rtol=0, atol=2e-6)


def test_state_is_bandwidth_minus_one_gradients():
    state = init_noise(harmonic(iterations=100, bandwidth=10, r=0.1), like=LIKE, key=KEY)
    assert sum(leaf.size for leaf in jax.tree.leaves(state.window)) == 9 * (6 + 1 + 4)


def test_the_step_after_the_last_is_refused():
    strategy = harmonic(iterations=5, bandwidth=2, r=0.1)
    state = init_noise(strategy, like=LIKE, key=KEY)
    for _ in range(5):
        _, state = next_noise(strategy, state=state, stddev=1.0)
    with pytest.raises(HorizonExceeded, match="beyond the 5 steps"):
        next_noise(strategy, state=state, stddev=1.0)
    noise, _ = jax.jit(functools.partial(next_noise, strategy, stddev=1.0))(state=state)
    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(noise))


def test_low_precision_gradients_get_float32_noise():
    noise, state = next_noise(
        STRATEGIES[1], state=init_noise(STRATEGIES[1], like=[jax.ShapeDtypeStruct((3,), jnp.bfloat16)], key=KEY), stddev=1.0,
    )
    assert noise[0].dtype == np.float32 and state.window[0].dtype == np.float32


@pytest.mark.parametrize("stddev", [0, -1.0, float("nan"), float("inf"), None])
def test_the_standard_deviation_is_checked(stddev):
    with pytest.raises(InputError, match=f"Expected stddev={stddev!r} to be a finite number > 0"):
        next_noise(STRATEGIES[0], state=init_noise(STRATEGIES[0], like=LIKE, key=KEY), stddev=stddev)


LONG_STRATEGIES = [
    harmonic(iterations=10_000, bandwidth=128, r=0.02), harmonic(iterations=10_000, bandwidth=512, r=-0.001),
    harmonic(iterations=10_000, bandwidth=64, r=0.45), banded_square_root(iterations=10_000, bandwidth=1000),
]


@pytest.mark.parametrize("strategy", LONG_STRATEGIES, ids=lambda s: f"{s.family}-{s.bandwidth}")
def test_float32_stays_accurate_over_ten_thousand_steps(strategy):
    """Against the same white noise solved in float64, for the noises and for their prefix sums, which training sees."""
    like = [jax.ShapeDtypeStruct((2,), np.float32)]

    @functools.partial(jax.jit, static_argnums=0)
    def run(chosen):
        def one(state, _):
            noise, state = next_noise(chosen, state=state, stddev=1.0)
            return state, noise[0]

        return jax.lax.scan(one, init_noise(chosen, like=like, key=KEY), length=chosen.iterations)[1]

    noise = np.asarray(run(strategy), dtype=np.float64)
    white = np.asarray(run(identity(iterations=strategy.iterations)), dtype=np.float64)
    exact = scipy.signal.lfilter([1.0], strategy.coefficients, white, axis=0)
    assert np.abs(noise - exact).max() < tolerances.FLOAT32_NOISE * exact.std()
    prefix = np.cumsum(exact, axis=0)
    assert np.abs(np.cumsum(noise, axis=0) - prefix).max() < tolerances.FLOAT32_NOISE_PREFIX * prefix.std()
