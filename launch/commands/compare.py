"""`bandsmith compare`: the best that each batch selection scheme can do at one problem."""

from pathlib import Path
from typing import Annotated

import typer

from launch import options


def compare(
    *,
    iterations: options.Iterations,
    participations: options.Participations,
    epsilon: options.Epsilon,
    delta: options.Delta,
    dataset_size: options.DatasetSize = None,
    batch_size: options.BatchSize = None,
    schemes: options.Schemes = None,
    bandwidths: options.Bandwidths = None,
    matrix: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="C as a NumPy .npy file, T×T, lower triangular, entries >= 0: a row for it under balls_in_bins; "
            "may be repeated.",
        ),
    ] = None,
    samples: options.Samples = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    json: options.AsJson = False,
) -> None:
    """Compare the schemes at one problem: for each, the bandwidth and r with the smallest RMSE, and the σ they need.

    Rows follow for every --matrix under balls_in_bins and, with --dataset-size and --batch-size, for fixed-size batches, whose adjacency is
    another.
    """
    import dataclasses

    from engine.compare import compare as compare_schemes
    from launch import inputs, output
    from search_spaces.errors import InputError
    from search_spaces.problem import Problem

    problem = Problem(
        iterations=iterations, participations=participations, epsilon=epsilon, delta=delta, dataset_size=dataset_size,
    )
    if dataset_size is not None and batch_size is None:
        raise InputError(f"Expected --batch-size to be given with --dataset-size {dataset_size}.")
    matrices = {str(path): inputs.read_matrix(path) for path in matrix or ()}
    with output.progress() as progress:
        rows = compare_schemes(
            problem, schemes=inputs.names(schemes), bandwidths=inputs.integers(bandwidths, name="bandwidths"),
            samples=samples, seed=seed, workers=workers, batch_size=batch_size, matrices=matrices, progress=progress,
        )
    if json:
        output.print_json({"rows": [dataclasses.asdict(row) for row in rows]})
    else:
        output.print_comparison(rows)
