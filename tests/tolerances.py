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

R_SEARCH = 2.5e-3
"""RMSE at the r found over the smallest possible: an r within R_TOLERANCE = 0.03 of a solved one is not solved, and log RMSE rises like 2.2·Δ²."""

# --- tests/accountants/test_gaussian.py, test_jensen.py, test_ratio_law.py, test_pld.py, test_calibration.py and accountant_contract.py ---

GAUSSIAN_DELTA = 1e-11
"""δ_G relative to 400-bit arithmetic for μ >= 1e-3; two tails that agree to μ are subtracted, so 2e-16/μ is lost and a few squares of 40."""

INVERSE = 1e-9
"""A δ_G at its own inverse, relatively: bisection stops at 1e-14 of ε or μ, and log δ moves at most about 10⁴ times as fast."""

GRID_SPREAD = 5e-3
"""How far an upper bound from a law of ratios may lie above the exact δ, relatively: 0.02 % of ε is 0.3 % of δ at the tail slopes used."""

FOLLOWS = 1e-6
"""ε(δ) put back into δ(ε), and bounds against the bounds they must not exceed: both sides are rounded outwards by up to 1e-9."""

QUADRATURE = 1e-4
"""Trapezoidal sums of (LR − e^ε)_+ in two dimensions with 25 points to σ: 3e-5 is the most seen for δ > 1e-10,
from the kink along one curve."""

ANCHOR_SIGMA = 1e-3
"""σ and RMSE at the anchor against the figures 1.162 and 1.443, which are given to four digits."""

# --- tests/contracts/batches_contract.py ---

BATCHES_MEMORY_PER_EXAMPLE = 24
"""Bytes: 6 of state, at most 8 of starts while they are drawn, and a window of a quarter (at the uneven ends a third) of all examples at 25."""

BATCHES_MEMORY_FIXED = 10 * 2**20
"""Bytes: a dozen arrays for 2¹⁶ examples whose next participation is drawn, and the tables of the law (three of K·T numbers)."""

# --- tests/accountants/monte_carlo, tests/accountants/test_estimators.py and test_tail_sum.py ---

LOG_RATIO = 1e-9
"""Sampled log likelihood ratio against enumeration, absolute and relative: a few hundred roundings of exponents of up to 10⁴ give 1e-10."""

PROJECTION = 1e-9
"""⟨d, y⟩/σ against the dense product, times σ: ‖(C E x)_⊥‖ comes from a difference that may lose half of the digits."""

# --- tests/engine/test_configuration.py, test_objective.py, test_results.py ---

BEST_R = 1e-6
"""RMSE at the r found, above the smallest of a grid of 401: the search ends within 1e-6 of the position, and the RMSE is flat there."""

SAME_FORMULA = 1e-12
"""Two ways to write the same handful of float64 operations."""

# --- tests/accountants/fixed_size ---

FIXED_SIZE_LOG_F = 1e-12
"""log F in float64, absolute: sums of a few hundred terms whose logarithms come from gammaln (10⁻¹³ at order 256)."""

FIXED_SIZE_VECTOR = 2e-12
"""ρ against the vectors, which have 15 digits; gammaln again."""

# --- tests/engine/exports ---

FLOAT32_NOISE = 1e-5
"""Largest error of float32 noise over 10 000 steps, in standard deviations of the noise; 3e-6 measured at bandwidths up to 1000."""

FLOAT32_NOISE_PREFIX = 1e-5
"""The same for the prefix sums of the noise; 2e-6 measured."""

FIXED_SIZE_GRID = 1e-7
"""Hockey-stick divergences by the trapezoidal rule with 2·10⁵ points: the kink costs step², 10⁻⁸."""

FIXED_SIZE_EPSILON = 5e-6
"""ε of the lossless accountant above the exact one: connecting the dots on a grid d of 10⁻⁴ adds about T·d²/8 per unit of tilt, 2e-6 at T = 400
and δ = 1e-12; inversion is to 10⁻⁸ relative."""

