"""One trial on a worker: the next rung of its sample budget at every step."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping

import engine.environment  # noqa: F401 (before ray, always)
import ray
from engine.configuration import Configuration
from engine.memory import peak_memory, reset_peak_memory
from engine.outcome import FAILURE, FINAL, PEAK_MEMORY, RESOURCE, RMSE, RUNG, UNRESOLVED, failure_in
from ray import tune
from ray.tune.result import DONE
from search_spaces.errors import InputError
from search_spaces.problem import Problem

OBJECTIVE = "engine.objective:evaluate"
"""The default objective; another one is called in the same way and returns an `Outcome` or a mapping with at least `rmse`."""

Objective = Callable[..., object]


def load_objective(path: str) -> Objective:
    """The module-level function that `module:function` names.

    Raises:
      InputError: it cannot be imported, or is not callable.
    """
    module, separator, name = path.partition(":")
    try:
        objective = getattr(importlib.import_module(module), name) if separator else None
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"Expected objective={path!r} to name a function as module:function: {error}.") from error
    if not callable(objective):
        raise InputError(f"Expected objective={path!r} to name a function as module:function.")
    return objective


class PilotTrial(tune.Trainable):
    """A trial (scheme, b, r) whose actor is reused by later trials, so that JAX stays imported and its programs compiled.

    Settings (`config`): `scheme`, `bandwidth`, `r`, `problem` (fields of `Problem`), `rungs` (ascending sample budgets), `seed`,
    `reduction_factor`, `objective`, `give_up_above` (an RMSE, or infinity).

    An unresolved estimate is never ranked. But it misses the rare large losses, so its σ and RMSE err towards too small: one that is far
    too large already ends the trial, where one that looks good gets more samples.

    What goes wrong in the objective is reported, not raised: a raised exception would cost the actor, and the driver would not see why.
    """

    def setup(self, config: dict[str, object]) -> None:
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, object]) -> bool:
        """Takes over the settings of the next trial; always possible."""
        self.config = new_config
        self._problem = Problem(**new_config["problem"])
        self._objective = load_objective(new_config["objective"])
        self._rung = 0
        reset_peak_memory()
        return True

    def step(self) -> dict[str, object]:
        """Evaluates the next rung; an unresolved estimate goes on to the rungs above at once, unless it is hopeless already."""
        _show_as(Configuration(**{name: self.config[name] for name in ("scheme", "bandwidth", "r")}).label)
        return self._next_report() | {PEAK_MEMORY: peak_memory()}

    def _next_report(self) -> dict[str, object]:
        last = len(self.config["rungs"]) - 1
        while True:
            report = self._evaluate(self._rung)
            rung, self._rung = self._rung, self._rung + 1
            failure = report.get(FAILURE) or failure_in(report)
            unresolved = failure is None and not report.get("resolved", True)
            if unresolved and report[RMSE] > self.config["give_up_above"]:
                # No RESOURCE: the scheduler must not compare others with it.
                return report | {RUNG: rung, FINAL: False, DONE: True}
            if not unresolved or rung == last:
                break
        if failure is not None or unresolved:
            return {FAILURE: failure or UNRESOLVED, RUNG: rung, DONE: True}
        final = rung == last or report.get("kind") == "bound"
        return report | {RUNG: rung, RESOURCE: self.config["reduction_factor"] ** rung, FINAL: final, DONE: final}

    def _evaluate(self, rung: int) -> dict[str, object]:
        settings = self.config
        try:
            outcome = self._objective(
                self._problem, scheme=settings["scheme"], bandwidth=settings["bandwidth"], r=settings["r"],
                samples=settings["rungs"][rung], seed=settings["seed"],
            )
        except MemoryError:
            return {FAILURE: "oom: the objective ran out of memory"}
        except Exception as error:
            return {FAILURE: f"error: {type(error).__name__}: " + " ".join(str(error).split())[:500]}
        return dict(outcome if isinstance(outcome, Mapping) else dataclasses.asdict(outcome))


def _show_as(label: str) -> None:
    """Names this worker after its trial in Ray's dashboard and in `ps`; Ray itself puts its own name back after each step."""
    if ray._private.worker.global_worker.mode == ray.WORKER_MODE:
        ray._raylet.setproctitle(f"ray::{label}")
