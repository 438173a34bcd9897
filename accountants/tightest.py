"""The smallest noise multiplier that any deterministic accountant allows."""

from accountants.calibration import Calibration, calibrate
from accountants.registry import ACCOUNTANTS, asked_by_default
from search_spaces.errors import CalibrationError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy


def tightest_bound(scheme: BatchScheme, strategy: ToeplitzStrategy, *, epsilon: float, delta: float) -> Calibration:
    """The calibration with the smallest σ among all accountants of kind `bound` that are asked by default.

    An accountant that finds no σ is passed over: the unamplified Gaussian mechanism always has one where participations are capped.

    Raises:
      InputError: a target out of range.
      CalibrationError: no such accountant finds a σ.
    """
    found, failures = [], []
    for name in asked_by_default(Mechanism(scheme=scheme, strategy=strategy, sigma=1.0)):
        if ACCOUNTANTS[name].kind != "bound":
            continue
        try:
            found.append(calibrate(scheme, strategy, epsilon=epsilon, delta=delta, accountant=name))
        except CalibrationError as error:
            failures.append(error)
    if not found:
        raise failures[0] if failures else CalibrationError(f"No deterministic accountant supports {scheme.name}.")
    return min(found, key=lambda calibration: calibration.sigma)
