"""`bandsmith account`: what privacy a given mechanism has, by every accountant that applies, in both directions."""

from typing import Annotated

import typer

from launch import options


def account(
    *,
    scheme: options.Scheme,
    iterations: options.Iterations,
    participations: options.Participations,
    sigma: options.Sigma,
    bandwidth: options.Bandwidth = None,
    r: options.R = None,
    coefficients: options.Coefficients = None,
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
    from launch import inputs, output
    from search_spaces.mechanism import Mechanism

    strategy = inputs.make_strategy(iterations=iterations, bandwidth=bandwidth, r=r, coefficients=coefficients)
    mechanism = Mechanism(scheme=inputs.make_scheme(strategy, name=scheme, participations=participations), strategy=strategy, sigma=sigma)
    names = accountant or registry.supporting(mechanism)
    accountants = [inputs.make_accountant(name, samples=samples, seed=seed) for name in names]
    evidence = registry.account(mechanism, epsilon=epsilon, delta=delta, accountants=accountants)
    if json:
        output.print_json({"evidence": [e.to_dict() for e in evidence]})
    else:
        output.print_evidence(evidence)
