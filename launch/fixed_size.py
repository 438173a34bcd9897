"""The scheme of fixed-size batches on the command line: which options it takes, which it refuses, and what it alone needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.errors import InputError
from search_spaces.problem import FIXED_SIZE, FixedSizeProblem

if TYPE_CHECKING:
    import typer

    from accountants.evidence import Evidence
    from accountants.fixed_size import FixedSizeMechanism
    from engine.fixed_size import FixedSizeStrategy

NOT_COMPARABLE = (
    "Rows of adjacency replace (one example changes) and of add_remove (one example comes or goes) cannot be compared:\n"
    "a guarantee of one kind does not give the same epsilon and delta of the other."
)


def expect_given(scheme: str, needed: Mapping[str, object]) -> None:
    """Nothing if every option was given.

    Raises:
      InputError: one is missing.
    """
    if missing := [f"--{name}" for name, value in needed.items() if value is None]:
        raise InputError(f"Expected {', '.join(missing)} to be given with scheme {scheme}.")


def refuse(scheme: str, unused: Mapping[str, object]) -> None:
    """Nothing if no option was given that the scheme does not have.

    Raises:
      InputError: one was.
    """
    if given := [f"--{name}" for name, value in unused.items() if value is not None]:
        raise InputError(f"Expected {', '.join(given)} not to be given with scheme {scheme}, which has no use for it.")


def on_command_line(context: typer.Context, *names: str) -> dict[str, object]:
    """For `refuse`: these parameters as options, with a value where the command line itself gave one and None where the default holds."""
    given = {name: context.get_parameter_source(name).name == "COMMANDLINE" for name in names}
    return {name.replace("_", "-"): True if given[name] else None for name in names}


def statements(
    *, dataset_size: int | None, batch_size: int | None, iterations: int | None, sigma: float | None, epsilon: float | None,
    delta: float | None, accountants: Sequence[str] | None,
) -> tuple[Evidence, ...]:
    """What `account` says.

    Raises:
      InputError: an option is missing or out of range.
    """
    from accountants import fixed_size

    expect_given(FIXED_SIZE, {"dataset-size": dataset_size, "batch-size": batch_size, "iterations": iterations, "sigma": sigma})
    mechanism = fixed_size.FixedSizeMechanism(dataset_size=dataset_size, batch_size=batch_size, iterations=iterations, sigma=sigma)
    return fixed_size.statements(mechanism=mechanism, epsilon=epsilon, delta=delta, accountants=accountants or None)


def calibrated(
    *, dataset_size: int | None, batch_size: int | None, iterations: int | None, sigma: float | None, epsilon: float, delta: float,
    accountant: str | None,
) -> tuple[FixedSizeMechanism, tuple[Evidence, ...]]:
    """What `calibrate` finds: σ for the given T, or T for the given σ; the evidence is that of all accountants asked.

    Raises:
      InputError: an option is missing, out of range, or one too many.
    """
    from accountants import fixed_size

    expect_given(FIXED_SIZE, {"dataset-size": dataset_size, "batch-size": batch_size})
    if (iterations is None) == (sigma is None):
        raise InputError(
            f"Expected exactly one of --iterations and --sigma to be given with scheme {FIXED_SIZE}: the other is what calibrate finds."
        )
    target = {"dataset_size": dataset_size, "batch_size": batch_size, "epsilon": epsilon, "delta": delta}
    asked = None if accountant is None else [accountant]
    if sigma is not None:
        mechanism, _ = fixed_size.longest(**target, sigma=sigma, accountants=asked)
    else:
        mechanism, _ = fixed_size.tightest(FixedSizeProblem(**target, iterations=iterations), accountants=asked)
    return mechanism, fixed_size.statements(mechanism=mechanism, delta=delta, accountants=asked)


def is_chosen(schemes: Sequence[str] | None) -> bool:
    """Whether a search is about fixed-size batches.

    Raises:
      InputError: it names other schemes as well.
    """
    if schemes is None or FIXED_SIZE not in schemes:
        return False
    if others := [name for name in schemes if name != FIXED_SIZE]:
        raise InputError(
            f"Expected --schemes {FIXED_SIZE} alone, not with {', '.join(others)}: its adjacency is replace and theirs is add/remove, "
            "so the search could not say which is better."
        )
    return True


def tuned(
    *, dataset_size: int | None, batch_size: int | None, iterations: int | None, epochs: int | None, epsilon: float | None,
    delta: float | None, out: Path | None,
) -> FixedSizeStrategy:
    """What `tune` makes.

    Raises:
      InputError: an option is missing, out of range, or one too many.
    """
    from engine.fixed_size import tune_fixed_size

    expect_given(FIXED_SIZE, {"dataset-size": dataset_size, "batch-size": batch_size, "epsilon": epsilon, "delta": delta})
    if (iterations is None) == (epochs is None):
        raise InputError(f"Expected exactly one of --iterations and --epochs to be given with scheme {FIXED_SIZE}.")
    target = {"dataset_size": dataset_size, "batch_size": batch_size, "epsilon": epsilon, "delta": delta}
    if iterations is None:
        problem = FixedSizeProblem.from_training(**target, epochs=epochs)
    else:
        problem = FixedSizeProblem(**target, iterations=iterations)
    return tune_fixed_size(problem, out=out)
