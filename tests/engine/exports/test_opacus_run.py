"""The Opacus objects: noise against dense linear algebra, empty batches, parts of batches, checkpoints, and what is refused."""

import copy

import numpy as np
import pytest

from engine.exports.config import make_config
from search_spaces.errors import ExportError, HorizonExceeded
from tests.contracts.exporter_contract import TRAINER_WARNINGS, strategy_content

torch = pytest.importorskip("torch", reason="the extra `opacus` is not installed")
pytest.importorskip("opacus", reason="the extra `opacus` is not installed")

from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402  (needs the extra)
from torch.utils.data import TensorDataset  # noqa: E402

from engine.exports.opacus_run import make_private  # noqa: E402

pytestmark = pytest.mark.filterwarnings(*TRAINER_WARNINGS)


def data(num_examples=50, scale=1.0):
    generator = torch.Generator().manual_seed(101)
    return TensorDataset(scale * torch.randn(num_examples, 3, generator=generator), torch.zeros(num_examples))


def private(name="min_sep_ra", *, dataset=None, lr=1.0, clip_norm=0.5, normalize_by=40.0, content=None, seed=102, **settings):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    config = make_config(content or strategy_content(name), to="opacus", clip_norm=clip_norm, normalize_by=normalize_by)
    return make_private(
        config, model=model, optimizer=torch.optim.SGD(model.parameters(), lr=lr), dataset=data() if dataset is None else dataset, rng=103,
        generator=torch.Generator().manual_seed(seed), **settings,
    )


def loss(model, features, labels):
    return ((model(features).squeeze(1) - labels) ** 2).mean()


def train(model, optimizer, batches, *, steps=None):
    """(steps, 4): the gradient each step moved along."""
    rows = []
    for features, labels in batches:
        optimizer.zero_grad()
        if len(labels):
            loss(model, features, labels).backward()
        optimizer.step()
        rows.append(torch.cat([p.grad.ravel() for p in optimizer.params]).numpy().copy())
        if len(rows) == steps:
            break
    return np.array(rows)


def test_noise_is_the_dense_inverse_times_white_noise_of_the_right_size():
    """No example has a gradient: what is left is noise, and C turns it into σ · clip norm / normaliser times standard normals."""
    dataset = TensorDataset(torch.zeros(50, 3), torch.zeros(50))
    torch.manual_seed(0)
    model, optimizer, loader = private(dataset=dataset, lr=0.0)
    with torch.no_grad():
        optimizer.params[1].zero_()
    rows = train(model, optimizer, loader)
    mechanism = optimizer.run.config.mechanism
    generator = torch.Generator().manual_seed(102)
    # In the order of the noise: step by step, tensor by tensor.
    normals = np.array([
        np.concatenate([torch.empty(shape).normal_(generator=generator).numpy().ravel() for shape in ((1, 3), (1,))]) for _ in rows
    ])
    z = mechanism.strategy.dense() @ rows
    np.testing.assert_allclose(z, mechanism.sigma * 0.5 / 40.0 * normals, rtol=0, atol=1e-7)


def test_gradients_are_sums_of_clipped_ones_over_the_public_constant():
    """With a σ so small that noise hardly counts: 4e-5 is its standard deviation after normalising."""
    content = strategy_content(sigma=0.003, epsilon=1e6)
    dataset = data(scale=3.0)
    model, optimizer, loader = private(dataset=dataset, lr=0.0, content=content)
    rows = train(model, optimizer, loader)
    weights = torch.cat([p.detach().ravel() for p in optimizer.params]).numpy()
    features = np.hstack([dataset.tensors[0].numpy(), np.ones((50, 1))])
    gradients = 2 * (features @ weights)[:, None] * features
    clipped = gradients * np.minimum(1, 0.5 / np.linalg.norm(gradients, axis=1, keepdims=True))
    batches = list(optimizer.run.config.mechanism.scheme.batch_iterator(50, 103))
    np.testing.assert_allclose(rows, np.array([clipped[batch].sum(axis=0) for batch in batches]) / 40, rtol=0, atol=4e-4)
    assert np.abs(rows).max() > 0.02


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_a_gradient_that_is_not_finite_or_huge_does_not_show(value):
    features, labels = data(2).tensors
    features[0] = value
    rows = train(*private("poisson", dataset=TensorDataset(features, labels), lr=0.0))
    assert np.isfinite(rows).all()
    quiet = train(*private("poisson", dataset=TensorDataset(torch.zeros(2, 3), torch.zeros(2)), lr=0.0))
    assert np.linalg.norm(rows - quiet, axis=1).max() <= 3 * 0.5 / 40 + 1e-6


