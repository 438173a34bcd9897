"""`bandsmith dashboard`: the study of a run in a browser, as it goes on."""

from pathlib import Path
from typing import Annotated

import typer

from launch import options


def dashboard(
    context: typer.Context,
    run: Annotated[Path | None, typer.Argument(metavar="DIR", help="Folder of the run.", show_default="all studies of --storage")] = None,
    *,
    port: Annotated[int | None, options.integer_option("Port to answer on; 0 takes any free one.", show_default="8080, or a free one")] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to answer on.")] = "127.0.0.1",
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Let --host be reached from other machines: there is no log-in.")] = False,
    writable: Annotated[bool, typer.Option("--writable", help="Let whoever reaches it change and delete studies.")] = False,
    most_trials: Annotated[
        int | None, options.integer_option("Show a copy with so many trials: the best, and others spread over the run.", show_default="all")
    ] = None,
    storage: options.Storage = None,
    json: options.AsJson = False,
) -> None:
    """Serve the study of a run on this machine, for reading only and live, until Ctrl-C; its address is printed once it answers."""
    from launch import inputs, output

    inputs.refuse_secret(context, storage=storage)
    from engine.dashboard import DashboardSettings, serve

    settings = DashboardSettings(
        run=run, storage=storage, host=host, port=port, allow_remote=allow_remote, writable=writable, most_trials=most_trials,
    )

    def tell(address: str) -> None:
        if json:
            output.print_json({"address": address, "writable": writable})
        else:
            print(address, flush=True)

    serve(settings, on_ready=tell)
