"""The exported configuration: everything a training run must keep to, sealed by a hash and refused if it was edited.

A document is plain JSON values: `format`, `version`, `to` (the exporter), `problem`, `scheme`, `bandwidth`, `r`, `coefficients`, `sigma`
(as in a strategy file), `training`, `sampler`, `guarantee`, `rules` (what must hold, in words), `strategy_sha256` (of the strategy file's
content), and in the file `sha256` of all the rest. All but the first are worked out from the strategy and `training`, so that a document
whose parts disagree is refused even if its hash is right.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from accountants.evidence import DIRECTIONS, Evidence
from engine.files import read_json, readable_json, sha256_of
from engine.results import FIELDS as STRATEGY_FIELDS
from engine.results import SEAL, evidence_of, mechanism_of, problem_of
from search_spaces import checks
from search_spaces.errors import InputError, NumericalError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import Problem

FORMAT = "bandsmith export"
VERSION = 1
FILE = "config.json"
MECHANISM_FIELDS = ("problem", "scheme", "bandwidth", "r", "coefficients", "sigma")
"""Fields that a configuration repeats from its strategy file as they are."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """What one trainer is given.

    Attributes:
      to: name of the exporter.
      strategy: the fields `MECHANISM_FIELDS` of the strategy file.
      guarantee: its guaranteed statements, one per direction.
      clip_norm: every example's gradient is clipped to this L2 norm. Public.
      normalize_by: the noisy sum of clipped gradients is divided by this. A public constant: under add/remove adjacency the size of the
        dataset is not public, and a normaliser worked out from it would leak.
      strategy_sha256: hash of the strategy file's content.

    Raises:
      InputError: a value out of range, or `normalize_by` is not a number.
    """

    to: str
    strategy: Mapping[str, object]
    guarantee: tuple[Evidence, Evidence]
    clip_norm: float
    normalize_by: float
    strategy_sha256: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip_norm", checks.positive(clip_norm=self.clip_norm))
        if isinstance(self.normalize_by, str):
            raise InputError(
                f"Expected normalize_by={self.normalize_by!r} to be a number: a public constant, never worked out from the dataset, "
                f"whose size is private under {self.mechanism.scheme.adjacency} adjacency."
            )
        object.__setattr__(self, "normalize_by", checks.positive(normalize_by=self.normalize_by))

    @property
    def problem(self) -> Problem:
        """The target that the guarantee meets."""
        return problem_of(self.strategy)

    @property
    def mechanism(self) -> Mechanism:
        """Scheme, strategy and σ."""
        return mechanism_of(self.strategy)

    @property
    def noise_stddev(self) -> float:
        """Standard deviation of z where the noise C⁻¹z is added to the sum of clipped gradients: σ · clip norm."""
        return self.mechanism.sigma * self.clip_norm

    def document(self) -> dict[str, object]:
        """The content of `config.json`, without its seal."""
        mechanism, problem = self.mechanism, self.problem
        return {
            "format": FORMAT, "version": VERSION, "to": self.to, **self.strategy,
            "training": {
                "steps": problem.iterations, "clip_norm": self.clip_norm, "normalize_by": self.normalize_by,
                "noise_stddev_of_the_sum": self.noise_stddev, "noise_stddev_after_normalising": self.noise_stddev / self.normalize_by,
                "correlated_over_steps": mechanism.strategy.bandwidth,
            },
            "sampler": _sampler(mechanism),
            "guarantee": {
                "epsilon": problem.epsilon, "delta": problem.delta, "adjacency": mechanism.scheme.adjacency,
                "statements": [statement.to_dict() for statement in self.guarantee],
            },
            "rules": list(_rules(self)), "strategy_sha256": self.strategy_sha256,
        }

    def text(self) -> str:
        """The whole file `config.json`."""
        document = self.document()
        return readable_json(document | {SEAL: sha256_of(document)})


def make_config(strategy: Mapping[str, object], *, to: str, clip_norm: float, normalize_by: float) -> ExportConfig:
    """The configuration of a strategy file's content.

    Raises:
      InputError: a value out of range, or the file guarantees its problem's (ε, δ) in no or one direction only.
    """
    kept = {name: strategy[name] for name in MECHANISM_FIELDS}
    return ExportConfig(
        to=to, strategy=kept, guarantee=guaranteed(strategy), clip_norm=clip_norm, normalize_by=normalize_by,
        strategy_sha256=sha256_of({name: strategy[name] for name in STRATEGY_FIELDS}),
    )


def guaranteed(strategy: Mapping[str, object]) -> tuple[Evidence, Evidence]:
    """Per direction, the first statement that is a guarantee (no estimate) of the problem's ε and δ.

    Raises:
      InputError: a direction has none.
    """
    problem, found = problem_of(strategy), []
    for direction in DIRECTIONS:
        holding = [
            statement for statement in evidence_of(strategy)
            if statement.direction == direction and statement.kind != "estimate"
            and statement.epsilon <= problem.epsilon and statement.delta <= problem.delta
        ]
        if not holding:
            raise InputError(
                f"Expected the strategy file to guarantee epsilon={problem.epsilon} and delta={problem.delta} in both directions; "
                f"no bound or certified statement does for {direction!r}. `bandsmith certify` makes one."
            )
        found.append(holding[0])
    return tuple(found)


def load_config(folder: Path, *, to: str | None = None) -> ExportConfig:
    """The configuration in an exported folder (or a `config.json` itself).

    Args:
      folder: what `export` wrote.
      to: the exporter that is expected, if any.

    Raises:
      InputError: it cannot be read, was edited, is of another format, version or exporter, or its parts disagree.
    """
    path = Path(folder)
    path = path / FILE if path.is_dir() else path
    document = read_json(path, argument="exported configuration")
    try:
        return _from_document(document, to)
    except (InputError, NumericalError) as error:
        raise InputError(f"In exported configuration {str(path)!r}: {error}") from error


def _from_document(document: dict[str, object], to: str | None) -> ExportConfig:
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        found = f"{document.get('format')!r} and {document.get('version')!r}"
        raise InputError(f"Expected format={FORMAT!r} and version={VERSION}, not {found}.")
    if document.pop(SEAL, None) != sha256_of(document):
        raise InputError(f"Expected {SEAL} to be that of the content: the file was edited after it was written. Export the strategy again.")
    if to not in (None, document.get("to")):
        raise InputError(f"Expected to={document.get('to')!r} to be {to!r}: the folder was exported for another trainer.")
    try:
        config = ExportConfig(
            to=document["to"], strategy={name: document[name] for name in MECHANISM_FIELDS},
            guarantee=tuple(Evidence.from_dict(statement) for statement in document["guarantee"]["statements"]),
            clip_norm=document["training"]["clip_norm"], normalize_by=document["training"]["normalize_by"],
            strategy_sha256=document["strategy_sha256"],
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"Expected all fields of an exported configuration: {error}.") from error
    guaranteed(config.strategy | {"evidence": [statement.to_dict() for statement in config.guarantee]})
    if different := [name for name, value in config.document().items() if document.get(name) != value]:
        raise InputError(f"Expected the fields to follow from each other, which {', '.join(different)} do not.")
    return config


def _sampler(mechanism: Mechanism) -> dict[str, object]:
    scheme = mechanism.scheme
    coverage = scheme.coverage()
    ends = [-(-scheme.iterations * epoch // scheme.participations) for epoch in range(1, scheme.participations + 1)]
    fractions = scheme.expected_batch_sizes(1)
    return {
        "scheme": scheme.name, "iterations": scheme.iterations, "participations": scheme.participations, "bandwidth": scheme.bandwidth,
        "separation": scheme.separation, "probability": None if scheme.fixed_participations else scheme.probability,
        "expected_batch_fraction": {
            "smallest": float(fractions.min()), "mean": float(fractions.mean()), "largest": float(fractions.max()),
        },
        "expected_coverage_after_epoch": [float(coverage[end - 1]) for end in ends],
    }


def _rules(config: ExportConfig) -> tuple[str, ...]:
    problem, scheme = config.problem, config.mechanism.scheme
    return (
        f"Batches come from this configuration's {scheme.name} sampler with a secret seed: none shuffled, of fixed size or dropped.",
        f"There are exactly {problem.iterations} optimiser steps, one per batch, empty batches included; each adds the noise of its step.",
        f"Every example's gradient is clipped to L2 norm {config.clip_norm} on its own; a batch may be cut into parts in any way.",
        "The clipped gradients are summed, not averaged: the noise is for the sum, and no other scaling comes before it.",
        f"The noisy sum is divided by the public constant {config.normalize_by}, never by a size of the dataset or of a batch.",
        "The noise is that of the hook, correlated over steps; white noise of the same standard deviation is another mechanism.",
        "Batches, their sizes, the seeds and the noise state are secret; only the noisy gradients may be looked at.",
    )
