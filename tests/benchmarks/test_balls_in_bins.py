"""The experiments for balls-in-bins on their smallest cases: exact values, what is written, and what is said where a library is absent."""

import math

import numpy as np
import pytest

from benchmarks.balls_in_bins import (
    cases, directions, dp_sgd, exact, measure, peers, run_times, sigma_against_epsilon, tables, truncations, winners,
)
from benchmarks.balls_in_bins.__main__ import EXPERIMENTS, main
from benchmarks.balls_in_bins.cases import Case
from tests import tolerances
from tests.accountants.balls_in_bins.cases import enumerated_log_moment, random_gram

SGD = Case(family="DP-SGD", bandwidth=1, bins=4, epochs=1)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_exact_moments_are_the_sum_over_all_tuples(order):
    gram = random_gram(np.random.default_rng(order), 5)
    expected = enumerated_log_moment(gram, sigma=1.5, order=order)
    assert exact.remove_log_moment(gram, sigma=1.5, order=order) == pytest.approx(expected, rel=tolerances.LAST_DIGITS)


@pytest.mark.parametrize("order", [2, 5, 9])
def test_exact_moments_of_add_agree_with_each_other_and_with_one_gaussian(order):
    few, equal = exact._few_bins(0.7 * np.eye(3), order - 1), exact._equal_bins(0.7, 3, order - 1)
    assert few == pytest.approx(equal, rel=1e-9)
    assert exact.add_log_moment(np.array([[2.0]]), sigma=1.3, order=order) == pytest.approx(order * (order - 1) / 1.3**2, rel=1e-12)
    assert exact.add_log_moment(np.eye(5) + 0.5, sigma=1.0, order=order) is None


def test_monte_carlo_is_between_nothing_and_every_bound():
    target = {"sigma": 1.5, "delta": 1e-3}
    found = {name: function(SGD, **target) for name, function in measure.ACCOUNTANTS.items()}
    assert all(found[name] >= 0.97 * found["monte carlo"] > 0 for name in found)
    assert found["majorant"] == pytest.approx(found["monte carlo"], rel=0.03)
    assert found["renyi"] <= found["published renyi"] and found["cc"] <= found["published cc"]


def test_sigma_is_interpolated_between_measured_ones_only():
    rows = [{"accountant": "cc", "multiplier": m, "epsilon": e} for m, e in ((1.0, 4.0), (4.0, 1.0), (8.0, None))]
    found = tables.interpolated_sigma(rows, "cc", (0.5, 2.0, 4.0))
    assert found[0.5] is None and found[2.0] == pytest.approx(2.0) and found[4.0] == pytest.approx(1.0)
    assert tables.interpolated_sigma(rows, "renyi", (1.0,)) == {1.0: None}


MADE_UP = {"monte carlo": 3.0, "renyi sum": 0.1, "renyi": 1.0, "cc": 2.0, "cc, next σ": 1.0, "majorant": 0.5}


@pytest.fixture
def smallest(monkeypatch):
    """Every experiment with few and small cases, and without libraries that may be absent."""
    monkeypatch.setattr(cases, "families", lambda: (("DP-SGD",), "BLT is left out: no reason."))
    monkeypatch.setattr(peers, "absent", lambda: ("PLD_accounting", "random_allocation"))
    monkeypatch.setattr(measure, "run_times", lambda case, **_: MADE_UP)
    monkeypatch.setattr(measure, "targets", lambda: dict.fromkeys(measure.TARGETS, 0.25))
    monkeypatch.setattr(exact, "_STEP", 0.8)
    kept = {
        sigma_against_epsilon: lambda key: key["epochs"] == 1, run_times: lambda key: True,
        truncations: lambda key: key["order"] == 4 and key["epochs"] == 1 and key["truncated_to"] < 4,
        directions: lambda key: key["bins"] == 4 or (key["family"], key["measurement"], key["epochs"]) == ("DP-SGD", "directions", 1),
        dp_sgd: lambda key: key.get("multiplier") == 2.5 and key["bins"] == 16 or key.get("order") == 8,
        winners: lambda key: key["bins"] == 8 and key["bandwidth"] == 1 and key["multiplier"] > 1,
    }
    for module, wanted in kept.items():
        everything = module.jobs
        chosen = lambda *, paper, everything=everything, wanted=wanted: [job for job in everything(paper=paper) if wanted(job.key)]
        monkeypatch.setattr(module, "jobs", chosen)


WORDS = {
    "sigma_against_epsilon": ("BLT is left out", "over Monte Carlo", "σ/norm that ε needs"),
    "run_times": ("CPU seconds", "3.00", "majorant, the same"), "directions": ("Exact add is above exact remove in 0 of",),
    "truncations": ("BISR-64, b=32, k=1",), "dp_sgd": ("random_allocation is not installed", "absent"), "winners": ("DP-SGD, b=8", "majorant"),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_writes_its_tables_and_figure_and_measures_once(smallest, tmp_path, capsys, name):
    main([name, "--out", str(tmp_path)])
    printed = capsys.readouterr()
    assert all(word in printed.out for word in WORDS[name]), printed.out
    assert (tmp_path / f"{name}.txt").read_text() in printed.out and (tmp_path / f"{name}.png").stat().st_size > 10_000
    main([name, "--out", str(tmp_path)])
    again = capsys.readouterr()
    assert printed.err.count("\n") > 1 and again.err == "" and again.out == printed.out


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_sizes_of_the_paper_are_the_larger_ones(name, monkeypatch):
    monkeypatch.setattr(peers, "absent", lambda: ())
    reduced, paper = (EXPERIMENTS[name].jobs(paper=paper) for paper in (False, True))
    assert len(paper) >= len(reduced) > 0
    assert max(job.key.get("bins", 0) for job in paper) >= 100
    assert len({str(job.key) for job in paper}) == len(paper)


def test_divergences_and_directions_are_those_of_the_accountants():
    found = measure.divergences(SGD, multiplier=1.5, orders=[2, 4])
    assert all(add < remove < bound for add, remove, bound in zip(found["add"], found["remove"], found["published_add"]))
    both = measure.directions(SGD, multiplier=1.5, delta=1e-3)
    assert both["add"] <= both["published_add"]
    assert max(both["remove"], both["add"]) == pytest.approx(measure.renyi(SGD, sigma=1.5, delta=1e-3), rel=tolerances.LAST_DIGITS)
    assert math.isclose(SGD.norm, 1.0, rel_tol=1e-9)
