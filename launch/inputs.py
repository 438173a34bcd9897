"""From options to the values of search_spaces: problems, schemes, strategies, coefficient files and comma-separated lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces import checks, schemes
from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.schemes import BatchScheme

if TYPE_CHECKING:
    import typer

    from accountants.base import Accountant
    from engine.imports import ImportedRun
    from search_spaces.dense_strategies import DenseStrategy, OverlappingMechanism, Strategy
    from search_spaces.mechanism import Mechanism
    from search_spaces.strategies import ToeplitzStrategy


def names(values: Iterable[str] | None) -> tuple[str, ...] | None:
    """The words of a repeatable, comma-separated option; None where it was not given.

    Raises:
      InputError: the option was given but holds no word.
    """
    if values is None:
        return None
    words = tuple(word.strip() for value in values for word in value.split(",") if word.strip())
    if not words:
        raise InputError(f"Expected {list(values)!r} to be a comma-separated list with at least one entry.")
    return words


def refuse_secret(context: typer.Context, *, storage: str | None) -> None:
    """Nothing if the command line itself holds no password: every user of the machine sees it there, and Ray keeps it with the job.

    Raises:
      InputError: it does, or the storage is none.
    """
    from engine.storage import has_secret, location
    from launch.options import STORAGE_VARIABLE

    if storage is not None and has_secret(storage) and context.get_parameter_source("storage").name == "COMMANDLINE":
        raise InputError(
            f"Expected --storage {location(storage)} to be given without its password, which others could see there; "
            f"set PGPASSWORD, or {STORAGE_VARIABLE} to the whole URL."
        )


def integers(values: Iterable[str] | None, *, name: str) -> tuple[int, ...] | None:
    """As `names`, converted to integers; ranges are checked where the numbers are used.

    Raises:
      InputError: an entry is not an integer.
    """
    words = names(values)
    if words is None:
        return None
    for word in words:
        if not word.removeprefix("-").isdecimal():
            raise InputError(f"Expected {name}={word!r} to be an integer.")
    return tuple(int(word) for word in words)


def read_coefficients(path: Path) -> tuple[float, ...]:
    """The numbers of a text file, one a line; empty lines are skipped.

    Raises:
      InputError: the file cannot be read, holds no number, or a line is not a finite number >= 0.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Expected coefficients={str(path)!r} to be a readable text file: {_reason(error)}.") from error
    numbers = []
    for position, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            numbers.append(checks.non_negative(line=float(line)))
        except ValueError:
            raise InputError(f"Expected {path}, line {position}, {line.strip()!r} to be a finite number >= 0.") from None
    if not numbers:
        raise InputError(f"Expected coefficients={str(path)!r} to hold at least one number, one a line.")
    return tuple(numbers)


def read_matrix(path: Path) -> DenseStrategy:
    """The matrix C in a .npy file; nothing in the file is ever unpickled.

    Raises:
      InputError: the file cannot be read, holds something else than real numbers, is too large, or `DenseStrategy` refuses its matrix.
    """
    import numpy as np

    from accountants.balls_in_bins.gram import require_memory
    from search_spaces.dense_strategies import DenseStrategy

    try:
        matrix = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        reason = _reason(error) if isinstance(error, OSError) else str(error)
        raise InputError(f"Expected matrix={str(path)!r} to be a readable .npy file of numbers: {reason}.") from error
    if matrix.dtype.kind not in "fiu":
        raise InputError(f"Expected matrix={str(path)!r} to hold real numbers, not {matrix.dtype}.")
    require_memory(8.0 * matrix.size, f"matrix={str(path)!r}")
    return DenseStrategy(matrix=matrix)


def make_strategy(*, iterations: int, bandwidth: int | None, r: float | None, coefficients: Path | None) -> ToeplitzStrategy:
    """The strategy that --bandwidth, --r and --coefficients describe together; with none of them, the identity (DP-SGD).

    Raises:
      InputError: both or neither of --r and --coefficients where one is needed, or a value out of range.
    """
    from search_spaces import strategies

    if coefficients is not None:
        if r is not None:
            raise InputError(f"Expected r={r!r} not to be given together with coefficients={str(coefficients)!r}: the file replaces it.")
        column = read_coefficients(coefficients)
        if bandwidth is not None and bandwidth != len(column):
            raise InputError(f"Expected bandwidth={bandwidth} to be the number of coefficients in {str(coefficients)!r}, {len(column)}.")
        return strategies.ToeplitzStrategy(iterations=iterations, coefficients=column)
    if r is not None:
        if bandwidth is None:
            raise InputError(f"Expected bandwidth to be given with r={r!r}.")
        return strategies.harmonic(iterations=iterations, bandwidth=bandwidth, r=r)
    if bandwidth not in (None, 1):
        raise InputError(f"Expected r or coefficients to be given with bandwidth={bandwidth}.")
    return strategies.identity(iterations=iterations)


def make_overlapping(
    path: Path, *, scheme: str, participations: int, unused: Mapping[str, object],
) -> tuple[BatchScheme, DenseStrategy]:
    """Balls-in-bins and the strategy in a .npy file, whose size is T.

    Args:
      path: the file.
      scheme: name of the scheme.
      participations: K.
      unused: the options that the file replaces, by name.

    Raises:
      InputError: one of those is given, another scheme, K does not divide T, or the file is refused.
    """
    if given := [f"--{name}" for name, value in unused.items() if value is not None]:
        raise InputError(f"Expected {', '.join(given)} not to be given with matrix={str(path)!r}: the file replaces it.")
    allowed = schemes.BallsInBins.name
    if scheme != allowed:
        raise InputError(f"Expected scheme={scheme!r} to be {allowed!r} with matrix={str(path)!r}: no other scheme serves any matrix.")
    strategy = read_matrix(path)
    return schemes.BallsInBins(iterations=strategy.iterations, participations=participations), strategy


