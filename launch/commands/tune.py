"""`bandsmith tune`: search, certify and write the best strategy for a problem."""

from pathlib import Path
from typing import Annotated

import typer

from launch import options


def tune(
    *,
    context: typer.Context,
    epsilon: Annotated[float | None, options.number_option("Target ε > 0.")] = None,
    delta: Annotated[float | None, options.number_option("Target δ in (0, 1).")] = None,
    iterations: Annotated[int | None, options.integer_option("T, the number of optimiser steps; with --participations.")] = None,
    participations: Annotated[int | None, options.integer_option("K, how often one example takes part; with --iterations.")] = None,
    dataset_size: Annotated[
        int | None, options.integer_option("Examples in the dataset; with --batch-size and --epochs, in place of T and K.")
    ] = None,
    batch_size: Annotated[
        int | None, options.integer_option("Examples in an expected batch, over all devices and accumulation steps together.")
    ] = None,
    epochs: Annotated[int | None, options.integer_option("Passes over the dataset, which is K.")] = None,
    schemes: options.Schemes = None,
    bandwidths: options.Bandwidths = None,
    trials: Annotated[
        int | None, options.integer_option("Configurations (scheme, b, r) to try.", show_default="60; with --resume as before")
    ] = None,
    certificate: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How σ is certified: tilted, tail-sum or published.", show_default="tilted; with --resume as before"),
    ] = None,
    max_samples: options.MaxSamples = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    gpus_per_trial: Annotated[float, options.number_option("GPU share of each trial; 0 runs on CPUs.")] = 0.0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to write; must not exist.", show_default="runs/ with a time stamp")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue the interrupted run in this folder.")] = None,
    warm_start: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Begin with the best configurations of the run in this folder; the problem may differ.")
    ] = None,
    storage: options.Storage = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A running Ray cluster: auto, host:port of its head, or ray://host:port of its client server.", show_default="start one on this machine"),
    ] = None,
    autoscaling: Annotated[
        bool, typer.Option("--autoscaling", help="The cluster adds nodes by itself: wait for those a trial needs; with --workers.")
    ] = False,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="Ranks trials in place of the pilot; certification does not depend on it.",
            show_default="the pilot",
        ),
    ] = None,
    py_modules: Annotated[
        list[str] | None,
        typer.Option(metavar="PATHS", help="Package folders, .py files or wheels the workers need for --objective, comma-separated."),
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Search all schemes, bandwidths and r jointly, certify the best in both directions, and write strategy.json."""
    from launch import fixed_size, inputs, output

    named = inputs.names(schemes)
    if fixed_size.is_chosen(named):
        fixed_size.refuse(named[0], {
            "participations": participations, "bandwidths": bandwidths, "max-samples": max_samples, "resume": resume, "warm-start": warm_start,
            "address": address, "objective": objective, "py-modules": py_modules,
        } | fixed_size.on_command_line(context, "storage", "trials", "certificate", "seed", "workers", "gpus_per_trial", "autoscaling"))
        strategy = fixed_size.tuned(
            dataset_size=dataset_size, batch_size=batch_size, iterations=iterations, epochs=epochs, epsilon=epsilon, delta=delta, out=out,
        )
        if json:
            output.print_json(strategy.to_dict())
        else:
            output.print_fixed_size(strategy)
            report = "" if strategy.report is None else f", {strategy.report.relative_to(strategy.folder)}"
            print(f"Written to {strategy.folder}: strategy.json, log.txt{report}")
        return
    from engine.environment import is_client
    from engine.tune import TuneSettings

    inputs.refuse_secret(context, storage=storage)
    target = {
        "iterations": iterations, "participations": participations, "dataset_size": dataset_size, "batch_size": batch_size,
        "epochs": epochs, "epsilon": epsilon, "delta": delta,
    }
    known = resume is not None and not any(value is not None for value in target.values())
    settings = TuneSettings(
        problem=None if known else inputs.make_problem(**target), schemes=named,
        bandwidths=inputs.integers(bandwidths, name="bandwidths"), trials=trials, certificate=certificate, max_samples=max_samples,
        seed=seed, workers=workers, gpus_per_trial=gpus_per_trial, out=out, resume=resume, warm_start=warm_start,
        storage=storage, address=address, autoscaling=autoscaling, objective=objective, py_modules=inputs.names(py_modules) or (),
    )
    if is_client(address):
        from launch.client_run import tune as run
    else:
        from engine.tune import tune as run
    with output.progress() as progress:
        result = run(settings, progress=progress)
    if json:
        output.print_json(result.to_dict())
    else:
        output.print_certified(result.certified)
        trials = f"{result.search.done} trials" + (f", {result.search.failed} failed" if result.search.failed else "")
        print(
            f"Written to {result.folder}: strategy.json, trials.csv ({trials}), log.txt, the study, the certification's samples"
            + ("" if result.report is None else f" and {result.report.relative_to(result.folder)}")
        )
