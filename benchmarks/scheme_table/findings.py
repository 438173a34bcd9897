"""The source's findings about its schemes, confirmed or refuted by the rows that were measured."""

import dataclasses
from collections.abc import Callable

import pandas as pd

from benchmarks.scheme_table.frames import PROBLEM, by_label
from benchmarks.scheme_table.grid import GRIDS
from search_spaces.problem import Problem

SLACK = 0.01
"""Two tables of certified RMSE can differ by this much: a certified σ lies up to a percent above the smallest that holds."""

BASE, CYCLIC_RA = "cyclic_poisson", "cyclic_ra"
NESTED, NESTED_BEST = "nested_ra standard", "nested_ra optimised"
MIN_SEP, MIN_SEP_BEST = "min_sep_ra standard", "min_sep_ra optimised"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One claim of the source.

    Attributes:
      claim: what the source says.
      measured: what these results say, in words; empty if they say nothing.
      holds: whether they agree within `SLACK`; None where nothing was measured, or too little for an average.
      complete: whether every problem of the source was measured.
    """

    claim: str
    measured: str = ""
    holds: bool | None = None
    complete: bool = True

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.holds is None:
            return "open, needs all the source's problems" if self.measured else "not measured"
        return ("confirmed" if self.holds else "refuted") + ("" if self.complete else " here, not on all the source's problems")


def findings(frame: pd.DataFrame, anchor: Problem) -> list[Finding]:
    """Every claim with its verdict; "a is x % better than b" means RMSE_b/RMSE_a − 1 = x %."""
    rmse = by_label(frame, "rmse")
    complete = all(tuple(getattr(problem, name) for name in PROBLEM) in rmse.index for problem in GRIDS["paper"].problems)
    averages = [one if complete else dataclasses.replace(one, holds=None) for one in _averages(rmse)]
    return [dataclasses.replace(one, complete=complete) for one in (*_ranges(frame, rmse, anchor), *averages)]


def _gain(rmse: pd.DataFrame, better: str, worse: str) -> pd.Series:
    known = rmse.reindex(columns=[better, worse])
    return (known[worse] / known[better] - 1).dropna()


def _averages(rmse: pd.DataFrame) -> list[Finding]:
    near = lambda mean: lambda gains: abs(gains.mean() - mean) <= SLACK
    return [
        _about("Cyclic RA is 11 % better than cyclic Poisson on average", _gain(rmse, CYCLIC_RA, BASE), near(0.11)),
        _about("Optimising makes nested RA 8.5 % better on average", _gain(rmse, NESTED_BEST, NESTED), near(0.085)),
        _about("Optimising makes min-sep RA 13.4 % better on average", _gain(rmse, MIN_SEP_BEST, MIN_SEP), near(0.134)),
    ]


def _ranges(frame: pd.DataFrame, rmse: pd.DataFrame, anchor: Problem) -> list[Finding]:
    gain = lambda better, worse: _gain(rmse, better, worse)
    between = lambda low, high: lambda gains: low - SLACK <= gains.min() and gains.max() <= high + SLACK
    return [
        _about("Cyclic RA is 5 to 14 % better than cyclic Poisson", gain(CYCLIC_RA, BASE), between(0.05, 0.14)),
        _best_everywhere(rmse),
        _about("Min-sep RA optimised is 15 to 85 % better than cyclic Poisson", gain(MIN_SEP_BEST, BASE), between(0.15, 0.85)),
        _trend("more for large T", gain(MIN_SEP_BEST, BASE), "iterations", anchor, sign=1),
        _trend("more for small K", gain(MIN_SEP_BEST, BASE), "participations", anchor, sign=-1),
        _about("Nested RA is within 3 % of min-sep RA on the standard strategy", gain(MIN_SEP, NESTED), between(-0.03, 0.03)),
        _about("Nested RA is up to 10 % behind min-sep RA when both are optimised", gain(MIN_SEP_BEST, NESTED_BEST), between(0.0, 0.10)),
        _bandwidths(by_label(frame, "bandwidth"), anchor),
    ]


def _about(claim: str, gains: pd.Series, holds: Callable[[pd.Series], bool]) -> Finding:
    if gains.empty:
        return Finding(claim=claim)
    measured = f"{gains.min():.1%} to {gains.max():.1%}, {gains.mean():.1%} on average of {len(gains)} problems"
    return Finding(claim=claim, measured=measured, holds=bool(holds(gains)))


def _best_everywhere(rmse: pd.DataFrame) -> Finding:
    claim = "Min-sep RA optimised is the best scheme everywhere"
    if MIN_SEP_BEST not in rmse.columns:
        return Finding(claim=claim)
    complete = rmse[rmse[MIN_SEP_BEST].notna()]
    best = complete.idxmin(axis=1)
    # Where the best is another, by how much; within the slack of two certified numbers nobody is better.
    behind = (complete[MIN_SEP_BEST] / complete.min(axis=1) - 1)[best != MIN_SEP_BEST]
    others = [f"{best[i]} by {behind[i]:.1%} at T={i[0]}, K={i[1]}, ε={i[2]:g}" for i in behind.index]
    return Finding(
        claim=claim, holds=bool((behind <= SLACK).all()),
        measured=f"best at {len(complete) - len(others)} of {len(complete)} problems" + "".join(f"; better: {other}" for other in others),
    )


def _trend(claim: str, gains: pd.Series, name: str, anchor: Problem, *, sign: int) -> Finding:
    """Whether the gains along one axis through the anchor rise (sign 1) or fall (−1) from one problem to the next."""
    others = [other for other in gains.index.names if other != name]
    for other in others:
        gains = gains[gains.index.get_level_values(other) == getattr(anchor, other)]
    line = gains.droplevel(others).sort_index()
    claim = f"Min-sep RA optimised gains {claim}"
    if len(line) < 2:
        return Finding(claim=claim)
    measured = ", ".join(f"{value:.0%} at {at}" for at, value in line.items())
    return Finding(claim=claim, measured=measured, holds=bool((sign * line.diff().dropna() >= -SLACK).all()))


def _bandwidths(bandwidth: pd.DataFrame, anchor: Problem) -> Finding:
    claim = "At the anchor the best b of nested and min-sep RA is four times that of the cyclic schemes"
    at = (anchor.iterations, anchor.participations, anchor.epsilon, anchor.delta)
    needed = [BASE, CYCLIC_RA, NESTED_BEST, MIN_SEP_BEST]
    if at not in bandwidth.index or not set(needed) <= set(bandwidth.columns) or bandwidth.loc[at, needed].isna().any():
        return Finding(claim=claim)
    found = bandwidth.loc[at, needed]
    ratios = [found[wide] / found[cyclic] for wide in needed[2:] for cyclic in needed[:2]]
    # The source tried powers of two only: four means between the geometric means with two and with eight.
    return Finding(
        claim=claim, measured=", ".join(f"{name} b={int(found[name])}" for name in needed),
        holds=all(8**0.5 <= ratio <= 32**0.5 for ratio in ratios),
    )