def test_batches_reach_the_loader_whole():
    dataset = TensorDataset(torch.arange(50, dtype=torch.float32)[:, None].repeat(1, 3), torch.arange(50))
    _, optimizer, loader = private(dataset=dataset)
    assert len(loader) == 24
    expected = list(optimizer.run.config.mechanism.scheme.batch_iterator(50, 103))
    assert all(np.array_equal(labels.numpy(), batch) for (_, labels), batch in zip(loader, expected, strict=True))


def test_empty_batches_take_their_step_and_their_noise():
    model, optimizer, loader = private("poisson", dataset=data(4))
    rows = train(model, optimizer, loader)
    empty = [optimizer.run.is_empty(step) for step in range(24)]
    assert len(rows) == optimizer.noise.step == 24 and 0 < sum(empty) < 24
    assert np.all(np.abs(rows).sum(axis=1) > 0)


@pytest.mark.parametrize("part", [1, 3, 100])
def test_parts_of_a_batch_give_the_same_gradients(part):
    whole = train(*private(lr=0.1))
    model, optimizer, loader = private(lr=0.1)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=part, optimizer=optimizer) as parts:
        for features, labels in parts:
            optimizer.zero_grad()
            if len(labels):
                loss(model, features, labels).backward()
            optimizer.step()
    last = torch.cat([p.grad.ravel() for p in optimizer.params]).numpy()
    assert optimizer.noise.step == 24
    np.testing.assert_allclose(last, whole[-1], rtol=0, atol=1e-6)


def test_a_resumed_run_equals_the_uninterrupted_one():
    whole = train(*private())
    model, optimizer, loader = private()
    train(model, optimizer, loader, steps=10)
    saved = copy.deepcopy({"model": model.state_dict(), "noise": optimizer.noise.state_dict()})
    model, optimizer, loader = private(first_step=10, seed=999)
    model.load_state_dict(saved["model"])
    optimizer.noise.load_state_dict(saved["noise"])
    assert np.array_equal(train(model, optimizer, loader), whole[10:])


def test_a_step_without_the_runs_batches_is_refused():
    model, optimizer, _ = private()
    loss(model, *data()[:5]).backward()
    with pytest.raises(ExportError, match="due after 1 batches of this run's sampler, but 0 were drawn"):
        optimizer.step()


def test_accumulating_two_batches_for_one_step_is_refused():
    """Two draws of the sampler in one step are another participation law."""
    model, optimizer, loader = private()
    batches = iter(loader)
    loss(model, *next(batches)).backward()
    loss(model, *next(batches)).backward()
    with pytest.raises(ExportError, match="but 2 were drawn"):
        optimizer.step()


def test_the_step_after_the_last_is_refused():
    model, optimizer, loader = private()
    train(model, optimizer, loader)
    optimizer.zero_grad()
    loss(model, *data()[:5]).backward()
    with pytest.raises(HorizonExceeded, match="beyond the 24 steps"):
        optimizer.step()


def test_a_second_pass_over_the_loader_is_refused():
    model, optimizer, loader = private()
    train(model, optimizer, loader)
    with pytest.raises(ExportError, match="a second pass is another run"):
        next(iter(loader))


def test_only_the_first_process_adds_noise(monkeypatch):
    added = []
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor, op: added.append(tensor.clone()))
    rows = [train(*private(lr=0.0, rank=rank, world_size=2)) for rank in range(2)]
    whole = train(*private(lr=0.0))
    np.testing.assert_allclose(rows[0] + rows[1], whole, rtol=0, atol=1e-6)
    assert len(added) == 2 * 24 * 2


def test_batch_normalisation_is_refused():
    config = make_config(strategy_content(), to="opacus", clip_norm=1.0, normalize_by=1.0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    with pytest.raises(Exception, match="BatchNorm"):
        make_private(config, model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), dataset=data())
