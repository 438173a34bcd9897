"""Optimised strategies by JAX-Privacy's optimisers, as plain matrices, and the σ each needs under balls-in-bins.

Run as `python -m benchmarks.optimised_strategies`. BandMF, BLT and BandInvMF next to BSR and BISR at one problem: σ by the Gram majorant
and the RMSE at it. `--out FOLDER` also saves every matrix as a .npy file, which `bandsmith account --scheme balls_in_bins --matrix` reads.
Needs the extra `jax-privacy` (release 2.0.0).
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from accountants.calibration import calibrate
from search_spaces import dense_strategies
from search_spaces.dense_strategies import DenseStrategy
from search_spaces.errors import UnsupportedError
from search_spaces.schemes import BallsInBins

SUPPORTED = "2.0.0"


def _matrix_factorization() -> object:
    """JAX-Privacy's package of that name.

    Raises:
      UnsupportedError: JAX-Privacy is not installed, or is another release.
    """
    try:
        import jax_privacy
        from jax_privacy import matrix_factorization
        from jax_privacy.matrix_factorization import banded, buffered_toeplitz, optimization, toeplitz  # noqa: F401  (for the caller)
    except ImportError as error:
        raise UnsupportedError("Optimised strategies need the extra `jax-privacy`, which is not installed.") from error
    if jax_privacy.__version__ != SUPPORTED:
        raise UnsupportedError(f"Expected jax_privacy={jax_privacy.__version__!r} to be {SUPPORTED!r}, the release this was written for.")
    return matrix_factorization


def unavailable() -> str:
    """Why the optimisers cannot run here; empty where they can."""
    try:
        _matrix_factorization()
    except UnsupportedError as error:
        return str(error)
    return ""


def band_mf(*, iterations: int, participations: int, bandwidth: int) -> np.ndarray:
    """(T, T) float64: banded, columns of norm 1, with the smallest mean squared error without overlap, whatever `participations` is."""
    factorization = _matrix_factorization()
    with jax.enable_x64(True):
        return _matrix(factorization.banded.optimize(iterations, bands=bandwidth).materialize())


def blt(*, iterations: int, participations: int, bandwidth: int) -> np.ndarray:
    """(T, T) float64: buffered linear Toeplitz with at most `bandwidth` buffers (no more than 5), for participations every T/K steps."""
    factorization = _matrix_factorization()
    with jax.enable_x64(True):
        found = factorization.buffered_toeplitz.optimize(
            n=iterations, min_sep=iterations // participations, max_participations=participations, error="mean",
            max_buffers=min(bandwidth, 5),
        )
        return _matrix(found.materialize(iterations))


def band_inv_mf(*, iterations: int, participations: int, bandwidth: int) -> np.ndarray:
    """(T, T) float64: Toeplitz with a banded inverse, begun at BISR, for participations every T/K steps."""
    factorization = _matrix_factorization()

    def error(tail: jax.Array) -> jax.Array:
        inverse = jnp.zeros(iterations, tail.dtype).at[0].set(1.0).at[1:bandwidth].set(tail)
        squared_error = jnp.cumsum(jnp.cumsum(inverse) ** 2).mean()
        sensitivity = factorization.toeplitz.minsep_sensitivity_squared(
            factorization.toeplitz.inverse_coef(inverse), min_sep=iterations // participations, max_participations=participations,
            skip_checks=True,
        )
        return squared_error * sensitivity

    with jax.enable_x64(True):
        n = np.arange(1, bandwidth)
        tail = factorization.optimization.optimize(error, jnp.asarray(np.cumprod((n - 1.5) / n)))
        inverse = jnp.zeros(iterations).at[0].set(1.0).at[1:bandwidth].set(tail)
        column = factorization.toeplitz.inverse_coef(inverse)
        return _matrix(factorization.toeplitz.materialize_lower_triangular(column))


def _matrix(found: jax.Array) -> np.ndarray:
    """As float64, lower triangular, without the negative entries an optimiser may leave: what is accounted is what is to be used."""
    return np.tril(np.maximum(np.asarray(found, dtype=np.float64), 0.0))


def _closed_form(build: Callable[..., dense_strategies.FullToeplitzStrategy]) -> Callable[..., np.ndarray]:
    return lambda *, iterations, participations, bandwidth: build(iterations=iterations, bandwidth=bandwidth).dense()


FAMILIES: Mapping[str, Callable[..., np.ndarray]] = {
    "BSR": _closed_form(dense_strategies.square_root), "BISR": _closed_form(dense_strategies.inverse_square_root),
    "BandMF": band_mf, "BLT": blt, "BandInvMF": band_inv_mf,
}
"""(iterations, participations, bandwidth) → C, by the name of the family."""


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("iterations", 64), ("participations", 4), ("bandwidth", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sizes = {name: getattr(given, name) for name in ("iterations", "participations", "bandwidth")}
    scheme = BallsInBins(iterations=given.iterations, participations=given.participations)
    print(f"{'strategy':<10} {'sigma':>8} {'RMSE':>8}")
    for name, build in FAMILIES.items():
        strategy = DenseStrategy(matrix=build(**sizes), family=name)
        found = calibrate(scheme, strategy, epsilon=given.epsilon, delta=given.delta, accountant="pld", tolerance=1e-3)
        print(f"{name:<10} {found.sigma:8.4f} {strategy.rmse(sigma=found.sigma, participations=given.participations):8.4f}", flush=True)
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            np.save(given.out / f"{name}.npy", strategy.matrix)


if __name__ == "__main__":
    main()
