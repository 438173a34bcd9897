"""Submitting without a cluster: what a job is told to run, how it is followed, what is refused."""

import types

import pytest

from launch import submission
from launch.cli import app, main
from launch.commands.submit import _parsed
from search_spaces.errors import BandsmithError, InputError

TARGET = "--iterations 64 --participations 4 --epsilon 4 --delta 1e-3"


def request(words: str) -> submission.Request:
    import typer

    command = typer.main.get_command(app)
    context = command.make_context("bandsmith", ["submit", "--", "tune"])
    return submission.tune_request(words.split(), _parsed(context, ["tune", *words.split()]), job_id="j")


def test_a_job_runs_on_its_cluster_in_a_folder_of_its_name():
    made = request(TARGET)
    assert made.arguments == (*TARGET.split(), "--address", "auto", "--out", "j") and made.folder == "j"
    assert request(f"{TARGET} --out mine").folder == "mine"
    assert request("--resume earlier --address auto") == submission.Request(
        arguments=("--resume", "earlier", "--address", "auto"), folder="earlier", py_modules=(),
    )


def test_modules_are_sent_and_not_named_again():
    made = request(f"{TARGET} --py-modules a.py,b --py-modules=c --objective a:f")
    assert made.py_modules == ("a.py", "b", "c")
    assert made.arguments == (*TARGET.split(), "--objective", "a:f", "--address", "auto", "--out", "j")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("submit", "exactly one of"), ("submit --fetch a --stop b", "exactly one of"), ("submit --stop b -- tune", "exactly one of"),
        ("submit -- account", "begin with tune, not 'account'"), ("submit -- tune --epsilon x", "'x' to be a number"),
        ("submit -- tune --nope", "--nope"), ("submit -- tune --address 10.0.0.1:6379", "address='10.0.0.1:6379'"),
        ("submit -- tune --schemes fixed_size", "fixed_size"), ("submit --out . -- tune", "out='.' not to exist"),
        ("submit --dashboard-address localhost:8265 --stop a", "dashboard-address='localhost:8265' to be http://host:port"),
        ("submit --dashboard-address http://127.0.0.1:1 --stop a", "dashboard-address='http://127.0.0.1:1' to be a Ray cluster's job server"),
    ],
)
def test_mistakes_are_found_before_anything_is_sent(bandsmith, command, said):
    outcome = bandsmith(command)
    assert (outcome.code, outcome.out) == (2, "") and said in outcome.err and outcome.err.count("\n") == 1


def test_without_the_extra_it_says_which_one(bandsmith, monkeypatch):
    monkeypatch.setattr(submission.importlib.util, "find_spec", lambda name: None)
    outcome = bandsmith("submit -- tune")
    assert outcome.code == 2 and "pip install 'bandsmith[cluster]'" in outcome.err


class Server:
    """Stands for a job server whose connection breaks now and then.

    Args:
      tails: what each attempt to follow brings before it breaks; the last one ends well.
      outage: how many questions about the job fail.
    """

    def __init__(self, *tails: list[str], outage: int = 0) -> None:
        self.tails, self.outage = list(tails), outage

    async def tail_job_logs(self, job_id):
        for text in self.tails[0]:
            yield text
        if len(self.tails) > 1:
            self.tails.pop(0)
            raise RuntimeError("connection closed")

    def get_job_info(self, job_id):
        if self.outage:
            self.outage -= 1
            raise ConnectionError("no route")
        value = "SUCCEEDED" if len(self.tails) == 1 else "RUNNING"
        status = types.SimpleNamespace(value=value, is_terminal=lambda: value == "SUCCEEDED")
        return types.SimpleNamespace(status=status, metadata={submission.FOLDER: "~/bandsmith/j"}, driver_exit_code=0)

    def get_job_logs(self, job_id):
        return "".join(self.tails[0])


def test_a_broken_connection_is_made_again_and_no_line_is_printed_twice(monkeypatch):
    monkeypatch.setattr(submission, "POLL_SECONDS", 0.0)
    printed = []
    server = Server(["one\n", "two\n"], ["one\n"], ["one\ntwo\nth"], ["one\n", "two\n", "three\n"], outage=2)
    done = submission.follow(server, "j", write=printed.append)
    assert "".join(printed) == "one\ntwo\nthree\n" and done.exit_code == 0 and done.folder == "~/bandsmith/j"


def test_a_server_that_stays_away_says_how_to_come_back(monkeypatch):
    monkeypatch.setattr(submission, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(submission, "LOST_SECONDS", 0.0)
    with pytest.raises(BandsmithError, match="come back with: bandsmith submit --fetch j"):
        submission.follow(Server([""], outage=10**9), "j", write=str)


def test_interrupting_detaches_and_says_how_to_go_on(bandsmith, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    job = submission.Job(job_id="j", status="RUNNING", folder="~/bandsmith/j", exit_code=None)
    monkeypatch.setattr(submission, "connect", lambda address: None)
    monkeypatch.setattr(submission, "submit", lambda *_, **__: job)
    monkeypatch.setattr(submission, "follow", interrupted)
    outcome = bandsmith("submit --job-id j -- tune")
    assert outcome.code == 130 and outcome.out == ""
    assert "bandsmith submit --fetch j" in outcome.err and "bandsmith submit --stop j" in outcome.err


@pytest.mark.parametrize(("status", "code", "ours"), [("SUCCEEDED", 0, 0), ("FAILED", 2, 2), ("FAILED", -9, 1), ("FAILED", None, 1), ("STOPPED", 143, 1)])
def test_the_exit_code_is_the_job_s(status, code, ours):
    info = types.SimpleNamespace(status=types.SimpleNamespace(value=status), driver_exit_code=code)
    assert submission._exit_code(info) == ours


def test_a_job_of_somebody_else_has_nothing_to_fetch(tmp_path):
    job = submission.Job(job_id="j", status="SUCCEEDED", folder="", exit_code=0)
    with pytest.raises(InputError, match="that `bandsmith submit` has started"):
        submission.fetch(None, job, tmp_path / "out")


def test_the_program_runs_as_a_module(capsys):
    assert main(["--help"]) == 0 and " submit " in capsys.readouterr().out
