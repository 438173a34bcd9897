"""`bandsmith export`: a folder from which a trainer runs the mechanism of a strategy file."""

from pathlib import Path
from typing import Annotated

import typer

from launch import options


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A strategy file written by tune or certify.")],
    *,
    to: Annotated[str, typer.Option(metavar="NAME", help="Trainer: arrays, jax-privacy or opacus.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write; must not exist.")],
    clip_norm: Annotated[float, options.number_option("L2 norm to which every example's gradient is clipped.")] = 1.0,
    normalize_by: Annotated[
        float,
        options.number_option("Public constant that the noisy sum of clipped gradients is divided by, such as a nominal batch size."),
    ] = 1.0,
    json: options.AsJson = False,
) -> None:
    """Write what a trainer needs to run a strategy file: sealed configuration, batches, correlated noise, and a script that runs."""
    from engine.exports import export as export_file
    from engine.exports import load_config
    from launch import output

    folder = export_file(file, to=to, out=out, clip_norm=clip_norm, normalize_by=normalize_by)
    if json:
        output.print_json(load_config(folder).document() | {"folder": str(folder)})
        return
    config = load_config(folder)
    print(f"Written to {folder}; try python {folder / 'train.py'}")
    print(f"epsilon={config.problem.epsilon} delta={config.problem.delta} ({config.mechanism.scheme.adjacency}) holds as long as:")
    for rule in config.document()["rules"]:
        print(f"- {rule}")
