"""The certification stage: from the best few choices of a search to one mechanism with a certificate.

Pilots and plans use random numbers of their own; a plan is complete before the first certifying sample is drawn. The samples of a test
are split over workers by block number, so the result does not depend on how many there are. In a run, plan and samples are kept as they
come in (`engine.journal`), so that a certification that was killed goes on where it was.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from accountants.calibration import calibrate
from accountants.certificates.conclusion import conclude
from accountants.certificates.planning import Choice, deterministic, plan_published, plan_tail_sum
from accountants.certificates.records import Candidate, Certificate, Outcome, Plan, certificate_to_dict, committed, mechanism_to_dict
from accountants.certificates.sampling import BlockSums, draw_blocks, outcome
from accountants.evidence import DIRECTIONS, Evidence
from accountants.gaussian import rmse_lower_limit
from accountants.monte_carlo.pilot import solve_sigma
from accountants.registry import account
from engine.configuration import NORM_ONLY
from engine.deterministic import DeterministicSigma, best_deterministic
from engine.journal import Journal
from engine.results import strategy_document, write_strategy
from engine.study import versions
from search_spaces import checks
from search_spaces.mechanism import Mechanism
from search_spaces.problem import Problem
from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy

CERTIFICATES = ("tilted", "tail-sum", "published")
"""`tilted`: tail-sum tests, "remove" sampled from the Rényi-tilted law where the scheme has one. `tail-sum`: plain samples only.
`published`: the published procedure, with the numbers of samples it needs."""

PILOT_SAMPLES = 16_384
MAX_SAMPLES: Mapping[str, int] = {"tilted": 400_000, "tail-sum": 1_500_000, "published": 20_000_000}
"""The most samples of one test, by kind of certificate."""

BLOCKS_PER_TASK = 16

WITHOUT_EFFECT = ("optuna", "ray")
"""Recorded packages on whose version no certifying sample depends."""

Progress = Callable[[str, int, int], None]
DrawTest = Callable[[Plan, int, str, Sequence[int], Callable[[str], None]], Iterator[list[BlockSums]]]
"""(plan, candidate, direction, blocks, on_wait) → the sums of these blocks of that test, chunk by chunk in any order; `on_wait` is told in
words what the work waits for, where it has to."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CertifiedStrategy:
    """A mechanism with its guarantee.

    Attributes:
      problem: the target it meets.
      mechanism: scheme, strategy and certified σ.
      certificate: what the guarantee rests on.
      evidence: the certified statements first, then what every other accountant says of the mechanism.
      deterministic: the best deterministic σ and by how much the certified one differs; None where there is none or nobody asked.
      seed: of the run.
      seconds: wall time of the certification stage.
    """

    problem: Problem
    mechanism: Mechanism
    certificate: Certificate
    evidence: tuple[Evidence, ...]
    deterministic: DeterministicSigma | None
    seed: int
    seconds: float

    @property
    def multiple_of_limit(self) -> float:
        """RMSE over the smallest RMSE that any scheme with fixed participations can have at the target."""
        problem = self.problem
        return self.mechanism.rmse / rmse_lower_limit(iterations=problem.iterations, epsilon=problem.epsilon, delta=problem.delta)

    def document(self) -> dict[str, object]:
        """The content of a strategy file."""
        return strategy_document(
            mechanism=self.mechanism, problem=self.problem, evidence=self.evidence, certificate=certificate_to_dict(self.certificate),
            deterministic=None if self.deterministic is None else self.deterministic.to_dict(),
            seeds={"run": self.seed, "certificate": self.certificate.plan.seed},
        )

    def to_dict(self) -> dict[str, object]:
        """The document, the multiple of the lower limit and the seconds, as plain JSON values."""
        return self.document() | {"multiple_of_limit": self.multiple_of_limit, "seconds": self.seconds}


def certify(
    *, scheme: BatchScheme, strategy: ToeplitzStrategy, epsilon: float, delta: float, certificate: str = "tilted", seed: int = 0,
    workers: int | None = None, out: Path | None = None, max_samples: int | None = None, others: bool = True,
    progress: Progress | None = None,
) -> CertifiedStrategy:
    """Find and certify σ for one scheme and strategy, and write the strategy file if `out` is given.

    `others` as in `certify_best`; arguments else as the command's.

    Raises:
      InputError: a value out of range, or `out` cannot be written.
      CalibrationError: no test within the allowed samples certifies the target.
      CertificateError: the certificate cannot be made.
    """
    problem = Problem(iterations=scheme.iterations, participations=scheme.participations, epsilon=epsilon, delta=delta)
    certified = certify_best(
        problem, [(scheme, strategy)], certificate=certificate, seed=seed, max_samples=max_samples, others=others, progress=progress,
        draw=draw_test if workers in (None, 1) else ray_drawer(workers),
    )
    if out is not None:
        write_strategy(out, certified.document())
    return certified


