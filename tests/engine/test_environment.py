"""What Ray and its workers get to see, and demands that no cluster can meet."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.environment import _cluster_workers, ray, running_session, start_ray, worker_environment
from search_spaces.errors import InputError

ENGINE = Path(__file__).parents[2] / "engine"


def test_workers_without_a_gpu_stay_on_the_cpu():
    assert worker_environment() == {"JAX_PLATFORMS": "cpu"}


def test_a_share_of_a_gpu_is_a_share_of_its_memory():
    environment = worker_environment(gpus_per_trial=0.5)
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert 0.4 < float(environment["XLA_CLIENT_MEM_FRACTION"]) < 0.5
    # JAX refuses to start when both names of the setting have a value.
    assert environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == ""
    assert "JAX_PLATFORMS" not in environment


def test_a_whole_gpu_is_left_to_jax():
    assert worker_environment(gpus_per_trial=1) == {}


def test_compiled_programs_are_kept_where_they_are_told(tmp_path):
    environment = worker_environment(cache_directory=tmp_path)
    assert environment["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path)
    assert environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "0"


def test_float64_does_not_depend_on_the_environment():
    assert not any("X64" in name for name in worker_environment(gpus_per_trial=0.5))


def run_code(code: str, **environment: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "TUNE_"))}
    kept |= {"PYTHONPATH": str(ENGINE.parent)} | environment
    return subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True)


def test_what_the_user_has_set_is_kept():
    done = run_code("import engine.environment, os; print(os.environ['RAY_AUTH_MODE'])", RAY_AUTH_MODE="disabled")
    assert (done.stdout, done.stderr) == ("disabled\n", "")


def test_importing_sets_every_variable_and_prints_nothing():
    done = run_code("import engine.environment as e, os; assert e.RAY_ENVIRONMENT.items() <= os.environ.items()")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("module", sorted(path.name for path in ENGINE.glob("*.py")))
def test_ray_is_imported_after_the_environment_and_nothing_forks(module):
    text = (ENGINE / module).read_text()
    lines = text.splitlines()
    ours = next((i for i, line in enumerate(lines) if "engine.environment" in line and "import" in line), None)
    rays = [i for i, line in enumerate(lines) if line.startswith(("import ray", "from ray"))]
    assert module == "environment.py" or not rays or (ours is not None and ours < min(rays))
    # A fork after JAX has started threads hangs for good; workers are Ray's.
    assert "multiprocessing" not in text and "os.fork" not in text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(workers=0), "workers=0"), (dict(gpus_per_trial=-1), "gpus_per_trial=-1"), (dict(gpus_per_trial=1.5), "gpus_per_trial=1.5"),
        (dict(gpus_per_trial=float("nan")), "gpus_per_trial=nan"), (dict(gpus_per_trial=0.5), "at most the 0 GPUs"),
    ],
)
def test_impossible_demands_are_refused(ray_session, settings, said):
    with pytest.raises(InputError, match=said):
        with start_ray(**{"workers": 2} | settings):
            pass


def test_a_running_session_is_used_and_left_running(ray_session):
    with start_ray(workers=1):
        assert ray.is_initialized()
    assert ray.is_initialized()


def test_a_worker_sees_the_environment_and_our_packages(ray_session):
    def look():
        import search_spaces

        return os.environ["JAX_PLATFORMS"], search_spaces.__name__, os.environ["RAY_AUTH_MODE"]

    assert ray.get(ray.remote(look).remote()) == ("cpu", "search_spaces", "token")



def test_a_job_logs_in_as_its_cluster_says():
    code = "import engine.environment, os; print(os.environ.get('RAY_AUTH_MODE'))"
    assert run_code(code, RAY_JOB_CONFIG_JSON_ENV_VAR="{}").stdout == "None\n"


def test_no_file_is_written_into_the_home_folder():
    # A home that takes none, whoever runs this.
    code = "from engine.environment import start_ray, ray\nwith start_ray(workers=1): print(ray.get(ray.remote(lambda: 1).remote()))"
    done = run_code(code, HOME="/dev/null")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(workers=2, address="ray://127.0.0.1:10001"), "ray://127.0.0.1:10001.*auto or host:port"),
        (dict(workers=2, address="127.0.0.1:1", through_client=True), "127.0.0.1:1.*ray://host:port"),
        (dict(workers=2, address="127.0.0.1:1"), "127.0.0.1:1.*nothing answers"),
        (dict(workers=2, address="ray://127.0.0.1:1", through_client=True), "ray://127.0.0.1:1.*nothing answers"),
        (dict(workers=None, autoscaling=True), "autoscaling"),
        (dict(workers=None, address="auto", autoscaling=True), "workers to be given"), (dict(workers=2, autoscaling=True), "an address"),
    ],
)
def test_clusters_that_cannot_be_used_are_refused(monkeypatch, settings, said):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with pytest.raises(InputError, match=said):
        with start_ray(**settings):
            pass


def test_more_workers_than_a_cluster_runs_at_once_are_a_warning():
    assert _cluster_workers(None, 3) == 3 and _cluster_workers(2, 3) == 2
    with pytest.warns(UserWarning, match="can run 3 of workers=5 trials at once"):
        assert _cluster_workers(5, 3) == 5


def test_a_cluster_that_grows_is_waited_for_also_by_later_stages(monkeypatch):
    running = []
    monkeypatch.setattr(ray, "is_initialized", lambda: bool(running))
    monkeypatch.setattr(ray, "shutdown", running.clear)
    monkeypatch.setattr(ray, "nodes", lambda: [])
    monkeypatch.setattr("engine.environment._init", lambda **options: running.append(options))
    with start_ray(workers=4, address="auto", gpus_per_trial=1, autoscaling=True) as workers:
        with start_ray(workers=4, gpus_per_trial=1) as inner:
            assert workers == inner == 4
    with pytest.raises(InputError, match="at most the 0 GPUs"):
        with start_ray(workers=4, address="auto", gpus_per_trial=1):
            pass


def test_a_session_that_others_started_grows_if_they_say_so(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "nodes", lambda: [])
    with running_session(grows=True), start_ray(workers=4, gpus_per_trial=1) as workers:
        assert workers == 4
    for growing in (running_session(grows=False), contextlib.nullcontext()):
        with growing, pytest.raises(InputError, match="at most the 0 GPUs"):
            with start_ray(workers=4, gpus_per_trial=1):
                pass
