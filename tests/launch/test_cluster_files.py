"""The files in launch/cluster: valid by their tools' own schemas, of the pinned Ray, and every `bandsmith` line in them is one of ours."""

import copy
import gzip
import json
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import pytest
import typer
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from launch.cli import app
from launch.submission import tune_request

ROOT = Path(__file__).parents[2]
FILES = ROOT / "launch" / "cluster"
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

RAY_JOB = json.loads(gzip.decompress((ROOT / "tests" / "reference" / "kuberay_rayjob_schema.json.gz").read_bytes()))["schema"]
"""KubeRay v1.6.2 (Apache License 2.0), helm-chart/kuberay-operator/crds/ray.io_rayjobs.yaml, version v1, without the descriptions."""

BATCH = {"SLURM_JOB_ID": "7", "PWD": "/home/me"}
"""What a shell puts in place of the variables in our commands."""


def commands(name: str) -> list[str]:
    """The `bandsmith` commands in a file's text and comments, in one line each."""
    text = re.sub(r"\n#? +(?=--)", " ", (FILES / name).read_text(encoding="utf-8"))
    found = re.findall(r"(?:^|[#:`'&] *|: >-\n +)(bandsmith (?:tune|submit) [^\n`'&|]*)", text, re.MULTILINE)
    return [re.sub(r"\$(\w+)", lambda match: BATCH.get(match[1], match[0]), line).replace('"$@"', "").strip() for line in found]


def parse(command: str) -> dict[str, object]:
    """The parameters of a command, by our own app; those of the search where it is submitted."""
    _, name, *words = shlex.split(command)
    root = typer.main.get_command(app).make_context("bandsmith", [name, *words])
    parameters = root.command.get_command(root, name).make_context(name, list(words), parent=root).params
    if name == "submit" and parameters["command"]:
        search = parameters["command"][1:]
        parameters = root.command.get_command(root, "tune").make_context("tune", list(search), parent=root).params
        tune_request(search, parameters, job_id="7")
    return parameters


@pytest.mark.parametrize(
    ("name", "count"), [("aws.yaml", 1), ("kuberay-rayjob.yaml", 2), ("slurm.sh", 2)],
)
def test_every_command_is_one_of_ours(name, count):
    found = commands(name)
    assert len(found) == count
    for command in found:
        parse(command)


def test_a_command_that_is_none_of_ours_is_noticed():
    with pytest.raises(typer.TyperException):
        parse("bandsmith submit -- tune --gpu-per-trial 1")


def sbatch_options() -> list[str]:
    return re.findall(r"^# +sbatch .*?launch/cluster/slurm.sh (.*)$", (FILES / "slurm.sh").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_options_of_a_batch_job_are_those_of_tune():
    assert len(sbatch_options()) == 2
    for options in sbatch_options():
        parse(f"bandsmith tune {options}")


def autoscaler() -> dict:
    return yaml.safe_load((FILES / "aws.yaml").read_text(encoding="utf-8"))


def test_the_autoscaler_accepts_its_file(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = prepare_config(autoscaler())
    validate_config(config)
    head, workers = config["available_node_types"][config["head_node_type"]], config["available_node_types"]["gpu"]
    assert head["resources"] == {"CPU": 0} and workers["resources"]["GPU"] >= 1
    for command in ("head_start_ray_commands", "worker_start_ray_commands"):
        assert "RAY_AUTH_MODE=token" in config[command][-1]


@pytest.mark.parametrize("change", [{"max_worker": 1}, {"max_workers": "many"}, {"head_node_type": "none"}])
def test_the_autoscaler_s_schema_notices_mistakes(monkeypatch, change):
    monkeypatch.chdir(ROOT)
    config = prepare_config(autoscaler()) | change
    with pytest.raises((jsonschema.ValidationError, ValueError)):
        validate_config(config)


def strict(schema: object) -> object:
    """Kubernetes drops fields that a schema does not name; here they are errors."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    return made


def manifest() -> tuple[dict, dict]:
    claim, job = yaml.safe_load_all((FILES / "kuberay-rayjob.yaml").read_text(encoding="utf-8"))
    return claim, job


def check_ray_job(job: dict) -> None:
    schema = strict(RAY_JOB)
    # The API server itself knows these.
    schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
    jsonschema.Draft202012Validator(schema).validate(job)


def test_kuberay_accepts_its_manifest():
    claim, job = manifest()
    check_ray_job(job)
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert head["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert (claim["kind"], job["apiVersion"], job["kind"]) == ("PersistentVolumeClaim", "ray.io/v1", "RayJob")
    assert job["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "token"}


def test_its_results_are_written_to_the_volume():
    _, job = manifest()
    parameters = parse(job["spec"]["entrypoint"])
    mount = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]
    assert parameters["out"].parent == Path(mount["mountPath"]) and parameters["address"] == "auto" and parameters["autoscaling"]
    (workers,) = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    gpus = int(workers["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
    assert parameters["workers"] == workers["maxReplicas"] * gpus / parameters["gpus_per_trial"]


@pytest.mark.parametrize("path", ["spec/rayClusterSpec/headGroup", "spec/rayClusterSpec/headGroupSpec/template/spec/volume", "spec/retries"])
def test_kuberay_s_schema_notices_mistakes(path):
    _, job = manifest()
    *folders, name = path.split("/")
    at = changed = copy.deepcopy(job)
    for folder in folders:
        at = at[folder]
    at[name] = 1
    with pytest.raises(jsonschema.ValidationError):
        check_ray_job(changed)


def test_every_file_is_of_the_pinned_versions():
    images = re.findall(r"rayproject/ray:([\d.]+)-py311", "".join(path.read_text(encoding="utf-8") for path in FILES.iterdir()))
    assert len(images) == 3 and set(images) == {PINS["ray"]}
    _, job = manifest()
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["rayVersion"] == PINS["ray"]
    pods = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    images = {pod["template"]["spec"]["containers"][0]["image"] for pod in pods}
    assert images == {f"bandsmith:{PROJECT['project']['version']}"}
    assert f"--tag {images.pop()} ." in (FILES / "Dockerfile").read_text(encoding="utf-8")


def test_every_extra_a_file_installs_exists():
    texts = "".join(path.read_text(encoding="utf-8") for path in FILES.iterdir())
    extras = {name for group in re.findall(r"\[([a-z0-9,-]+)\]'", texts) for name in group.split(",")}
    assert extras == {"cluster", "cuda12"} and extras <= set(PROJECT["project"]["optional-dependencies"])


def test_the_image_holds_what_the_distribution_is_built_from():
    copied = re.findall(r"^COPY \S+ (.*) \S+$", (FILES / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for line in copied for name in line.split()} >= {"pyproject.toml", "README.md", "search_spaces", "accountants", "engine", "launch"}
    assert all((ROOT / name).exists() for line in copied for name in line.split())


def test_the_files_are_part_of_the_distribution():
    (pattern,) = PROJECT["tool"]["setuptools"]["package-data"]["launch"]
    assert set((ROOT / "launch").glob(pattern)) == set(FILES.iterdir())


def test_the_batch_script_is_one():
    script = FILES / "slurm.sh"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
