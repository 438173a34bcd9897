"""The best that each batch selection scheme can do at one problem, side by side.

A deterministic optimisation, not a random search: every evaluation of a scheme uses the same random numbers, so that σ is a smooth
function of r, and the result depends on the seed alone. Bandwidths go from a coarse ladder to the neighbours of its best; at each
bandwidth log σ is interpolated between a few solved r while the strategy's error, which is exact and cheap, is taken as it is.
"""

import dataclasses
import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from accountants.fixed_size import tightest
from accountants.tightest import tightest_bound
from engine.configuration import FIRST_TAIL, NORM_ONLY, best_r
from engine.deterministic import TOLERANCE as BOUND_TOLERANCE
from engine.objective import evaluate
from engine.outcome import Outcome
from search_spaces import checks
from search_spaces.dense_strategies import DenseStrategy
from search_spaces.errors import CalibrationError, InputError
from search_spaces.problem import FIXED_SIZE, FixedSizeProblem, Problem
from search_spaces.schemes import BallsInBins
from search_spaces.space import SchemeSpace, SearchSpace, position_from_r, r_from_position
from search_spaces.strategies import harmonic

SAMPLES = 4096
"""Samples per estimate unless told otherwise: about 0.2 % in σ at the anchor problem."""

RAISED = 4
"""Where too few samples are effective, a scheme gets this many times as many, once."""

LADDER_RATIO = 2.0
"""Ratio of neighbouring bandwidths on the coarse ladder."""

FINEST_RATIO = 1.2
"""Bandwidths closer than this are not told apart: the error is flat at its minimum, and the estimate has noise."""

R_STEP = 0.12
"""Distance, in positions of [0, 1], of the first three r at a bandwidth, and how far the next one may lie beyond the solved ones."""

R_TOLERANCE = 0.03
"""An r this close to a solved one, in positions, is not solved again."""

MOST_R = 6
"""Most r solved at one bandwidth."""

MATRIX_TOLERANCE = 1e-3
"""Relative tolerance of σ of a given matrix, whose bounds take seconds each."""

