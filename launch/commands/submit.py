"""`bandsmith submit`: run a search on a Ray cluster as a job, follow it, and fetch its results."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from launch import options


def submit(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- tune ARGS…", help="What to run; paths in ARGS are on the head node, in --head-folder.")
    ] = None,
    *,
    context: typer.Context,
    dashboard_address: Annotated[
        str, typer.Option(metavar="URL", envvar="RAY_API_SERVER_ADDRESS", help="The cluster's job server.")
    ] = "http://127.0.0.1:8265",
    job_id: Annotated[str | None, typer.Option(metavar="ID", help="Name of the job.", show_default="the time")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder here for the results; must not exist.", show_default="runs/ with the job's name")
    ] = None,
    head_folder: Annotated[str, typer.Option(metavar="DIR", help="Folder on the head node that holds the run folders.")] = "~/bandsmith",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the job and fetch its results, or only submit it.")] = True,
    fetch: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Come back to a job: follow it, then fetch; with --no-wait fetch what there is now."),
    ] = None,
    stop: Annotated[str | None, typer.Option(metavar="ID", help="End a job; its study stays and can be resumed.")] = None,
    json: options.AsJson = False,
) -> None:
    """Run `bandsmith tune` on a Ray cluster: send the project, follow the log on stderr, fetch the results; exits as the job does.

    Files to start a cluster with are in launch/cluster/: aws.yaml (Ray's autoscaler), kuberay-rayjob.yaml (Kubernetes) and slurm.sh.
    """
    from launch import output, submission
    from search_spaces.errors import InputError

    if sum(bool(mode) for mode in (command, fetch, stop)) != 1:
        raise InputError("Expected exactly one of: -- tune ARGS…, --fetch and --stop.")
    job_id = fetch or stop or job_id or submission.new_job_id()
    out = Path("runs") / job_id if out is None else out
    if not stop and (wait or fetch) and out.exists():
        raise InputError(f"Expected out={str(out)!r} not to exist.")
    request = None if command is None else submission.tune_request(command[1:], _parsed(context, command), job_id=job_id)
    client = submission.connect(dashboard_address)
    if stop:
        job = submission.stop(client, job_id)
    elif request is not None:
        job = submission.submit(client, request, job_id=job_id, head_folder=head_folder)
        print(f"Submitted as job {job_id}.", file=sys.stderr)
    else:
        job = submission.job(client, job_id)
    fetched = False
    if not stop and wait:
        try:
            job = submission.follow(client, job_id, write=sys.stderr.write)
        except KeyboardInterrupt:
            print(f"The job goes on. Come back: {submission.come_back(job_id)}  End it: bandsmith submit --stop {job_id}", file=sys.stderr)
            raise
    if not stop and (wait or fetch):
        fetched = submission.fetch(client, job, out)
    if json:
        output.print_json(job.to_dict() | {"out": str(out) if fetched else None})
    else:
        print(f"Job {job_id}: {job.status.lower()}" + (f", results in {out}" if fetched else "") + (f": {job.reason}" if job.reason else ""))
    if job.exit_code and not stop:
        raise typer.Exit(job.exit_code)


def _parsed(context: typer.Context, command: list[str]) -> dict[str, object]:
    """The parameters of the command that shall be submitted; a mistake in it is found here and now."""
    from launch import inputs
    from search_spaces.errors import InputError

    if command[0] != "tune":
        raise InputError(f"Expected what is submitted to begin with tune, not {command[0]!r}.")
    root = context.find_root()
    parsed = root.command.get_command(root, "tune").make_context("tune", command[1:], parent=root)
    inputs.refuse_secret(parsed, storage=parsed.params["storage"])
    return parsed.params
