"""Sampled log likelihood ratios: equal to enumeration output by output, few compiled programs, 64 bits whatever the process uses."""

import resource
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy.special import logsumexp

from accountants.monte_carlo.simulation import Law, P, Q, Simulation, _draw
from accountants.monte_carlo.streams import Stream
from search_spaces.errors import NumericalError
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic
from tests import tolerances
from tests.accountants.monte_carlo import cases
from tests.accountants.monte_carlo.cases import CASES, EVALUATED, EXTREME_SIGMAS, PROPOSAL, SIGMAS
from tests.plain_recurrence import likelihood_ratio, window_ratios

STREAM = Stream(seed=7, purpose="estimate")
COMPARED = 100
"""Outputs of a block that are compared with enumeration, 20 of each law."""

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
both_sweeps = pytest.mark.parametrize("sigmas", [SIGMAS, EXTREME_SIGMAS], ids=["plain", "logs"])


def outputs(model: Simulation, block: int, proposal: tuple[Law, ...], sigma: float) -> np.ndarray:
    """(samples, T): y = θ·Cx + σ(z + ζ·d) of a block, from its keys, with dense matrices."""
    shape = cases.geometry(model)
    horizon = model.scheme.iterations
    x = cases.vectors(cases.positions(model, STREAM, block, proposal), horizon)
    z = cases.normals(STREAM, block, (model.model.padded_terms, model.block_size))[:, :horizon]
    per_sample = lambda field: np.resize([getattr(law, field) for law in proposal], model.block_size)[:, None]
    return per_sample("scale") * x @ shape.matrix.T + sigma * (z + per_sample("shift") * shape.mean)


