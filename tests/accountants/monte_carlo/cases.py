"""Small schemes whose sampled outputs can be rebuilt with dense matrices and judged by enumeration, and exact δ by quadrature.

All cases share T padded to 12, K = 3, four σ and three evaluated laws, so that the tests of this folder compile few programs.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import numpy as np
from scipy.special import logsumexp, ndtr

from accountants.gaussian import gaussian_delta
from accountants.monte_carlo.simulation import Law, P, Q, Simulation
from accountants.monte_carlo.streams import Stream
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BallsInBins, BatchScheme, MinSepPoisson, make_scheme
from search_spaces.strategies import ToeplitzStrategy
from tests import enumeration

SIGMAS = (0.9, 1.3, 2.0, 4.0)
EXTREME_SIGMAS = (0.02, 0.9, 1.3, 4.0)
"""With 0.02 in a call nothing fits plain numbers, so the whole call is swept in logs."""

BOOST = 2.0
EVALUATED = (P, Law(scale=2.0, boosted=True), Law(scale=3.0, boosted=True))
PROPOSAL = (Q, *EVALUATED, Law(scale=0.0, shift=-0.7))

CASES = tuple(
    (name, iterations, bandwidth)
    for name, sizes in {
        "deterministic": [(12, 4)],
        "poisson": [(11, 1), (12, 1)],
        "random_allocation": [(11, 1), (12, 1)],
        "cyclic_poisson": [(12, 2), (12, 4)],
        "cyclic_ra": [(12, 2), (12, 4)],
        "balls_in_bins": [(12, 1), (12, 3), (12, 4)],
        "min_sep_poisson": [(11, 2), (12, 4)],
        "nested_ra": [(12, 2), (12, 4)],
        "min_sep_ra": [(11, 2), (12, 2), (12, 4)],
    }.items()
    for iterations, bandwidth in sizes
)
"""(name, T, b) at K = 3: T off the ladder of padded sizes (11), b that does not divide T, windows cut off at T, and K·b = T."""


def coefficients(bandwidth: int) -> tuple[float, ...]:
    """Not monotone and not normalised: every formula must hold for any non-negative coefficients."""
    return (0.9, 0.3, 0.5, 0.1)[:bandwidth]


def simulation(name: str, iterations: int, bandwidth: int, *, participations: int = 3) -> Simulation:
    scheme = make_scheme(name, iterations=iterations, participations=participations, bandwidth=bandwidth)
    strategy = ToeplitzStrategy(iterations=iterations, coefficients=coefficients(bandwidth))
    return Simulation(scheme=scheme, strategy=strategy, boost=BOOST)


def mechanism(name: str, iterations: int, bandwidth: int, *, sigma: float, participations: int = 3) -> Mechanism:
    model = simulation(name, iterations, bandwidth, participations=participations)
    return Mechanism(scheme=model.scheme, strategy=model.strategy, sigma=sigma)


def positions(model: Simulation, stream: Stream, block: int, proposal: Sequence[Law] = (P,)) -> np.ndarray:
    """(samples, columns): the participations of a block, boosted laws' drawn after all others'."""
    rng = stream.positions(block)
    drawn = model.scheme.sample(rng, model.block_size)
    boosted = np.resize([law.boosted for law in proposal], model.block_size)
    if boosted.any():
        drawn[boosted] = boosted_scheme(model).sample(rng, int(boosted.sum()))
    return drawn


def boosted_scheme(model: Simulation) -> BatchScheme:
    fixed = model.scheme.fixed_participations
    return model.scheme if fixed else dataclasses.replace(model.scheme, rate_factor=model.boost)


def vectors(steps: np.ndarray, iterations: int) -> np.ndarray:
    """(n, T) float64 of zeros and ones from rows of steps, in which T marks an unused place."""
    rows = np.zeros((steps.shape[0], iterations + 1))
    np.put_along_axis(rows, steps, 1.0, axis=1)
    return rows[:, :iterations]


def normals(stream: Stream, block: int, shape: tuple[int, int]) -> np.ndarray:
    """(samples, terms) float64: the Gaussian noise that a block's key stands for, drawn as (padded terms, samples)."""
    with jax.enable_x64(True):
        return np.asarray(jax.random.normal(stream.normals(block), shape, np.float64)).T


schedules = functools.lru_cache(maxsize=None)(enumeration.schedules)


