"""One training run: batches and noise only together, step by step, resumed, and shared by processes."""

import numpy as np
import pytest

from engine.exports import TrainingRun
from engine.exports.config import make_config
from search_spaces.errors import ExportError, HorizonExceeded, InputError
from tests.contracts.exporter_contract import strategy_content


def make_run(name="min_sep_ra", *, num_examples=50, seed=81, attach=True, **settings):
    run = TrainingRun(
        make_config(strategy_content(name), to="arrays", clip_norm=1.0, normalize_by=1.0), num_examples=num_examples, rng=seed, **settings,
    )
    if attach:
        run.attach_noise()
    return run


def test_batches_without_noise_are_refused():
    with pytest.raises(ExportError, match="The noise of this configuration must be attached"):
        make_run(attach=False).batches()


def test_noise_without_batches_is_refused():
    with pytest.raises(ExportError, match="due after 1 batches of this run's sampler, but 0 were drawn"):
        make_run().expect_batch_of(0)


def test_batches_are_the_schemes_and_as_many_as_steps():
    run = make_run()
    batches = []
    for step, batch in enumerate(run.batches()):
        run.expect_batch_of(step)
        batches.append(batch)
    expected = list(run.config.mechanism.scheme.batch_iterator(50, 81))
    assert len(batches) == 24 and all(np.array_equal(a, b) for a, b in zip(batches, expected))
    with pytest.raises(HorizonExceeded, match="beyond the 24 steps"):
        run.expect_batch_of(24)


def test_a_second_pass_is_refused():
    run = make_run()
    run.batches()
    with pytest.raises(ExportError, match="a second pass is another run"):
        run.batches()


def test_a_skipped_batch_is_noticed():
    """Skipping the step of an empty batch would shift all later noise."""
    run = make_run("poisson", num_examples=1)
    batches = run.batches()
    next(batches), next(batches)
    with pytest.raises(ExportError, match="every batch, empty ones too, needs one optimiser step"):
        run.expect_batch_of(0)
    run.expect_batch_of(0, ahead=1)


def test_empty_batches_are_known():
    run = make_run("poisson", num_examples=4)
    empty = [batch.size == 0 for batch in run.batches()]
    assert 0 < sum(empty) < 24
    assert [run.is_empty(step) for step in range(24)] == empty


@pytest.mark.parametrize("first_step", [0, 1, 10, 23, 24])
def test_a_resumed_run_gives_out_the_remaining_batches(first_step):
    whole = list(make_run().batches())
    rest = list(make_run(first_step=first_step).batches())
    assert len(rest) == 24 - first_step
    assert all(np.array_equal(a, b) for a, b in zip(rest, whole[first_step:]))


def test_resuming_and_sharing_need_a_seed():
    """Other random numbers would give one example participations that the law does not have."""
    with pytest.raises(InputError, match="Expected rng to be the seed of the run that is resumed"):
        make_run(seed=None, first_step=5)
    with pytest.raises(InputError, match="Expected rng to be one secret seed of all processes"):
        make_run(seed=None).batches(rank=0, world_size=2)
    assert len(list(make_run(seed=None).batches())) == 24


@pytest.mark.parametrize("first_step", [-1, 25, 1.0, True])
def test_the_first_step_is_checked(first_step):
    with pytest.raises(InputError, match=r"Expected first_step=.* to be an integer in \[0, 24\]"):
        make_run(first_step=first_step)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_processes_share_the_global_batch_and_do_not_multiply_it(world_size):
    whole = list(make_run().batches())
    shares = [list(make_run().batches(rank=rank, world_size=world_size)) for rank in range(world_size)]
    for step, batch in enumerate(whole):
        together = np.concatenate([share[step] for share in shares])
        assert np.array_equal(np.sort(together), batch), "every example once"


@pytest.mark.parametrize(("rank", "world_size"), [(1, 1), (-1, 2), (0, 0), (2, 2)])
def test_ranks_are_checked(rank, world_size):
    with pytest.raises(InputError, match="Expected (rank|world_size)="):
        make_run().batches(rank=rank, world_size=world_size)
