"""Conditional composition: the reference, its settings, what is refused."""

import numpy as np
import pytest

from accountants.balls_in_bins.conditional_composition import composed_losses, conditional_delta, conditional_epsilon
from accountants.balls_in_bins.prefix_statistics import TEMPERATURES, mean_rows, prefix_statistics, strategy_statistics
from accountants.gaussian import gaussian_delta
from search_spaces.dense_strategies import DenseStrategy, FullToeplitzStrategy, square_root
from search_spaces.errors import InputError
from tests import tolerances
from tests.accountants.balls_in_bins.cases import REFERENCE, column, label

NAMED = {label(case): case for case in REFERENCE["eps_delta"]}
CASES = ("identity1-50x1-2.0", "bsr2-50x1-4.0", "bsr4-20x4-16.0", "bisr4-20x4-8.0", "bisr4-50x1-4.0")
SETTINGS = {"cc_paper": ((), "even"), "cc_ties": ((), "monitored"), "cc_ties_var": (TEMPERATURES, "monitored")}
directions = pytest.mark.parametrize("direction", ["remove", "add"])


def statistics_of(case: dict, temperatures: tuple[float, ...]):
    strategy = FullToeplitzStrategy(column=tuple(column(case["kind"], case["p"], case["b"] * case["k"])))
    return prefix_statistics(mean_rows(strategy, case["b"]), bins=case["b"], iterations=strategy.iterations, temperatures=temperatures)


def tabulated() -> list:
    """(name, setting) of every value in the reference; those of five cases are quick, and variational bounds are checked on these alone."""
    return [
        pytest.param(name, setting, marks=() if name in CASES else pytest.mark.slow, id=f"{name}-{setting}")
        for name, case in NAMED.items() for setting in SETTINGS if setting in case["remove"] and (name in CASES or not SETTINGS[setting][0])
    ]


@pytest.mark.parametrize(("name", "setting"), tabulated())
def test_epsilon_matches_the_reference(name, setting):
    case, (temperatures, split) = NAMED[name], SETTINGS[setting]
    statistics = statistics_of(case, temperatures)
    for direction in ("remove", "add"):
        found = conditional_epsilon(statistics, sigma=case["sigma"], direction=direction, delta=case["delta"], split=split).value
        assert found == pytest.approx(case[direction][setting], rel=tolerances.COMPOSITION)
        assert found >= case[direction]["mc_eps"] - 4 * case[direction]["mc_eps_se"]


@directions
def test_delta_is_the_inverse_of_epsilon(direction):
    statistics = strategy_statistics(square_root(iterations=24, bandwidth=2), 8)
    for target in (1e-3, 1e-7):
        epsilon = conditional_epsilon(statistics, sigma=4.0, direction=direction, delta=target).value
        found = conditional_delta(statistics, sigma=4.0, direction=direction, epsilon=epsilon)
        assert found.value == pytest.approx(target, rel=2e-6)
        assert found.details["bad_event"] == 0.5 * found.value
    assert conditional_delta(statistics, sigma=0.05, direction=direction, epsilon=0.1).value == 1.0


@directions
def test_blocks_cost_a_little_and_never_less(direction):
    statistics = strategy_statistics(square_root(iterations=60, bandwidth=3), 20)
    epsilons = [conditional_epsilon(statistics, sigma=5.0, direction=direction, delta=1e-5, block=block).value for block in (1, 4, 60)]
    assert epsilons[0] <= epsilons[1] * (1 + 1e-6) <= epsilons[0] * 1.05
    assert epsilons[2] >= epsilons[1]


@directions
def test_settings_are_honoured(direction):
    strategy = square_root(iterations=24, bandwidth=2)
    statistics = strategy_statistics(strategy, 8)
    epsilon = lambda **settings: conditional_epsilon(statistics, sigma=3.0, direction=direction, delta=1e-5, **settings)
    half, tenth = epsilon(), epsilon(bad_event_share=0.1)
    assert half.details["bad_event"] == pytest.approx(5e-6) and tenth.details["bad_event"] == pytest.approx(1e-6)
    assert half.value != tenth.value == pytest.approx(half.value, rel=0.1)
    assert epsilon(split="even").value > half.value
    assert epsilon(points=4000).value == pytest.approx(half.value, rel=5e-3)
    # A choice more of ψ can only help.
    assert half.value <= conditional_epsilon(strategy_statistics(strategy, 8, ()), sigma=3.0, direction=direction, delta=1e-5).value


def test_dense_and_toeplitz_strategies_agree():
    toeplitz = square_root(iterations=12, bandwidth=3)
    one, other = (strategy_statistics(strategy, 4) for strategy in (toeplitz, DenseStrategy(matrix=toeplitz.dense())))
    assert np.array_equal(one.step, other.step) and np.array_equal(one.position, other.position)
    for direction in ("remove", "add"):
        values = [conditional_epsilon(each, sigma=3.0, direction=direction, delta=1e-4).value for each in (one, other)]
        assert values[0] == pytest.approx(values[1], rel=1e-8)


def test_one_bin_is_a_plain_composition():
    statistics = strategy_statistics(square_root(iterations=3, bandwidth=1), 1)
    losses = composed_losses(statistics, sigma=2.0, direction="remove", bad_event=1e-9)
    assert len(statistics.step) == 0
    assert losses.delta(1.0) == pytest.approx(gaussian_delta(epsilon=1.0, mu=np.sqrt(3) / 2), rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sigma": 0.0}, "sigma=0.0"), ({"delta": 1.0}, "delta=1.0"), ({"bad_event_share": 1.0}, "bad_event_share=1.0"),
        ({"split": "all"}, "split='all' to be one of monitored, even"), ({"block": 0}, "block=0"), ({"points": 5}, "points=5"),
    ],
)
def test_refuses_with_one_sentence(arguments, message):
    statistics = strategy_statistics(square_root(iterations=6, bandwidth=2), 3)
    with pytest.raises(InputError, match=message):
        conditional_epsilon(statistics, **{"sigma": 1.0, "direction": "add", "delta": 1e-5} | arguments)


def test_says_how_much_memory_it_needs(monkeypatch):
    monkeypatch.setattr("accountants.balls_in_bins.gram.LARGEST_ARRAY", 2**16)
    with pytest.raises(InputError, match="conditional composition to fit in .* but it needs"):
        prefix_statistics(mean_rows(square_root(iterations=200, bandwidth=200), 20), bins=20, iterations=200)