def law_of_schedules(model: Simulation, *, boosted: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Schedules (n, T) and their probabilities (n,), at the boosted rate if so wished."""
    rows, probabilities = schedules(model.scheme)
    if not boosted or model.scheme.fixed_participations:
        return rows, probabilities
    scheme = model.scheme
    rate = min(1.0, model.boost * scheme.probability)
    fired = rows.sum(axis=1)
    if isinstance(scheme, MinSepPoisson):
        resting = sum(np.pad(rows, ((0, 0), (wait, 0)))[:, : scheme.iterations] for wait in range(1, scheme.bandwidth))
        free = scheme.iterations - resting.sum(axis=1)
    else:
        free = scheme.iterations // scheme.bandwidth
    return rows, rate**fired * (1 - rate) ** (free - fired)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Geometry:
    """The dense picture: C, v̂ (zero where participations are not fixed), ξσ = Kκ, and the unit vector d along the residual mean."""

    matrix: np.ndarray
    direction: np.ndarray
    factor: float
    mean: np.ndarray


def geometry(model: Simulation) -> Geometry:
    matrix = model.strategy.dense()
    direction, factor = np.zeros(model.scheme.iterations), 0.0
    if model.scheme.fixed_participations:
        v = np.linalg.solve(matrix.T, np.ones(model.scheme.iterations))
        direction = v / np.linalg.norm(v)
        factor = model.scheme.participations / float(np.linalg.norm(v))
    rows, probabilities = schedules(model.scheme)
    mean = matrix @ (probabilities @ rows)
    residual = mean - (mean @ direction) * direction
    norm = np.linalg.norm(residual)
    mean = residual / norm if norm > 1e-9 * np.linalg.norm(mean) else np.zeros_like(residual)
    return Geometry(matrix=matrix, direction=direction, factor=factor, mean=mean)


def residual_log_ratio(model: Simulation, law: Law, *, sigma: float, y: np.ndarray) -> np.ndarray:
    """log dLaw_⊥/dQ_⊥ at y, (n, T) -> (n,), by enumeration: log LR(y) − θξs + θ²ξ²/2 with s = ⟨y, v̂⟩/σ."""
    shape = geometry(model)
    rows, probabilities = law_of_schedules(model, boosted=law.boosted)
    means = law.scale * rows @ shape.matrix.T
    exponents = (y @ means.T - 0.5 * np.sum(means**2, axis=1)) / sigma**2
    xi = law.scale * shape.factor / sigma
    return logsumexp(exponents, axis=1, b=probabilities) - xi * (y @ shape.direction) / sigma + 0.5 * xi**2


def exact_residual_deltas(subject: Mechanism, *, epsilon: float) -> tuple[float, float]:
    """δ of `remove` and `add` where T = 2 and participations are fixed: δ_G averaged over the residual, a number, by a trapezoidal sum.

    The integrand is analytic, so that a hundred points to σ give all digits.
    """
    model = Simulation(scheme=subject.scheme, strategy=subject.strategy)
    shape = geometry(model)
    xi = shape.factor / subject.sigma
    across = np.array([-shape.direction[1], shape.direction[0]])
    u = np.linspace(-25.0, 25.0, 5_001)
    log_ratio = residual_log_ratio(model, P, sigma=subject.sigma, y=subject.sigma * u[:, None] * across)
    density = np.exp(-0.5 * u**2) / math.sqrt(2 * math.pi) * (u[1] - u[0])
    remove = density @ (np.exp(log_ratio) * gaussian_delta(epsilon=epsilon - log_ratio, mu=xi))
    return float(remove), float(density @ gaussian_delta(epsilon=epsilon + log_ratio, mu=xi))


def bin_means(model: Simulation) -> np.ndarray:
    """(T/K, T): the residual means (C x)_⊥ of the bins of `balls_in_bins`."""
    assert isinstance(model.scheme, BallsInBins)
    shape = geometry(model)
    rows, _ = schedules(model.scheme)
    means = rows[np.argsort(np.argmax(rows, axis=1))] @ shape.matrix.T
    return means - np.outer(means @ shape.direction, shape.direction)


def single_gaussian_delta(epsilon: float, mu: float) -> float:
    """δ_G by its two tails, for one Gaussian against another at a distance of μ standard deviations."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))
