"""What a cluster lacks is said once in the log, and to those who watch for as long as it lacks it."""

import pytest

from engine import resources
from engine.resources import ResourceWatch, missing_resources


@pytest.fixture
def nodes(monkeypatch):
    """The nodes that Ray would name."""
    listed = []
    monkeypatch.setattr(resources.ray, "nodes", lambda: listed)
    return listed


def node(alive: bool = True, **amounts: float) -> dict[str, object]:
    return {"Alive": alive, "Resources": amounts}


def test_one_node_must_have_it_all(nodes):
    nodes += [node(CPU=0), node(CPU=4), node(GPU=1), node(alive=False, CPU=8, GPU=8)]
    assert missing_resources(gpus=0) is None
    assert missing_resources(gpus=0.5) == "waiting for a node with 1 CPU and 0.5 GPU, of which the cluster has none"
    nodes.append(node(CPU=1, GPU=0.5))
    assert missing_resources(gpus=0.5) is None


def test_a_change_is_logged_once_and_what_is_missing_is_told_every_time(nodes, monkeypatch, caplog):
    monkeypatch.setattr(resources, "PERIOD_SECONDS", 0.0)
    caplog.set_level("INFO", logger="bandsmith")
    told = []
    watch = ResourceWatch(gpus=0, tell=told.append)
    for present in ([node(CPU=1)], [], [], [node(CPU=2)]):
        nodes[:] = present
        watch.look()
    assert told == ["waiting for a node with 1 CPU, of which the cluster has none"] * 2
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_cluster_is_not_asked_again_at_once(nodes):
    told = []
    ResourceWatch(gpus=0, tell=told.append).look()
    assert told == []
