"""The paper's comparisons for balls-in-bins, reduced: ε against σ, run times, directions, truncations.

Run as `python -m benchmarks.balls_in_bins`. Four tables of arXiv 2601.21636 in small: (1) ε at δ = 1e-5 against σ for DP-SGD, BSR and
BISR by Monte Carlo, the published Rényi procedure, ours, conditional composition (published and ours) and the Gram majorant, with the
winner; (2) run times; (3) Rényi divergences of the two directions; (4) truncations against the exact value. `--out FOLDER` also draws σ
against ε.
"""

import argparse
import dataclasses
import math
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from accountants.balls_in_bins import renyi_truncations as truncations
from accountants.balls_in_bins.conditional_composition import conditional_epsilon
from accountants.balls_in_bins.conversion import epsilon_from_moments, smallest_epsilon
from accountants.balls_in_bins.gram import toeplitz_gram
from accountants.balls_in_bins.gram_majorant import pld_epsilon
from accountants.balls_in_bins.prefix_statistics import TEMPERATURES, PrefixStatistics, mean_rows, prefix_statistics, strategy_statistics
from accountants.balls_in_bins.renyi_add import add_log_moments, published_add_epsilon
from accountants.balls_in_bins.renyi_choice import renyi_bounds
from accountants.balls_in_bins.renyi_dp import moments
from search_spaces.dense_strategies import FullToeplitzStrategy, inverse_square_root_column, square_root_column

DIRECTIONS = ("remove", "add")
PUBLISHED_GRID = {2: 25, 4: 7, 8: 4}
"""Bandwidth → largest α of the published Rényi procedure; 1 → 40 for DP-SGD."""

COLUMNS = ("monte carlo", "published renyi", "renyi", "published cc", "cc", "majorant")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One strategy with b bins and k epochs."""

    name: str
    bandwidth: int
    bins: int
    epochs: int

    @property
    def column(self) -> np.ndarray:
        iterations = self.bins * self.epochs
        build = inverse_square_root_column if self.name == "BISR" else square_root_column
        return build(iterations=iterations, bandwidth=min(self.bandwidth, iterations))

    @property
    def strategy(self) -> FullToeplitzStrategy:
        return FullToeplitzStrategy(column=tuple(self.column.tolist()))

    @property
    def gram(self) -> np.ndarray:
        return toeplitz_gram(column=self.column, bins=self.bins, epochs=self.epochs)

    @property
    def label(self) -> str:
        return f"{self.name}-{self.bandwidth}" if self.bandwidth > 1 else self.name


def monte_carlo_epsilon(gram: np.ndarray, *, sigma: float, delta: float, samples: int, seed: int = 0) -> float:
    """Estimate of the larger direction's ε(δ) by importance sampling in b dimensions with several shifts (no guarantee)."""
    bins, rng = len(gram), np.random.default_rng(seed)
    root = np.linalg.cholesky(gram + 1e-12 * np.trace(gram) / bins * np.eye(bins)) / sigma
    mean_norm, own_norm = math.sqrt(gram.mean()) / sigma, math.sqrt(gram.max()) / sigma
    worst = 0.0
    for direction in DIRECTIONS:
        # (along the bin drawn, along the mean bin): the target, and shifts that bring the middle of the samples to the tail of δ.
        if direction == "remove":
            shifts = [(1.0, 0.0), (1.0, 1.5 / mean_norm), (1.0, 3.0 / mean_norm), (1.0 + 2.0 / own_norm, 0.0), (1.0 + 4.0 / own_norm, 0.0)]
        else:
            shifts = [(0.0, 0.0), (0.0, -1.5 / mean_norm), (0.0, -3.0 / mean_norm)]
        payoffs, weights = _importance_samples(gram, root, sigma, shifts, samples, rng)

        def estimate(epsilon: float) -> float:
            paid = np.maximum(-np.expm1(epsilon - payoffs), 0.0) if direction == "remove" else np.maximum(-np.expm1(epsilon + payoffs), 0.0)
            return float(np.mean(paid * weights))

        worst = max(worst, smallest_epsilon(estimate, delta))
    return worst


