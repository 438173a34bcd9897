"""The dashboard: it shows the live study, changes nothing, answers to this machine only, and a browser without a network sees the trials."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from engine import study as studies
from engine.configuration import suggest
from engine.dashboard import DashboardSettings, dashboard, is_loopback, serve, thinned
from engine.run_folder import RunFolder
from engine.run_storage import run_storage
from engine.search import SearchSettings, open_or_create
from engine.storage import opened_storage
from engine.study import study_space
from engine.trial_record import write_configuration
from engine.trials import best_candidates
from search_spaces.errors import InputError

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextlib.contextmanager
def run_with(space, path: Path, *, storage=None, trials: int = 2):
    """A run folder with so many finished trials, and its study, still open for writing."""
    folder = RunFolder.create(path)
    with opened_storage(run_storage(folder, given=storage).spec) as opened:
        study = open_or_create(SearchSettings(folder=folder, space=space, storage=storage), opened)
        for number in range(trials):
            finish_one(study, rmse=1.0 + number)
        yield folder, study


def finish_one(study: optuna.Study, *, rmse: float) -> int:
    trial = study.ask()
    write_configuration(trial, suggest(trial, study_space(study)))
    studies.complete(study, trial, {"rmse": rmse, "sigma": 0.5, "device": "cpu", "seconds": 0.25})
    return trial.number


def get(address: str, path: str, *, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of a request to a dashboard."""
    request = urllib.request.Request(address.partition("/dashboard")[0] + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def detail(address: str) -> dict[str, object]:
    """What the page of the one study shows."""
    (study,) = json.loads(get(address, "/api/studies")[1])["study_summaries"]
    return json.loads(get(address, f"/api/studies/{study['study_id']}?after=0")[1])


@pytest.fixture
def shown(space, tmp_path):
    """The address of a dashboard, its run folder, and its study."""
    with run_with(space, tmp_path / "anchor") as (folder, study), dashboard(DashboardSettings(run=folder.path, port=0)) as address:
        yield address, folder, study


def test_every_value_of_a_trial_is_a_column(shown):
    address, _, study = shown
    assert address.startswith("http://127.0.0.1:") and address.endswith("/dashboard/studies/1")
    # One that was stopped early is better, but is no result.
    trial = study.ask()
    write_configuration(trial, suggest(trial, study_space(study)))
    studies.prune(study, trial, {"rmse": 0.1}, step=0)
    page = detail(address)
    assert page["trials"][2]["state"] == "Pruned"
    assert page["name"] == "anchor" and page["objective_names"] == ["RMSE"]
    assert {attribute["key"] for attribute in page["user_attrs"]} >= {"problem", "units", "versions"}
    assert [best["number"] for best in page["best_trials"]] == [one.number for one in best_candidates(study, count=1)] == [0]
    first = {attribute["key"]: attribute["value"] for attribute in page["trials"][0]["user_attrs"]}
    assert first == {"scheme": "min_sep_ra", "bandwidth": "128", "r": first["r"], "sigma": "0.5", "device": "cpu", "seconds": "0.25"}
    assert {"key": "sigma", "sortable": True} in page["union_user_attrs"]


@pytest.mark.parametrize("storage", [None, "sqlite:///{}/x.db", "journal:{}/x.log"])
def test_a_sweep_is_seen_while_it_goes_on(space, tmp_path, storage):
    storage = storage and storage.format(tmp_path)
    with run_with(space, tmp_path / "run", storage=storage, trials=0) as (folder, study):
        settings = DashboardSettings(run=folder.path, port=0)
        with dashboard(settings) as address:
            assert not any(trial["state"] == "Complete" for trial in detail(address)["trials"])
            number = finish_one(study, rmse=0.9)
            deadline = time.monotonic() + 30
            while detail(address)["trials"][number]["state"] != "Complete":
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert detail(address)["trials"][number]["values"] == [0.9]


def test_nothing_can_be_changed(shown):
    address, _, study = shown
    changes = (
        ("DELETE", "/api/studies/1"), ("POST", "/api/studies"), ("POST", "/api/studies/1/rename"), ("PUT", "/api/studies/1/note"),
        ("POST", "/api/trials/1/tell"), ("POST", "/api/trials/1/user-attrs"), ("OPTIONS", "/api/studies"), ("POST", "/incompatible-rdb-schema"),
    )
    answers = {change: get(address, change[1], method=change[0])[:2] for change in changes}
    assert {change: status for change, (status, _) in answers.items()} == dict.fromkeys(changes, 403)
    assert all("read-only" in json.loads(body)["reason"] for _, body in answers.values())
    assert len(study.get_trials(states=(TrialState.COMPLETE,))) == 2


def test_what_is_writable_can_be_deleted(space, tmp_path):
    with run_with(space, tmp_path / "run") as (folder, study):
        with dashboard(DashboardSettings(run=folder.path, port=0, writable=True)) as address:
            assert get(address, "/api/studies/1", method="DELETE", **{"Content-Type": "application/json"})[0] == 204
            assert json.loads(get(address, "/api/studies")[1])["study_summaries"] == []


def test_names_of_other_machines_are_refused(shown):
    address, _, _ = shown
    for host, status in (("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("elsewhere.example:8080", 403), ("10.0.0.1", 403)):
        assert get(address, "/api/studies", Host=host)[0] == status


def test_pages_load_nothing_from_elsewhere(shown):
    address, _, _ = shown
    _, page, headers = get(address, "/dashboard")
    assert "default-src 'self'" in headers["Content-Security-Policy"] and "connect-src 'self'" in headers["Content-Security-Policy"]
    assert re.findall(rb'(?:src|href)="([^"]*)"', page) and not re.search(rb'(?:src|href)="(?:\w+:)?//', page)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_leaves_no_trace(space, tmp_path, sent):
    before = signal.getsignal(sent)
    with run_with(space, tmp_path / "run") as (folder, _):
        told = []
        serve(DashboardSettings(run=folder.path, port=0), on_ready=lambda address: (told.append(address), signal.raise_signal(sent)))
    assert signal.getsignal(sent) is before
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(told[0], timeout=10)


@pytest.mark.parametrize(("host", "local"), [
    ("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("LocalHost", True), ("0.0.0.0", False), ("::", False), ("192.168.0.2", False),
    ("localhost.example", False), ("", False),
])
def test_which_addresses_are_local(tmp_path, host, local):
    assert is_loopback(host) == local
    if local:
        DashboardSettings(run=tmp_path, host=host)
    else:
        with pytest.raises(InputError, match="--allow-remote"):
            DashboardSettings(run=tmp_path, host=host)
        DashboardSettings(run=tmp_path, host=host, allow_remote=True)


def test_any_address_can_be_allowed(space, tmp_path):
    with run_with(space, tmp_path / "run") as (folder, _):
        with dashboard(DashboardSettings(run=folder.path, host="0.0.0.0", port=0, allow_remote=True)) as address:
            assert get(address, "/api/studies", Host="machine.example")[0] == 200
            assert get(address, "/api/studies/1", method="DELETE", Host="machine.example")[0] == 403


@pytest.mark.parametrize(("settings", "said"), [
    (dict(port=-1), "port=-1"), (dict(port=65536), "port=65536"), (dict(most_trials=0), "most_trials=0"), (dict(run=None), "folder of a run"),
    (dict(most_trials=5, writable=True), "most_trials=5"), (dict(most_trials=5, run=None, storage="x.db"), "most_trials=5"),
])
def test_bad_settings_are_named(tmp_path, settings, said):
    with pytest.raises(InputError, match=said):
        DashboardSettings(**dict(run=tmp_path) | settings)


def test_what_cannot_be_shown_is_said(space, tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="folder"), dashboard(DashboardSettings(run=path)):
            pass
    with run_with(space, tmp_path / "run") as (folder, _), socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(InputError, match="to be free"), dashboard(DashboardSettings(run=folder.path, port=taken.getsockname()[1])):
            pass


def test_a_storage_without_a_folder_shows_all_its_studies(space, tmp_path):
    storage = f"{tmp_path}/shared.db"
    with run_with(space, tmp_path / "a", storage=storage), run_with(space, tmp_path / "b", storage=storage):
        with dashboard(DashboardSettings(storage=storage, port=0)) as address:
            assert address.endswith("/dashboard")
            assert [study["study_name"] for study in json.loads(get(address, "/api/studies")[1])["study_summaries"]] == ["a", "b"]
        with dashboard(DashboardSettings(run=tmp_path / "b", port=0)) as address:
            assert address.endswith("/studies/2")


def test_a_thinned_copy_has_the_best_and_all_of_the_history(space, tmp_path):
    with run_with(space, tmp_path / "run", trials=12) as (folder, study):
        copy = optuna.load_study(study_name="run", storage=thinned(study, most_trials=6))
        numbers = [trial.user_attrs["trial"] for trial in copy.get_trials()]
        # RMSE rises with the number here, so that the best half are the first three.
        assert numbers == [0, 1, 2, 3, 6, 9]
        assert copy.best_value == study.best_value == 1.0 and copy.user_attrs == study.user_attrs
        assert "trial" not in study.get_trials()[0].user_attrs
        assert len(optuna.load_study(study_name="run", storage=thinned(study, most_trials=100)).get_trials()) == 12
        with dashboard(DashboardSettings(run=folder.path, port=0, most_trials=6)) as address:
            page = detail(address)
            assert len(page["trials"]) == 6 and page["objective_names"] == ["RMSE"]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_without_a_network_sees_the_study_and_its_trials(shown, tmp_path):
    address, _, _ = shown
    page = subprocess.run(
        [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/browser", "--virtual-time-budget=20000",
            # No name but this machine's address can be found.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--dump-dom", f"{address}/trials",
        ],
        capture_output=True, text=True, timeout=120, check=True, env=os.environ | {"HOME": str(tmp_path)},
    ).stdout
    assert "anchor (id=1)" in page
    assert "Trial 0 (trial_id=1)" in page and "Trial 1" in page and "Complete" in page
    assert "min_sep_ra" in page and "sigma 0.5" in page
