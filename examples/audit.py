"""An empirical privacy audit in one run: can an attacker tell which canaries were trained on, better than the guarantee allows?

Every canary's gradient is a direction of its own, as long as the clip norm. Each is in the dataset by a fair coin. A trainer runs once;
what it releases about a canary is its coordinate of all noisy gradients, and no other canary is in it, so one run is as good as many. The
attack is the best there is, the likelihood ratio. From how often it is right follows, at 95 % confidence, an ε that the mechanism cannot
be below.

Run as `python -m examples.audit STRATEGY_FILE [--to arrays|jax-privacy|opacus] [--divide-sigma 4]`.
"""

import argparse
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.stats

from engine.exports.config import ExportConfig, make_config
from engine.exports.run import TrainingRun
from engine.results import read_strategy
from search_spaces.recurrences import Recurrence

CONFIDENCE = 0.95

Release = Callable[[ExportConfig, np.ndarray, int], np.ndarray]
"""(configuration, canaries in the dataset, seed) → (T, number of canaries): the noisy sums of clipped gradients of one run."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found.

    Attributes:
      claimed: the ε of the guarantee.
      lower_bound: with probability 95 % the ε of what ran is at least this.
      right: fraction of right guesses, in and out together.
      canaries: how many guesses there were.
    """

    claimed: float
    lower_bound: float
    right: float
    canaries: int

    @property
    def refutes(self) -> bool:
        """Whether what ran does not keep the guarantee."""
        return self.lower_bound > self.claimed


