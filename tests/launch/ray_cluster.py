"""A Ray cluster of several nodes on this machine: every node is a `ray start` process of its own; some cannot see this machine's files."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("search_spaces", "accountants", "engine", "launch", "tests")
START_SECONDS = 90


def can_hide_files() -> bool:
    """Whether a process of ours may have a mount namespace of its own."""
    return shutil.which("unshare") is not None and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclasses.dataclass
class RayCluster:
    """A running cluster.

    Attributes:
      port: of its head, for `ray.init` on this machine.
      client_port: of the head's server for Ray's client.
      dashboard: address of the job server.
      token: what one needs to log in.
      folder: of everything Ray writes, and the home of the head.
      nodes: the processes.
    """

    port: int
    client_port: int
    dashboard: str
    token: str
    folder: Path
    nodes: list[subprocess.Popen]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def client_address(self) -> str:
        return f"ray://127.0.0.1:{self.client_port}"

    def wait_for_nodes(self, count: int) -> None:
        """Returns when so many nodes, the head included, have joined."""
        deadline = time.monotonic() + START_SECONDS
        while len(self._alive()) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"Only {len(self._alive())} of {count} nodes have joined.")
            time.sleep(0.2)

    def node_with(self, resource: str, amount: int = 1) -> str:
        """Identifier of the only node that has so much of a resource."""
        (found,) = [node["node_id"] for node in self._alive() if node["resources_total"].get(resource) == amount]
        return found

    def _alive(self) -> list[dict]:
        request = urllib.request.Request(f"{self.dashboard}/api/v0/nodes?detail=1", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request) as answer:
            return [node for node in json.load(answer)["data"]["result"]["result"] if node["state"] == "ALIVE"]

    def environment(self) -> dict[str, str]:
        """What a process needs to be let in."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}

    def add(self, *options: str, hidden: Sequence[Path] = ()) -> subprocess.Popen:
        """Starts a node; the `hidden` folders are empty for it, and the project is."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats",
                   "--temp-dir", str(self.folder / str(len(self.nodes))), "--dashboard-agent-listen-port", "0",
                   "--object-store-memory", "100000000", *options]
        if hidden:
            mounts = [f"mount -t tmpfs tmpfs '{folder}'" for folder in (*hidden, *(ROOT / name for name in PACKAGES))]
            command = ["unshare", "-m", "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh", *command]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "TUNE_", "PYTHONPATH"))}
        # A job runs the `python` it finds, which is that of its node.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = kept | self.environment() | {"PATH": path, "HOME": str(self.folder), "RAY_USAGE_STATS_ENABLED": "0"}
        with open(self.folder / f"node-{len(self.nodes)}.txt", "w") as log:
            node = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        self.nodes.append(node)
        return node


@contextlib.contextmanager
def ray_cluster(*workers: Sequence[str], hidden: Sequence[Path] = (), head: Sequence[str] = ("--num-cpus", "0")) -> Iterator[RayCluster]:
    """A head with a job server and one node for each of `workers` (options of `ray start`); the workers cannot see the `hidden` folders."""
    folder = Path(tempfile.mkdtemp(prefix="bs-"))
    port, client_port, dashboard = free_port(), free_port(), free_port()
    cluster = RayCluster(
        port=port, client_port=client_port, dashboard=f"http://127.0.0.1:{dashboard}", token=os.urandom(16).hex(), folder=folder, nodes=[],
    )
    try:
        cluster.add(
            "--head", "--port", str(port), "--dashboard-host", "127.0.0.1", "--dashboard-port",
            str(dashboard), "--ray-client-server-port", str(client_port), *head,
        )
        wait_for(port)
        for options in workers:
            cluster.add("--address", cluster.address, *options, hidden=hidden)
        wait_for(dashboard)
        yield cluster
    finally:
        for node in reversed(cluster.nodes):
            stop(node)
        shutil.rmtree(folder, ignore_errors=True)


def stop(node: subprocess.Popen) -> None:
    """Ends a node and every process it started."""
    node.send_signal(signal.SIGTERM)
    try:
        node.wait(30)
    except subprocess.TimeoutExpired:
        node.kill()


def wait_for(port: int) -> None:
    """Returns when something answers at the port."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        time.sleep(0.1)
    raise TimeoutError(f"Nothing answers at port {port}.")
