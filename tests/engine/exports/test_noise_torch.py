"""Streaming noise in PyTorch: dense linear algebra, checkpoints, the horizon, and float32 over a long run."""

import copy

import numpy as np
import pytest
import scipy.signal

from search_spaces.errors import HorizonExceeded, InputError
from search_spaces.strategies import ToeplitzStrategy, banded_square_root, harmonic, identity
from tests import tolerances

torch = pytest.importorskip("torch", reason="the extra `opacus` is not installed")

from engine.exports.noise_torch import init_noise, next_noise  # noqa: E402  (needs torch)

LIKE = [torch.zeros(3, 2), torch.zeros(()), torch.zeros(4)]


def new_state(strategy, *, like=LIKE, seed=71):
    return init_noise(strategy, like=like, generator=torch.Generator().manual_seed(seed))


def flat(noises):
    return np.concatenate([noise.numpy().ravel() for noise in noises])


def all_noise(strategy, *, stddev=1.0, like=LIKE):
    """(T, d) NumPy: the noises of a run, tensors side by side."""
    state, rows = new_state(strategy, like=like), []
    for _ in range(strategy.iterations):
        noises, state = next_noise(strategy, state=state, stddev=stddev)
        rows.append(flat(noises))
    return np.array(rows)


STRATEGIES = [
    identity(iterations=7), harmonic(iterations=9, bandwidth=2, r=0.3), harmonic(iterations=12, bandwidth=5, r=-0.1),
    banded_square_root(iterations=8, bandwidth=8), ToeplitzStrategy(iterations=11, coefficients=(2.0, 0.0, 1.0)),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: f"{s.family}-{s.bandwidth}")
def test_noise_is_the_dense_inverse_times_white_noise(strategy):
    white = all_noise(identity(iterations=strategy.iterations), stddev=2.5)
    np.testing.assert_allclose(all_noise(strategy, stddev=2.5), np.linalg.solve(strategy.dense(), white), rtol=0, atol=2e-5)


def test_noise_in_float64_is_exact():
    like = [torch.zeros(5, dtype=torch.float64)]
    strategy = harmonic(iterations=40, bandwidth=7, r=0.02)
    white = all_noise(identity(iterations=40), like=like)
    noise = all_noise(strategy, like=like)
    assert noise.dtype == np.float64
    np.testing.assert_allclose(noise, np.linalg.solve(strategy.dense(), white), rtol=0, atol=tolerances.LINEAR_ALGEBRA)


def test_white_noise_is_standard_normal_and_independent_between_steps_and_tensors():
    white = all_noise(identity(iterations=30), like=[torch.zeros(400), torch.zeros(400)], stddev=3.0).reshape(60, 400) / 3.0
    covariance = white @ white.T / 400
    assert np.abs(covariance - np.eye(60)).max() < tolerances.STANDARD_DEVIATIONS * np.sqrt(2 / 400)
    assert abs(white.mean()) < tolerances.STANDARD_DEVIATIONS / np.sqrt(white.size)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: f"{s.family}-{s.bandwidth}")
def test_a_restored_state_goes_on_as_if_it_had_never_stopped(strategy, tmp_path):
    whole = all_noise(strategy)
    state = new_state(strategy)
    for step in range(strategy.iterations):
        torch.save(state.state_dict(), tmp_path / "state.pt")
        other = new_state(strategy, seed=999)
        other.load_state_dict(torch.load(tmp_path / "state.pt"))
        assert np.array_equal(flat(next_noise(strategy, state=other, stddev=1.0)[0]), whole[step])
        _, state = next_noise(strategy, state=state, stddev=1.0)


def test_a_checkpoint_does_not_move_with_the_run():
    strategy = STRATEGIES[2]
    state = new_state(strategy)
    next_noise(strategy, state=state, stddev=1.0)
    saved = state.state_dict()
    before = copy.deepcopy(saved["windows"])
    next_noise(strategy, state=state, stddev=1.0)
    assert all(torch.equal(a, b) for a, b in zip(saved["windows"], before)) and saved["step"] == 1


def test_a_checkpoint_of_another_bandwidth_is_refused():
    saved = new_state(STRATEGIES[1]).state_dict()
    with pytest.raises(InputError, match="Expected the checkpoint's windows to have the shapes"):
        new_state(STRATEGIES[2]).load_state_dict(saved)


def test_state_is_bandwidth_minus_one_gradients():
    state = new_state(harmonic(iterations=100, bandwidth=10, r=0.1))
    assert sum(window.numel() for window in state.windows) == 9 * (6 + 1 + 4)


def test_the_step_after_the_last_is_refused():
    strategy = harmonic(iterations=5, bandwidth=2, r=0.1)
    state = new_state(strategy)
    for _ in range(5):
        next_noise(strategy, state=state, stddev=1.0)
    with pytest.raises(HorizonExceeded, match="beyond the 5 steps"):
        next_noise(strategy, state=state, stddev=1.0)


def test_low_precision_gradients_get_float32_noise():
    state = new_state(STRATEGIES[1], like=[torch.zeros(3, dtype=torch.bfloat16)])
    assert next_noise(STRATEGIES[1], state=state, stddev=1.0)[0][0].dtype == torch.float32


@pytest.mark.parametrize("stddev", [0, -1.0, float("nan"), float("inf"), None])
def test_the_standard_deviation_is_checked(stddev):
    with pytest.raises(InputError, match=f"Expected stddev={stddev!r} to be a finite number > 0"):
        next_noise(STRATEGIES[0], state=new_state(STRATEGIES[0]), stddev=stddev)


@pytest.mark.parametrize(
    "strategy", [harmonic(iterations=10_000, bandwidth=128, r=0.02), banded_square_root(iterations=10_000, bandwidth=1000)],
    ids=lambda s: f"{s.family}-{s.bandwidth}",
)
def test_float32_stays_accurate_over_ten_thousand_steps(strategy):
    like = [torch.zeros(2)]
    noise = all_noise(strategy, like=like).astype(np.float64)
    # The scale of z is folded with c_0, so white noise is drawn with this scale to be the same numbers.
    first = strategy.coefficients[0]
    white = first * all_noise(identity(iterations=10_000), like=like, stddev=1 / first).astype(np.float64)
    exact = scipy.signal.lfilter([1.0], strategy.coefficients, white, axis=0)
    assert np.abs(noise - exact).max() < tolerances.FLOAT32_NOISE * exact.std()
    prefix = np.cumsum(exact, axis=0)
    assert np.abs(np.cumsum(noise, axis=0) - prefix).max() < tolerances.FLOAT32_NOISE_PREFIX * prefix.std()
