"""Batch selection schemes: one class each, found by name in `SCHEMES`.

A new scheme subclasses `BatchScheme`, joins `SCHEMES` here and joins tests/contracts/scheme_contract.py by that.
"""

from search_spaces import checks
from search_spaces.schemes.base import BatchScheme
from search_spaces.schemes.fixed_participations import (
    BallsInBins,
    CyclicRandomAllocation,
    Deterministic,
    MinSepRandomAllocation,
    NestedRandomAllocation,
    RandomAllocation,
)
from search_spaces.schemes.poisson import CyclicPoisson, MinSepPoisson, Poisson

SCHEMES: dict[str, type[BatchScheme]] = {
    scheme.name: scheme
    for scheme in (
        Deterministic,
        Poisson,
        RandomAllocation,
        CyclicPoisson,
        CyclicRandomAllocation,
        BallsInBins,
        MinSepPoisson,
        NestedRandomAllocation,
        MinSepRandomAllocation,
    )
}


def make_scheme(name: str, *, iterations: int, participations: int, bandwidth: int) -> BatchScheme:
    """The scheme called `name`.

    Raises:
      InputError: unknown name, or parameters the scheme does not allow.
    """
    checks.one_of(SCHEMES, scheme=name)
    return SCHEMES[name](iterations=iterations, participations=participations, bandwidth=bandwidth)


__all__ = [
    "SCHEMES", "BallsInBins", "BatchScheme", "CyclicPoisson", "CyclicRandomAllocation", "Deterministic", "MinSepPoisson",
    "MinSepRandomAllocation", "NestedRandomAllocation", "Poisson", "RandomAllocation", "make_scheme",
]
