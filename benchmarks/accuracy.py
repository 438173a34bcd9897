"""What the noise costs in accuracy: min-sep RA against DP-SGD and cyclic Poisson BandMF, on digits. `python -m benchmarks.accuracy`.

Logistic regression with the JAX-Privacy export and a small convolutional network with the Opacus export, each at the same (ε, δ), T, K,
clip norm and normaliser, 5 seeds each. Every mechanism has the bandwidth and r that `compare` finds for it; σ of the Poisson schemes is
their tightest deterministic bound, that of min-sep RA is certified. The learning rate of each is the best of one grid on a seed of its own;
that choice is not private, for any of them alike. `--out FOLDER` also writes the table as JSON and draws it.
"""

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib
import torch

from accountants.tightest import tightest_bound
from engine.certification import certify
from engine.compare import compare
from engine.exports import ExportConfig, export, load_config
from engine.results import strategy_document, write_strategy
from examples import convolutional_network, logistic_regression
from examples.digits import Digits, load
from search_spaces.mechanism import Mechanism
from search_spaces.problem import Problem
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic

matplotlib.use("Agg")

BATCH, EPOCHS, DELTA = 24, 8, 1e-5
"""A nominal batch of 24 and 1440 training examples are T = 480 steps at K = 8."""

EPSILONS = (1.0, 4.0, 8.0)
SCHEMES = ("poisson", "cyclic_poisson", "min_sep_ra")
MODELS: dict[str, tuple[str, Callable[..., float]]] = {
    "logistic regression": ("jax-privacy", logistic_regression.train),
    "convolutional network": ("opacus", convolutional_network.train),
}
LEARNING_RATES = (0.125, 0.25, 0.5, 1.0, 2.0)
SEEDS = range(5)
TUNING_SEED = 1000


def strategy_file(problem: Problem, row, path: Path) -> Mechanism:
    """Writes the strategy file of a scheme's best configuration, with its guarantee."""
    scheme = make_scheme(row.scheme, iterations=problem.iterations, participations=problem.participations, bandwidth=row.bandwidth)
    strategy = harmonic(iterations=problem.iterations, bandwidth=row.bandwidth, r=row.r or 0.0)
    target = {"epsilon": problem.epsilon, "delta": problem.delta}
    if row.kind == "estimate":
        return certify(scheme=scheme, strategy=strategy, **target, out=path).mechanism
    found = tightest_bound(scheme, strategy, **target)
    mechanism = Mechanism(scheme=scheme, strategy=strategy, sigma=found.sigma)
    write_strategy(path, strategy_document(mechanism=mechanism, problem=problem, evidence=found.evidence, certificate=None, seeds={}))
    return mechanism


def accuracies(config: ExportConfig, train: Callable[..., float], data: Digits) -> tuple[float, list[float]]:
    """The best learning rate and the test accuracies with it, one per seed."""
    best = max(LEARNING_RATES, key=lambda rate: train(config, data, learning_rate=rate, seed=TUNING_SEED))
    return best, [train(config, data, learning_rate=best, seed=seed) for seed in SEEDS]


def measure(folder: Path, samples: int) -> list[dict[str, object]]:
    """One row per ε, scheme and model."""
    data, rows = load(), []
    for epsilon in EPSILONS:
        problem = Problem.from_training(
            dataset_size=len(data.labels), batch_size=BATCH, epochs=EPOCHS, epsilon=epsilon, delta=DELTA,
        )
        for row in compare(problem, schemes=SCHEMES, samples=samples, workers=1):
            path = folder / f"{row.scheme}-{epsilon:g}.json"
            mechanism = strategy_file(problem, row, path)
            for model, (to, train) in MODELS.items():
                started = time.perf_counter()
                out = export(path, to=to, out=path.with_suffix("." + to), normalize_by=BATCH)
                rate, found = accuracies(load_config(out), train, data)
                rows.append({
                    "epsilon": epsilon, "model": model, "scheme": row.scheme, "bandwidth": row.bandwidth, "sigma": mechanism.sigma,
                    "rmse": mechanism.rmse, "learning_rate": rate, "accuracies": found, "seconds": time.perf_counter() - started,
                })
                print(_line(rows[-1]), flush=True)
    return rows


def _line(row: dict[str, object]) -> str:
    mean, spread = statistics.mean(row["accuracies"]), statistics.stdev(row["accuracies"])
    return (
        f"eps {row['epsilon']:<4g}{row['model']:<23}{row['scheme']:<16}b={row['bandwidth']:<4}"
        f"sigma={row['sigma']:<8.4f}rmse={row['rmse']:<8.4f}"
        f"lr={row['learning_rate']:<7g}accuracy {100 * mean:.1f} +- {100 * spread:.1f} %  ({row['seconds']:.0f} s)"
    )


def draw(rows: list[dict[str, object]], path: Path) -> None:
    """Accuracy against ε, a panel per model, a line per scheme, bars of one standard deviation over the seeds."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(MODELS), figsize=(10, 4), layout="constrained", sharey=True)
    for axis, model in zip(axes, MODELS):
        for scheme in SCHEMES:
            chosen = [row for row in rows if (row["model"], row["scheme"]) == (model, scheme)]
            axis.errorbar(
                [row["epsilon"] for row in chosen], [100 * statistics.mean(row["accuracies"]) for row in chosen],
                yerr=[100 * statistics.stdev(row["accuracies"]) for row in chosen], marker="o", capsize=3, label=scheme,
            )
        axis.set(title=model, xlabel="ε", xscale="log", xticks=EPSILONS, xticklabels=[f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
    axes[0].set_ylabel("test accuracy, %")
    axes[0].legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main() -> None:
    """Prints the table, line by line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--samples", type=int, default=4096, help="of each estimate while bandwidths and r are chosen")
    chosen = parser.parse_args()
    # Small tensors: more threads only wait for each other.
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.simplefilter("ignore", UserWarning)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), chosen.samples)
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "accuracy.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
        draw(rows, chosen.out / "accuracy.png")


if __name__ == "__main__":
    main()
