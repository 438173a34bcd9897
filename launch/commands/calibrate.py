"""`bandsmith calibrate`: the smallest noise multiplier with which a given scheme and strategy meet a target."""

from typing import Annotated

import typer

from launch import options


def calibrate(
    *,
    scheme: options.AnyScheme,
    epsilon: options.Epsilon,
    delta: options.Delta,
    iterations: Annotated[int | None, *options.Iterations.__metadata__] = None,
    participations: Annotated[int | None, *options.Participations.__metadata__] = None,
    dataset_size: options.DatasetSize = None,
    batch_size: options.BatchSize = None,
    sigma: Annotated[
        float | None, options.number_option("With fixed_size, in place of --iterations: find the largest T at this σ instead.")
    ] = None,
    bandwidth: options.Bandwidth = None,
    r: options.R = None,
    coefficients: options.Coefficients = None,
    matrix: options.Matrix = None,
    accountant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The accountant to calibrate with.", show_default="the tightest bound that applies"),
    ] = None,
    samples: options.Samples = None,
    certified: Annotated[
        bool, typer.Option("--certified", help="Certify σ as `certify` does, without writing a file; in place of --accountant.")
    ] = False,
    certificate: options.CertificateOfCalibrate = None,
    max_samples: options.MaxSamples = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    json: options.AsJson = False,
) -> None:
    """Find the smallest σ with which a scheme and strategy meet (ε, δ) in both directions."""
    from accountants.calibration import calibrate as calibrate_with
    from accountants.tightest import tightest_bound
    from launch import fixed_size, inputs, output
    from search_spaces.problem import FIXED_SIZE

    settings = {"certificate": certificate, "max_samples": max_samples, "workers": workers}
    without_certificate = {"accountant": accountant, "samples": samples, "matrix": matrix}
    inputs.check_certified(certified, by_accountant=without_certificate, by_certificate=settings)
    if scheme == FIXED_SIZE:
        fixed_size.refuse(scheme, {
            "participations": participations, "bandwidth": bandwidth, "r": r, "coefficients": coefficients, "matrix": matrix,
            "samples": samples, "certified": certified or None,
        })
        mechanism, evidence = fixed_size.calibrated(
            dataset_size=dataset_size, batch_size=batch_size, iterations=iterations, sigma=sigma, epsilon=epsilon, delta=delta,
            accountant=accountant,
        )
        output.print_calibrated_fixed_size(mechanism, evidence, as_json=json)
        return
    fixed_size.refuse(scheme, {"dataset-size": dataset_size, "batch-size": batch_size, "sigma": sigma})
    fixed_size.expect_given(scheme, {"iterations": matrix or iterations, "participations": participations})
    batch_scheme, strategy = inputs.make_choice(
        scheme=scheme, iterations=iterations, participations=participations, bandwidth=bandwidth, r=r, coefficients=coefficients,
        matrix=matrix,
    )
    if certified:
        from engine.certification import certify

        with output.progress() as progress:
            made = certify(
                scheme=batch_scheme, strategy=strategy, epsilon=epsilon, delta=delta, seed=seed, others=False, progress=progress,
                **{name: value for name, value in settings.items() if value is not None},
            )
        output.print_certified_sigma(made, as_json=json)
        return
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
