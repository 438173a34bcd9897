"""Every tolerance of the tests, with its reason; one heading per group of tests."""

# --- tests/search_spaces and tests/contracts/scheme_contract.py ---

ENUMERATION = 1e-12
"""Sums over a few thousand schedules in float64 against the same number from a recurrence: 10³ roundings of 2⁻⁵³, with room."""

RECURRENCE = 2e-15
"""Recurrence against the average over all schedules of products of the same ℓ_t: 9e-16 is the most ever seen."""

LINEAR_ALGEBRA = 1e-10
"""Filters and sums against dense inverses of matrices of condition number up to about 10³ at T = 40."""

ROUND_TRIP = 1e-12
"""r → position → r, relative to 1/b, the scale of r: two roundings each of exp, log and a division."""

STANDARD_DEVIATIONS = 5.0
"""Largest deviation of an empirical frequency from its exact value, in standard deviations; a correct sampler exceeds it with
probability 6e-7 per comparison, so below 1 % over the whole suite. Seeds are fixed: only a change of how random numbers are used redraws it."""

CHI_SQUARED_P = 1e-6
"""Smallest accepted p-value of a chi-squared test of a sampler; a correct sampler falls below it with this probability per test."""

LOG_DENSITIES = 2e-15
"""log of a sum of densities against log of the recurrence, per unit of the largest exponent ⟨Cx, y⟩/σ²: ten roundings of 2⁻⁵³ of it."""

SAMPLER_MEMORY_MULTIPLE = 5
"""Peak memory of a sampler over the size of its result: keys, indices, sorting and the sum with the spread each hold one copy at a time."""

SAMPLER_MEMORY_FIXED = 72 * 2**20
"""Bytes a sampler may hold whatever the size: 32 MiB of random keys, as much for their permutation, and a little more."""

# --- tests/engine/test_compare.py ---

R_SEARCH = 1e-3
"""RMSE at the r found over the smallest possible: the search stops within R_TOLERANCE = 0.03 of the minimum of a curve that rises like 2·Δ²."""