class TestOutputByOutput:
    """log LR of every law, and ⟨d, y⟩/σ, at the very outputs that the keys stand for."""

    @both_sweeps
    @pytest.mark.parametrize("case", [case for case in CASES if case[0] != "balls_in_bins"], ids=lambda case: "-".join(map(str, case)))
    def test_windows(self, case, sigmas):
        model = cases.simulation(*case)
        draws = model.draw(STREAM, 3, sigmas=sigmas, proposal=PROPOSAL, evaluate=EVALUATED)
        shape = cases.geometry(model)
        for column, sigma in enumerate(sigmas):
            y = outputs(model, 3, PROPOSAL, sigma)
            for row, law in enumerate(EVALUATED):
                expected = cases.residual_log_ratio(model, law, sigma=sigma, y=y[:COMPARED])
                np.testing.assert_allclose(
                    draws.log_ratio[row, column, :COMPARED], expected, rtol=tolerances.LOG_RATIO, atol=tolerances.LOG_RATIO
                )
            np.testing.assert_allclose(draws.projection[column], y @ shape.mean / sigma, rtol=0, atol=tolerances.PROJECTION / sigma)

    @both_sweeps
    @pytest.mark.parametrize("case", [case for case in CASES if case[0] == "balls_in_bins"], ids=lambda case: "-".join(map(str, case)))
    def test_bins(self, case, sigmas):
        """The noise of bins is drawn as factor · normals in the space of the T/K bins; its covariance is checked in test_products."""
        model = cases.simulation(*case)
        draws = model.draw(STREAM, 3, sigmas=sigmas, proposal=PROPOSAL, evaluate=EVALUATED)
        means = cases.bin_means(model)
        gram, bins = means @ means.T, len(means)
        # Each bin is its first step. Directions: d is the mean of the bins' residual means.
        drawn = cases.positions(model, STREAM, 3, PROPOSAL)[:, 0]
        normals = cases.normals(STREAM, 3, (model.model.padded_terms, model.block_size))
        noise = normals @ model.model.tables["factor"].T[:, :bins]
        norm = np.sqrt(gram.mean())
        theta, shift = (np.resize([getattr(law, field) for law in PROPOSAL], model.block_size)[:, None] for field in ("scale", "shift"))
        vanishes = norm**2 < 1e-12 * gram.trace()
        noise = noise + (0.0 if vanishes else shift * gram.mean(axis=1) / norm)
        for column, sigma in enumerate(sigmas):
            products = theta * gram[drawn] + sigma * noise
            for row, law in enumerate(EVALUATED):
                exponents = (law.scale * products - 0.5 * law.scale**2 * np.diag(gram)) / sigma**2
                np.testing.assert_allclose(
                    draws.log_ratio[row, column], logsumexp(exponents, axis=1) - np.log(bins),
                    rtol=tolerances.LOG_RATIO, atol=tolerances.LOG_RATIO,
                )
            projection = np.zeros(len(drawn)) if vanishes else products.mean(axis=1) / (norm * sigma)
            np.testing.assert_allclose(draws.projection[column], projection, rtol=0, atol=tolerances.PROJECTION / sigma)

    @pytest.mark.parametrize(
        ("name", "iterations", "participations", "bandwidth"),
        [
            pytest.param("random_allocation", 19, 17, 1, id="more than 16 columns"),
            pytest.param("min_sep_poisson", 33, 8, 2, id="more than 16 columns, not all used"),
            pytest.param("min_sep_ra", 150, 2, 70, id="windows of several blocks"),
            pytest.param("nested_ra", 140, 4, 14, id="many blocks of one padded bandwidth"),
        ],
    )
    def test_larger_sizes_by_the_plain_recurrence(self, name, iterations, participations, bandwidth):
        scheme = make_scheme(name, iterations=iterations, participations=participations, bandwidth=bandwidth)
        model = Simulation(scheme=scheme, strategy=harmonic(iterations=iterations, bandwidth=bandwidth, r=0.1 / bandwidth))
        draws = model.draw(STREAM, 0, sigmas=[0.8])
        x = cases.vectors(cases.positions(model, STREAM, 0), iterations)[:24]
        z = cases.normals(STREAM, 0, (model.model.padded_terms, model.block_size))[:24, :iterations]
        y = model.strategy.apply(x) + 0.8 * z
        expected = np.log([likelihood_ratio(scheme.recurrence(), window_ratios(model.strategy, sigma=0.8, y=row)) for row in y])
        xi, v = participations * model.strategy.kappa / 0.8, model.strategy.participation_direction
        if scheme.fixed_participations:
            expected += 0.5 * xi**2 - xi * (y @ v / np.linalg.norm(v)) / 0.8
        np.testing.assert_allclose(draws.log_ratio[0, 0, :24], expected, rtol=0, atol=tolerances.LOG_RATIO)

    @pytest.mark.parametrize("case", [("min_sep_ra", 11, 2), ("nested_ra", 12, 2), ("balls_in_bins", 12, 3)], ids=lambda case: case[0])
    def test_signals_of_replicas_add(self, case):
        model = cases.simulation(*case)
        draw_pairs = lambda rng, size: np.stack([model.scheme.sample(rng, size), model.scheme.sample(rng, size)], axis=1)
        draws = model.draw(STREAM, 5, sigmas=[1.1], sampler=draw_pairs)
        first, second = np.moveaxis(draw_pairs(STREAM.positions(5), model.block_size), 1, 0)
        if case[0] == "balls_in_bins":
            gram = cases.bin_means(model) @ cases.bin_means(model).T
            normals = cases.normals(STREAM, 5, (model.model.padded_terms, model.block_size))
            products = gram[first[:, 0]] + gram[second[:, 0]] + 1.1 * normals @ model.model.tables["factor"].T[:, : len(gram)]
            expected = logsumexp((products - 0.5 * np.diag(gram)) / 1.1**2, axis=1) - np.log(len(gram))
        else:
            horizon = model.scheme.iterations
            z = cases.normals(STREAM, 5, (model.model.padded_terms, model.block_size))[:, :horizon]
            y = model.strategy.apply(cases.vectors(first, horizon) + cases.vectors(second, horizon)) + 1.1 * z
            expected = cases.residual_log_ratio(model, P, sigma=1.1, y=y)
        np.testing.assert_allclose(draws.log_ratio[0, 0], expected, rtol=tolerances.LOG_RATIO, atol=tolerances.LOG_RATIO)


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std() / np.sqrt(values.size))


