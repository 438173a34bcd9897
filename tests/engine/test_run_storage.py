"""A run's folder knows where its study is, without a password; and what a new run takes over from an earlier one."""

import json

import pytest

from engine import study as studies
from engine.configuration import Configuration, first_configurations, suggest
from engine.run_folder import RunFolder
from engine.run_storage import run_storage
from engine.search import SearchSettings, open_or_create
from engine.storage import opened_storage
from engine.study import study_space
from engine.trial_record import write_configuration
from engine.warm_start import BEST, warm_configurations
from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "run")


def begin(folder, space, *, ends=(), storage=None, **settings) -> str:
    """Makes or opens the study of a run, ends its first trials with these RMSEs (None fails one), and returns its name."""
    with opened_storage(run_storage(folder, given=storage).spec) as opened:
        study = open_or_create(SearchSettings(folder=folder, space=space, storage=storage, **settings), opened)
        for rmse in ends:
            trial = study.ask()
            write_configuration(trial, suggest(trial, study_space(study)))
            if rmse is None:
                studies.fail(study, trial, reason="error: none")
            else:
                studies.complete(study, trial, {"rmse": rmse})
        return study.study_name


def test_a_run_in_its_own_folder_writes_nothing_about_it(folder, space):
    assert not run_storage(folder).begun
    begin(folder, space)
    place = run_storage(folder)
    assert place.begun and not folder.storage.exists()


def test_another_storage_is_remembered_with_the_study_and_resumed_from_anywhere(folder, space, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    assert begin(folder, space, storage="journal:elsewhere/x.log") == "run"
    kept = json.loads(folder.storage.read_text())
    assert kept == {"storage": f"journal:{tmp_path}/elsewhere/x.log", "study": "run"}
    folder.path.rename(tmp_path / "renamed")
    monkeypatch.chdir("/")
    renamed = RunFolder.existing(tmp_path / "renamed")
    assert begin(renamed, None, resume=True) == "run"
    assert not renamed.study.exists()
    with pytest.raises(InputError, match=r"x\.db' to be that of the run in .*x\.log"):
        begin(renamed, None, resume=True, storage=f"{tmp_path}/x.db")


def test_a_run_does_not_move_to_another_storage_unsaid(folder, space, tmp_path):
    begin(folder, space)
    with pytest.raises(InputError, match="to be that of the run"):
        begin(folder, space, resume=True, storage=f"journal:{tmp_path}/x.log")


def test_a_taken_name_leaves_no_trace_of_the_other_study(folder, space, tmp_path):
    begin(folder, space, storage=f"{tmp_path}/shared.db")
    second = RunFolder.create(tmp_path / "inner" / "run")
    with pytest.raises(InputError, match="new in this storage"):
        begin(second, space, storage=f"{tmp_path}/shared.db")
    assert not run_storage(second).begun


@pytest.mark.parametrize("content", ["{", "{}", '{"storage": 3, "study": "run"}'])
def test_a_damaged_record_is_refused(folder, content):
    folder.storage.write_text(content)
    with pytest.raises(InputError, match="storage.json"):
        run_storage(folder)


def test_the_password_is_not_shown_with_the_settings(folder, space):
    settings = SearchSettings(folder=folder, space=space, storage="postgresql://user:secret@host/db")
    assert "secret" not in repr(settings) and "secret" not in repr(run_storage(folder, given=settings.storage))


def test_a_warm_start_begins_with_the_best_of_the_earlier_run(folder, space, problem):
    first = [Configuration(scheme="min_sep_ra", bandwidth=b, r=0.02) for b in (128, 100, 64, 50, 25, 20)]
    first += [Configuration(scheme="cyclic_ra", bandwidth=64, r=0.1)]
    begin(folder, space, first=tuple(first), ends=(0.9, 0.8, 0.7, None, 1.0, 1.1, 1.5))
    other = SearchSpace.for_problem(Problem(iterations=1024, participations=4, epsilon=2, delta=1e-6), schemes=["min_sep_ra", "poisson"])
    warm = warm_configurations(folder, other)
    assert warm[:5] == (first[2], first[1], first[0], first[4], first[5]) and BEST == 5
    assert [one.scheme for one in warm[5:]] == ["poisson"] and warm[5] in first_configurations(other)
    # In the same space, the best of every scheme is among them.
    assert {one.scheme for one in warm_configurations(folder, space)[:6]} == {"min_sep_ra", "cyclic_ra"}
    second = RunFolder.create(folder.path.with_name("second"))
    begin(second, other, first=warm)


def test_nothing_to_take_over_is_said(folder, space, problem):
    with pytest.raises(InputError, match="with a study"):
        warm_configurations(folder, space)
    begin(folder, space, ends=(None,))
    with pytest.raises(InputError, match="evaluated configuration"):
        warm_configurations(folder, space)
