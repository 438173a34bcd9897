"""ε of fixed-size batches against σ and p, as in the source's figures. Run as `python -m benchmarks.fixed_size_plots --out FOLDER`."""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from accountants.fixed_size import FixedSizeMechanism, account

CURVES = (
    ("Rényi, pairwise (certified)", "renyi", "pairwise", "C0-"), ("Rényi, realisable triples (certified)", "renyi", "ball", "C0:"),
    ("lossless", "pld", "pairwise", "C1-"), ("Wang et al.", "wang", "pairwise", "C2--"), ("Birrell et al.", "birrell", "pairwise", "C3-."),
)
DATASET_SIZE = 10_000


def draw(panels: list[tuple[str, str, np.ndarray, list[FixedSizeMechanism]]], delta: float, path: Path) -> None:
    """One figure with a panel for each (title, x label, x, mechanisms)."""
    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 4), layout="constrained")
    for axis, (title, label, x, mechanisms) in zip(axes, panels):
        for name, accountant, geometry, style in CURVES:
            epsilon = [account(mechanism=m, delta=delta, accountant=accountant, geometry=geometry).epsilon for m in mechanisms]
            axis.plot(x, epsilon, style, label=name)
        axis.set(title=title, xlabel=label, ylabel="ε", xscale="log", yscale="log")
        axis.grid(alpha=0.3, which="both")
    axes[0].legend(fontsize=8)
    figure.suptitle(f"DP-SGD with fixed-size batches, replace adjacency, δ = {delta:g}")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(path)


def mechanism(rate: float, sigma: float, iterations: int) -> FixedSizeMechanism:
    """A data set of `DATASET_SIZE` and the batch size nearest to the rate."""
    return FixedSizeMechanism(
        dataset_size=DATASET_SIZE, batch_size=max(1, round(rate * DATASET_SIZE)), iterations=iterations, sigma=float(sigma)
    )


def main() -> None:
    """Writes `epsilon_against_sigma.png` and `epsilon_against_p.png`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--points", type=int, default=13)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    sigmas = np.geomspace(1.5, 8, arguments.points)
    draw(
        [(f"p = 0.01, T = {T}", "σ", sigmas, [mechanism(0.01, s, T) for s in sigmas]) for T in (1000, 8000, 64000)],
        arguments.delta, arguments.out / "epsilon_against_sigma.png",
    )
    batches = np.unique(np.geomspace(10, 600, arguments.points).astype(int))
    rates = batches / DATASET_SIZE
    draw(
        [(f"σ = 4, T = {T}", "p", rates, [mechanism(rate, 4.0, T) for rate in rates]) for T in (1000, 8000, 64000)],
        arguments.delta, arguments.out / "epsilon_against_p.png",
    )


if __name__ == "__main__":
    main()