# --- tests/launch ---

LAST_DIGITS = 1e-12
"""Relative difference of δ where the same strategy is given in two ways: ‖c‖ and σ differ in the last digits."""

# --- tests/accountants/tilted, tests/accountants/test_renyi.py ---

REPLICA_MOMENT = 1e-12
"""log Z_α of a replica program against the sum over all tuples: a few hundred additions of relative error 2⁻⁵³ on either side."""

REFERENCE_MOMENT = 1e-11
"""Z_2 against reference values that are given to twelve digits."""

REPLICA_MEMORY_FIXED = 8 * 2**20
"""Bytes beside the tables: index arrays, temporaries of a step, and whatever else Python allocates meanwhile."""

# --- tests/accountants/balls_in_bins ---

TABULATED = 1e-9
"""Reference values printed with ten to twelve digits, and bounds that are rounded up by less than 1e-11."""

GRAM_ROUNDING = 1e-13
"""Sums of at most a few dozen products of float64, in another order."""

MOMENT = 1e-11
"""Log moments: at most 10³ roundings of 2⁻⁵³ on either side, relative or (of small logarithms) absolute."""

CLOSED_FORM = 1e-9
"""A closed form of a dozen operations that is rounded up by 1e-12, where at most three digits cancel."""

SHIFTED_MOMENTS = 1e-2
"""ε from shifted moments above a table that used a finer search of x₀ and no rounding bound; the differences seen are up to 0.7 %."""

PRODUCTS = 1e-12
"""Products of a few hundred numbers of size 1, in another order than a dense product sums them."""

SWEEP = 1e-12
"""A sweep of 7 terms against the plain recurrence: as many roundings, and exponents of up to 10²."""

PEAK = 2e-6
"""How far a certified maximum may lie above the true one, in logs: 1e-8 from its three points, 1e-6 where ξ and the rate are large."""

THREE_DIGITS = 6e-3
"""A table printed to three digits, 0.45 % at 1.07, of numbers whose upper sums are up to 0.15 % too large on purpose."""

ROUNDED_UP = 5e-9
"""Values that are rounded up by 1e-9 in each of a few steps, against the exact ones."""

UPPER_SUM = 3e-3
"""An upper sum over 20 000 points of 12 decades: each step is 0.14 % of its place, and the slope of p adds to that."""

ALLOCATION = {"exact": 5e-4, "bound": 2e-2}
"""How far δ of random allocation may lie above the exact value, relatively: the spread adds 2e-4 where the grid is allowed all its points,
and more where a Gaussian factor makes the payoff sensitive near x = 0."""

SPLIT_EPSILON = 2e-4
"""ε of a stride majorant against another discretisation of the same majorant, which spends up to 1.3e-4."""

LIBRARY_DELTA = 1e-4
"""Two connect-the-dots implementations on the same grid of 1e-3, whose ends and truncations differ."""

GRID_MAXIMUM = 1e-4
"""A maximum over a grid with 20 001 points of 12 decades, 0.14 % apart: the square of that, times N at the largest."""

DIRECT_CONVOLUTION = 2e-2
"""δ of a sum against cells of 0.005 put at their middles: half a percent of the spread of the sum, and a convolution of 20 of them."""

LINE_QUADRATURE = 1e-7
"""Trapezoidal sums over one standard normal variable with 5 000 points to σ; a kink costs the square of the step."""

BIAS = 0.12
"""How far the upper sum of an envelope's bias may lie above the integral: g at the left of each of 4 000 cells of width 0.019, times
d log g/dz of up to 6 where it counts."""

COMPOSITION = 5e-4
"""ε by conditional composition against the reference: another grid of 1000 losses per step, whose ends differ."""

PILOT_INTERPOLATION = 1e-6
"""The pilot's σ where nothing is random, relatively: monotone cubics over 3 % of σ err by 2e-7 at most."""