def certify_best(
    problem: Problem, choices: Sequence[tuple[BatchScheme, ToeplitzStrategy]], *, certificate: str, seed: int,
    draw: DrawTest, max_samples: int | None = None, others: bool = True, progress: Progress | None = None, folder: Path | None = None,
) -> CertifiedStrategy:
    """Certify the best of a few choices, given in the order of the RMSE the search found.

    Choices that a deterministic accountant serves need no samples: the first of them, if it is the best of all, is the result;
    otherwise those choices are left out.

    Args:
      problem: the target.
      choices: schemes and strategies, best first, at least one.
      certificate: a word of `CERTIFICATES`.
      seed: of the run; the seed of the certifying streams is derived from it and the whole plan.
      draw: draws one test.
      max_samples: the most samples of one test; None means `MAX_SAMPLES`.
      others: whether every other accountant is asked too, for the evidence and the best deterministic σ, which can take longer than the
        certificate.
      progress: told where the work stands.
      folder: where plan and samples are kept, and found again by a later call with the same arguments; None keeps nothing.
    """
    started = time.perf_counter()
    checks.one_of(CERTIFICATES, certificate=certificate)
    most = MAX_SAMPLES[certificate] if max_samples is None else checks.integer(max_samples=max_samples)

    def new_plan() -> Plan:
        made = make_plan(problem, choices, certificate=certificate, seed=seed, max_samples=most, progress=progress)
        return committed(made, run_seed=seed)

    journal = None
    if folder is not None:
        journal = Journal(folder, _inputs(problem, choices, certificate=certificate, seed=seed, max_samples=most))
    plan = new_plan() if journal is None else journal.plan(new_plan, run_seed=seed)

    def make_test(candidate: int, direction: str) -> Outcome:
        return run_test(plan, candidate, direction, draw=draw, journal=journal, progress=progress)

    made = conclude(plan, make_test)
    mechanism = made.chosen.mechanism
    return CertifiedStrategy(
        problem=problem, mechanism=mechanism, certificate=made, seed=seed, seconds=time.perf_counter() - started,
        evidence=(*certified_evidence(made), *(account(mechanism, epsilon=problem.epsilon) if others else ())),
        deterministic=best_deterministic(made) if others else None,
    )


def make_plan(
    problem: Problem, choices: Sequence[tuple[BatchScheme, ToeplitzStrategy]], *, certificate: str, seed: int, max_samples: int,
    progress: Progress | None = None,
) -> Plan:
    """Everything about a certificate that is fixed before its samples are drawn."""
    target = dict(epsilon=problem.epsilon, delta=problem.delta)
    if choices[0][0].name in NORM_ONLY:
        candidate = _deterministic_candidate(*choices[0], **target)
        return Plan(method="tail_sum", seed=seed, candidates=(), fallback=candidate, **target)
    sampled = []
    for scheme, strategy in choices:
        if scheme.name not in NORM_ONLY:
            if progress is not None:
                progress(f"pilot of {scheme.name}, bandwidth {strategy.bandwidth}", len(sampled), len(choices))
            pilot = solve_sigma(scheme, strategy, samples=PILOT_SAMPLES, seed=seed, **target)
            sampled.append(Choice(mechanism=Mechanism(scheme=scheme, strategy=strategy, sigma=pilot.sigma), pilot=pilot))
    settings = dict(seed=seed, max_samples=max_samples, **target)
    if certificate == "published":
        return plan_published(sampled[0], **settings)
    return plan_tail_sum(sampled, tilt=certificate == "tilted", **settings)


def _deterministic_candidate(scheme: BatchScheme, strategy: ToeplitzStrategy, *, epsilon: float, delta: float) -> Candidate:
    found = calibrate(scheme, strategy, epsilon=epsilon, delta=delta, accountant="pld" if scheme.amplified else "gaussian")
    return deterministic(
        Mechanism(scheme=scheme, strategy=strategy, sigma=found.sigma), accountant=found.accountant,
        delta={evidence.direction: evidence.delta for evidence in found.evidence},
    )


