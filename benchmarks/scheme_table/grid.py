"""Which problems the table has, and how each scheme's bandwidth and r are chosen in it."""

import dataclasses

from search_spaces.problem import Problem

STANDARD, OPTIMISED = "standard", "optimised"

TAKEN_FROM = {
    "balls_in_bins": "deterministic", "min_sep_poisson": "cyclic_poisson", "nested_ra": "cyclic_ra", "min_sep_ra": "cyclic_ra",
}
"""Whose (b, r) a scheme has in its standard variant; the other schemes have one variant, at their own optimum."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """The problems of one table.

    Attributes:
      problems: the first is the anchor.
      bandwidths: that are searched; None means all that a scheme admits.
      curve_epsilons: ε of the δ(ε) curves.
      deltas: δ of the plot of samples.
      samples: per estimate of the search and of the curves.
    """

    problems: tuple[Problem, ...]
    bandwidths: tuple[int, ...] | None = None
    curve_epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    samples: int

    @property
    def anchor(self) -> Problem:
        """The problem the others vary one at a time."""
        return self.problems[0]


def one_at_a_time(anchor: Problem, **values: tuple[float, ...]) -> tuple[Problem, ...]:
    """The anchor, then the problems that differ from it in one of the named fields."""
    return (anchor, *(dataclasses.replace(anchor, **{name: value}) for name, given in values.items() for value in given))


_ANCHOR = Problem(iterations=1024, participations=4, epsilon=4.0, delta=1e-5)
_TINY = Problem(iterations=16, participations=2, epsilon=2.0, delta=0.02)
_CURVE = tuple(0.5 * step for step in range(1, 13))
_DELTAS = tuple(10.0**-digits for digits in range(3, 11))

GRIDS = {
    "paper": Grid(
        problems=one_at_a_time(_ANCHOR, iterations=(256, 512, 2048, 4096), participations=(1, 2, 8, 16), epsilon=(1.0, 2.0, 8.0)),
        curve_epsilons=_CURVE, deltas=_DELTAS, samples=4096,
    ),
    "anchor": Grid(problems=(_ANCHOR,), curve_epsilons=_CURVE, deltas=_DELTAS, samples=4096),
    "small": Grid(
        problems=one_at_a_time(_TINY, iterations=(32,)), bandwidths=(1, 4), curve_epsilons=(1.0, 2.0),
        deltas=(1e-1, 1e-2), samples=512,
    ),
}
