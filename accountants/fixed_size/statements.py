"""What several accountants say of one mechanism with fixed-size batches, and the σ and T that the best of them allows."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping

from accountants.evidence import Evidence
from accountants.fixed_size.accounting import ACCOUNTANTS, account, calibrate, largest_iterations
from accountants.fixed_size.mechanism import FixedSizeMechanism
from accountants.fixed_size.renyi import GEOMETRIES
from search_spaces import checks
from search_spaces.errors import CalibrationError, InputError, NumericalError
from search_spaces.problem import FixedSizeProblem

BOUNDS = ("renyi", "pld")
"""The accountants that are asked unless others are named; `wang` and `birrell` give estimates, for comparison only."""


def statements(
    *, mechanism: FixedSizeMechanism, delta: float | None = None, epsilon: float | None = None, accountants: Iterable[str] | None = None,
) -> tuple[Evidence, ...]:
    """ε at δ, or δ at ε, by each accountant; `renyi` makes two statements, one per geometry (`details["geometry"]`).

    Args:
      mechanism: what is accounted.
      delta, epsilon: exactly one of them.
      accountants: names of `ACCOUNTANTS`; None means `BOUNDS`. Of several statements, one that cannot be made is left out with a warning.

    Raises:
      InputError: both or neither of δ and ε, one out of range, or an unknown name.
      NumericalError: no statement can be trusted.
    """
    names = [checks.one_of(ACCOUNTANTS, accountant=name) for name in (BOUNDS if accountants is None else accountants)]
    made, failures = [], []
    for name, geometry in [(name, geometry) for name in names for geometry in _geometries(name)]:
        try:
            made.append(account(mechanism=mechanism, delta=delta, epsilon=epsilon, accountant=name, geometry=geometry))
        except NumericalError as error:
            failures.append((name, error))
    if not made:
        raise failures[0][1] if failures else InputError(f"Expected accountants={accountants!r} to name at least one.")
    for name, error in failures:
        warnings.warn(f"The accountant {name} has no answer: {error}", stacklevel=2)
    return tuple(made)


def tightest(problem: FixedSizeProblem, *, accountants: Iterable[str] | None = None) -> tuple[FixedSizeMechanism, Evidence]:
    """The smallest σ that an accountant allows, and its evidence; None means `BOUNDS`, and so a guarantee.

    `renyi` is asked in the geometry `ball`, as both are bounds and it is never the larger one.

    Raises:
      InputError: an unknown name.
      CalibrationError: no accountant reaches the target.
    """
    solutions = _solutions(calibrate, accountants, dataclasses.asdict(problem))
    return min(solutions, key=lambda one: one[0].sigma)


def longest(
    *, dataset_size: int, batch_size: int, sigma: float, epsilon: float, delta: float, accountants: Iterable[str] | None = None,
) -> tuple[FixedSizeMechanism, Evidence]:
    """The largest T that an accountant allows at this σ, and its evidence; otherwise as `tightest`."""
    target = {"dataset_size": dataset_size, "batch_size": batch_size, "sigma": sigma, "epsilon": epsilon, "delta": delta}
    return max(_solutions(largest_iterations, accountants, target), key=lambda one: one[0].iterations)


def _solutions(
    solve: Callable[..., tuple[FixedSizeMechanism, Evidence]], accountants: Iterable[str] | None, target: Mapping[str, object],
) -> list[tuple[FixedSizeMechanism, Evidence]]:
    """The answers of the accountants that have one, at least one."""
    found, failures = [], []
    for name in BOUNDS if accountants is None else accountants:
        try:
            found.append(solve(**target, accountant=name, geometry="ball"))
        except (CalibrationError, NumericalError) as error:
            failures.append(error)
    if not found:
        raise CalibrationError(str(failures[0]))
    return found


def _geometries(accountant: str) -> tuple[str, ...]:
    return GEOMETRIES if accountant == "renyi" else GEOMETRIES[:1]
