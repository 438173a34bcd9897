"""`bandsmith report`: one self-contained HTML page about a run, and its figures."""

from pathlib import Path
from typing import Annotated

import typer

from launch import options


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run, finished or not.")],
    *,
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to write.", show_default="report/ in the run's folder")] = None,
    storage: options.Storage = None,
    json: options.AsJson = False,
) -> None:
    """Write report.html and its figures: the result, the search, privacy curves, and the certificate in words; opening it loads nothing."""
    from engine.report.build import build_report
    from launch import inputs, output

    inputs.refuse_secret(context, storage=storage)
    written = build_report(folder, out=out, storage=storage)
    if json:
        output.print_json(written.to_dict())
        return
    for note in written.notes:
        print(f"left out: {note}")
    state = "" if written.finished else " (the run has no strategy yet)"
    print(f"Written to {written.page.parent}: {written.page.name}, {', '.join(path.name for path in written.figures) or 'no figures'}{state}")