def ratios(model: Simulation, *, proposal: tuple[Law, ...], blocks: int = 8, start: int = 0) -> np.ndarray:
    """(laws, samples): log ratios at the third σ from several blocks."""
    draws = [model.draw(STREAM, start + block, sigmas=SIGMAS, proposal=proposal, evaluate=EVALUATED) for block in range(blocks)]
    return np.concatenate([draw.log_ratio[:, 2] for draw in draws], axis=1)


class TestLaws:
    """Statistical checks; `tolerances.STANDARD_DEVIATIONS` states their error rate."""

    @every_case
    def test_mean_ratio_under_q_is_one(self, case):
        values = np.exp(ratios(cases.simulation(*case), proposal=(Q,))[0])
        mean, error = mean_and_error(values)
        assert abs(mean - 1) <= tolerances.STANDARD_DEVIATIONS * error + tolerances.LOG_RATIO

    @every_case
    @pytest.mark.parametrize("law", [0, 1], ids=["P", "scaled and boosted"])
    def test_outputs_follow_the_law_whose_ratio_is_evaluated(self, case, law):
        """The mean of (dQ/dLaw)^½ under Law and of (dLaw/dQ)^½ under Q are the same number, and both have finite variance."""
        model = cases.simulation(*case)
        forward, forward_error = mean_and_error(np.exp(-0.5 * ratios(model, proposal=(EVALUATED[law],))[law]))
        backward, backward_error = mean_and_error(np.exp(0.5 * ratios(model, proposal=(Q,), start=100)[law]))
        assert abs(forward - backward) <= tolerances.STANDARD_DEVIATIONS * np.hypot(forward_error, backward_error) + tolerances.LOG_RATIO

    @pytest.mark.parametrize("proposal", [P, Q], ids=["P", "Q"])
    def test_bins_are_nested_allocation_with_one_block_per_participation(self, proposal):
        """With b = T/K nested RA draws the residue and then all K blocks: the law of balls-in-bins, through windows instead of bins."""
        bins = ratios(cases.simulation("balls_in_bins", 12, 4), proposal=(proposal,))[0]
        windows = ratios(cases.simulation("nested_ra", 12, 4), proposal=(proposal,), start=200)[0]
        assert scipy.stats.ks_2samp(bins, windows).pvalue > tolerances.CHI_SQUARED_P


class TestPrograms:
    """What may and what may not compile a new program."""

    def test_strategy_and_noise_change_no_program(self):
        size = lambda: _draw._cache_size()
        scheme = make_scheme("min_sep_ra", iterations=12, participations=3, bandwidth=4)
        for sigmas, boost in ((SIGMAS, 2.0), (tuple(1.1 * sigma for sigma in SIGMAS), 2.0), ((5.0, 6.0, 7.0, 8.0), 1.5)):
            for coefficients in ((1.0,), (1.0, 0.5), (0.8, 0.2, 0.2, 0.2)):
                strategy = ToeplitzStrategy(iterations=12, coefficients=coefficients)
                Simulation(scheme=scheme, strategy=strategy, boost=boost).draw(STREAM, 0, sigmas=sigmas, evaluate=EVALUATED)
                if sigmas is SIGMAS and coefficients == (1.0,):
                    compiled = size()
        for r in np.linspace(-0.2, 0.45, 5):
            strategy = harmonic(iterations=12, bandwidth=4, r=r)
            Simulation(scheme=scheme, strategy=strategy).draw(STREAM, 1, sigmas=SIGMAS, evaluate=EVALUATED, proposal=PROPOSAL)
        assert size() == compiled

    @pytest.mark.parametrize("name", ["min_sep_ra", "min_sep_poisson"])
    def test_one_program_for_a_class_of_bandwidths_and_horizons(self, name):
        """Bandwidths 65 to 80 and T from 257 to 320 are padded alike, and so is the number of columns that a Poisson scheme needs."""
        before = _draw._cache_size()
        for iterations, bandwidth in [(257, 65), (257, 80), (300, 70), (320, 65), (320, 80)]:
            scheme = make_scheme(name, iterations=iterations, participations=2, bandwidth=bandwidth)
            strategy = harmonic(iterations=iterations, bandwidth=bandwidth, r=0.01)
            Simulation(scheme=scheme, strategy=strategy).draw(STREAM, 0, sigmas=[1.0])
        assert _draw._cache_size() <= before + 1

    def test_a_sweep_over_sizes_compiles_few_programs(self):
        before, drawn = _draw._cache_size(), 0
        for iterations in range(129, 161, 2):
            for bandwidth in (17, 19):
                scheme = make_scheme("min_sep_ra", iterations=iterations, participations=2, bandwidth=bandwidth)
                strategy = harmonic(iterations=iterations, bandwidth=bandwidth, r=0.01)
                Simulation(scheme=scheme, strategy=strategy).draw(STREAM, 0, sigmas=[1.0])
                drawn += 1
        assert drawn >= 30
        assert _draw._cache_size() <= before + 1


