"""The Optuna sampler of a search: TPE chooses the scheme first, then b and r of that scheme together.

Optuna's own grouped TPE draws every group at every suggestion, also those of the schemes that were not chosen, and works out anew which groups
there are: with ten schemes most of its time, which grows with the study and which the driver of many workers does not have.
"""

import warnings

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from engine.configuration import NORM_ONLY, R_POSITION

STARTUP_TRIALS = 12
"""Finished trials before TPE takes over from random suggestions: the enqueued ones and a few more."""

MANY_WORKERS = 5
"""From so many on, TPE is told of the trials in flight, so that it spreads out; below, rereading them costs more than it gains."""


class SchemeSampler(BaseSampler):
    """Samples the parameters of `engine.configuration.suggest`, in its order.

    Args:
      seed: of all suggestions.
      workers: trials that run at once.
    """

    def __init__(self, *, seed: int, workers: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            warnings.simplefilter("ignore", FutureWarning)
            self._tpe = TPESampler(
                seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True, constant_liar=workers >= MANY_WORKERS,
                warn_independent_sampling=False,
            )
        # r of the last suggestion whose b was drawn together with it; Optuna asks for one parameter at a time.
        self._pending: tuple[int, str, float] | None = None

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Nothing: which parameters there are depends on the scheme, which is one of them."""
        return {}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, object]:
        """Nothing, as for `infer_relative_search_space`."""
        return {}

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> object:
        """One parameter; the bandwidth of a scheme brings its r with it."""
        if self._pending is not None and self._pending[:2] == (trial.number, param_name):
            value, self._pending = self._pending[2], None
            return value
        scheme, _, parameter = param_name.partition(".")
        if parameter.startswith("bandwidth") and scheme not in NORM_ONLY:
            name = f"{scheme}.r_position"
            drawn = self._tpe.sample_relative(study, trial, {param_name: param_distribution, name: FloatDistribution(*R_POSITION)})
            if drawn:
                self._pending = trial.number, name, drawn[name]
                return drawn[param_name]
        return self._tpe.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """For Optuna's own parallel loops."""
        self._tpe.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Passed on to TPE."""
        self._tpe.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: list[float] | None) -> None:
        """Passed on to TPE."""
        self._tpe.after_trial(study, trial, state, values)
