"""`bandsmith calibrate`: the smallest noise multiplier with which a given scheme and strategy meet a target."""

from typing import Annotated

import typer

from launch import options


def calibrate(
    *,
    scheme: options.Scheme,
    iterations: options.Iterations,
    participations: options.Participations,
    epsilon: options.Epsilon,
    delta: options.Delta,
    bandwidth: options.Bandwidth = None,
    r: options.R = None,
    coefficients: options.Coefficients = None,
    accountant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The accountant to calibrate with.", show_default="the tightest bound that applies"),
    ] = None,
    samples: options.Samples = None,
    seed: options.Seed = 0,
    json: options.AsJson = False,
) -> None:
    """Find the smallest σ with which a scheme and strategy meet (ε, δ) in both directions."""
    from accountants.calibration import calibrate as calibrate_with
    from accountants.tightest import tightest_bound
    from launch import inputs, output

    strategy = inputs.make_strategy(iterations=iterations, bandwidth=bandwidth, r=r, coefficients=coefficients)
    batch_scheme = inputs.make_scheme(strategy, name=scheme, participations=participations)
    if accountant is None:
        result = tightest_bound(batch_scheme, strategy, epsilon=epsilon, delta=delta)
    else:
        chosen = inputs.make_accountant(accountant, samples=samples, seed=seed)
        result = calibrate_with(batch_scheme, strategy, epsilon=epsilon, delta=delta, accountant=chosen)
    rmse = strategy.rmse(sigma=result.sigma, participations=participations)
    if json:
        output.print_json({"sigma": result.sigma, "rmse": rmse, "evidence": [e.to_dict() for e in result.evidence]})
    else:
        kind = result.evidence[0].kind + (", no guarantee" if result.evidence[0].kind == "estimate" else "")
        print(f"sigma {result.sigma:.6g} by {result.accountant} ({kind}), RMSE {rmse:.6g}")
        output.print_evidence(result.evidence)
