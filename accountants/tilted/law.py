"""Rényi-tilted laws: the replica program that serves a mechanism, its cost, its moment and its sampler."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from accountants.tilted.arithmetic import Arithmetic, arithmetic_for
from accountants.tilted.bins import MOST_REPLICAS, band_cost, band_table, clique_cost, clique_table
from accountants.tilted.blocks import block_cost, block_table
from accountants.tilted.cost import Cost
from accountants.tilted.estimators import bound_from_log, log_remove_bound
from accountants.tilted.interactions import interactions
from accountants.tilted.min_sep import min_sep_cost, min_sep_table
from search_spaces import checks
from search_spaces.errors import NumericalError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.recurrences import Recurrence
from search_spaces.schemes import BallsInBins

MEMORY_LIMIT = 2 * 2**30
"""Bytes a replica program may hold unless the caller allows more."""

LARGEST_MEMORY = 4 * 2**30
"""Bytes that certificates allow one where nothing smaller would do: two workers then fit into 8 GiB."""

OPERATIONS_LIMIT = 10**11
"""Products a replica program may form: about half an hour on one core."""


class Table(Protocol):
    """A replica program that has been run."""

    log_moment: float
    bytes: int

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """(size, alpha, columns) int64."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TiltedLaw:
    """The law ∝ LR_θ^α Q of a mechanism's output, LR_θ the likelihood ratio of θCx + σz.

    Attributes:
      mechanism: what is tilted.
      alpha: replicas.
      exponent: θ >= 1; the law has order αθ.
      table: the replica program, at the noise multiplier σ/θ.
      log_moment: log E_Q LR_θ^α; for θ = 1 that is log Z_α.
      seconds: wall time of the program.
    """

    mechanism: Mechanism
    alpha: int
    exponent: float
    table: Table
    log_moment: float
    seconds: float

    @property
    def order(self) -> float:
        """αθ: Rényi order of the bound."""
        return self.alpha * self.exponent

    @property
    def log_residual_moment(self) -> float:
        """The same moment of the residual mechanism after the exact Gaussian factor (`log_moment` where there is none)."""
        return self.log_moment - self.alpha * (self.alpha - 1) / 2 * self.exponent**2 * self.mechanism.gaussian_factor ** 2

    @property
    def bytes(self) -> int:
        """Memory of the table."""
        return self.table.bytes

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Exact α-tuples of participation vectors; an output of the tilted law is y = θ·Σ_i C x^i + σz.

        Returns:
          (size, alpha, max_participations) int64; rows ascending, unused places hold T. Replicas are exchangeable.
        """
        return self.table.sample(rng, checks.integer(at_least=0, size=size))


def tilted_unsupported(mechanism: Mechanism, *, alpha: int, memory_limit: int = MEMORY_LIMIT) -> str | None:
    """None if `tilted_law` serves the mechanism with α replicas, else one sentence saying why not.

    Raises:
      InputError: α is not an integer >= 2, or the memory limit not one >= 1.
    """
    memory_limit = checks.integer(memory_limit=memory_limit)
    try:
        cost, _ = _program(mechanism, checks.integer(at_least=2, alpha=alpha))
    except UnsupportedError as error:
        return str(error)
    if cost.bytes > memory_limit:
        return (
            f"The replica program of {mechanism.scheme.name} with alpha={alpha} needs {cost.bytes / 2**30:.3g} GiB, more than "
            f"memory_limit={memory_limit / 2**30:.3g} GiB."
        )
    if cost.operations > OPERATIONS_LIMIT:
        return f"The replica program of {mechanism.scheme.name} with alpha={alpha} takes {cost.operations:.3g} products, too many."
    return None


def tilted_cost(mechanism: Mechanism, *, alpha: int) -> Cost:
    """Size of the replica program, whatever the limits; 1e8 products take about two seconds on one core.

    Raises:
      InputError: α is not an integer >= 2.
      UnsupportedError: there is no program for this scheme and α.
    """
    return _program(mechanism, checks.integer(at_least=2, alpha=alpha))[0]


def tilted_law(mechanism: Mechanism, *, alpha: int, exponent: float = 1.0, memory_limit: int = MEMORY_LIMIT) -> TiltedLaw:
    """Run the replica program of a mechanism, ready for sampling.

    Args:
      alpha: replicas, an integer >= 2.
      exponent: θ >= 1; orders between integers at the cost of the factor e^s of `accountants.tilted.estimators`.
      memory_limit: bytes.

    Raises:
      InputError: an argument out of range.
      UnsupportedError: `tilted_unsupported` says why.
      NumericalError: the moment is not a number.
    """
    exponent = checks.within(1.0, 1e3, exponent=exponent)
    if reason := tilted_unsupported(mechanism, alpha=alpha, memory_limit=memory_limit):
        raise UnsupportedError(reason)
    started = time.perf_counter()
    scaled = mechanism.with_sigma(mechanism.sigma / exponent)
    _, build = _program(mechanism, alpha)
    table = build(scaled)
    log_moment = table.log_moment
    if not math.isfinite(log_moment):
        raise NumericalError(f"log Z of {mechanism.scheme.name} with alpha={alpha} at sigma={mechanism.sigma:.6g} is {log_moment}.")
    return TiltedLaw(
        mechanism=mechanism, alpha=alpha, exponent=exponent, table=table, log_moment=log_moment, seconds=time.perf_counter() - started,
    )


def tilted_log_moment(mechanism: Mechanism, *, alpha: int, exponent: float = 1.0, memory_limit: int = MEMORY_LIMIT) -> float:
    """`TiltedLaw.log_residual_moment` alone; the table is dropped, so a loop over σ needs the memory of one.

    Raises:
      As `tilted_law`.
    """
    return tilted_law(mechanism, alpha=alpha, exponent=exponent, memory_limit=memory_limit).log_residual_moment


def log_excess(mechanism: Mechanism, *, alpha: int, exponent: float) -> float:
    """s = αθ(θ−1)(S² − K²κ²)/(2σ²) of `accountants.tilted.estimators`."""
    spread = (mechanism.sensitivity / mechanism.sigma) ** 2 - mechanism.gaussian_factor ** 2
    return alpha * exponent * (exponent - 1.0) / 2 * max(spread, 0.0)


def tilted_remove_bound(mechanism: Mechanism, *, epsilon: float, alpha: int, log_moment: float, exponent: float = 1.0) -> float:
    """B: no value of `tilted_remove_values` exceeds it, rounded up; at θ = 1 it is itself a deterministic bound on δ_remove(ε).

    Args:
      epsilon: ε >= 0.
      alpha, exponent: of the tilted law.
      log_moment: its `log_residual_moment`.
    """
    return bound_from_log(log_remove_bound(
        epsilon=checks.non_negative(epsilon=epsilon), xi=mechanism.gaussian_factor, order=alpha * exponent,
        log_moment=log_moment + log_excess(mechanism, alpha=alpha, exponent=exponent),
    ))


def _program(mechanism: Mechanism, alpha: int) -> tuple[Cost, Callable[[Mechanism], Table]]:
    """Cost and builder of the replica program; raises `UnsupportedError` if there is none."""
    scheme = mechanism.scheme
    if isinstance(scheme, BallsInBins):
        return _bins_program(mechanism, alpha)
    law = scheme.recurrence()
    if law.starts > 1 and _decides_by_blocks(law):
        most = scheme.max_participations
        build = lambda m: block_table(scheme, interactions(m), alpha=alpha, arithmetic=_arithmetic(m, alpha, most))
        return _with_overlaps(block_cost(scheme, alpha), mechanism), build
    if law.starts == 1 and law.after_skip in (1, law.after_fire):
        if alpha > 3:
            raise UnsupportedError(f"Expected alpha={alpha} to be 2 or 3, the numbers of replicas {scheme.name} has a program for.")
        # The program also sums states that are never reached, in which a replica may take part at every chance it has.
        most = -(-law.terms // law.after_fire)
        build = lambda m: min_sep_table(scheme, interactions(m), alpha=alpha, arithmetic=_arithmetic(m, alpha, most))
        return _with_overlaps(min_sep_cost(scheme, alpha), mechanism), build
    raise UnsupportedError(f"Expected a scheme with a replica program; {scheme.name} has none.")


def _with_overlaps(cost: Cost, mechanism: Mechanism) -> Cost:
    """The cost with the table of Gram entries that the program reads."""
    return dataclasses.replace(cost, bytes=cost.bytes + 8 * (mechanism.strategy.bandwidth + 1) ** 2)


def _bins_program(mechanism: Mechanism, alpha: int) -> tuple[Cost, Callable[[Mechanism], Table]]:
    scheme, bandwidth = mechanism.scheme, mechanism.strategy.bandwidth
    narrow, general = band_cost(scheme, bandwidth, alpha), clique_cost(scheme, alpha)
    if alpha <= MOST_REPLICAS and (narrow is None or general.operations <= narrow.operations):
        return general, lambda m: clique_table(m, alpha=alpha)
    if narrow is None:
        raise UnsupportedError(
            f"Expected alpha={alpha} to be at most {MOST_REPLICAS} for {scheme.name} with bandwidth={bandwidth} of "
            f"{scheme.separation} bins; more replicas need a band that leaves bins out."
        )
    return narrow, lambda m: band_table(m, alpha=alpha)


def _decides_by_blocks(law: Recurrence) -> bool:
    """Whether all residues of a block share one decision probability and blocks tile the steps."""
    if law.after_fire != law.after_skip or law.starts > law.after_fire or law.terms % law.after_fire:
        return False
    blocks = law.fire_probability.reshape(law.rows, -1, law.after_fire)
    return bool((blocks == blocks[:, :, :1]).all())


def _arithmetic(mechanism: Mechanism, alpha: int, most: int) -> Arithmetic:
    """Plain numbers unless a sum over tuples of at most `most` participations each could overflow."""
    return arithmetic_for(alpha * (alpha - 1) / 2 * most * (mechanism.strategy.column_norm / mechanism.sigma) ** 2)
