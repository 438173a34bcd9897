"""Privacy of fixed-size batches as `Evidence`: ε from δ, δ from ε, σ from (ε, δ), T from (ε, δ, σ), by each accountant of this package."""

import math
import time
from collections.abc import Callable

import scipy.optimize

from accountants.evidence import REPLACE, Evidence
from accountants.fixed_size import lossless, renyi, rivals
from accountants.fixed_size.mechanism import FixedSizeMechanism
from accountants.fixed_size.renyi import GEOMETRIES, Result
from search_spaces import checks
from search_spaces.errors import CalibrationError, InputError

ACCOUNTANTS: dict[str, tuple[Callable[..., Result], Callable[..., Result]]] = {
    "renyi": (renyi.epsilon, renyi.delta),
    "pld": (lossless.epsilon, lossless.delta),
    "wang": (rivals.wang_epsilon, rivals.wang_delta),
    "birrell": (rivals.birrell_epsilon, rivals.birrell_delta),
}
"""Name -> (ε from δ, δ from ε). `renyi` and `pld` give bounds; `wang` and `birrell` are for comparison and give estimates."""

SMALLEST_SIGMA, LARGEST_SIGMA = 1e-2, 1e6
MOST_ITERATIONS = 1 << 40

_SYMMETRY = "replace adjacency is symmetric: the statement holds for the pair of data sets and for its mirror image"


def account(
    *, mechanism: FixedSizeMechanism, delta: float | None = None, epsilon: float | None = None,
    accountant: str = "renyi", geometry: str = "pairwise",
) -> Evidence:
    """ε at δ, or δ at ε; give exactly one of the two.

    Args:
      mechanism: n, batch size, T and σ.
      delta: δ in (0, 1).
      epsilon: ε >= 0.
      accountant: one of `ACCOUNTANTS`.
      geometry: one of `renyi.GEOMETRIES`; matters to `renyi` only, the others are the same in both.

    Returns:
      One statement of direction `replace`, which covers both orders of the two data sets.

    Raises:
      InputError: not exactly one of δ and ε, or a value outside its range.
      NumericalError: the result cannot be trusted.
    """
    checks.one_of(ACCOUNTANTS, accountant=accountant)
    checks.one_of(GEOMETRIES, geometry=geometry)
    if (delta is None) == (epsilon is None):
        raise InputError(f"Expected exactly one of delta={delta!r} and epsilon={epsilon!r} to be given.")
    extra = {"geometry": geometry} if accountant == "renyi" else {}
    began = time.perf_counter()
    if epsilon is None:
        delta = checks.between(0, 1, delta=delta)
        result = ACCOUNTANTS[accountant][0](mechanism, delta=delta, **extra)
        epsilon, of = result.value, "epsilon"
    else:
        epsilon = checks.non_negative(epsilon=epsilon)
        result = ACCOUNTANTS[accountant][1](mechanism, epsilon=epsilon, **extra)
        delta, of = result.value, "delta"
    return Evidence(
        accountant=accountant, direction=REPLACE, kind=result.kind, epsilon=epsilon, delta=delta, adjacency=mechanism.adjacency,
        standard_error=0.0 if result.kind == "estimate" else None, seconds=time.perf_counter() - began,
        details={"of": of, "symmetry": _SYMMETRY} | dict(result.details),
    )


def calibrate(
    *, dataset_size: int, batch_size: int, iterations: int, epsilon: float, delta: float,
    accountant: str = "renyi", geometry: str = "pairwise",
) -> tuple[FixedSizeMechanism, Evidence]:
    """The smallest σ (to about 10⁻⁶ relative, rounded up) with ε(δ) <= epsilon, and the evidence at that σ.

    ε falls in σ in every accountant here. The root is found on the accountant's own ε; σ is then raised until the statement holds.

    Raises:
      InputError: a value outside its range.
      CalibrationError: no σ in [`SMALLEST_SIGMA`, `LARGEST_SIGMA`] reaches the target.
    """
    epsilon, delta = checks.positive(epsilon=epsilon), checks.between(0, 1, delta=delta)
    start = FixedSizeMechanism(dataset_size=dataset_size, batch_size=batch_size, iterations=iterations, sigma=1.0)

    def at(sigma: float) -> Evidence:
        return account(mechanism=start.with_sigma(sigma), delta=delta, accountant=accountant, geometry=geometry)

    low, high = _bracket(lambda sigma: at(sigma).epsilon > epsilon, _guess(accountant, geometry, lambda **closed: calibrate(
        dataset_size=dataset_size, batch_size=batch_size, iterations=iterations, epsilon=epsilon, delta=delta, **closed)[0].sigma))
    log_sigma = scipy.optimize.brentq(
        lambda log_sigma: _log_ratio(at(math.exp(log_sigma)).epsilon, epsilon), math.log(low), math.log(high), xtol=2e-7, rtol=1e-12
    )
    raise_by = 2e-7
    while (evidence := at(sigma := math.exp(log_sigma))).epsilon > epsilon:
        log_sigma, raise_by = log_sigma + raise_by, 2 * raise_by
    return start.with_sigma(sigma), evidence