def audit(config: ExportConfig, *, release: Release, canaries: int = 4000, seed: int = 0, divide_sigma: float = 1.0) -> Audit:
    """Audits one trainer.

    Args:
      config: what is claimed.
      release: the trainer.
      canaries: half of them choose the attack's threshold, half are counted.
      seed: of coins, batches and noise.
      divide_sigma: the run has only σ / divide_sigma, so that an audit that cannot fail is noticed.
    """
    ran = _with_sigma(config, config.mechanism.sigma / divide_sigma)
    included = np.random.default_rng([seed, 1]).random(canaries) < 0.5
    released = release(ran, included, seed) / config.clip_norm
    # C times the noisy gradients is Cx + σz: the output of the mechanism that is accounted.
    outputs = ran.mechanism.strategy.apply(released.T)
    scores = log_likelihood_ratios(ran, outputs)
    tuned, counted = slice(0, canaries // 2), slice(canaries // 2, None)
    delta = config.problem.delta
    thresholds = np.quantile(scores[tuned], np.linspace(0.01, 0.99, 99))
    threshold = max(thresholds, key=lambda one: epsilon_lower_bound(scores[tuned] > one, included[tuned], delta))
    guesses = scores[counted] > threshold
    return Audit(
        claimed=config.problem.epsilon, lower_bound=epsilon_lower_bound(guesses, included[counted], delta),
        right=float(np.mean(guesses == included[counted])), canaries=canaries - canaries // 2,
    )


def epsilon_lower_bound(guesses: np.ndarray, truth: np.ndarray, delta: float) -> float:
    """The ε that guesses this good need: from Clopper–Pearson bounds on their error rates, all four at 95 % together."""
    error = (1 - CONFIDENCE) / 4
    hits, inside = int((guesses & truth).sum()), int(truth.sum())
    alarms, outside = int((guesses & ~truth).sum()), int((~truth).sum())
    bounds = [0.0]
    # (ε,δ)-DP means hit rate <= e^ε · alarm rate + δ, and the same for the rates of saying "out".
    for right, of_right, wrong, of_wrong in ((hits, inside, alarms, outside), (outside - alarms, outside, inside - hits, inside)):
        low = scipy.stats.beta.ppf(error, right, of_right - right + 1) if right else 0.0
        high = scipy.stats.beta.ppf(1 - error, wrong + 1, of_wrong - wrong) if wrong < of_wrong else 1.0
        if low > delta:
            bounds.append(math.log((low - delta) / high))
    return max(bounds)


def log_likelihood_ratios(config: ExportConfig, outputs: np.ndarray) -> np.ndarray:
    """(n,) float64: log P/Q of each row of (n, T) outputs, for the law the batches are drawn from."""
    mechanism = config.mechanism
    windows = mechanism.strategy.apply_transpose(outputs)
    return _log_sweep(mechanism.scheme.batch_law(), (windows - mechanism.strategy.window_energies) / mechanism.sigma**2)


def _log_sweep(law: Recurrence, log_ratios: np.ndarray) -> np.ndarray:
    horizon = law.terms
    reach = max(law.after_fire, law.after_skip)
    rows = law.rows + law.counted
    # log LR(k, t) for all k; row 0 has no participation left, and beyond T nothing happens any more.
    log_lr = np.zeros((rows, horizon + reach, len(log_ratios)))
    with np.errstate(divide="ignore"):
        log_fire, log_skip = np.log(law.fire_probability), np.log1p(-law.fire_probability)
    for t in reversed(range(horizon)):
        for row in range(law.rows):
            k = row + law.counted
            log_lr[k, t] = np.logaddexp(
                log_fire[row, t] + log_ratios[:, t] + log_lr[k - law.counted, t + law.after_fire],
                log_skip[row, t] + log_lr[k, t + law.after_skip],
            )
    return np.logaddexp.reduce(log_lr[-1, : law.starts], axis=0) - math.log(law.starts)


def release_arrays(config: ExportConfig, included: np.ndarray, seed: int) -> np.ndarray:
    """The batches and noise for JAX without a trainer's library."""
    import jax

    from engine.exports.noise_jax import init_noise, next_noise, secret_key

    members = np.flatnonzero(included)
    run = TrainingRun(config, num_examples=len(members), rng=seed)
    run.attach_noise()
    strategy = config.mechanism.strategy
    state = init_noise(strategy, like=jax.ShapeDtypeStruct(included.shape, np.float32), key=secret_key(seed))
    rows = []
    for step, batch in enumerate(run.batches()):
        run.expect_batch_of(step)
        noise, state = next_noise(strategy, state=state, stddev=config.noise_stddev)
        rows.append(np.asarray(noise, dtype=np.float64))
        rows[-1][members[batch]] += config.clip_norm
    return np.array(rows)


def release_jax_privacy(config: ExportConfig, included: np.ndarray, seed: int) -> np.ndarray:
    """JAX-Privacy's clipping and noise: a linear loss whose gradient is twice as long as the clip norm."""
    import jax
    import jax.numpy as jnp

    from engine.exports.jax_privacy_plan import make_plan
    from search_spaces.schemes.batches import physical_batches

    plan, members = make_plan(config, seed=seed), np.flatnonzero(included)
    params = jnp.zeros(len(included))
    state = plan.noise_addition_transform.init(params)
    gradient = jax.jit(plan.clipped_grad(lambda weights, place: 2 * config.clip_norm * weights[place[0]]).fun)
    update = jax.jit(plan.noise_addition_transform.update)
    rows, clipped = [], params
    for part in physical_batches(plan.batch_selection_strategy.batch_iterator(len(members), seed), size=256):
        clipped += gradient(params, members[part.indices], is_padding_example=~part.mask)
        if part.ends_step:
            noisy, state = update(clipped, state)
            rows.append(np.asarray(noisy, dtype=np.float64) * config.normalize_by)
            clipped = params
    return np.array(rows)


def release_opacus(config: ExportConfig, included: np.ndarray, seed: int) -> np.ndarray:
    """Opacus' clipping and our noise in it: a linear model, one-hot canaries twice as long as the clip norm."""
    import torch

    from engine.exports.opacus_run import make_private

    members = np.flatnonzero(included)
    canaries = torch.zeros(len(members), len(included))
    canaries[torch.arange(len(members)), torch.from_numpy(members)] = 2 * config.clip_norm
    plain = torch.nn.Linear(len(included), 1, bias=False)
    model, optimizer, loader = make_private(
        config, model=plain, optimizer=torch.optim.SGD(plain.parameters(), lr=0.0),
        dataset=torch.utils.data.TensorDataset(canaries), rng=seed, generator=torch.Generator().manual_seed(seed), loss_reduction="sum",
    )
    rows = []
    for (batch,) in loader:
        optimizer.zero_grad()
        if len(batch):
            model(batch).sum().backward()
        optimizer.step()
        rows.append(plain.weight.grad.numpy()[0].astype(np.float64) * config.normalize_by)
    return np.array(rows)


RELEASES: dict[str, Release] = {"arrays": release_arrays, "jax-privacy": release_jax_privacy, "opacus": release_opacus}


def _with_sigma(config: ExportConfig, sigma: float) -> ExportConfig:
    return dataclasses.replace(config, strategy=dict(config.strategy) | {"sigma": sigma})


def main() -> None:
    """Audits a strategy file as a trainer runs it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategy", type=Path)
    parser.add_argument("--to", choices=RELEASES, default="arrays")
    parser.add_argument("--canaries", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--divide-sigma", type=float, default=1.0)
    chosen = parser.parse_args()
    config = make_config(read_strategy(chosen.strategy), to=chosen.to, clip_norm=1.0, normalize_by=1.0)
    found = audit(config, release=RELEASES[chosen.to], canaries=chosen.canaries, seed=chosen.seed, divide_sigma=chosen.divide_sigma)
    print(f"claimed epsilon {found.claimed}; measured at least {found.lower_bound:.3f}")
    print(f"{found.right:.1%} of {found.canaries} guesses were right.")
    print("The guarantee is refuted." if found.refutes else "Nothing speaks against the guarantee.")
    raise SystemExit(found.refutes)


if __name__ == "__main__":
    main()
