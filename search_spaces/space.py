"""What a search ranges over, as frozen data: scheme × bandwidth × r of the harmonic family.

r is searched through s = log(1 + r·b), in which equal steps change the shape of the coefficients about equally at every bandwidth
(math/batch-schemes.md, "Strategy matrix and utility", allows −1/b < r < 1/2). Nothing here knows of the search engine.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping

from search_spaces import checks
from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.schemes import SCHEMES
from search_spaces.strategies import harmonic_range

LOWEST_S = -3.0
"""Smallest s = log(1 + r·b): the last coefficient is then still e^{−3}/b, so that C stays well inside the positive family."""

LARGEST_R = 0.5 - 1e-6
"""Largest r; 1/2 itself is outside the family."""

KEY_DECIMALS = 12
"""Decimals of r in a configuration key: a change of r beyond them is far below the noise of any estimate."""


def r_range(bandwidth: int) -> tuple[float, float]:
    """The closed interval of r that is searched at bandwidth b, inside the open (−1/b, 1/2)."""
    bandwidth = checks.integer(bandwidth=bandwidth)
    return math.expm1(LOWEST_S) / bandwidth, LARGEST_R


def r_from_position(bandwidth: int, position: float) -> float:
    """r at a position in [0, 1], which is linear in s = log(1 + r·b) from −3 to log(1 + b/2).

    At b = 1 every r gives the same strategy (the identity); 0 stands for all of them.

    Raises:
      InputError: bandwidth < 1, or position outside [0, 1].
    """
    low, high = r_range(bandwidth)
    position = checks.within(0, 1, position=position)
    if bandwidth == 1:
        return 0.0
    s = LOWEST_S + position * (math.log1p(bandwidth * high) - LOWEST_S)
    return min(max(math.expm1(s) / bandwidth, low), high)


def position_from_r(bandwidth: int, r: float) -> float:
    """The inverse of `r_from_position`; 1/2 at b = 1, where all positions mean the same strategy.

    Raises:
      InputError: bandwidth < 1, or r outside the searched range `r_range(bandwidth)`.
    """
    low, high = r_range(bandwidth)
    r = checks.within(low, high, r=r)
    if bandwidth == 1:
        return 0.5
    position = (math.log1p(bandwidth * r) - LOWEST_S) / (math.log1p(bandwidth * high) - LOWEST_S)
    return min(max(position, 0.0), 1.0)


def configuration_key(*, scheme: str, bandwidth: int, r: float) -> tuple[str, int, float]:
    """What identifies a configuration: equal keys have equal results, so that a duplicate is answered without new work.

    r is rounded to `KEY_DECIMALS`, and is 0 at b = 1, where it changes nothing.

    Raises:
      InputError: unknown scheme, bandwidth < 1, or r outside (−1/b, 1/2).
    """
    bandwidth = checks.integer(bandwidth=bandwidth)
    r = checks.between(*harmonic_range(bandwidth), r=r)
    rounded = 0.0 if bandwidth == 1 else round(r, KEY_DECIMALS) + 0.0
    return checks.one_of(SCHEMES, scheme=scheme), bandwidth, rounded


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemeSpace:
    """One scheme and the bandwidths to search with it.

    Attributes:
      scheme: name of the scheme.
      bandwidths: ascending, at least one.
    """

    scheme: str
    bandwidths: tuple[int, ...]

    @property
    def contiguous(self) -> bool:
        """Whether `bandwidths` is every integer from the first to the last, and not a list with holes."""
        return len(self.bandwidths) == self.bandwidths[-1] - self.bandwidths[0] + 1

    def describe(self) -> str:
        """The bandwidths in words: `1..256` where contiguous, else `1, 2, 4`."""
        if self.contiguous and len(self.bandwidths) > 2:
            return f"{self.bandwidths[0]}..{self.bandwidths[-1]}"
        return ", ".join(map(str, self.bandwidths))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """All configurations (scheme, bandwidth, r) a search may propose for a problem.

    Attributes:
      problem: the problem.
      schemes: one `SchemeSpace` per scheme, in the order of `SCHEMES`; never empty.

    Build it with `for_problem`, which checks everything.
    """

    problem: Problem
    schemes: tuple[SchemeSpace, ...]

    @classmethod
    def for_problem(
        cls, problem: Problem, *, schemes: Iterable[str] | None = None, bandwidths: Iterable[int] | None = None
    ) -> "SearchSpace":
        """Every scheme with every bandwidth it admits at this problem, or the chosen ones only.

        Args:
          problem: the problem.
          schemes: names to search, in any order; None means all that can serve the problem.
          bandwidths: bandwidths to search; each scheme takes those it admits. None means all.

        Raises:
          InputError: an unknown scheme, a named scheme left without a bandwidth, a bandwidth no scheme admits, or nothing left to search.
        """
        named = None if schemes is None else _names(schemes)
        wanted = None if bandwidths is None else _bandwidths(bandwidths, problem)
        spaces = []
        for name, scheme in SCHEMES.items():
            if named is not None and name not in named:
                continue
            admitted = scheme.bandwidths(problem)
            kept = admitted if wanted is None else tuple(sorted(wanted.intersection(admitted)))
            if kept:
                spaces.append(SchemeSpace(scheme=name, bandwidths=kept))
            elif named is not None:
                raise InputError(_left_empty(name, admitted, problem, wanted))
        _expect_all_used(wanted, spaces, problem)
        return cls(problem=problem, schemes=tuple(spaces))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the schemes, in order."""
        return tuple(space.scheme for space in self.schemes)

    def scheme_space(self, scheme: str) -> SchemeSpace:
        """The part of the space with this scheme.

        Raises:
          InputError: the scheme is not searched.
        """
        checks.one_of(self.names, scheme=scheme)
        return self.schemes[self.names.index(scheme)]

    def check(self, *, scheme: str, bandwidth: int, r: float) -> None:
        """Nothing if the configuration lies in this space.

        Raises:
          InputError: otherwise, naming what is outside.
        """
        space = self.scheme_space(scheme)
        if checks.integer(bandwidth=bandwidth) not in space.bandwidths:
            raise InputError(f"Expected bandwidth={bandwidth} to be searched with {scheme}: one of {space.describe()}.")
        position_from_r(bandwidth, r)

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values: the problem, what the r coordinate means, bandwidths by scheme (a contiguous range as [first, last])."""
        return {
            "problem": dataclasses.asdict(self.problem),
            "r": {"coordinate": "log(1 + r*bandwidth)", "lowest": LOWEST_S, "largest_r": LARGEST_R},
            "schemes": {
                space.scheme: (
                    {"range": [space.bandwidths[0], space.bandwidths[-1]]} if space.contiguous else {"list": list(space.bandwidths)}
                )
                for space in self.schemes
            },
        }

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the canonical JSON of `to_dict`: equal if and only if problem and space are equal."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def differences(self, other: "SearchSpace | Mapping[str, object]") -> tuple[str, ...]:
        """What differs from another space (or its `to_dict`), one short phrase each, this space's value first; empty if nothing does."""
        mine = _flat(self.to_dict())
        theirs = _flat(other.to_dict() if isinstance(other, SearchSpace) else other)
        return tuple(
            f"{name}: {_value(mine, name)} here, {_value(theirs, name)} there"
            for name in dict.fromkeys([*mine, *theirs])
            if mine.get(name) != theirs.get(name)
        )


