"""The JAX-Privacy plan: its noise against dense linear algebra, its clipped sums, and the pieces it refuses to be used without."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from engine.exports.config import make_config
from engine.exports.noise_jax import secret_key
from search_spaces.errors import ExportError, HorizonExceeded, InputError
from tests.contracts.exporter_contract import TRAINER_WARNINGS, strategy_content

pytest.importorskip("jax_privacy", reason="the extra `jax-privacy` is not installed")

from engine.exports import jax_privacy_api  # noqa: E402  (needs the extra)
from engine.exports.jax_privacy_plan import load_plan, make_plan  # noqa: E402

pytestmark = pytest.mark.filterwarnings(*TRAINER_WARNINGS)

PARAMS = {"a": jnp.zeros((3,)), "b": jnp.zeros((2, 2))}


def plan_for(name="min_sep_ra", *, clip_norm=0.5, normalize_by=40.0, seed=91, **settings):
    config = make_config(strategy_content(name), to="jax-privacy", clip_norm=clip_norm, normalize_by=normalize_by)
    return make_plan(config, seed=seed, **settings)


def started(plan, num_examples=50, seed=92):
    """The plan's noise state and batches."""
    state = plan.noise_addition_transform.init(PARAMS)
    return state, plan.batch_selection_strategy.batch_iterator(num_examples, seed)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def test_noise_is_the_dense_inverse_times_white_noise_of_the_right_size():
    """White noise of the same key, through C, is σ · clip norm / normaliser times the standard normals JAX-Privacy draws."""
    plan = plan_for()
    state, batches = started(plan)
    rows = []
    for _ in batches:
        noisy, state = plan.noise_addition_transform.update(PARAMS, state)
        rows.append(flat(noisy))
    mechanism = plan.config.mechanism
    white = jax_privacy_api.toeplitz_privatizer([1.0], stddev=1.0, key=secret_key(91))
    state, expected = white.init(PARAMS), []
    for _ in rows:
        normals, state = white.update(PARAMS, state)
        expected.append(flat(normals))
    z = mechanism.strategy.dense() @ np.array(rows)
    np.testing.assert_allclose(z, mechanism.sigma * 0.5 / 40.0 * np.array(expected), rtol=0, atol=1e-7)
    assert 0.8 < np.std(expected) < 1.2


def test_the_noise_matches_the_sensitivity_that_jax_privacy_states():
    plan = plan_for()
    sum_ = plan.clipped_grad(lambda params, x: jnp.sum(params["a"] * x))
    assert plan.config.noise_stddev / 40.0 == plan.config.mechanism.sigma * sum_.l2_norm_bound


def test_clipped_sums_are_sums_and_not_means():
    plan = plan_for()
    data = np.random.default_rng(93).standard_normal((6, 3)).astype(np.float32)
    data[:3] *= 0.01
    sum_ = plan.clipped_grad(lambda params, x: jnp.sum(params["a"] * x))(PARAMS, data)
    norms = np.linalg.norm(data, axis=1, keepdims=True)
    np.testing.assert_allclose(sum_["a"], (data * np.minimum(1, 0.5 / norms)).sum(axis=0) / 40, rtol=1e-5)
    masked = plan.clipped_grad(lambda params, x: jnp.sum(params["a"] * x))(PARAMS, data, is_padding_example=np.arange(6) >= 3)
    np.testing.assert_allclose(masked["a"], data[:3].sum(axis=0) / 40, rtol=1e-5)


@pytest.mark.parametrize("settings", [{"rescale_to_unit_norm": True}, {"nan_safe": False}])
def test_settings_that_change_the_sensitivity_are_refused(settings):
    with pytest.raises(InputError, match="to leave clip norm, normalisation and nan_safe as they were exported"):
        plan_for().clipped_grad(lambda params, x: jnp.sum(params["a"] * x), **settings)
    with pytest.raises(TypeError):
        plan_for().clipped_grad(lambda params, x: jnp.sum(params["a"] * x), l2_clip_norm=2.0)


def test_batches_are_the_schemes_by_jax_privacys_protocol():
    plan = plan_for()
    _, batches = started(plan)
    assert isinstance(plan.batch_selection_strategy, jax_privacy_api.BatchSelectionStrategy)
    expected = list(plan.config.mechanism.scheme.batch_iterator(50, 92))
    assert all(np.array_equal(a, b) for a, b in zip(batches, expected, strict=True))


def test_noise_without_the_plans_batches_is_refused():
    plan = plan_for()
    state = plan.noise_addition_transform.init(PARAMS)
    for update in (plan.noise_addition_transform.update, jax.jit(plan.noise_addition_transform.update)):
        with pytest.raises(ExportError, match="Batches must come from this plan's batch selection strategy"):
            update(PARAMS, state)


def test_batches_without_the_plans_noise_are_refused():
    with pytest.raises(ExportError, match="noise of this configuration must be attached"):
        plan_for().batch_selection_strategy.batch_iterator(50, 1)


def test_a_second_pass_is_refused():
    plan = plan_for()
    started(plan)
    with pytest.raises(ExportError, match="a second pass is another run"):
        plan.batch_selection_strategy.batch_iterator(50, 1)


def test_a_step_too_many_is_refused_or_poisoned():
    plan = plan_for()
    state, batches = started(plan)
    update = jax.jit(plan.noise_addition_transform.update)
    for _ in batches:
        noisy, state = update(PARAMS, state)
    assert np.isfinite(flat(noisy)).all()
    with pytest.raises(HorizonExceeded, match="beyond the 24 steps"):
        plan.noise_addition_transform.update(PARAMS, state)
    assert np.isnan(flat(update(PARAMS, state)[0])).all(), "compiled code cannot raise"


def test_two_steps_for_one_batch_are_refused():
    plan = plan_for()
    state, batches = started(plan)
    next(batches)
    _, state = plan.noise_addition_transform.update(PARAMS, state)
    with pytest.raises(ExportError, match="every step one batch"):
        plan.noise_addition_transform.update(PARAMS, state)


def test_a_resumed_run_equals_the_uninterrupted_one():
    whole, state = [], None
    plan = plan_for()
    state, batches = started(plan)
    for step, batch in enumerate(batches):
        if step == 10:
            saved = state
        noisy, state = plan.noise_addition_transform.update(PARAMS, state)
        whole.append((batch, flat(noisy)))
    again = plan_for(first_step=10)
    state, batches = started(again)
    state = jax.tree.map(lambda _, kept: kept, state, saved)
    for (batch, noise), resumed in zip(whole[10:], batches, strict=True):
        noisy, state = again.noise_addition_transform.update(PARAMS, state)
        assert np.array_equal(batch, resumed) and np.array_equal(noise, flat(noisy))


def test_real_runs_take_another_key_each():
    plans = [plan_for(seed=None) for _ in range(2)]
    noises = []
    for plan in plans:
        state, batches = started(plan)
        next(batches)
        noises.append(flat(plan.noise_addition_transform.update(PARAMS, state)[0]))
    assert not np.array_equal(*noises)


def test_loading_a_folder_of_another_trainer_is_refused(tmp_path):
    config = make_config(strategy_content(), to="opacus", clip_norm=1.0, normalize_by=1.0)
    (tmp_path / "config.json").write_text(config.text())
    with pytest.raises(InputError, match="Expected to='opacus' to be 'jax-privacy'"):
        load_plan(tmp_path)
