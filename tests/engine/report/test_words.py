"""The certificate in words: its own numbers, what it covers, and what it does not."""

import dataclasses

import pytest

from accountants.certificates.records import Certificate, Outcome
from engine.report import tables, words
from engine.report.contents import read_contents
from engine.report.style import number
from tests.engine.report import runs


def text_of(passages):
    return " ".join(" ".join((one.heading, *one.paragraphs, *one.points, one.command or "")) for one in passages)


@pytest.fixture(scope="module")
def strategy(contents):
    return contents.strategy


def test_the_guarantee_names_target_adjacency_and_both_directions(strategy):
    text = text_of([words.guarantee_words(strategy)])
    assert "(2, 0.01)-DP" in text and "add/remove" in text and "clip norm" in text and "nested_ra" in text
    for one in strategy.guarantee:
        assert f"{one.direction} (an example is" in text and f"δ ≤ {number(one.delta)}" in text


def test_an_estimate_alone_is_no_guarantee(strategy):
    estimates = dataclasses.replace(strategy, evidence=tuple(one for one in strategy.evidence if one.kind == "estimate"))
    text = text_of([words.guarantee_words(estimates)])
    assert "Nothing" in text and "remove and add" in text and words.kinds(estimates.guarantee) == "no guarantee"


def test_the_certificate_says_what_was_fixed_first_how_it_was_tested_and_how_to_check_it(strategy):
    text, plan = text_of(words.certificate_words(strategy)), strategy.certificate.plan
    assert f"A list of {len(plan.candidates)} candidate" in text and str(plan.seed) in text and "SHA-256" in text
    assert "threshold" in text and "Chernoff" in text and strategy.sha256 in text and "bandsmith verify strategy.json" in text
    assert all(number(strategy.certificate.delta[direction]) in text for direction in ("remove", "add"))


def test_the_limits_are_those_of_a_certificate_on_samples(strategy):
    text = text_of([words.limits(strategy)])
    assert "1 − β" in text and "average" in text and "one run" in text and "no guarantee" in text


def test_the_tests_are_listed_with_all_their_numbers(strategy):
    table, made = tables.tests_table(strategy.certificate), strategy.certificate
    rows = {(row[0], row[3]): row for row in table.rows}
    for place, pair in enumerate(made.outcomes):
        for test, outcome in zip(made.plan.candidates[place].tests, pair):
            row = rows[str(place), test.direction]
            assert len(row) == len(table.columns) and number(made.plan.candidates[place].mechanism.sigma) in row
            if outcome is not None:
                assert {str(test.samples), number(test.bound, 4), number(test.threshold, 5), number(outcome.mean, 5)} <= set(row)
                assert row[-1] == ("passed" if outcome.passed else "failed")
    assert rows["last resort", "add"][-1] == "holds"


def test_a_failed_candidate_and_the_last_resort_are_said(strategy):
    made = strategy.certificate
    lost = Outcome(mean=0.5, second_moment=0.3, largest=0.9, samples=10, passed=False)
    failed = Certificate(plan=made.plan, outcomes=((lost, None),) * len(made.plan.candidates), selected=-1, delta=made.delta)
    assert "last resort was selected" in text_of(words.certificate_words(dataclasses.replace(strategy, certificate=failed)))
    results = [row[-1] for row in tables.tests_table(failed).rows]
    assert results[0] == "failed" and results[1] in ("not drawn", "holds") and results[-2:] == ["holds", "holds"]


def test_the_published_procedure_has_its_own_rule(strategy):
    made = strategy.certificate
    plan = dataclasses.replace(made.plan, method="published", candidates=made.plan.candidates[:1])
    published = dataclasses.replace(made, plan=plan, outcomes=made.outcomes[:1])
    text = text_of(words.certificate_words(dataclasses.replace(strategy, certificate=published)))
    assert "falling σ" in text and "published bound" in text and "1 candidate " in text


def test_a_deterministic_guarantee_rests_on_no_samples(tmp_path):
    strategy = read_contents(runs.make_deterministic(tmp_path / "run")).strategy
    text = text_of([words.guarantee_words(strategy), *words.certificate_words(strategy), words.limits(strategy)])
    assert "No sample was drawn" in text and "deterministic bound by pld" in text and "bandsmith verify" in text
    assert [one.accountant for one in strategy.guarantee] == ["pld", "pld"]
    assert "1 − β" not in text and words.kinds(strategy.guarantee) == "deterministic bound"


def test_fixed_size_batches_are_said_to_be_another_adjacency(fixed_size):
    strategy = read_contents(fixed_size).strategy
    text = text_of([words.guarantee_words(strategy), *words.certificate_words(strategy), words.limits(strategy)])
    assert "replace" in text and "10 of 100 examples" in text and "cannot be compared" in text and "computes every bound in it again" in text
