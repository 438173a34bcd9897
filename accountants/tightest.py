"""The smallest noise multiplier that any deterministic accountant allows."""

from accountants.calibration import TOLERANCE, Calibration, calibrate
from accountants.registry import ACCOUNTANTS, asked_by_default
from search_spaces.dense_strategies import Strategy, make_mechanism
from search_spaces.errors import CalibrationError
from search_spaces.schemes import BatchScheme


def tightest_bound(
    scheme: BatchScheme, strategy: Strategy, *, epsilon: float, delta: float, tolerance: float = TOLERANCE,
) -> Calibration:
    """The calibration with the smallest σ among all accountants of kind `bound` that are asked by default.

    An accountant that finds no σ is passed over: the unamplified Gaussian mechanism always has one where participations are capped. So is,
    after one evaluation, one that does not improve by the tolerance on the σ found so far.

    Args:
      epsilon: target ε > 0.
      delta: target δ in (0, 1).
      tolerance: relative tolerance of σ, > 0.

    Raises:
      InputError: a target out of range.
      CalibrationError: no such accountant finds a σ.
    """
    best, failure = None, CalibrationError(f"No deterministic accountant supports {scheme.name}.")
    target = {"epsilon": epsilon, "delta": delta, "tolerance": tolerance}
    for name in asked_by_default(make_mechanism(scheme=scheme, strategy=strategy, sigma=1.0)):
        if ACCOUNTANTS[name].kind != "bound":
            continue
        try:
            at_most = None if best is None else best.sigma * (1 - tolerance)
            best = calibrate(scheme, strategy, accountant=name, at_most=at_most, **target)
        except CalibrationError as error:
            failure = error
    if best is None:
        raise failure
    return best