def largest_iterations(
    *, dataset_size: int, batch_size: int, sigma: float, epsilon: float, delta: float,
    accountant: str = "renyi", geometry: str = "pairwise",
) -> tuple[FixedSizeMechanism, Evidence]:
    """The largest T with ε(δ) <= epsilon at this σ, and the evidence at that T; ε grows with T in every accountant here.

    Raises:
      InputError: a value outside its range.
      CalibrationError: even one step exceeds the target, or more than `MOST_ITERATIONS` steps are within it.
    """
    epsilon, delta = checks.positive(epsilon=epsilon), checks.between(0, 1, delta=delta)
    start = FixedSizeMechanism(dataset_size=dataset_size, batch_size=batch_size, iterations=1, sigma=sigma)

    def at(iterations: int) -> Evidence:
        return account(mechanism=start.with_iterations(iterations), delta=delta, accountant=accountant, geometry=geometry)

    first = at(1)
    if first.epsilon > epsilon:
        raise CalibrationError(f"One step at sigma={sigma!r} already has epsilon={first.epsilon:.6g} > {epsilon!r} at delta={delta!r}.")
    guess = _guess(accountant, geometry, lambda **closed: largest_iterations(
        dataset_size=dataset_size, batch_size=batch_size, sigma=sigma, epsilon=epsilon, delta=delta, **closed)[0].iterations)
    best = _last_within(at, first, epsilon, max(2, int(guess)))
    return start.with_iterations(best[0]), best[1]


def _last_within(at: Callable[[int], Evidence], first: Evidence, target: float, guess: int) -> tuple[int, Evidence]:
    """(T, evidence) of the largest T with ε <= target, given that T = 1 is within."""
    within, beyond = {1: first}, {}

    def probe(iterations: int) -> bool:
        evidence = at(iterations)
        (within if evidence.epsilon <= target else beyond)[iterations] = evidence
        return iterations in within

    while probe(guess):
        guess *= 2
        if guess > MOST_ITERATIONS:
            raise CalibrationError(f"Expected epsilon={target!r} to be exceeded within {MOST_ITERATIONS} iterations; it is not.")
    while (low := max(within)) + 1 < (high := min(beyond)):
        width = max(1, (high - low) // 64)
        middle = _interpolated(low, within[low].epsilon, high, beyond[high].epsilon, target)
        # The second probe pins the root from the other side, so that the bracket shrinks from both ends.
        second = middle + (width if probe(middle) else -width)
        if low < second < high:
            probe(second)
    return low, within[low]


def _guess(accountant: str, geometry: str, solve: Callable[..., float]) -> float:
    """A starting point: the answer of the closed-form accountant, which takes milliseconds, or 1 for that one itself."""
    if accountant == "renyi" and geometry == "ball":
        return 1.0
    try:
        return float(solve(accountant="renyi", geometry="ball"))
    except CalibrationError:
        return 1.0


def _interpolated(low: int, low_value: float, high: int, high_value: float, target: float) -> int:
    """An integer strictly between `low` and `high` where log ε, taken linear in log T, meets the target; else the middle."""
    if not 0 < low_value < high_value:
        return (low + high) // 2
    share = math.log(target / low_value) / math.log(high_value / low_value)
    return min(max(int(low * (high / low) ** share), low + 1), high - 1)


def _log_ratio(found: float, target: float) -> float:
    """A function of ε with the sign of ε − target that is nearly linear in log σ: log ε where ε > 0."""
    return math.log(found / target) if found > 0 else -50.0


def _bracket(too_small: Callable[[float], bool], guess: float) -> tuple[float, float]:
    """(a σ too small, a σ large enough), a factor 2 apart, searched from a guess."""
    sigma = guess
    if too_small(sigma):
        while sigma < LARGEST_SIGMA:
            sigma *= 2
            if not too_small(sigma):
                return sigma / 2, sigma
            # A guess this far off may mean that there is no answer; one look at the end is cheaper than twenty on the way.
            if guess * 8 <= sigma < guess * 16 and too_small(LARGEST_SIGMA):
                break
        raise CalibrationError(f"No sigma up to {LARGEST_SIGMA:.0e} meets the target; the largest order or the grid of losses limits it.")
    while sigma > SMALLEST_SIGMA:
        sigma /= 2
        if too_small(sigma):
            return sigma, 2 * sigma
    raise CalibrationError(f"Every sigma down to {SMALLEST_SIGMA} meets the target; there is no smallest one to report.")
