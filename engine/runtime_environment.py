"""What a Ray cluster's nodes are sent: the project, the user's own modules and environment variables.

Nodes share no files. The project travels as an archive of its four packages, whether it is run from a checkout or is installed among others
in site-packages: what is not a package of ours (`.git`, runs, virtual environments, tests, secrets) has no way in. Ray names an archive
by its content, so that the same project is sent once.
"""

import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from search_spaces.errors import InputError

PACKAGES = ("search_spaces", "accountants", "engine", "launch")

ROOT = Path(__file__).parents[1]
"""The folder that holds our packages: a checkout, or site-packages."""

UNWANTED = ("__pycache__", ".git", ".venv", "venv*", ".pytest_cache", ".hypothesis", "runs")
"""Names that are left out of the user's modules."""

NODE_CACHE = Path("compiled")
"""Where a node keeps compiled programs: in its own copy of the project, which is the workers' directory and which Ray removes."""

JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Variable by which Ray hands a submitted job what its nodes are sent."""

_EARLIEST = (1980, 1, 1, 0, 0, 0)


def in_job() -> bool:
    """Whether this process was submitted to a cluster."""
    return JOB in os.environ


def job_environment() -> Mapping[str, object]:
    """The runtime environment of the submitted job that this process is; empty if it is none."""
    return json.loads(os.environ.get(JOB) or "{}").get("runtime_env") or {}


def runtime_environment(folder: Path, *, variables: Mapping[str, str], py_modules: Sequence[str] = ()) -> dict[str, object]:
    """What `ray.init` is told to send to a cluster. What a job was submitted with goes to all its nodes anyway, and stays as it is.

    Args:
      folder: where the archive is written; needed until Ray has it.
      variables: environment variables of the workers.
      py_modules: paths of the user's modules.

    Raises:
      InputError: a module is no package folder, `.py` file or wheel, or the job has modules already.
    """
    inherited = job_environment()
    environment: dict[str, object] = {}
    own = {name: value for name, value in variables.items() if name not in inherited.get("env_vars", {})}
    if own:
        environment["env_vars"] = own
    if "working_dir" not in inherited:
        environment["working_dir"] = str(pack_project(folder / "bandsmith.zip"))
    if py_modules and "py_modules" in inherited:
        raise InputError(f"Expected py_modules={list(py_modules)} not to be given inside a job that was submitted with modules of its own.")
    return environment | user_modules(py_modules)


def user_modules(py_modules: Sequence[str]) -> dict[str, object]:
    """The part of a runtime environment that sends the user's modules; empty if there are none. Raises as `runtime_environment` does."""
    check_modules(py_modules)
    if not py_modules:
        return {}
    return {"py_modules": [str(Path(path).resolve()) for path in py_modules], "excludes": list(UNWANTED)}


def check_modules(py_modules: Sequence[str]) -> None:
    """Nothing if every path is something that can be sent. Raises as `runtime_environment` does."""
    for path in map(Path, py_modules):
        if not path.is_dir() and not (path.is_file() and path.suffix in (".py", ".whl")):
            raise InputError(f"Expected py_modules={str(path)!r} to be an existing package folder, .py file or wheel.")


def job_to_submit(folder: Path, *, py_modules: Sequence[str] = ()) -> dict[str, object]:
    """What a job is submitted with; arguments and errors as of `runtime_environment`.

    Ray's job server takes no single `.py` file as a module: such files travel in the archive, next to our packages.
    """
    check_modules(py_modules)
    files = [path for path in py_modules if path.endswith(".py")]
    archive = pack_project(folder / "bandsmith.zip", modules=files)
    # On Ray's order to stop, the search still writes down where it is.
    variables = {"RAY_JOB_STOP_WAIT_TIME_S": "30"}
    return {"working_dir": str(archive), "env_vars": variables} | user_modules([path for path in py_modules if path not in files])


def pack_project(path: Path, *, modules: Sequence[str] = ()) -> Path:
    """Writes the archive of the project and some single-file modules; the same files give the same bytes."""
    names = {file.relative_to(ROOT).as_posix(): file for file in project_files()} | {Path(file).name: Path(file) for file in modules}
    with zipfile.ZipFile(path, "w") as archive:
        for name, file in names.items():
            archive.writestr(zipfile.ZipInfo(name, _EARLIEST), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return path


def project_files() -> Iterator[Path]:
    """The files of the four packages, in a fixed order, without what Python and others cache there."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*")):
            inside = file.relative_to(ROOT).parts
            if file.is_file() and "__pycache__" not in inside and not any(name.startswith(".") for name in inside):
                yield file
