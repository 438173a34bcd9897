"""The values of a certificate, and their plain JSON form."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping

from accountants.evidence import DIRECTIONS
from search_spaces import checks
from search_spaces.errors import InputError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy

METHODS = ("tail_sum", "published")
"""`tail_sum`: a fixed list, the first candidate that passes is selected. `published`: σ descends until the first failure."""

SAMPLERS = ("plain", "tilted", "shifted", "bound")
"""`plain`: outputs from P (remove) or Q (add). `tilted`: from the law tilted by LR^α (remove). `shifted`: from Q moved against the mean
C E[x] (add). `bound`: deterministic, nothing is drawn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DirectionTest:
    """One direction of one candidate: the candidate passes it iff the mean of N sampled values in [0, B] is at most the threshold.

    Attributes:
      direction: `remove` or `add`.
      sampler: a word of `SAMPLERS`.
      threshold: δ'; for sampler `bound` the deterministic bound on δ itself.
      blocks: blocks of the random stream that are drawn; N = blocks · block size (0 for `bound`).
      samples: N.
      bound: B, which no value exceeds.
      bias: η, what clipping the values at B can hide; added to the guarantee.
      alpha: power of the tilt (1: plain).
      log_moment: log Z_α of the (residual) tilted law, 0 for plain.
      shift: s >= 0 of the shifted law, in standard deviations of the noise.
      accountant: for `bound`, which accountant gave it.
    """

    direction: str
    sampler: str
    threshold: float
    blocks: int = 0
    samples: int = 0
    bound: float = 1.0
    bias: float = 0.0
    alpha: int = 1
    log_moment: float = 0.0
    shift: float = 0.0
    accountant: str | None = None

    def __post_init__(self) -> None:
        checks.one_of(DIRECTIONS, direction=self.direction)
        checks.one_of(SAMPLERS, sampler=self.sampler)
        checks.between(0, 1, threshold=self.threshold)
        checks.positive(bound=self.bound)
        checks.non_negative(bias=self.bias)
        checks.non_negative(shift=self.shift)
        checks.integer(at_least=1, alpha=self.alpha)
        drawn = self.sampler != "bound"
        checks.integer(at_least=int(drawn), blocks=self.blocks)
        checks.integer(at_least=self.blocks, samples=self.samples)
        if drawn and not self.threshold < self.bound:
            raise InputError(f"Expected threshold={self.threshold} to be below bound={self.bound}; otherwise nothing needs to be drawn.")
        if not math.isfinite(self.log_moment):
            raise InputError(f"Expected log_moment={self.log_moment} to be finite.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A mechanism and the tests it must pass.

    Attributes:
      mechanism: scheme, strategy and σ.
      tests: for `remove` and `add`, in this order.
    """

    mechanism: Mechanism
    tests: tuple[DirectionTest, DirectionTest]

    def __post_init__(self) -> None:
        if tuple(test.direction for test in self.tests) != DIRECTIONS:
            raise InputError("Expected tests to be those of remove and add, in this order.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that is fixed before a certifying sample is drawn.

    Attributes:
      method: a word of `METHODS`.
      epsilon, delta: the target.
      seed: of the certifying streams.
      purpose: the streams' purpose, `certify` or `verify`.
      candidates: in the order they are tried; for `published` by descending σ.
      fallback: a candidate with deterministic tests only, selected if no other passes; or None.
    """

    method: str
    epsilon: float
    delta: float
    seed: int
    candidates: tuple[Candidate, ...]
    fallback: Candidate | None = None
    purpose: str = "certify"

    def __post_init__(self) -> None:
        checks.one_of(METHODS, method=self.method)
        checks.positive(epsilon=self.epsilon)
        checks.between(0, 1, delta=self.delta)
        checks.integer(at_least=0, seed=self.seed)
        checks.one_of(("certify", "verify"), purpose=self.purpose)
        if self.fallback and any(test.sampler != "bound" for test in self.fallback.tests):
            raise InputError("Expected the fallback's tests to be deterministic bounds.")
        if not self.candidates and not self.fallback:
            raise InputError("Expected a plan to have a candidate or a fallback.")
        if self.method == "published":
            self._check_published()

    def _check_published(self) -> None:
        sigmas = [candidate.mechanism.sigma for candidate in self.candidates]
        if sigmas != sorted(sigmas, reverse=True):
            raise InputError("Expected the candidates of the published procedure to have descending sigma.")
        for direction in range(2):
            tests = [candidate.tests[direction] for candidate in self.candidates if candidate.tests[direction].sampler != "bound"]
            if len({(test.threshold, test.samples, test.bound) for test in tests}) > 1:
                raise InputError("Expected the tests of the published procedure to share threshold, samples and bound.")


def committed(plan: Plan, *, run_seed: int) -> Plan:
    """The plan with a seed derived from all its content and the run's seed.

    So the samples of a test are tied to the list they were planned for: the same list draws the same samples again, and any
    change to it, made for whatever reason, draws fresh ones.
    """
    content = plan_to_dict(dataclasses.replace(plan, seed=0)) | {"run_seed": run_seed}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()
    return dataclasses.replace(plan, seed=int(digest[:15], 16))


_PLAN_FIELDS = ("method", "epsilon", "delta", "seed", "purpose", "candidates", "fallback")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a test's samples said.

    Attributes:
      mean: mean of the N values.
      second_moment: mean of their squares.
      largest: largest value.
      samples: N that were drawn.
      passed: whether the mean, rounded up, is at most the threshold.
    """

    mean: float
    second_moment: float
    largest: float
    samples: int
    passed: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """A plan, the outcomes of the tests that were made, and what was selected.

    Attributes:
      plan: fixed before sampling.
      outcomes: one pair (remove, add) for each candidate that was tried, in order; None for a test that was not needed or is a bound.
      selected: index of the selected candidate, or −1 for the fallback.
      delta: the certified δ of the selection, by direction; both are at most the plan's δ.
    """

    plan: Plan
    outcomes: tuple[tuple[Outcome | None, Outcome | None], ...]
    selected: int
    delta: Mapping[str, float]

    @property
    def chosen(self) -> Candidate:
        """The selected candidate."""
        return self.plan.fallback if self.selected < 0 else self.plan.candidates[self.selected]


def mechanism_to_dict(mechanism: Mechanism) -> dict[str, object]:
    """A mechanism as plain JSON values."""
    scheme, strategy = mechanism.scheme, mechanism.strategy
    return {
        "scheme": scheme.name, "iterations": scheme.iterations, "participations": scheme.participations, "bandwidth": scheme.bandwidth,
        "family": strategy.family, "r": strategy.r, "coefficients": list(strategy.coefficients), "sigma": mechanism.sigma,
    }


def mechanism_from_dict(values: Mapping[str, object]) -> Mechanism:
    """The inverse of `mechanism_to_dict`.

    Raises:
      InputError: a field is missing or out of range.
    """
    values = _fields(values, "mechanism", ("scheme", "iterations", "participations", "bandwidth", "family", "r", "coefficients", "sigma"))
    scheme = make_scheme(
        values["scheme"], iterations=values["iterations"], participations=values["participations"], bandwidth=values["bandwidth"],
    )
    strategy = ToeplitzStrategy(
        iterations=scheme.iterations, coefficients=tuple(values["coefficients"]), family=values["family"], r=values["r"],
    )
    return Mechanism(scheme=scheme, strategy=strategy, sigma=values["sigma"])


def certificate_to_dict(certificate: Certificate) -> dict[str, object]:
    """A certificate as plain JSON values."""
    return plan_to_dict(certificate.plan) | {
        "outcomes": [[None if o is None else dataclasses.asdict(o) for o in pair] for pair in certificate.outcomes],
        "selected": certificate.selected,
        "certified_delta": dict(certificate.delta),
    }


def certificate_from_dict(values: Mapping[str, object]) -> Certificate:
    """The inverse of `certificate_to_dict`.

    Raises:
      InputError: a field is missing, unknown or out of range.
    """
    values = _fields(values, "certificate", (*_PLAN_FIELDS, "outcomes", "selected", "certified_delta"))
    plan = plan_from_dict({name: values[name] for name in _PLAN_FIELDS})
    outcomes = tuple(tuple(None if o is None else _build(Outcome, o) for o in pair) for pair in values["outcomes"])
    selected = checks.integer(at_least=-1, at_most=len(plan.candidates) - 1, selected=values["selected"])
    return Certificate(plan=plan, outcomes=outcomes, selected=selected, delta=dict(values["certified_delta"]))


def plan_to_dict(plan: Plan) -> dict[str, object]:
    """A plan as plain JSON values."""
    return {
        "method": plan.method, "epsilon": plan.epsilon, "delta": plan.delta, "seed": plan.seed, "purpose": plan.purpose,
        "candidates": [_candidate_to_dict(candidate) for candidate in plan.candidates],
        "fallback": None if plan.fallback is None else _candidate_to_dict(plan.fallback),
    }


def plan_from_dict(values: Mapping[str, object]) -> Plan:
    """The inverse of `plan_to_dict`.

    Raises:
      InputError: a field is missing, unknown or out of range.
    """
    values = _fields(values, "plan", _PLAN_FIELDS)
    return Plan(
        method=values["method"], epsilon=values["epsilon"], delta=values["delta"], seed=values["seed"], purpose=values["purpose"],
        candidates=tuple(_candidate_from_dict(v) for v in values["candidates"]),
        fallback=None if values["fallback"] is None else _candidate_from_dict(values["fallback"]),
    )


def _candidate_to_dict(candidate: Candidate) -> dict[str, object]:
    return {"mechanism": mechanism_to_dict(candidate.mechanism), "tests": [dataclasses.asdict(test) for test in candidate.tests]}


def _candidate_from_dict(values: Mapping[str, object]) -> Candidate:
    values = _fields(values, "candidate", ("mechanism", "tests"))
    return Candidate(
        mechanism=mechanism_from_dict(values["mechanism"]), tests=tuple(_build(DirectionTest, test) for test in values["tests"]),
    )


def _build(kind: type, values: Mapping[str, object]) -> object:
    return kind(**_fields(values, kind.__name__, tuple(field.name for field in dataclasses.fields(kind))))


def _fields(values: Mapping[str, object], what: str, names: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(values, Mapping) or set(values) != set(names):
        found = sorted(values) if isinstance(values, Mapping) else type(values).__name__
        raise InputError(f"Expected the {what} to have the fields {', '.join(names)}; found {found}.")
    return values
