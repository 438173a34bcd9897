"""`bandsmith verify`: an independent check of a strategy file, with new random numbers."""

from pathlib import Path
from typing import Annotated

import typer

from launch import options


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A strategy file written by tune or certify.")],
    *,
    seed: Annotated[
        int | None, options.integer_option("Seed of the new random numbers.", show_default="drawn from the operating system")
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Check a strategy file from scratch with new random numbers; exit 1 and name what failed if it does not hold."""
    from engine.verification import verify as verify_file
    from launch import output

    with output.progress() as progress:
        verification = verify_file(file, seed=seed, progress=progress)
    if json:
        output.print_json(verification.to_dict())
    else:
        output.print_verification(verification)
    if not verification.holds:
        raise typer.Exit(1)
