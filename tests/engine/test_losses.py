"""What an error of Ray's says was lost."""

import pytest

import engine.environment  # noqa: F401 (before ray, always)
import ray
from engine.losses import GIBIBYTE, loss_of
from engine.study import NODE, WORKER

OUT_OF_MEMORY = """1 worker(s) were killed due to the node running low on memory.
Memory on the node (IP: 10.0.0.1, ID: a3fa) was 5.37GB used / 23.54GB limit (0.2)
OOM kill reason: …
Selected to kill: (Actor(fd45): job ID=01, task name=Act.__init__, pid=4742, actual memory used=0.90GB, worker ID=4169)
"""
"""As Ray 2.60 words it, shortened."""


@pytest.mark.parametrize(
    ("error", "what", "said"),
    [
        (ray.exceptions.RayActorError(error_msg="The actor died because its node has died. Node Id: dbf0"), NODE, "node died: "),
        (ray.exceptions.RayActorError(error_msg="The actor died.", preempted=True), NODE, "node died: "),
        (ray.exceptions.NodeDiedError("unreachable"), NODE, "node died: "),
        (ray.exceptions.ActorUnavailableError("Connection reset by peer", None), NODE, "node died or cannot be reached: "),
        (ray.exceptions.RayActorError(error_msg="connection error.\nEnd of file"), WORKER, "worker died: connection error. End of"),
        (ray.exceptions.WorkerCrashedError(), WORKER, "worker died: "),
        (ray.exceptions.OutOfMemoryError(OUT_OF_MEMORY), WORKER, "oom: "),
        (ImportError("no module"), WORKER, "worker lost: ImportError: no module"),
        (None, WORKER, "worker lost: "),
    ],
)
def test_the_machine_is_told_from_the_worker(error, what, said):
    loss = loss_of(error)
    assert loss.what == what and loss.reason.startswith(said) and "\n" not in loss.reason


def test_out_of_memory_says_how_much_it_was():
    loss = loss_of(ray.exceptions.OutOfMemoryError(OUT_OF_MEMORY))
    assert loss.peak_memory_bytes == round(0.9 * GIBIBYTE)
    assert loss.reason.endswith("it held 0.90 GiB; the machine used 5.37GB of 23.54GB")
    assert loss_of(ray.exceptions.OutOfMemoryError("said otherwise")).peak_memory_bytes is None