def _names(schemes: Iterable[str]) -> frozenset[str]:
    if isinstance(schemes, str) or not isinstance(schemes, Iterable):
        raise InputError(f"Expected schemes={schemes!r} to be a sequence of scheme names.")
    names = frozenset(checks.one_of(SCHEMES, scheme=name) for name in schemes)
    if not names:
        raise InputError(f"Expected schemes={schemes!r} to name at least one of {', '.join(SCHEMES)}.")
    return names


def _bandwidths(bandwidths: Iterable[int], problem: Problem) -> frozenset[int]:
    if isinstance(bandwidths, str) or not isinstance(bandwidths, Iterable):
        raise InputError(f"Expected bandwidths={bandwidths!r} to be a sequence of integers.")
    wanted = frozenset(problem.check_bandwidth(bandwidth) for bandwidth in bandwidths)
    if not wanted:
        raise InputError(f"Expected bandwidths={bandwidths!r} to hold at least one integer in [1, {problem.largest_bandwidth}].")
    return wanted


def _left_empty(name: str, admitted: tuple[int, ...], problem: Problem, wanted: frozenset[int] | None) -> str:
    if not admitted:
        return (
            f"Expected scheme={name!r} to serve iterations={problem.iterations} and participations={problem.participations}, "
            "at which it admits no bandwidth."
        )
    allowed = SchemeSpace(scheme=name, bandwidths=admitted).describe()
    return f"Expected bandwidths={sorted(wanted or ())} to hold at least one that scheme={name!r} admits: {allowed}."


def _expect_all_used(wanted: frozenset[int] | None, spaces: list[SchemeSpace], problem: Problem) -> None:
    unused = sorted((wanted or frozenset()).difference(*(space.bandwidths for space in spaces)))
    if unused:
        raise InputError(
            f"Expected bandwidth={unused[0]} to be admitted by one of the schemes {', '.join(s.scheme for s in spaces)} "
            f"at iterations={problem.iterations} and participations={problem.participations}."
        )


def _flat(values: Mapping[str, object]) -> dict[str, object]:
    """{"problem": {"delta": 1}, "schemes": {"poisson": …}} → {"delta": 1, "poisson bandwidths": …, …}."""
    labels = {"problem": "{}", "r": "r {}", "schemes": "{} bandwidths"}
    return {
        labels.get(part, part + " {}").format(name).strip(): value
        for part, entries in values.items()
        for name, value in (entries.items() if isinstance(entries, Mapping) else [("", entries)])
    }


def _value(values: Mapping[str, object], name: str) -> str:
    if name not in values:
        return "absent"
    value = values[name]
    if isinstance(value, Mapping) and "range" in value:
        return "..".join(map(str, dict.fromkeys(value["range"])))
    return str(value["list"]) if isinstance(value, Mapping) and "list" in value else repr(value)
