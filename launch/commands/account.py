"""`bandsmith account`: what privacy a given mechanism has, by every accountant that applies, in both directions."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from launch import options


def account(
    *,
    scheme: Annotated[str | None, *options.AnyScheme.__metadata__] = None,
    iterations: Annotated[int | None, *options.Iterations.__metadata__] = None,
    participations: Annotated[int | None, *options.Participations.__metadata__] = None,
    sigma: Annotated[float | None, *options.Sigma.__metadata__] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="Account an existing run instead: its JSON description, a JAX-Privacy BandMF config as JSON, "
            "an exported config.json or a strategy file.",
        ),
    ] = None,
    dataset_size: options.DatasetSize = None,
    batch_size: options.BatchSize = None,
    bandwidth: options.Bandwidth = None,
    r: options.R = None,
    coefficients: options.Coefficients = None,
    matrix: options.Matrix = None,
    epsilon: Annotated[float | None, options.number_option("ε >= 0 at which to state δ; give this or --delta.")] = None,
    delta: Annotated[float | None, options.number_option("δ in (0, 1) at which to state ε; give this or --epsilon.")] = None,
    accountant: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Ask only this accountant; may be repeated.", show_default="all that apply"),
    ] = None,
    samples: options.Samples = None,
    seed: options.Seed = 0,
    json: options.AsJson = False,
) -> None:
    """State ε(δ) or δ(ε) of a scheme, strategy and noise multiplier, by every accountant that applies, in both directions."""
    from accountants import registry
    from launch import fixed_size, inputs, output
    from search_spaces.problem import FIXED_SIZE

    of_scheme = {"participations": participations, "bandwidth": bandwidth, "r": r, "coefficients": coefficients, "matrix": matrix}
    if scheme == FIXED_SIZE and from_ is None:
        fixed_size.refuse(scheme, of_scheme | {"samples": samples})
        output.print_statements(fixed_size.statements(
            dataset_size=dataset_size, batch_size=batch_size, iterations=iterations, sigma=sigma, epsilon=epsilon, delta=delta,
            accountants=accountant,
        ), as_json=json)
        return
    given = {"scheme": scheme, "iterations": iterations, "sigma": sigma} | of_scheme
    sizes = {"dataset-size": dataset_size, "batch-size": batch_size}
    if from_ is None and scheme is not None:
        fixed_size.refuse(scheme, sizes)
    run = None if from_ is None else inputs.read_run(from_, given | sizes)
    mechanism = inputs.make_mechanism(**given) if run is None else run.mechanism
    names = accountant or registry.asked_by_default(mechanism)
    accountants = [inputs.make_accountant(name, samples=samples, seed=seed) for name in names]
    if run is None:
        evidence = registry.account(mechanism, epsilon=epsilon, delta=delta, accountants=accountants)
    else:
        evidence = run.account(epsilon=epsilon, delta=delta, accountants=accountants)
        for note in run.notes:
            print(note, file=sys.stderr)
    output.print_statements(evidence, as_json=json)
