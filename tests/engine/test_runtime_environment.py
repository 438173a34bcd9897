"""What a cluster is sent, and what it is not."""

import json
import zipfile
from pathlib import Path

import pytest
from ray._private.runtime_env.packaging import unzip_package
from ray._private.runtime_env.working_dir import upload_working_dir_if_needed

from engine import environment, runtime_environment
from engine.environment import start_ray
from engine.runtime_environment import JOB, PACKAGES, ROOT, job_to_submit, pack_project
from search_spaces.errors import InputError

MOST_BYTES = 2**21
"""Of the archive; it travels to every node."""


def names(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def unwanted(folder: Path) -> None:
    """Puts into a folder what must stay there."""
    for name in (".git/config", ".venv/lib/x.py", "runs/a/study.db", "numpy/__init__.py", "secret.env", "engine/__pycache__/a.pyc",
                 "engine/.hypothesis/x", "launch/.env", "tests/conftest.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def test_the_four_packages_travel_and_nothing_else(tmp_path):
    found = names(pack_project(tmp_path / "project.zip"))
    assert {name.split("/")[0] for name in found} == set(PACKAGES)
    sources = {path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert {name for name in found if name.endswith(".py")} == sources
    assert not [name for name in found if "__pycache__" in name or "/." in name]
    assert (tmp_path / "project.zip").stat().st_size < MOST_BYTES


def test_neighbours_in_a_checkout_or_in_site_packages_stay(tmp_path, monkeypatch):
    for package in PACKAGES:
        (tmp_path / "site" / package).mkdir(parents=True)
        (tmp_path / "site" / package / "__init__.py").write_text("")
    unwanted(tmp_path / "site")
    monkeypatch.setattr(runtime_environment, "ROOT", tmp_path / "site")
    assert names(pack_project(tmp_path / "project.zip")) == [f"{package}/__init__.py" for package in PACKAGES]


def test_the_same_project_is_sent_once(tmp_path):
    first, second = pack_project(tmp_path / "1.zip"), pack_project(tmp_path / "2.zip")
    assert first.read_bytes() == second.read_bytes()


def test_ray_takes_the_archive_and_unpacks_what_we_packed(tmp_path):
    sent = []
    project = pack_project(tmp_path / "project.zip")
    environment = upload_working_dir_if_needed(
        {"working_dir": str(project)}, include_gitignore=True, upload_fn=lambda path, excludes, is_file: sent.append((path, is_file)),
    )
    assert sent == [(str(project), True)] and environment["working_dir"].startswith("gcs://")
    unzip_package(str(project), tmp_path / "node", remove_top_level_directory=False, unlink_zip=False)
    assert (tmp_path / "node" / "launch" / "cli.py").read_bytes() == (ROOT / "launch" / "cli.py").read_bytes()


def test_a_cluster_gets_project_modules_and_variables(tmp_path):
    (tmp_path / "mine").mkdir()
    sent = runtime_environment.runtime_environment(tmp_path, variables={"A": "1"}, py_modules=[str(tmp_path / "mine")])
    assert sent["env_vars"] == {"A": "1"} and sent["py_modules"] == [str(tmp_path / "mine")] and "venv*" in sent["excludes"]
    assert Path(sent["working_dir"]).exists()


def test_a_job_keeps_what_it_was_submitted_with(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("")
    inherited = {"working_dir": "gcs://x.zip", "env_vars": {"A": "0"}, "py_modules": ["gcs://y.zip"]}
    monkeypatch.setenv(JOB, json.dumps({"runtime_env": inherited}))
    # Ray refuses a value that is given twice.
    assert runtime_environment.runtime_environment(tmp_path, variables={"A": "1", "B": "2"}) == {"env_vars": {"B": "2"}}
    with pytest.raises(InputError, match="submitted with modules of its own"):
        runtime_environment.runtime_environment(tmp_path, variables={}, py_modules=[str(tmp_path / "mine.py")])


def test_a_single_file_of_a_job_lies_next_to_the_packages(tmp_path):
    for name in ("objective.py", "mine/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    sent = job_to_submit(tmp_path, py_modules=[str(tmp_path / "objective.py"), str(tmp_path / "mine")])
    assert "objective.py" in names(sent["working_dir"]) and sent["py_modules"] == [str(tmp_path / "mine")]


@pytest.mark.parametrize("name", ["missing", "missing.py", "data.csv"])
def test_modules_that_are_none_are_refused(tmp_path, name):
    (tmp_path / "data.csv").write_text("")
    for send in (runtime_environment.user_modules, lambda modules: job_to_submit(tmp_path, py_modules=modules)):
        with pytest.raises(InputError, match=f"py_modules='.*{name}' to be an existing package folder, .py file or wheel"):
            send([str(tmp_path / name)])


def test_a_local_ray_is_sent_nothing(monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(environment.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(environment.ray, "shutdown", lambda: None)
    monkeypatch.setattr(environment, "_init", lambda **options: told.append(options["runtime_env"]))
    monkeypatch.setattr(environment, "_trials_at_once", lambda gpus_per_trial: 1)
    with start_ray(workers=1, cache_directory=tmp_path):
        pass
    with start_ray(workers=None, address="auto", cache_directory=tmp_path) as workers:
        assert workers == 1
    assert list(told[0]) == ["env_vars"] and told[0]["env_vars"]["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path)
    # On a node, relative to its own copy of the project.
    assert sorted(told[1]) == ["env_vars", "working_dir"] and told[1]["env_vars"]["JAX_COMPILATION_CACHE_DIR"] == "compiled"
