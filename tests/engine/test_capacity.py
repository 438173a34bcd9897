"""How many trials nodes run at once, counted by hand."""

import pytest

from engine.capacity import trials_at_once, trials_on
from search_spaces.errors import InputError


@pytest.mark.parametrize(
    ("node", "gpus_per_trial", "trials"),
    [
        ({"CPU": 8}, 0, 8), ({}, 0, 0), ({"CPU": 8}, 0.5, 0), ({"CPU": 8, "GPU": 1}, 0.5, 2), ({"CPU": 8, "GPU": 2}, 0.3, 6),
        # Two thirds of a GPU leave a third that no trial gets, also where another GPU has the rest.
        ({"CPU": 8, "GPU": 2}, 2 / 3, 2), ({"CPU": 1, "GPU": 2}, 0.25, 1), ({"CPU": 8, "GPU": 4}, 1, 4), ({"CPU": 8, "GPU": 5}, 2, 2),
        ({"CPU": 8, "GPU": 1}, 2, 0), ({"GPU": 4}, 1, 0), ({"CPU": 20, "GPU": 1}, 0.1, 10),
    ],
)
def test_trials_of_one_node(node, gpus_per_trial, trials):
    assert trials_on(node, gpus_per_trial) == trials


def test_a_trial_does_not_span_nodes():
    nodes = [{"CPU": 4, "GPU": 1}, {"CPU": 4, "GPU": 1}, {"CPU": 16}]
    assert trials_at_once(0, nodes=nodes) == 24
    assert trials_at_once(1, nodes=nodes) == 2
    with pytest.raises(InputError, match="gpus_per_trial=2 to be at most the 1 GPUs of a node"):
        trials_at_once(2, nodes=nodes)


def test_a_cluster_that_runs_nothing_is_refused():
    with pytest.raises(InputError, match="at most the 0 GPUs"):
        trials_at_once(0.5, nodes=[{"CPU": 4}])
    with pytest.raises(InputError, match="a node with one CPU"):
        trials_at_once(0, nodes=[{}])
