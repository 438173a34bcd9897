"""What a worker can import."""

import optuna
import pytest

from engine.probe import probe_objective
from engine.search import CHOSEN, _choose_objective
from engine.trainable import OBJECTIVE
from search_spaces.errors import InputError


def test_what_a_worker_can_import_passes(ray_session):
    probe_objective(OBJECTIVE)
    probe_objective("tests.engine.objectives:smooth")


@pytest.mark.parametrize("objective", ["nowhere:evaluate", "engine.objective:nothing", "engine.objective:OBJECTIVE", "engine.objective"])
def test_what_it_cannot_is_one_sentence(ray_session, objective):
    with pytest.raises(InputError, match=rf"^Expected objective='{objective}' to name a function .*, on a worker\.$") as caught:
        probe_objective(objective)
    assert "\n" not in str(caught.value)


def test_a_resumed_search_runs_what_it_was_started_with(caplog):
    study = optuna.create_study()
    _choose_objective(study, None)
    assert study.user_attrs[CHOSEN] == OBJECTIVE
    _choose_objective(study, "mine:f")
    assert f"run mine:f, earlier ones ran {OBJECTIVE}" in caplog.text
    _choose_objective(study, None)
    assert study.user_attrs[CHOSEN] == "mine:f" and caplog.text.count("earlier ones ran") == 1
