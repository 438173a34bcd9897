"""A mechanism small enough that its δ is known exactly, and plans about it."""

import pytest

from accountants.certificates.records import Candidate, DirectionTest, Plan
from accountants.certificates.sampling import block_size
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy

EPSILON = 1.0


def tiny_mechanism(sigma: float, scheme: str = "min_sep_ra") -> Mechanism:
    """One participation in two iterations."""
    return Mechanism(
        scheme=make_scheme(scheme, iterations=2, participations=1, bandwidth=2),
        strategy=ToeplitzStrategy(iterations=2, coefficients=(0.9, 0.5)), sigma=sigma,
    )


def plain_test(mechanism: Mechanism, direction: str, *, threshold: float, blocks: int = 1) -> DirectionTest:
    """A test by plain samples."""
    return DirectionTest(
        direction=direction, sampler="plain", threshold=threshold, blocks=blocks, samples=blocks * block_size(mechanism),
    )


def bound_test(direction: str, *, threshold: float) -> DirectionTest:
    """A deterministic bound."""
    return DirectionTest(direction=direction, sampler="bound", threshold=threshold, accountant="gaussian")


def candidate(sigma: float, *, threshold: float, blocks: int = 1) -> Candidate:
    """Both directions by plain samples."""
    mechanism = tiny_mechanism(sigma)
    return Candidate(mechanism=mechanism, tests=tuple(
        plain_test(mechanism, direction, threshold=threshold, blocks=blocks) for direction in ("remove", "add")
    ))


def fallback(delta: float) -> Candidate:
    """A candidate whose δ is stated by the Gaussian accountant."""
    return Candidate(mechanism=tiny_mechanism(9.0), tests=(bound_test("remove", threshold=delta), bound_test("add", threshold=delta)))


@pytest.fixture
def plan() -> Plan:
    """Three candidates with thresholds far below δ, and a fallback."""
    return Plan(
        method="tail_sum", epsilon=EPSILON, delta=0.1, seed=5, fallback=fallback(0.01),
        candidates=tuple(candidate(sigma, threshold=0.05) for sigma in (0.8, 1.0, 1.2)),
    )
