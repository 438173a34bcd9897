"""The best deterministic σ beside a certified one: found, stated in the strategy file, and checked again.

It says what the certificate is worth. Nothing else rests on it.
"""

import dataclasses
from collections.abc import Mapping

from accountants.certificates.records import Certificate
from accountants.evidence import worst
from accountants.registry import ACCOUNTANTS
from accountants.tightest import tightest_bound
from engine.results import AGREEMENT, mechanism_of, problem_of
from search_spaces.errors import BandsmithError, CalibrationError

TOLERANCE = 0.02
"""Relative tolerance of σ: enough to say what a certificate is worth, and a few evaluations of accountants that take seconds."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeterministicSigma:
    """What a deterministic accountant allows for the certified scheme and strategy.

    Attributes:
      sigma: a σ at which both directions of the accountant's bound meet the target, at most `TOLERANCE` above the smallest known.
      accountant: its name.
      ratio: certified σ over it; the RMSE has the same ratio.
    """

    sigma: float
    accountant: str
    ratio: float

    def to_dict(self) -> dict[str, object]:
        """The field `deterministic` of a strategy file."""
        return dataclasses.asdict(self)


def best_deterministic(certificate: Certificate) -> DeterministicSigma | None:
    """The best deterministic σ for what a certificate selects, which may be the certified one itself; None where there is none."""
    plan, mechanism, tests = certificate.plan, certificate.chosen.mechanism, certificate.chosen.tests
    found = []
    try:
        best = tightest_bound(mechanism.scheme, mechanism.strategy, epsilon=plan.epsilon, delta=plan.delta, tolerance=TOLERANCE)
        found.append((best.sigma, best.accountant))
    except CalibrationError:
        pass
    if all(test.sampler == "bound" and test.accountant == tests[0].accountant for test in tests):
        found.append((mechanism.sigma, tests[0].accountant))
    if not found:
        return None
    sigma, accountant = min(found)
    return DeterministicSigma(sigma=sigma, accountant=accountant, ratio=mechanism.sigma / sigma)


def failures(document: Mapping[str, object]) -> list[str]:
    """What does not hold in the field `deterministic` of a document, one sentence each. That no accountant allows less is not checked."""
    stated = document["deterministic"]
    if stated is None:
        return []
    sigma, name, problem = stated["sigma"], stated["accountant"], problem_of(document)
    if name not in ACCOUNTANTS or ACCOUNTANTS[name].kind != "bound":
        return [f"The file states a deterministic sigma by {name!r}, which makes no deterministic bound."]
    try:
        delta = worst(ACCOUNTANTS[name].delta(mechanism_of(document).with_sigma(sigma), epsilon=problem.epsilon)).delta
    except BandsmithError as error:
        return [f"The deterministic sigma={sigma!r} by {name} cannot be recomputed: {error}"]
    if delta > problem.delta * (1 + AGREEMENT):
        return [f"At the deterministic sigma={sigma!r}, {name} bounds delta by {delta:.9g}, above the target {problem.delta:.9g}."]
    return []
