"""Where long work stands: how much, how long to go, and never too much of it."""

import io
import itertools
import pickle

import pytest
from rich.console import Console

from launch import output
from launch.progress import Bar, Lines, Passed, Stage, duration


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines(clock):
    """(report, printed): what a log would hold."""
    file = io.StringIO()
    return Lines(file, clock=clock), lambda: file.getvalue().splitlines()


def test_time_left_is_at_the_pace_so_far(clock):
    stage = Stage.begin(20, 60, now=100.0)
    assert stage.left(100.0) is None
    stage.move(30, now=150.0)
    assert stage.left(150.0) == 150.0 and stage.left(160.0) == 140.0 and stage.left(999.0) == 0.0
    stage.move(60, now=300.0)
    assert stage.left(300.0) is None


@pytest.mark.parametrize(("done", "total", "same"), [(3, 9, True), (4, 9, True), (2, 9, False), (4, 8, False)])
def test_a_new_stage_is_recognised(done, total, same):
    assert Stage.begin(3, 9, now=0.0).follows(done, total) == same


@pytest.mark.parametrize(("seconds", "words"), [
    (0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (3599.7, "1 h 00 min"), (7500, "2 h 05 min"),
])
def test_durations_in_words(seconds, words):
    assert duration(seconds) == words


def test_a_few_steps_are_all_printed_with_the_time_left(lines, clock):
    report, printed = lines
    for done in range(4):
        report("rows", done, 3)
        clock.now += 10.0
    assert printed() == ["[0/3] rows", "[1/3] rows (20 s left)", "[2/3] rows (10 s left)", "[3/3] rows"]


def test_a_fast_stage_prints_one_line_per_percent(lines, clock):
    report, printed = lines
    for done in range(100_001):
        report("certify", done, 100_000)
        clock.now += 1e-6
    found = printed()
    assert 100 <= len(found) <= 102
    assert found[0] == "[0/100000] certify" and found[-1].startswith("[100000/100000]")


def test_a_slow_stage_is_heard_of_every_few_seconds_and_does_not_fill_a_log(lines, clock):
    report, printed = lines
    for second in range(36_000):
        report(f"search, step {second}", second, 10_000_000)
        clock.now += 1.0
        if second == 60:
            assert len(printed()) >= 12
    assert len(printed()) <= 600


def test_nothing_new_prints_nothing(lines, clock):
    report, printed = lines
    for _ in range(50):
        report("search", 3, 9)
        clock.now += 60.0
    assert printed() == ["[3/9] search"]


def test_a_new_best_is_printed_even_if_no_more_is_done(lines, clock):
    report, printed = lines
    report("search, best RMSE 0.9 (estimate)", 3, 9)
    clock.now += 6.0
    report("search, waiting for a node", 3, 9)
    assert printed()[1] == "[3/9] search, waiting for a node"


def test_the_stages_of_a_run_follow_each_other(lines, clock):
    report, printed = lines
    for text, total in (("search, best RMSE 0.88 (estimate)", 3), ("pilot of nested_ra", 3), ("certify remove", 2), ("certify add", 2)):
        for done in range(total + 1):
            clock.now += 1.0
            report(text, done, total)
    assert [line.split(" (")[0].split("] ")[1].split(",")[0] for line in printed()] == list(itertools.chain(
        ["search"] * 4, ["pilot of nested_ra"] * 4, ["certify remove"] * 3, ["certify add"] * 3,
    ))


def test_the_bar_of_a_terminal_shows_trials_best_and_time_left(clock):
    console = Console(force_terminal=True, width=140, record=True, file=io.StringIO())
    bar = Bar(console, clock=clock)
    with bar.progress:
        bar("search, best RMSE 0.8810 (estimate)", 1, 60)
        clock.now += 30.0
        bar("search, best RMSE 0.8810 (estimate) [b=128]", 4, 60)
        bar.progress.refresh()
    text = console.export_text()
    last = [line for line in text.splitlines() if "4/60" in line][-1]
    assert "9 min 20 s left" in last and "search, best RMSE 0.8810 (estimate) [b=128]" in last


def test_the_bar_cuts_long_texts_on_a_narrow_terminal(clock):
    console = Console(force_terminal=True, color_system=None, width=70, file=io.StringIO())
    bar = Bar(console, clock=clock)
    bar("certify min_sep_ra b=128 sigma=0.7900 remove, " * 9, 1, 2)
    with console.capture() as capture:
        console.print(bar.progress.get_renderable())
    (line,) = capture.get().splitlines()
    assert len(line) <= 70 and "1/2" in line and "…" in line


@pytest.mark.parametrize(
    "make", [Lines, lambda file: Bar(Console(force_terminal=True, file=file)), lambda file: Passed(lambda *told: print(told, file=file))],
)
def test_a_search_that_is_pickled_takes_a_silent_copy_along(make):
    file = io.StringIO()
    copy = pickle.loads(pickle.dumps(make(file)))
    copy("search", 1, 2)
    assert file.getvalue() == ""


def test_progress_leaves_stdout_alone(capsys):
    with output.progress() as report:
        report("nested_ra, bandwidth 8", 3, 9)
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == "[3/9] nested_ra, bandwidth 8\n"