def resident_mebibytes() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_long_sweep_keeps_its_memory():
    """300 pairs of T and b at the size of the anchor: a dozen programs, and models that leave the caches again."""
    before, compiled = None, _draw._cache_size()
    pairs = [(iterations, bandwidth) for iterations in range(1001, 1025, 6) for bandwidth in range(21, 96)]
    for iterations, bandwidth in pairs:
        scheme = make_scheme("min_sep_ra", iterations=iterations, participations=4, bandwidth=bandwidth)
        Simulation(scheme=scheme, strategy=harmonic(iterations=iterations, bandwidth=bandwidth, r=0.0)).draw(STREAM, 0, sigmas=[1.0])
        before = resident_mebibytes() if before is None else before
    assert len(pairs) == 300
    assert _draw._cache_size() - compiled <= 11
    assert resident_mebibytes() - before < 200


class TestProcess:
    """What the surrounding process sees."""

    def test_leaves_a_float32_process_as_it_was(self):
        flag = jax.config.jax_enable_x64
        assert not flag, "the tests of this project run without the global flag, as a training process does"
        step = jax.jit(lambda x: jnp.sin(x) / 3)
        x = jnp.linspace(0.0, 1.0, 5)
        before = step(x)
        draws = cases.simulation("min_sep_ra", 12, 4).draw(STREAM, 0, sigmas=SIGMAS, evaluate=EVALUATED)
        after = step(x)
        assert draws.log_ratio.dtype == draws.projection.dtype == np.float64
        assert jax.config.jax_enable_x64 == flag
        assert before.dtype == after.dtype == jnp.linspace(0.0, 1.0, 5).dtype == jnp.float32
        np.testing.assert_array_equal(before, after)
        assert step._cache_size() == 1

    def test_results_are_the_same_in_a_float64_process(self):
        model = cases.simulation("min_sep_ra", 12, 4)
        plain = model.draw(STREAM, 0, sigmas=SIGMAS, evaluate=EVALUATED)
        with jax.enable_x64(True):
            wide = model.draw(STREAM, 0, sigmas=SIGMAS, evaluate=EVALUATED)
        np.testing.assert_array_equal(plain.log_ratio, wide.log_ratio)

    def test_a_block_is_a_function_of_its_number_alone(self):
        model = cases.simulation("nested_ra", 12, 4)
        draw = lambda block: model.draw(STREAM, block, sigmas=SIGMAS, evaluate=EVALUATED).log_ratio
        forwards = [draw(block) for block in (0, 1, 2)]
        for block in (2, 0, 1):
            np.testing.assert_array_equal(draw(block), forwards[block])
        assert not np.array_equal(forwards[0], forwards[1])

    def test_another_sigma_in_the_call_changes_nothing_but_rounding(self):
        model = cases.simulation("min_sep_ra", 12, 2)
        together = model.draw(STREAM, 0, sigmas=SIGMAS, evaluate=EVALUATED).log_ratio
        among_others = model.draw(STREAM, 0, sigmas=EXTREME_SIGMAS, evaluate=EVALUATED).log_ratio
        np.testing.assert_allclose(among_others[:, 1], together[:, 0], rtol=0, atol=tolerances.LOG_RATIO)

    def test_a_ratio_that_is_not_finite_is_an_error_that_names_it(self):
        model = cases.simulation("min_sep_ra", 12, 4)
        with pytest.raises(NumericalError, match="min_sep_ra is not finite at sigma=1e-200, bandwidth=4"):
            model.draw(STREAM, 0, sigmas=(1e-200, 1.0, 2.0, 3.0), evaluate=EVALUATED)
