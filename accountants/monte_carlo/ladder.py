"""Padded sizes: shapes that reach the compiler come from a ladder, so that a sweep over (T, b, K) compiles a few programs, not hundreds."""

SMALLEST_BANDWIDTH = 64
"""Bandwidths below this share one class: their block matrix products cost less than the call around them."""

SAMPLES_TIMES_TERMS = 1 << 19
"""Block size times padded T: a (T, samples) float64 array of 4 MiB, which keeps the sweep's working set near the cache."""


def padded_size(size: int) -> int:
    """The smallest of 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, … (powers of two times 1, 1¼, 1½, 1¾) that is >= size."""
    step = max(1, 1 << (max(size - 1, 0).bit_length() - 3)) if size > 4 else 1
    return -(-size // step) * step


def padded_bandwidth(bandwidth: int) -> int:
    """The smallest power of two >= bandwidth, at least `SMALLEST_BANDWIDTH`."""
    return max(SMALLEST_BANDWIDTH, 1 << (bandwidth - 1).bit_length())


def block_size(terms: int) -> int:
    """Samples per block: a power of two in 64..4096, a function of the number of terms alone.

    Blocks are the unit of the random streams, so this is part of what a seed means.
    """
    samples = max(64, SAMPLES_TIMES_TERMS // padded_size(terms))
    return min(4096, 1 << (samples.bit_length() - 1))