def make_scheme(strategy: ToeplitzStrategy, *, name: str, participations: int) -> BatchScheme:
    """The scheme called `name` whose separation is the strategy's bandwidth.

    Raises:
      InputError: unknown name, or parameters the scheme does not allow.
    """
    return schemes.make_scheme(name, iterations=strategy.iterations, participations=participations, bandwidth=strategy.bandwidth)


def make_choice(
    *, scheme: str, iterations: int | None, participations: int, bandwidth: int | None, r: float | None, coefficients: Path | None,
    matrix: Path | None,
) -> tuple[BatchScheme, Strategy]:
    """The scheme and the strategy that the options describe.

    Raises:
      InputError: a value out of range, or two that exclude each other.
    """
    if matrix is not None:
        replaced = {"iterations": iterations, "bandwidth": bandwidth, "r": r, "coefficients": coefficients}
        return make_overlapping(matrix, scheme=scheme, participations=participations, unused=replaced)
    strategy = make_strategy(iterations=iterations, bandwidth=bandwidth, r=r, coefficients=coefficients)
    return make_scheme(strategy, name=scheme, participations=participations), strategy


def make_mechanism(
    *, scheme: str | None, iterations: int | None, participations: int | None, sigma: float | None, bandwidth: int | None, r: float | None,
    coefficients: Path | None, matrix: Path | None,
) -> Mechanism | OverlappingMechanism:
    """The mechanism that the options describe.

    Raises:
      InputError: one of the first four is missing (the iterations only without a matrix), or a value out of range.
    """
    from search_spaces.dense_strategies import make_mechanism as make

    needed = {"scheme": scheme, "iterations": matrix or iterations, "participations": participations, "sigma": sigma}
    if missing := [f"--{name}" for name, value in needed.items() if value is None]:
        raise InputError(f"Expected {', '.join(missing)} to be given, or --from in place of all options of the mechanism.")
    batch_scheme, strategy = make_choice(
        scheme=scheme, iterations=iterations, participations=participations, bandwidth=bandwidth, r=r, coefficients=coefficients,
        matrix=matrix,
    )
    return make(scheme=batch_scheme, strategy=strategy, sigma=sigma)


def read_run(path: Path, given: Mapping[str, object]) -> ImportedRun:
    """The run that a file describes.

    Raises:
      InputError: an option of the mechanism is given besides, or the file is refused (`engine.imports.read_run`).
    """
    from engine.imports import read_run as read

    if doubled := [f"--{name}" for name, value in given.items() if value is not None]:
        raise InputError(f"Expected {', '.join(doubled)} not to be given with --from {str(path)!r}, which describes the mechanism.")
    return read(path)


def make_accountant(name: str, *, samples: int | None, seed: int) -> Accountant:
    """The accountant called `name`; an accountant that samples gets the number of samples and the seed.

    Raises:
      InputError: unknown name, or a number out of range.
    """
    from accountants.monte_carlo.accountant import MonteCarloAccountant
    from accountants.registry import ACCOUNTANTS

    accountant = ACCOUNTANTS[checks.one_of(ACCOUNTANTS, accountant=name)]
    checks.integer(at_least=0, seed=seed)
    given = {} if samples is None else {"samples": checks.integer(samples=samples)}
    return MonteCarloAccountant(**given, seed=seed) if isinstance(accountant, MonteCarloAccountant) else accountant


def check_certified(certified: bool, *, by_accountant: Mapping[str, object], by_certificate: Mapping[str, object]) -> None:
    """Nothing if the options that were given go together: those of a certificate with --certified, those of an accountant without it.

    Raises:
      InputError: otherwise.
    """
    unused, how = (by_accountant, "together with --certified") if certified else (by_certificate, "without --certified")
    if given := [f"--{name.replace('_', '-')}" for name, value in unused.items() if value is not None]:
        raise InputError(f"Expected {', '.join(given)} not to be given {how}.")


def new_file(path: Path) -> Path:
    """A path at which a file can be made: nothing is there yet, and its folder exists.

    Raises:
      InputError: otherwise.
    """
    if path.exists():
        raise InputError(f"Expected out={str(path)!r} not to exist.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"Expected out={str(path)!r} to be in a folder that exists.")
    return path


def make_problem(
    *, iterations: int | None, participations: int | None, dataset_size: int | None, batch_size: int | None, epochs: int | None,
    epsilon: float | None, delta: float | None,
) -> Problem:
    """The problem given by ε, δ and either T and K or dataset size, batch size and epochs.

    Raises:
      InputError: not exactly one of the two ways is complete, or a value out of range.
    """
    target = {"epsilon": epsilon, "delta": delta}
    schedule = {"iterations": iterations, "participations": participations}
    training = {"dataset_size": dataset_size, "batch_size": batch_size, "epochs": epochs}
    given = [name for name, value in (schedule | training | target).items() if value is not None]
    if given == [*schedule, *target]:
        return Problem(**schedule, **target)
    if given == [*training, *target]:
        return Problem.from_training(**training, **target)
    raise InputError(
        "Expected epsilon, delta and either iterations and participations, or dataset_size, batch_size and epochs to be given; "
        f"got {', '.join(given) or 'none of them'}."
    )


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8"
