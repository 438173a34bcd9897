"""The options that commands share: one name, one type and one help text each."""

from pathlib import Path
from typing import Annotated

import typer

from search_spaces.problem import FIXED_SIZE
from search_spaces.schemes import SCHEMES


def integer(text: str | int) -> int:
    """The integer that an option's text says; its range is checked where it is used."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"expected {text!r} to be an integer.") from None


def number(text: str | float) -> float:
    """The number that an option's text says; its range is checked where it is used."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"expected {text!r} to be a number.") from None


def integer_option(help_: str, **settings: object) -> object:
    """An option that takes one integer."""
    return typer.Option(help=help_, parser=integer, metavar="INTEGER", **settings)


def number_option(help_: str, **settings: object) -> object:
    """An option that takes one number."""
    return typer.Option(help=help_, parser=number, metavar="NUMBER", **settings)


_SCHEME_NAMES = ", ".join(SCHEMES)

Iterations = Annotated[int, integer_option("T, the number of optimiser steps.")]
Participations = Annotated[int, integer_option("K, how often one example takes part (on average for Poisson-type schemes).")]
Epsilon = Annotated[float, number_option("Target ε > 0.")]
Delta = Annotated[float, number_option("Target δ in (0, 1).")]

Scheme = Annotated[str, typer.Option(metavar="NAME", help=f"Batch selection scheme: {_SCHEME_NAMES}.")]
AnyScheme = Annotated[
    str, typer.Option(metavar="NAME", help=f"Batch selection scheme: {_SCHEME_NAMES}, or {FIXED_SIZE} (replace adjacency).")
]
DatasetSize = Annotated[int | None, integer_option(f"n, examples in the dataset, which {FIXED_SIZE} needs.")]
BatchSize = Annotated[int | None, integer_option(f"Examples in every batch, which {FIXED_SIZE} needs.")]
Bandwidth = Annotated[
    int | None, integer_option("b, the bandwidth of the strategy.", show_default="number of coefficients, else 1")
]
R = Annotated[float | None, number_option("Parameter r of the harmonic family, strictly between -1/b and 1/2.")]
Coefficients = Annotated[
    Path | None, typer.Option(metavar="FILE", help="First column of C, one number a line, used as given (not rescaled); replaces --r.")
]
Matrix = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="C as a NumPy .npy file, T×T, lower triangular, entries >= 0; with balls_in_bins only, in place of "
        "--iterations, --bandwidth, --r and --coefficients.",
    ),
]
Sigma = Annotated[float, number_option("Noise multiplier σ > 0 (clip norm 1).")]

Schemes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", help=f"Schemes to consider, comma-separated: {_SCHEME_NAMES}; {FIXED_SIZE} has replace adjacency.",
        show_default="all add/remove schemes",
    )
]
Bandwidths = Annotated[
    list[str] | None,
    typer.Option(metavar="INTEGERS", help="Bandwidths to consider, comma-separated.", show_default="all that the scheme admits"),
]
Samples = Annotated[int | None, integer_option("Monte Carlo samples per estimate.", show_default="the accountant's")]
Seed = Annotated[int, integer_option("Seed of all random numbers; the same seed gives the same result.")]
Workers = Annotated[int | None, integer_option("Parallel workers; the result does not depend on them.", show_default="one per CPU core")]
Certificate = Annotated[str, typer.Option(metavar="NAME", help="How σ is certified: tilted, tail-sum or published.")]
CertificateOfCalibrate = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --certified, how: tilted, tail-sum or published.", show_default="tilted")
]
MaxSamples = Annotated[int | None, integer_option("Most samples of one certifying test.", show_default="that certificate's")]
STORAGE_VARIABLE = "BANDSMITH_STORAGE"
"""Environment variable that can hold what --storage takes, with a password."""

Storage = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar=STORAGE_VARIABLE, show_envvar=False, show_default="SQLite in the run's folder",
        help="Where the study is kept: postgresql://USER@HOST/NAME, journal:PATH or sqlite:///PATH. A password comes from PGPASSWORD, or with "
        f"the whole URL from {STORAGE_VARIABLE}.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