def certified_evidence(certificate: Certificate) -> tuple[Evidence, Evidence]:
    """The certificate's two statements about its selection."""
    statements = []
    for index, direction in enumerate(DIRECTIONS):
        test, plan = certificate.chosen.tests[index], certificate.plan
        if test.sampler == "bound":
            statements.append(Evidence(
                accountant=test.accountant, direction=direction, kind="bound", epsilon=plan.epsilon, delta=test.threshold,
                adjacency=certificate.chosen.mechanism.scheme.adjacency, details={"method": "deterministic"},
            ))
            continue
        made = certificate.outcomes[certificate.selected][index]
        statements.append(Evidence(
            accountant="monte_carlo", direction=direction, kind="certified", epsilon=plan.epsilon, delta=certificate.delta[direction],
            adjacency=certificate.chosen.mechanism.scheme.adjacency,
            details={
                "method": plan.method, "sampler": test.sampler, "alpha": test.alpha, "samples": test.samples, "threshold": test.threshold,
                "bound": test.bound, "bias": test.bias, "mean": made.mean, "seed": plan.seed, "dtype": "float64",
                "confidence": "none needed: delta is that of the whole pipeline, averaged over the certifying samples",
            },
        ))
    return tuple(statements)


def run_test(
    plan: Plan, candidate: int, direction: str, *, draw: DrawTest, journal: Journal | None = None, progress: Progress | None = None,
) -> Outcome:
    """One test: what the journal has is not drawn again, and what is drawn is in the journal before it counts.

    Raises:
      CertificateError: a block is missing or was counted twice, or its samples could not be drawn.
    """
    test, name = plan.candidates[candidate].tests[DIRECTIONS.index(direction)], test_name(plan, candidate, direction)
    sums = [] if journal is None else journal.known(candidate, direction)
    missing = sorted(set(range(test.blocks)) - {part.block for part in sums})

    def tell(what: str = "") -> None:
        if progress is not None:
            progress(f"{name}, {what}" if what else name, len(sums), test.blocks)

    if missing:
        with contextlib.closing(draw(plan, candidate, direction, missing, tell)) as chunks:
            for chunk in chunks:
                if journal is not None:
                    journal.add(candidate, direction, chunk)
                sums += chunk
                tell()
    return outcome(test, sums)


def draw_test(
    plan: Plan, candidate: int, direction: str, blocks: Sequence[int], on_wait: Callable[[str], None] | None = None,
) -> Iterator[list[BlockSums]]:
    """Draw blocks of one test in this process, which waits for nothing."""
    for chunk in _chunks(blocks):
        yield draw_blocks(plan, candidate, direction, chunk)


def ray_drawer(workers: int, *, gpus: float = 0.0) -> DrawTest:
    """A drawer that splits the blocks over Ray tasks, in the running session if there is one, else in a local one of its own.

    A task whose node or worker is lost is repeated (`engine.tasks`): what it draws does not depend on where it runs.
    """
    workers = checks.integer(workers=workers)

    def draw(
        plan: Plan, candidate: int, direction: str, blocks: Sequence[int], on_wait: Callable[[str], None] | None = None,
    ) -> Iterator[list[BlockSums]]:
        from engine.environment import start_ray
        from engine.tasks import results

        with start_ray(workers=workers, gpus_per_trial=gpus):
            yield from results(draw_blocks, plan, candidate, direction, items=_chunks(blocks), gpus=gpus, on_wait=on_wait)

    return draw


def test_name(plan: Plan, candidate: int, direction: str) -> str:
    """What a test is called while it runs."""
    mechanism = plan.candidates[candidate].mechanism
    what = f"certify {mechanism.scheme.name} b={mechanism.strategy.bandwidth} sigma={mechanism.sigma:.4f} {direction}"
    return f"{what}, RMSE {mechanism.rmse:.4f} if it passes"


def _chunks(blocks: Sequence[int]) -> list[Sequence[int]]:
    return [blocks[start : start + BLOCKS_PER_TASK] for start in range(0, len(blocks), BLOCKS_PER_TASK)]


def _inputs(
    problem: Problem, choices: Sequence[tuple[BatchScheme, ToeplitzStrategy]], *, certificate: str, seed: int, max_samples: int,
) -> dict[str, object]:
    """All that a plan and its samples depend on, as plain JSON values."""
    described = [mechanism_to_dict(Mechanism(scheme=scheme, strategy=strategy, sigma=1.0)) for scheme, strategy in choices]
    return {
        "problem": dataclasses.asdict(problem), "choices": [{name: one[name] for name in one if name != "sigma"} for one in described],
        "certificate": certificate, "seed": seed, "max_samples": max_samples, "pilot_samples": PILOT_SAMPLES,
        "versions": {name: version for name, version in versions().items() if name not in WITHOUT_EFFECT},
    }
