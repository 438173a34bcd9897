"""What a report is made of: the run's strategy file and its study, read and left as they are."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from accountants.certificates.records import Certificate, certificate_from_dict
from accountants.evidence import KINDS, Evidence
from accountants.fixed_size.mechanism import FixedSizeMechanism
from accountants.gaussian import rmse_lower_limit
from engine.files import sha256_of
from engine.results import evidence_of, fixed_size_mechanism_of, fixed_size_problem_of, mechanism_of, problem_of, read_strategy
from engine.run_folder import RunFolder
from engine.run_storage import RunStorage, run_storage
from engine.storage import opened_storage
from engine.study import load_study, study_space
from engine.trial_record import UNITS
from engine.trials import Candidate, best_per_scheme, trial_rows
from search_spaces.errors import InputError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import FIXED_SIZE, FixedSizeProblem, Problem


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """What the study of a run holds.

    Attributes:
      name: of the study.
      problem: what was searched for.
      seed: of the search.
      units: of the RMSE.
      rows: all trials in order, with the keys `engine.trials.COLUMNS` each.
      best: the best fully evaluated candidate of every scheme that has one, best first.
      versions: of the packages that made the study.
    """

    name: str
    problem: Problem
    seed: int
    units: str
    rows: tuple[Mapping[str, object], ...]
    best: Mapping[str, Candidate]
    versions: Mapping[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Strategy:
    """What the strategy file of a run holds.

    Attributes:
      document: as `engine.results.read_strategy` returns it.
      sha256: its seal.
      problem: the target.
      mechanism: scheme, strategy and σ.
      evidence: every statement about the mechanism, in the file's order.
      certificate: what the guarantee rests on; None where it is deterministic bounds alone.
    """

    document: Mapping[str, object]
    sha256: str
    problem: Problem | FixedSizeProblem
    mechanism: Mechanism | FixedSizeMechanism
    evidence: tuple[Evidence, ...]
    certificate: Certificate | None

    @property
    def scheme(self) -> str:
        """Name of the scheme."""
        return self.document["scheme"]

    @property
    def fixed_size(self) -> bool:
        """Whether it is about fixed-size batches."""
        return self.scheme == FIXED_SIZE

    @property
    def rmse(self) -> float:
        """RMSE of the prefix sums."""
        return self.document["rmse"]

    @property
    def multiple_of_limit(self) -> float | None:
        """RMSE over the smallest that a scheme with fixed participations can have; None where the adjacency is another."""
        if self.fixed_size:
            return None
        target = self.problem
        return self.rmse / rmse_lower_limit(iterations=target.iterations, epsilon=target.epsilon, delta=target.delta)

    @property
    def guarantee(self) -> tuple[Evidence, ...]:
        """For each direction the statement that meets the target: certified if one is, else the first bound in the file, which holds what its
        certificate says first.

        A direction for which no statement but estimates meets the target is not in it.
        """
        best: dict[str, Evidence] = {}
        for statement in sorted(self.evidence, key=lambda e: -KINDS.index(e.kind)):
            meets = statement.epsilon <= self.problem.epsilon and statement.delta <= self.problem.delta
            if statement.kind != "estimate" and meets:
                best.setdefault(statement.direction, statement)
        return tuple(best.values())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contents:
    """All that a report says.

    Attributes:
      name: of the run's folder.
      strategy: None where the run has none (yet).
      search: None where the run has no study in reach, as one with fixed-size batches.
    """

    name: str
    strategy: Strategy | None
    search: Search | None

    @property
    def problem(self) -> Problem | FixedSizeProblem:
        """The target."""
        return self.search.problem if self.strategy is None else self.strategy.problem

    @property
    def lower_limit(self) -> float | None:
        """The smallest RMSE that a scheme with fixed participations can have; None under replace adjacency."""
        problem = self.problem
        if isinstance(problem, FixedSizeProblem):
            return None
        return rmse_lower_limit(iterations=problem.iterations, epsilon=problem.epsilon, delta=problem.delta)


def read_contents(folder: Path, *, storage: str | None = None) -> Contents:
    """What a run folder, and the study that belongs to it, hold.

    Args:
      folder: of the run.
      storage: of the study (see `engine.storage.open_storage`); None means the one the run has (see `engine.run_storage`), if it has one.

    Raises:
      InputError: there is no such folder, study or run, or a file of it is damaged.
    """
    run = RunFolder.existing(folder)
    strategy = _read_strategy(run.strategy) if run.strategy.exists() else None
    place = run_storage(run, given=storage)
    search = _read_search(place) if place.begun or storage is not None else None
    if strategy is None and search is None:
        raise InputError(
            f"Expected run folder {str(folder)!r} to hold a strategy file or a study; name the storage if the study is elsewhere."
        )
    return Contents(name=run.path.name, strategy=strategy, search=search)


def _read_strategy(path: Path) -> Strategy:
    document = read_strategy(path)
    fixed_size = document["scheme"] == FIXED_SIZE
    return Strategy(
        document=document, sha256=sha256_of(document), evidence=evidence_of(document),
        problem=(fixed_size_problem_of if fixed_size else problem_of)(document),
        mechanism=(fixed_size_mechanism_of if fixed_size else mechanism_of)(document),
        certificate=None if document["certificate"] is None else certificate_from_dict(document["certificate"]),
    )


def _read_search(place: RunStorage) -> Search:
    with opened_storage(place.spec, read_only=True) as storage:
        study = load_study(storage=storage, name=place.study_name(storage))
        attributes = study.user_attrs
        return Search(
            name=study.study_name, problem=study_space(study).problem, seed=int(attributes["seed"]), units=UNITS["value"],
            rows=tuple(trial_rows(study)), best=best_per_scheme(study), versions=dict(attributes.get("versions", {})),
        )