Progress = Callable[[str, int, int], None]
"""Called with (text, schemes done, schemes in all)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonRow:
    """The best configuration found for one scheme; the numbers are None where no configuration could be ranked.

    Attributes:
      scheme: name of the scheme.
      matrix: name of the given C; None where bandwidth and r describe it.
      adjacency: `add_remove` or `replace`; rows of different adjacency cannot be compared.
      bandwidth, r: the configuration.
      sigma: its noise multiplier.
      rmse: its RMSE.
      rmse_standard_error: standard error of the RMSE, None for a bound.
      kind: `bound` or `estimate` (see `accountants.evidence.KINDS`).
      accountant: which accountant gave σ.
      ratio_to_cyclic_poisson: rmse over that of cyclic Poisson, None where that is not compared.
      multiple_of_limit: rmse over the smallest RMSE a scheme with fixed participations can have; None where the adjacency is `replace`, and
        for a given matrix, to which that limit need not apply.
      samples: samples of its estimate, 0 for a bound.
      bound_sigma, bound_rmse, bound_accountant: for balls-in-bins, what the best deterministic accountant allows for the same configuration.
      configurations: how many were solved.
      seconds: wall time for this scheme.
      note: why some configurations, or all, could not be ranked; else empty.
    """

    scheme: str
    matrix: str | None = None
    adjacency: str = "add_remove"
    bandwidth: int | None = None
    r: float | None = None
    sigma: float | None = None
    rmse: float | None = None
    rmse_standard_error: float | None = None
    kind: str | None = None
    accountant: str | None = None
    ratio_to_cyclic_poisson: float | None = None
    multiple_of_limit: float | None = None
    samples: int | None = None
    bound_sigma: float | None = None
    bound_rmse: float | None = None
    bound_accountant: str | None = None
    configurations: int = 0
    seconds: float = 0.0
    note: str = ""


def compare(
    problem: Problem, *, schemes: Iterable[str] | None = None, bandwidths: Iterable[int] | None = None, samples: int | None = None,
    seed: int = 0, workers: int | None = None, batch_size: int | None = None, matrices: Mapping[str, DenseStrategy] | None = None,
    progress: Progress | None = None,
) -> list[ComparisonRow]:
    """One row per scheme, in the order of `SCHEMES`; then one per given matrix and, with a batch size, one for fixed-size batches.

    Args:
      problem: T, K and the target.
      schemes: names to compare; None means all that can serve the problem.
      bandwidths: bandwidths to consider; None means all.
      samples: samples per estimate, more where too few are effective; None means `SAMPLES`.
      seed: of the samples.
      workers: schemes optimised at once, on Ray where more than one; None means one per CPU core. The rows do not depend on it.
      batch_size: of the fixed-size batches; the problem then has a dataset size.
      matrices: any C of the problem's T steps by name, for balls-in-bins, which serves them all.
      progress: told whenever a scheme or a matrix is done.

    Raises:
      InputError: a value out of range, or nothing to compare.
      NumericalError: a value that cannot be trusted.
    """
    fixed_size = _fixed_size_problem(problem, batch_size)
    if isinstance(schemes, Iterable) and not isinstance(schemes, str) and FIXED_SIZE in (schemes := tuple(schemes)):
        if fixed_size is None:
            raise InputError(f"Expected dataset_size and batch_size to be given with schemes={','.join(schemes)!r}.")
        schemes = tuple(name for name in schemes if name != FIXED_SIZE)
    single = [*_matrix_rows(problem, matrices or {}), *([functools.partial(_fixed_size_row, fixed_size)] if fixed_size else [])]
    searched: Iterator[ComparisonRow] = iter(())
    names: tuple[str, ...] = ()
    if schemes != () or fixed_size is None:
        space = SearchSpace.for_problem(problem, schemes=schemes, bandwidths=bandwidths)
        names = space.names
        samples = SAMPLES if samples is None else checks.integer(samples=samples)
        workers = (os.cpu_count() or 1) if workers is None else checks.integer(workers=workers)
        searched = _rows(space, samples=samples, seed=checks.integer(at_least=0, seed=seed), workers=min(workers, len(names)))
    found = []
    for row in itertools.chain(searched, (make() for make in single)):
        found.append(row)
        if progress is not None:
            progress(_summary(row), len(found), len(names) + len(single))
    found[: len(names)] = sorted(found[: len(names)], key=lambda row: names.index(row.scheme))
    return _with_ratios(found)


def best_of_scheme(problem: Problem, part: SchemeSpace, *, samples: int, seed: int) -> ComparisonRow:
    """The row of one scheme, without the ratio."""
    started = time.perf_counter()
    search = _SchemeSearch(problem, part, samples=samples, seed=seed)
    bandwidth = _best_bandwidth(part.bandwidths, search.rmse)
    row = ComparisonRow(
        scheme=part.scheme, configurations=search.configurations, seconds=time.perf_counter() - started, note=search.note(),
    )
    if not math.isfinite(search.rmse(bandwidth)):
        return row
    r, best = search.solutions[bandwidth]
    return dataclasses.replace(
        row, bandwidth=bandwidth, r=r, sigma=best.sigma, rmse=best.rmse, rmse_standard_error=best.rmse_standard_error, kind=best.kind,
        accountant=best.accountant, multiple_of_limit=best.multiple_of_limit, samples=best.samples,
    )


def _with_bound(problem: Problem, part: SchemeSpace, *, samples: int, seed: int) -> ComparisonRow:
    """`best_of_scheme`, with a deterministic σ beside the estimated one where the scheme is balls-in-bins."""
    started, row = time.perf_counter(), best_of_scheme(problem, part, samples=samples, seed=seed)
    if part.scheme != BallsInBins.name or row.kind != "estimate":
        return row
    scheme = BallsInBins(iterations=problem.iterations, participations=problem.participations, bandwidth=row.bandwidth)
    strategy = harmonic(iterations=problem.iterations, bandwidth=row.bandwidth, r=row.r)
    try:
        best = tightest_bound(scheme, strategy, epsilon=problem.epsilon, delta=problem.delta, tolerance=BOUND_TOLERANCE)
    except CalibrationError:
        return row
    return dataclasses.replace(
        row, bound_sigma=best.sigma, bound_rmse=strategy.rmse(sigma=best.sigma, participations=problem.participations),
        bound_accountant=best.accountant, seconds=time.perf_counter() - started,
    )


def _fixed_size_problem(problem: Problem, batch_size: int | None) -> FixedSizeProblem | None:
    """The same training with batches of a fixed size; None without a batch size."""
    if batch_size is None:
        return None
    if problem.dataset_size is None:
        raise InputError(f"Expected dataset_size to be given with batch_size={batch_size!r}.")
    batch_size = checks.integer(at_most=problem.dataset_size, batch_size=batch_size)
    low, rest = divmod(problem.participations * problem.dataset_size, problem.iterations)
    fitting = sorted({max(low, 1), low + (rest > 0)})
    if batch_size not in fitting:
        raise InputError(
            f"Expected batch_size={batch_size} to be {' or '.join(map(str, fitting))}, which is "
            "participations * dataset_size / iterations, so that all rows are about one training."
        )
    target = {name: getattr(problem, name) for name in ("dataset_size", "iterations", "epsilon", "delta")}
    return FixedSizeProblem(**target, batch_size=batch_size)


def _fixed_size_row(problem: FixedSizeProblem) -> ComparisonRow:
    """The row of fixed-size batches: the identity strategy at the smallest σ that a bound allows."""
    started = time.perf_counter()
    row = ComparisonRow(scheme=FIXED_SIZE, adjacency=problem.adjacency, configurations=1)
    try:
        mechanism, evidence = tightest(problem)
    except CalibrationError as error:
        row = dataclasses.replace(row, note=str(error))
    else:
        row = dataclasses.replace(
            row, bandwidth=1, r=0.0, sigma=mechanism.sigma, rmse=mechanism.rmse, kind=evidence.kind, accountant=evidence.accountant,
            samples=0,
        )
    return dataclasses.replace(row, seconds=time.perf_counter() - started)


def _matrix_rows(problem: Problem, matrices: Mapping[str, DenseStrategy]) -> list[Callable[[], ComparisonRow]]:
    """What makes the row of every matrix, once all of them are known to fit the problem."""
    for name, strategy in matrices.items():
        if strategy.iterations != problem.iterations:
            raise InputError(f"Expected matrix={name!r} with {strategy.iterations} rows to have iterations={problem.iterations} of them.")
    scheme = BallsInBins(iterations=problem.iterations, participations=problem.participations) if matrices else None
    return [functools.partial(_matrix_row, problem, scheme, name, strategy) for name, strategy in matrices.items()]


def _matrix_row(problem: Problem, scheme: BallsInBins, name: str, strategy: DenseStrategy) -> ComparisonRow:
    """The row of one matrix: its error at the smallest σ that a deterministic accountant allows under balls-in-bins."""
    started = time.perf_counter()
    row = ComparisonRow(scheme=scheme.name, matrix=name, configurations=1)
    try:
        best = tightest_bound(scheme, strategy, epsilon=problem.epsilon, delta=problem.delta, tolerance=MATRIX_TOLERANCE)
    except CalibrationError as error:
        row = dataclasses.replace(row, note=str(error))
    else:
        row = dataclasses.replace(
            row, bandwidth=strategy.bandwidth, sigma=best.sigma, kind=best.evidence[0].kind, accountant=best.accountant, samples=0,
            rmse=strategy.rmse(sigma=best.sigma, participations=problem.participations),
        )
    return dataclasses.replace(row, seconds=time.perf_counter() - started)


class _SchemeSearch:
    """The solved configurations of one scheme: the best r of every bandwidth that was asked for."""

    def __init__(self, problem: Problem, part: SchemeSpace, *, samples: int, seed: int) -> None:
        self.problem, self.scheme = problem, part.scheme
        self.evaluate = functools.partial(evaluate, problem, scheme=part.scheme, seed=seed)
        self.samples, self.most_samples = samples, RAISED * samples
        self.solutions: dict[int, tuple[float, Outcome]] = {}
        self.failures: list[str] = []
        self.configurations = 0

    def rmse(self, bandwidth: int) -> float:
        """The smallest RMSE at this bandwidth, infinite where nothing could be ranked."""
        if bandwidth not in self.solutions:
            found = self._solve(bandwidth)
            self.solutions[bandwidth] = min(found.items(), key=lambda item: _rank(item[1]))
        return _rank(self.solutions[bandwidth][1])

    def note(self) -> str:
        """How many configurations could not be ranked, and why the last of them; empty if all could."""
        if not self.failures:
            return ""
        return f"{len(self.failures)} of {self.configurations} configurations could not be ranked; {self.failures[-1].rstrip('.')}."

    def _solve(self, bandwidth: int) -> dict[float, Outcome | None]:
        if bandwidth == 1 or self.scheme in NORM_ONLY:
            r = best_r(iterations=self.problem.iterations, bandwidth=bandwidth)
            return {r: self._outcome(bandwidth, r)}
        solved: dict[float, Outcome | None] = {}
        for position in _positions_to_solve(self._first_position(bandwidth), solved, _unit_rmse(self.problem, bandwidth)):
            solved[position] = self._outcome(bandwidth, r_from_position(bandwidth, position))
        return {r_from_position(bandwidth, position): outcome for position, outcome in solved.items()}

    def _outcome(self, bandwidth: int, r: float) -> Outcome | None:
        self.configurations += 1
        try:
            outcome = self.evaluate(bandwidth=bandwidth, r=r, samples=self.samples)
            if not outcome.resolved and self.samples < self.most_samples:
                # Kept for the configurations to come: they are alike, and one number of samples means the same random numbers.
                self.samples = self.most_samples
                outcome = self.evaluate(bandwidth=bandwidth, r=r, samples=self.samples)
        except CalibrationError as error:
            self.failures.append(str(error))
            return None
        if outcome.resolved:
            return outcome
        self.failures.append(f"{self.samples} samples are too few to rank bandwidth={bandwidth}: ask for more")
        return None

    def _first_position(self, bandwidth: int) -> float:
        """The position of the best r at the nearest solved bandwidth, or a general guess."""
        solved = [b for b, (_, outcome) in self.solutions.items() if outcome is not None and b > 1]
        if not solved:
            return position_from_r(bandwidth, min(FIRST_TAIL / bandwidth, 0.25))
        nearest = min(solved, key=lambda b: abs(math.log(b / bandwidth)))
        return position_from_r(nearest, self.solutions[nearest][0])


def _rank(outcome: Outcome | None) -> float:
    return math.inf if outcome is None else outcome.rmse


def _unit_rmse(problem: Problem, bandwidth: int) -> Callable[[float], float]:
    return lambda position: harmonic(
        iterations=problem.iterations, bandwidth=bandwidth, r=r_from_position(bandwidth, position)
    ).rmse(sigma=1.0, participations=problem.participations)


def _positions_to_solve(
    first: float, solved: dict[float, Outcome | None], unit_rmse: Callable[[float], float]
) -> Iterator[float]:
    """Positions of r to solve, one after the other; the caller puts each outcome into `solved` before it asks for the next."""
    middle = min(max(first, R_STEP), 1.0 - R_STEP)
    yield from (middle, middle - R_STEP, middle + R_STEP)
    while len(solved) < MOST_R:
        ranked = sorted((p for p, outcome in solved.items() if outcome is not None), key=lambda p: solved[p].rmse)
        if len(ranked) < 3:
            return
        nearest = ranked[:3]
        curve = np.polyfit(nearest, [math.log(solved[p].sigma) for p in nearest], 2)
        grid = np.linspace(max(0.0, min(nearest) - R_STEP), min(1.0, max(nearest) + R_STEP), 49)
        predicted = np.polyval(curve, grid) + np.log([unit_rmse(float(p)) for p in grid])
        best = float(grid[np.argmin(predicted)])
        if min(abs(best - p) for p in solved) < R_TOLERANCE:
            return
        yield best


def _best_bandwidth(bandwidths: Sequence[int], rmse: Callable[[int], float]) -> int:
    """The best of the bandwidths tried: a ladder from the largest down to where the RMSE has clearly risen, then neighbours of its best."""
    tried: list[int] = []
    for bandwidth in _ladder(bandwidths):
        tried.append(bandwidth)
        best = min(tried, key=rmse)
        if math.isfinite(rmse(best)) and tried.index(best) <= len(tried) - 3:
            break
    while True:
        tried.sort()
        at = tried.index(min(tried, key=rmse))
        gaps = [(tried[i], tried[i + 1]) for i in (at - 1, at) if 0 <= i < len(tried) - 1]
        new = [middle for low, high in gaps if (middle := _between(bandwidths, low, high)) is not None]
        if not new:
            return tried[at]
        tried += new


def _ladder(bandwidths: Sequence[int]) -> Iterator[int]:
    """The bandwidths nearest to largest/2^i, descending, without repetition."""
    nearest = lambda wanted: min(bandwidths, key=lambda b: abs(math.log(b / wanted)))
    steps = math.floor(math.log(bandwidths[-1] / bandwidths[0], LADDER_RATIO)) + 1
    yield from dict.fromkeys(nearest(bandwidths[-1] / LADDER_RATIO**i) for i in range(steps + 1))


def _between(bandwidths: Sequence[int], low: int, high: int) -> int | None:
    """The bandwidth nearest to the geometric mean of two others, strictly between them; None where they are close or neighbours."""
    inside = [b for b in bandwidths if low < b < high]
    if not inside or high / low <= FINEST_RATIO:
        return None
    return min(inside, key=lambda b: abs(math.log(b) - 0.5 * math.log(low * high)))


def _rows(space: SearchSpace, *, samples: int, seed: int, workers: int) -> Iterator[ComparisonRow]:
    """The rows as they get done, in this process or on Ray."""
    if workers == 1:
        for part in space.schemes:
            yield _with_bound(space.problem, part, samples=samples, seed=seed)
        return
    from engine.environment import ray, start_ray

    with start_ray(workers=workers):
        task = ray.remote(num_cpus=1)(_with_bound)
        # The schemes with the most work come last in `SCHEMES`; started first, they do not leave one worker alone at the end.
        pending = [task.remote(space.problem, part, samples=samples, seed=seed) for part in reversed(space.schemes)]
        while pending:
            (done,), pending = ray.wait(pending, num_returns=1)
            try:
                yield ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None


def _with_ratios(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """The rows with their ratios to cyclic Poisson, where the adjacency is the same."""
    reference = next((row for row in rows if row.scheme == "cyclic_poisson" and row.rmse is not None), None)
    comparable = lambda row: reference is not None and row.rmse is not None and row.adjacency == reference.adjacency
    return [dataclasses.replace(row, ratio_to_cyclic_poisson=row.rmse / reference.rmse) if comparable(row) else row for row in rows]


def _summary(row: ComparisonRow) -> str:
    name = row.scheme if row.matrix is None else f"{row.scheme} with {row.matrix}"
    if row.rmse is None:
        return f"{name}: {row.note}"
    return f"{name}: RMSE {row.rmse:.4g} ({row.kind}) at bandwidth {row.bandwidth}, {row.seconds:.1f} s"