def _importance_samples(
    gram: np.ndarray, root: np.ndarray, sigma: float, shifts: list[tuple[float, float]], samples: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(log dP/dQ, weight against the first law) of samples from the even mixture of shifted laws, weighted by the balance heuristic."""
    bins, h = len(gram), 1 / sigma**2
    average, total = gram.mean(axis=1), float(gram.mean())
    logs, ratios = [], []
    for along_bin, along_mean in shifts:
        done, per_shift = 0, samples // len(shifts)
        while done < per_shift:
            count = min(20000, per_shift - done)
            r = rng.integers(bins, size=count)
            zeta = rng.standard_normal((count, bins)) @ root.T + (along_bin * gram[r] + along_mean * average) * h
            own = logsumexp(zeta - 0.5 * h * np.diag(gram), axis=1) - math.log(bins)
            # Each law is Q weighted by the mean over r of exp((u·e_r + t/b)·ζ − half its variance).
            laws = np.stack([
                t * zeta.mean(axis=1) - 0.5 * h * t**2 * total
                + logsumexp(u * zeta - h * (0.5 * u**2 * np.diag(gram) + t * u * average), axis=1) - math.log(bins)
                for u, t in shifts
            ])
            logs.append(own)
            ratios.append(np.exp(laws[0] - logsumexp(laws, axis=0) + math.log(len(shifts))))
            done += count
    return np.concatenate(logs), np.concatenate(ratios)


def published_renyi(case: Case, *, sigma: float, delta: float) -> float:
    """The published procedure: its truncation on its grid of (bandwidth, α), add by the AM–GM bound, the larger of the two."""
    gram, grid = case.gram, ({1: 40} if case.name == "DP-SGD" else PUBLISHED_GRID)
    remove = []
    for bandwidth, order in grid.items():
        logs = truncations.published(gram, bandwidth=bandwidth).moments(sigma=sigma, order=order).upper_logs()
        remove.append(epsilon_from_moments(logs, delta=delta)[0])
    return max(min(remove), published_add_epsilon(gram, sigma=sigma, delta=delta, order=max(grid.values()))[0])


def composition(statistics: PrefixStatistics, *, sigma: float, delta: float, **settings: object) -> float:
    """The larger direction's ε by conditional composition."""
    return max(conditional_epsilon(statistics, sigma=sigma, direction=direction, delta=delta, **settings).value for direction in DIRECTIONS)


def epsilons(
    case: Case, *, sigma: float, delta: float, samples: int, plain: PrefixStatistics, varied: PrefixStatistics
) -> dict[str, float]:
    """ε of the larger direction by every column."""
    gram = case.gram
    return {
        "monte carlo": monte_carlo_epsilon(gram, sigma=sigma, delta=delta, samples=samples),
        "published renyi": published_renyi(case, sigma=sigma, delta=delta),
        "renyi": max(bound.value for bound in renyi_bounds(gram, sigma=sigma, delta=delta)),
        "published cc": composition(plain, sigma=sigma, delta=delta, split="even"),
        "cc": composition(varied, sigma=sigma, delta=delta),
        "majorant": max(pld_epsilon(gram, sigma=sigma, direction=direction, delta=delta).value for direction in DIRECTIONS),
    }


def epsilon_table(cases: list[Case], multipliers: list[float], *, delta: float, samples: int) -> list[tuple[Case, float, dict[str, float]]]:
    """Prints and returns ε for every case and σ = multiplier·√(largest G_ii)."""
    print(f"\n1. ε at δ = {delta:g}, the larger of both directions; σ in units of the largest mean's norm")
    print(f"{'strategy':<8}{'b':>5}{'k':>4}{'σ/norm':>8} " + "".join(f"{name:>17}" for name in COLUMNS) + "  best bound, over Monte Carlo")
    rows = []
    for case in cases:
        plain, varied = (prefix_statistics(
            mean_rows(case.strategy, case.bins), bins=case.bins, iterations=case.bins * case.epochs, temperatures=temperatures
        ) for temperatures in ((), TEMPERATURES))
        norm = math.sqrt(case.gram.max())
        for multiplier in multipliers:
            found = epsilons(case, sigma=multiplier * norm, delta=delta, samples=samples, plain=plain, varied=varied)
            winner = min(COLUMNS[1:], key=found.get)
            print(
                f"{case.label:<8}{case.bins:>5}{case.epochs:>4}{multiplier:>8.2f} " + "".join(f"{found[name]:>17.4f}" for name in COLUMNS)
                + f"  {winner}, {found[winner] / found['monte carlo']:.2f}", flush=True,
            )
            rows.append((case, multiplier, found))
    return rows


def timed(label: str, target: str, work) -> None:
    """Prints how long `work` takes beside its target."""
    start = time.perf_counter()
    work()
    print(f"{label:<66}{time.perf_counter() - start:>9.2f} s   target {target}", flush=True)


def run_times() -> None:
    """Prints the run times that the design sets targets for."""
    print("\n2. run times")
    sgd, bsr = Case(name="DP-SGD", bandwidth=1, bins=1000, epochs=1), Case(name="BSR", bandwidth=4, bins=100, epochs=10)
    timed("moments, DP-SGD, b=1000, α=32", "1 s", lambda: moments(sgd.gram, sigma=1.0, order=32, bandwidth=1))
    for order in (8, 16, 24):
        timed(f"moments, BSR p=4, b=100, k=10, α={order}", "10 s at α=8", lambda: moments(bsr.gram, sigma=4.0, order=order, bandwidth=4))
    timed("Rényi accountant, BSR p=4, b=100, k=10", "-", lambda: renyi_bounds(bsr.gram, sigma=8.0, delta=1e-5))
    strategy = bsr.strategy
    strategy_statistics.cache_clear()
    first = lambda sigma: composition(strategy_statistics(strategy, 100), sigma=sigma, delta=1e-5)
    timed("conditional composition, N=1000, b=100, p=4, from scratch, both", "30 s", lambda: first(8.0))
    timed("conditional composition, another σ, both directions", "5 s a direction", lambda: first(9.0))
    timed("the same in blocks of 4", "-", lambda: composition(strategy_statistics(strategy, 100), sigma=9.0, delta=1e-5, block=4))
    for direction in DIRECTIONS:
        timed(f"Gram majorant, BSR p=4, {direction}", "2 s", lambda: pld_epsilon(bsr.gram, sigma=8.0, direction=direction, delta=1e-5))
    _against_library(100, 2.0)


def _against_library(bins: int, sigma: float) -> None:
    """DP-SGD, where another library has two-sided bounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import PLD_accounting as library
    gram = np.eye(bins)
    ours = lambda: max(pld_epsilon(gram, sigma=sigma, direction=direction, delta=1e-5).value for direction in DIRECTIONS)
    parameters = library.PrivacyParams(sigma=sigma, num_steps=bins, delta=1e-5)
    theirs = lambda: library.gaussian_allocation_epsilon_configurable(params=parameters, config=library.AllocationSchemeConfig())
    for name, work in (("Gram majorant", ours), ("PLD_accounting", theirs)):
        start = time.perf_counter()
        found = work()
        print(f"{f'DP-SGD b={bins}, σ={sigma:g}, {name}: ε = {found:.5f}':<66}{time.perf_counter() - start:>9.2f} s", flush=True)


def direction_table(cases: list[Case]) -> None:
    """Prints Rényi divergences of remove (exact) beside the published add bound."""
    print("\n3. R_α: exact remove, published bound on add (the paper: add never above remove)")
    for case in cases:
        sigma = 2.0 * math.sqrt(case.gram.max())
        orders = np.array([2, 4, 8, 16])
        remove = moments(case.gram, sigma=sigma, order=16, bandwidth=case.bandwidth).upper_logs()[orders] / (orders - 1)
        add = add_log_moments(case.gram, sigma=sigma, orders=orders) / (orders - 1)
        shown = "   ".join(f"α={a}: {r:.4g}, {q:.4g} ({q / r:.2f}x)" for a, r, q in zip(orders, remove, add))
        print(f"{case.label:<8}{case.bins:>5}{case.epochs:>4}  {shown}")


def truncation_table() -> None:
    """Prints R_α by each truncation over the exact value."""
    print("\n4. R_α of truncations over the exact R_α (BSR p=4, b=64, k=2)")
    case = Case(name="BSR", bandwidth=4, bins=64, epochs=2)
    gram, sigma = case.gram, 2.0 * math.sqrt(case.gram.max())
    exact = moments(gram, sigma=sigma, order=16, bandwidth=4).upper_logs()
    for order in (2, 4, 8, 16):
        shown = []
        for bandwidth in (1, 2, 3):
            values = {
                "published": truncations.published(gram, bandwidth=bandwidth).moments(sigma=sigma, order=order).upper_logs()[order],
                "shifted": truncations.shifted(gram, bandwidth=bandwidth).moments(sigma=sigma, order=order).upper_logs()[order],
                "row-wise": truncations.row_wise_log_moment(gram, sigma=sigma, order=order, bandwidth=bandwidth),
                "thinned": min(
                    truncations.thinned(gram, stride=stride, bandwidth=bandwidth).moments(sigma=sigma, order=order).upper_logs()[order]
                    for stride in (2, 3, 4)
                ),
            }
            shown.append(f"band {bandwidth}: " + ", ".join(f"{name} {value / exact[order]:.2f}" for name, value in values.items()))
        print(f"α={order:<3}" + "   ".join(shown))


def draw(rows: list[tuple[Case, float, dict[str, float]]], folder: Path) -> None:
    """Writes `sigma_against_epsilon.png`, one panel per case."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cases = list(dict.fromkeys(case for case, _, _ in rows))
    figure, axes = plt.subplots(1, len(cases), figsize=(4 * len(cases), 3.6), layout="constrained", squeeze=False)
    for axis, case in zip(axes[0], cases):
        own = [(multiplier, found) for each, multiplier, found in rows if each == case]
        for name in COLUMNS:
            style = "k--" if name == "monte carlo" else "-"
            axis.plot([found[name] for _, found in own], [multiplier for multiplier, _ in own], style, label=name)
        axis.set(title=f"{case.label}, b={case.bins}, k={case.epochs}", xlabel="ε", ylabel="σ / norm", xscale="log", yscale="log")
        axis.grid(alpha=0.3, which="both")
    axes[0][0].legend(fontsize=7)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "sigma_against_epsilon.png", dpi=150)
    plt.close(figure)
    print(folder / "sigma_against_epsilon.png")


def main() -> None:
    """Prints the four tables and, if asked, draws the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bins", type=int, nargs="+", default=[50])
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--samples", type=int, default=40_000)
    parser.add_argument("--multipliers", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--wide", type=int, default=64, help="the larger BSR bandwidth")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    cases = [
        Case(name=name, bandwidth=bandwidth, bins=bins, epochs=epochs)
        for bins in arguments.bins
        for epochs in arguments.epochs
        for name, bandwidth in (("DP-SGD", 1), ("BSR", 4), ("BSR", arguments.wide), ("BISR", 4))
    ]
    rows = epsilon_table(cases, arguments.multipliers, delta=arguments.delta, samples=arguments.samples)
    run_times()
    direction_table([case for case in cases if case.name in ("DP-SGD", "BSR") and case.bandwidth <= 4])
    truncation_table()
    if arguments.out:
        draw(rows, arguments.out)


if __name__ == "__main__":
    main()
