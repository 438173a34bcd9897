"""Padded sizes: enough, not much more than enough, and few."""

import hypothesis
from hypothesis import strategies as st

from accountants.monte_carlo import ladder


def test_the_first_rungs():
    rungs = sorted({ladder.padded_size(size) for size in range(1, 65)})
    assert rungs == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]
    assert [ladder.padded_size(size) for size in (1023, 1024, 1025)] == [1024, 1024, 1280]


@hypothesis.given(st.integers(1, 1 << 24))
def test_a_padded_size_is_the_next_rung(size):
    padded = ladder.padded_size(size)
    assert size <= padded and 4 * padded <= 5 * size + 3
    assert ladder.padded_size(padded) == padded
    assert padded <= ladder.padded_size(size + 1)


def test_few_rungs_below_a_million():
    sizes, size = 0, 1
    while size < 1 << 20:
        size, sizes = ladder.padded_size(size + 1), sizes + 1
    assert sizes < 4 * 20


@hypothesis.given(st.integers(1, 1 << 20))
def test_padded_bandwidths_are_powers_of_two(bandwidth):
    padded = ladder.padded_bandwidth(bandwidth)
    assert padded & (padded - 1) == 0
    assert padded == ladder.SMALLEST_BANDWIDTH or bandwidth <= padded < 2 * bandwidth


@hypothesis.given(st.integers(1, 1 << 24))
def test_blocks_are_powers_of_two_that_fit_the_cache(terms):
    samples = ladder.block_size(terms)
    assert samples & (samples - 1) == 0 and samples >= 64
    assert samples == 64 or samples * ladder.padded_size(terms) <= ladder.SAMPLES_TIMES_TERMS
    assert samples == ladder.block_size(ladder.padded_size(terms)), "one class, one block size"


def test_blocks_at_the_anchor():
    """Part of what a seed means."""
    assert ladder.block_size(1024) == 512
