"""Somebody's existing run, read from a plain JSON description, as a mechanism that can be accounted.

Four kinds of object are read: a description in the fields below, a JAX-Privacy `BandMFExecutionPlanConfig` as JSON, an exported
`config.json`, and a strategy file. Fields of a description (all but `scheme`, `iterations` and the noise are optional):

* `scheme`: a name of `search_spaces.schemes.SCHEMES`; `iterations`: T; `coefficients`: first column of C, [1] where absent; `bandwidth`.
* the noise: `sigma`, or `noise_stddev` (of z, on the sum of clipped gradients) and `clip_norm`.
* the rate: `participations` K, or `sampling_probability` of a free step (Poisson schemes), or `batch_size` with `dataset_size`; of these
  `batch_size` is one process's and one micro-batch's; `world_size` and `accumulation_steps` multiply it. What is given twice must agree.
* the trainer: `shuffle`, `poisson_sampling`, `drop_last`, `truncated_batch_size`, `partition_type`, `warm_start`, `column_normalize`,
  `normalize_by`; a value that makes the run another mechanism is refused with the reason.
* `adjacency`: `add_remove` (default) or `zero_out`; `comment`.

An unknown field is refused: it could be one that changes the mechanism.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from accountants.base import Accountant
from accountants.evidence import Evidence
from accountants.registry import account
from engine.exports.config import FORMAT as EXPORT_FORMAT
from engine.exports.config import load_config
from engine.files import read_json
from engine.results import FORMAT as STRATEGY_FORMAT
from engine.results import mechanism_of, read_strategy
from search_spaces import checks
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import Problem
from search_spaces.schemes import SCHEMES, BatchScheme, make_scheme
from search_spaces.strategies import ToeplitzStrategy

FIELDS = (
    "scheme", "iterations", "participations", "sampling_probability", "bandwidth", "coefficients", "sigma", "noise_stddev", "clip_norm",
    "normalize_by", "adjacency", "dataset_size", "batch_size", "world_size", "accumulation_steps", "shuffle", "poisson_sampling",
    "drop_last", "truncated_batch_size", "partition_type", "warm_start", "column_normalize", "comment",
)
JAX_PRIVACY_FIELDS = (
    "iterations", "strategy", "epsilon", "delta", "noise_multiplier", "l2_clip_norm", "rescale_to_unit_norm", "normalize_by",
    "sampling_prob", "truncated_batch_size", "num_examples", "partition_type", "dtype", "column_normalize", "accountant", "noise_seed",
)
ADJACENCIES = ("add_remove", "zero_out")
POISSON = ("poisson", "cyclic_poisson", "min_sep_poisson")

AGREEMENT = 1e-9
"""Largest relative difference between two statements of one rate or noise: far above rounding, far below any meaning."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """A run that can be accounted.

    Attributes:
      mechanism: what it does.
      adjacency: `add_remove`, or `zero_out` where only that holds (an example is replaced by one without a gradient).
      notes: what was assumed, one sentence each.
    """

    mechanism: Mechanism
    adjacency: str
    notes: tuple[str, ...] = ()

    def account(
        self, *, epsilon: float | None = None, delta: float | None = None, accountants: Sequence[str | Accountant] | None = None,
    ) -> list[Evidence]:
        """Evidence of every accountant that applies; see `accountants.registry.account`."""
        evidence = account(self.mechanism, epsilon=epsilon, delta=delta, accountants=accountants)
        return [dataclasses.replace(statement, adjacency=self.adjacency) for statement in evidence]


def read_run(path: Path) -> ImportedRun:
    """The run that a file describes.

    Raises:
      InputError: it cannot be read, a field is unknown, missing or out of range, or two of them disagree.
      UnsupportedError: the run's batches are not those of a scheme that can be accounted; the message says why.
    """
    values = read_json(path, argument="run description")
    if values.get("format") == STRATEGY_FORMAT:
        return ImportedRun(mechanism=mechanism_of(read_strategy(path)), adjacency="add_remove")
    if values.get("format") == EXPORT_FORMAT:
        return ImportedRun(mechanism=load_config(path).mechanism, adjacency="add_remove")
    try:
        return run_of(from_jax_privacy(values) if "strategy" in values else values)
    except UnsupportedError as error:
        raise UnsupportedError(f"In run description {str(path)!r}: {error}") from error
    except InputError as error:
        raise InputError(f"In run description {str(path)!r}: {error}") from error


def from_jax_privacy(values: Mapping[str, object]) -> dict[str, object]:
    """A JAX-Privacy `BandMFExecutionPlanConfig` as a description: its noise multiplier is relative to ‖c‖, its batches cyclic Poisson."""
    _known(values, JAX_PRIVACY_FIELDS)
    if values.get("noise_multiplier") is None:
        raise InputError("Expected noise_multiplier to be given: what a calibration would make of epsilon and delta is not in the file.")
    coefficients = checks.coefficients(values["strategy"], name="strategy")
    described = {
        "scheme": "cyclic_poisson" if len(coefficients) > 1 else "poisson", "iterations": values.get("iterations"),
        "coefficients": list(coefficients), "sampling_probability": values.get("sampling_prob", 1.0),
        "sigma": checks.positive(noise_multiplier=values["noise_multiplier"]) * math.hypot(*coefficients),
        "partition_type": str(values.get("partition_type", "EQUAL_SPLIT")).rpartition(".")[2],
        "truncated_batch_size": values.get("truncated_batch_size"), "column_normalize": values.get("column_normalize", False),
    }
    return described | ({"adjacency": "zero_out"} if described["partition_type"] == "EQUAL_SPLIT" else {})


def run_of(values: Mapping[str, object]) -> ImportedRun:
    """The run of a description; raises as `read_run` does."""
    _known(values, FIELDS)
    missing = [name for name in ("scheme", "iterations") if name not in values]
    if missing:
        raise InputError(f"Expected {', '.join(missing)} to be given.")
    coefficients = checks.coefficients(values.get("coefficients", [1.0]))
    bandwidth = checks.integer(bandwidth=values.get("bandwidth", len(coefficients)))
    name = checks.one_of(SCHEMES, scheme=values["scheme"])
    iterations = checks.integer(iterations=values["iterations"])
    notes = []
    if name == "cyclic_poisson" and iterations % bandwidth:
        iterations += -iterations % bandwidth
        notes.append(f"Accounted as {iterations} steps: the last round of groups is not complete, and more steps lose no less privacy.")
    _refuse_other_mechanisms(values, name, iterations, bandwidth)
    scheme = (_poisson_scheme if name in POISSON else _fixed_scheme)(values, name, iterations, bandwidth)
    strategy = ToeplitzStrategy(iterations=iterations, coefficients=coefficients)
    mechanism = Mechanism(scheme=scheme, strategy=strategy, sigma=_sigma(values))
    return ImportedRun(mechanism=mechanism, adjacency=values.get("adjacency", "add_remove"), notes=tuple(notes))


def _known(values: Mapping[str, object], fields: Sequence[str]) -> None:
    if unknown := sorted(set(values) - set(fields)):
        raise InputError(f"Expected fields among {', '.join(fields)}; unknown: {', '.join(unknown)}.")


def _refuse_other_mechanisms(values: Mapping[str, object], name: str, iterations: int, bandwidth: int) -> None:
    fitting = ", ".join(
        other for other, scheme in SCHEMES.items()
        if bandwidth in scheme.bandwidths(Problem(iterations=iterations, participations=1, epsilon=1, delta=0.5))
    )
    equal_split = str(values.get("partition_type", "INDEPENDENT")).upper() != "INDEPENDENT"
    adjacency = values.get("adjacency", "add_remove")
    randomised = SCHEMES[name].amplified
    reasons: tuple[tuple[str, bool, str], ...] = (
        ("adjacency", adjacency not in ADJACENCIES, f"be one of {', '.join(ADJACENCIES)}, the adjacencies that {name} is accounted for"),
        ("shuffle", bool(values.get("shuffle")), f"be false: shuffled batches of a fixed size are no {name}; samplers that can be "
         f"accounted at this bandwidth: {fitting}"),
        ("poisson_sampling", name in POISSON and values.get("poisson_sampling") is False,
         f"be true for {name}; samplers that can be accounted at this bandwidth: {fitting}"),
        ("poisson_sampling", name not in POISSON and values.get("poisson_sampling") is True, f"be false: {name} is no Poisson sampling"),
        ("drop_last", bool(values.get("drop_last")) and randomised,
         f"be false: dropping changes participation, so the batches are not those of {name}"),
        ("truncated_batch_size", values.get("truncated_batch_size") is not None,
         "be null: truncation makes one example's participation depend on the others"),
        ("partition_type", equal_split and adjacency == "add_remove",
         "be INDEPENDENT: in equal parts the others' groups depend on whether one example is there, which only adjacency=zero_out allows"),
        ("warm_start", bool(values.get("warm_start")), "be false: no example rests at the start in the law that is accounted"),
        ("column_normalize", bool(values.get("column_normalize")), "be false: with normalised columns the strategy is not Toeplitz"),
        ("normalize_by", isinstance(values.get("normalize_by"), str),
         "be a public constant: a normaliser worked out from the dataset reveals its size"),
    )
    for field, refused, allowed in reasons:
        if refused:
            raise UnsupportedError(f"Expected {field}={values[field]!r} to {allowed}.")


def _sigma(values: Mapping[str, object]) -> float:
    clip_norm = checks.positive(clip_norm=values.get("clip_norm", 1.0))
    stated = {}
    if "sigma" in values:
        stated["sigma"] = checks.positive(sigma=values["sigma"])
    if "noise_stddev" in values:
        stated["noise_stddev / clip_norm"] = checks.positive(noise_stddev=values["noise_stddev"]) / clip_norm
    return _agreeing("noise", stated, "sigma, or noise_stddev and clip_norm")


def _fixed_scheme(values: Mapping[str, object], name: str, iterations: int, bandwidth: int) -> BatchScheme:
    if "sampling_probability" in values:
        raise InputError(f"Expected sampling_probability not to be given for {name}, which has participations.")
    stated: dict[str, float] = {}
    if "participations" in values:
        stated["participations"] = checks.integer(participations=values["participations"])
    if (fraction := _batch_fraction(values)) is not None:
        stated["iterations · batch / dataset_size"] = iterations * fraction
    participations = _agreeing("participations", stated, "participations, or batch_size and dataset_size")
    if round(participations) != participations:
        raise InputError(f"Expected iterations · batch / dataset_size = {participations!r} to be an integer for {name}.")
    return make_scheme(name, iterations=iterations, participations=round(participations), bandwidth=bandwidth)


def _poisson_scheme(values: Mapping[str, object], name: str, iterations: int, bandwidth: int) -> BatchScheme:
    stated: dict[str, float] = {}
    if "sampling_probability" in values:
        checks.positive(sampling_probability=values["sampling_probability"])
        stated["sampling_probability"] = checks.within(0, 1, sampling_probability=values["sampling_probability"])
    if "participations" in values:
        given = make_scheme(name, iterations=iterations, participations=values["participations"], bandwidth=bandwidth)
        stated["the probability of participations"] = given.probability
    if (fraction := _batch_fraction(values)) is not None:
        if fraction * bandwidth > 1:
            raise InputError(f"Expected dataset_size={values['dataset_size']} to be at least {bandwidth} batches.")
        # Of a step's free examples: all, one group of b, or those not resting.
        free = {"poisson": 1.0, "cyclic_poisson": 1 / bandwidth, "min_sep_poisson": 1 - (bandwidth - 1) * fraction}[name]
        stated["batch / dataset_size of the free examples"] = fraction / free
    probability = _agreeing("sampling probability", stated, "sampling_probability, participations, or batch_size and dataset_size")
    return poisson_scheme(name, iterations=iterations, bandwidth=bandwidth, probability=probability)


def poisson_scheme(name: str, *, iterations: int, bandwidth: int, probability: float) -> BatchScheme:
    """The Poisson-type scheme whose free steps have exactly this probability (or the next larger one that it can express)."""
    for participations in range(1, iterations // bandwidth + 1):
        scheme = make_scheme(name, iterations=iterations, participations=participations, bandwidth=bandwidth)
        scheme = dataclasses.replace(scheme, rate_factor=probability / scheme.probability)
        if scheme.probability == probability:
            return scheme
    while scheme.probability < probability:
        scheme = dataclasses.replace(scheme, rate_factor=math.nextafter(scheme.rate_factor, math.inf))
    return scheme


def _batch_fraction(values: Mapping[str, object]) -> float | None:
    """(0, 1]: the part of the dataset in one global batch; None if it is not said."""
    if ("batch_size" in values) != ("dataset_size" in values):
        raise InputError("Expected batch_size and dataset_size to be given together or not at all.")
    factors = {name: checks.integer(**{name: values[name]}) for name in ("world_size", "accumulation_steps") if name in values}
    if "batch_size" not in values:
        if factors:
            raise InputError(f"Expected batch_size and dataset_size to be given with {', '.join(factors)}.")
        return None
    batch = checks.integer(batch_size=values["batch_size"]) * math.prod(factors.values())
    return batch / checks.integer(at_least=batch, dataset_size=values["dataset_size"])


def _agreeing(what: str, stated: Mapping[str, float], needed: str) -> float:
    """The first of several statements of one number, all of which must agree."""
    if not stated:
        raise InputError(f"Expected the {what} to be given: {needed}.")
    (first, value), *others = stated.items()
    for name, other in others:
        if not math.isclose(value, other, rel_tol=AGREEMENT):
            raise InputError(f"Expected the {what} to be one number, but {first} is {value!r} and {name} is {other!r}.")
    return value
