"""`bandsmith certify`: a certificate for a given scheme and strategy, written as a strategy file."""

from pathlib import Path
from typing import Annotated

import typer

from launch import options


def certify(
    *,
    scheme: options.Scheme,
    iterations: options.Iterations,
    participations: options.Participations,
    epsilon: options.Epsilon,
    delta: options.Delta,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The strategy file to write; must not exist.")],
    bandwidth: options.Bandwidth = None,
    r: options.R = None,
    coefficients: options.Coefficients = None,
    certificate: options.Certificate = "tilted",
    max_samples: options.MaxSamples = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    json: options.AsJson = False,
) -> None:
    """Find and certify σ for a scheme and strategy, in both directions, and write the strategy file."""
    from engine.certification import certify as certify_strategy
    from launch import inputs, output

    strategy = inputs.make_strategy(iterations=iterations, bandwidth=bandwidth, r=r, coefficients=coefficients)
    batch_scheme, out = inputs.make_scheme(strategy, name=scheme, participations=participations), inputs.new_file(out)
    with output.progress() as progress:
        certified = certify_strategy(
            scheme=batch_scheme, strategy=strategy, epsilon=epsilon, delta=delta, certificate=certificate, max_samples=max_samples,
            seed=seed, workers=workers, out=out, progress=progress,
        )
    if json:
        output.print_json(certified.to_dict())
    else:
        output.print_certified(certified)
        print(f"Written to {out}")
