"""Configurations (scheme, b, r) as Optuna sees them: what is suggested, what is fixed, and where the search begins."""

import dataclasses
import functools
import math

import optuna
import scipy.optimize

from search_spaces.problem import Problem
from search_spaces.schemes import BatchScheme, make_scheme
from search_spaces.space import SchemeSpace, SearchSpace, configuration_key, position_from_r, r_from_position
from search_spaces.strategies import ToeplitzStrategy, harmonic

NORM_ONLY = ("deterministic", "poisson", "random_allocation", "cyclic_poisson", "cyclic_ra")
"""Schemes whose σ depends on the strategy only through ‖c‖, so that the best r at a bandwidth is known without any accounting."""

FIRST_TAIL = 2.5
"""r·b of the first configuration of the other schemes: about where their optimum lies at many problems."""

R_POSITION = (0.0, 1.0)
"""Range of the parameter that stands for r (see `search_spaces.space.r_from_position`)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configuration:
    """One point of the search space.

    Attributes:
      scheme: name of the scheme.
      bandwidth: b.
      r: parameter of the harmonic family; 0 at b = 1, where it has no effect.
    """

    scheme: str
    bandwidth: int
    r: float

    @property
    def key(self) -> tuple[str, int, float]:
        """Equal for configurations with equal results."""
        return configuration_key(scheme=self.scheme, bandwidth=self.bandwidth, r=self.r)

    @property
    def label(self) -> str:
        """For people: names of trials and lines of the log."""
        return f"{self.scheme} b={self.bandwidth} r={self.r:.4g}"

    def strategy(self, problem: Problem) -> ToeplitzStrategy:
        """The strategy C."""
        return harmonic(iterations=problem.iterations, bandwidth=self.bandwidth, r=self.r)

    def batch_scheme(self, problem: Problem) -> BatchScheme:
        """The scheme at this bandwidth."""
        return make_scheme(
            self.scheme, iterations=problem.iterations, participations=problem.participations, bandwidth=self.bandwidth,
        )


@functools.lru_cache(maxsize=4096)
def best_r(*, iterations: int, bandwidth: int) -> float:
    """The r in the searched range with the smallest RMSE at a fixed σ: a grid over the position, then a bounded search around its best."""
    if bandwidth == 1:
        return 0.0
    error = lambda position: harmonic(
        iterations=iterations, bandwidth=bandwidth, r=r_from_position(bandwidth, float(position))
    ).rmse(sigma=1.0, participations=1)
    step = 1 / 24
    nearest = min(range(25), key=lambda i: error(i * step)) * step
    bounds = max(0.0, nearest - step), min(1.0, nearest + step)
    found = scipy.optimize.minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return r_from_position(bandwidth, float(found.x))


def suggest(trial: optuna.trial.Trial, space: SearchSpace) -> Configuration:
    """The configuration Optuna suggests; parameters that have one value only are not parameters of the study.

    Parameters: `scheme`; `SCHEME.bandwidth_position` in [0, 1], or `SCHEME.bandwidth_index` where the bandwidths have gaps; and
    `SCHEME.r_position` in [0, 1] (see `search_spaces.space.r_from_position`), except for the `NORM_ONLY` schemes, which take `best_r`.
    """
    scheme = space.names[0] if len(space.names) == 1 else trial.suggest_categorical("scheme", space.names)
    bandwidth = _suggest_bandwidth(trial, space.scheme_space(scheme))
    if bandwidth == 1 or scheme in NORM_ONLY:
        r = best_r(iterations=space.problem.iterations, bandwidth=bandwidth)
    else:
        r = r_from_position(bandwidth, trial.suggest_float(f"{scheme}.r_position", *R_POSITION))
    # Positions in [0, 1] may miss an enqueued configuration by a rounding.
    return recorded_configuration(trial) or Configuration(scheme=scheme, bandwidth=bandwidth, r=r)


def configuration_attributes(configuration: Configuration) -> dict[str, object]:
    """The user attributes that keep a configuration with its trial."""
    return dataclasses.asdict(configuration)


def recorded_configuration(trial: optuna.trial.Trial | optuna.trial.FrozenTrial) -> Configuration | None:
    """The configuration kept with a trial; None before it was enqueued with one or asked for one."""
    attributes = trial.user_attrs
    names = [field.name for field in dataclasses.fields(Configuration)]
    return Configuration(**{name: attributes[name] for name in names}) if all(name in attributes for name in names) else None


def parameters(configuration: Configuration, space: SearchSpace) -> dict[str, object]:
    """The parameters with which `suggest` returns this configuration, up to roundings and `best_r`.

    Raises:
      InputError: it is not in the space.
    """
    scheme, bandwidth = configuration.scheme, configuration.bandwidth
    space.check(scheme=scheme, bandwidth=bandwidth, r=configuration.r)
    part = space.scheme_space(scheme)
    values: dict[str, object] = {} if len(space.names) == 1 else {"scheme": scheme}
    if len(part.bandwidths) > 1:
        first, last = part.bandwidths[0], part.bandwidths[-1]
        if part.contiguous:
            values[f"{scheme}.bandwidth_position"] = math.sqrt((bandwidth - first) / (last - first))
        else:
            values[f"{scheme}.bandwidth_index"] = part.bandwidths.index(bandwidth)
    return values | {f"{scheme}.r_position": position_from_r(bandwidth, configuration.r)}


def first_configurations(space: SearchSpace) -> tuple[Configuration, ...]:
    """Where the search begins, one configuration per scheme, in the order in which schemes usually win.

    Schemes that spread an example's participations over all steps like wide bands, up to b = T/(2K) at large ε, and r·b about 2.5;
    those whose amplification is that of T/b steps like bands of a quarter of that.
    """
    problem = space.problem
    wide = problem.largest_bandwidth * min(max(problem.epsilon / 8, 1 / 32), 1 / 2)
    configurations = []
    for part in reversed(space.schemes):
        wanted = wide / 4 if part.scheme in NORM_ONLY else wide
        if part.scheme == "deterministic":
            wanted = problem.largest_bandwidth
        bandwidth = min(part.bandwidths, key=lambda b: abs(math.log(b / wanted)))
        if part.scheme in NORM_ONLY or bandwidth == 1:
            r = best_r(iterations=problem.iterations, bandwidth=bandwidth)
        else:
            r = min(FIRST_TAIL / bandwidth, 0.25)
        configurations.append(Configuration(scheme=part.scheme, bandwidth=bandwidth, r=r))
    return tuple(configurations)


def _suggest_bandwidth(trial: optuna.trial.Trial, part: SchemeSpace) -> int:
    first, last = part.bandwidths[0], part.bandwidths[-1]
    if first == last:
        return first
    if not part.contiguous:
        return part.bandwidths[trial.suggest_int(f"{part.scheme}.bandwidth_index", 0, len(part.bandwidths) - 1)]
    # Quadratic: the best b is a sizeable part of T/K at large ε and a small one at small ε, and a linear or a log scale neglects either.
    return round(first + (last - first) * trial.suggest_float(f"{part.scheme}.bandwidth_position", 0.0, 1.0) ** 2)
