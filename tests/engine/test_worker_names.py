"""Ray's dashboard lists its workers by the titles of their processes: those say what is tried, scheme, b and r."""

from pathlib import Path

from engine.configuration import Configuration, recorded_configuration
from engine.run_folder import RunFolder
from engine.search import SearchSettings, run_search
from engine.storage import opened_storage
from engine.study import load_study


def titled(problem, **configuration) -> dict[str, object]:
    """The objective: the title of the process in place of a device."""
    return {"rmse": 1.0, "kind": "bound", "device": Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode()}


def test_a_worker_is_named_after_its_trial(ray_session, tmp_path, space):
    folder = RunFolder.create(tmp_path / "run")
    first = tuple(Configuration(scheme="min_sep_ra", bandwidth=b, r=0.02) for b in (50, 100, 200))
    with folder.writing():
        run_search(SearchSettings(
            folder=folder, space=space, trials=3, workers=1, first=first, objective="tests.engine.test_worker_names:titled",
        ))
    with opened_storage(folder.study, read_only=True) as storage:
        trials = load_study(storage=storage).get_trials()
    assert [trial.user_attrs["device"] for trial in trials] == [f"ray::{recorded_configuration(trial).label}" for trial in trials]
    assert trials[0].user_attrs["device"] == "ray::min_sep_ra b=50 r=0.02"
