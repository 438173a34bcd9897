"""Values whose means are δ, and the envelope of the add values: bounded, unbiased, above every sample, with a bias that is known."""

import dataclasses
import functools
import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.special import rel_entr

from accountants.estimators import AddEnvelope, add_envelope, add_values, remove_values
from accountants.gaussian import gaussian_delta
from accountants.monte_carlo.simulation import P, Q, Simulation
from accountants.monte_carlo.streams import Stream
from search_spaces.errors import InputError
from search_spaces.mechanism import Mechanism
from tests import tolerances
from tests.accountants.monte_carlo import cases
from tests.accountants.quadrature import exact_deltas

STREAM = Stream(seed=23, purpose="estimate")
GRID = np.linspace(-40.0, 40.0, 400_001)
DENSITY = np.exp(-0.5 * GRID**2) / math.sqrt(2 * math.pi) * (GRID[1] - GRID[0])
"""Trapezoidal sums over a standard normal variable."""

THINNINGS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05)


class TestValues:
    @hypothesis.given(
        log_ratio=st.floats(-1e4, 1e4), epsilon=st.floats(0.0, 50.0), xi=st.sampled_from([0.0, 1e-3, 0.3, 1.0, 5.0, 30.0]),
        more=st.floats(0.0, 10.0),
    )
    def test_are_probabilities_and_monotone(self, log_ratio, epsilon, xi, more):
        at = np.array([log_ratio, log_ratio + more])
        for values, sign in ((remove_values(at, epsilon=epsilon, xi=xi), 1), (add_values(at, epsilon=epsilon, xi=xi), -1)):
            assert values.shape == (2,) and values.dtype == np.float64
            assert np.all((0 <= values) & (values <= 1))
            assert sign * (values[1] - values[0]) >= -1e-12

    @hypothesis.given(log_ratio=st.floats(-30.0, 30.0), epsilon=st.floats(0.0, 10.0))
    def test_without_a_factor_are_the_hockey_sticks_of_the_definition(self, log_ratio, epsilon):
        remove, add = (values(np.array([log_ratio]), epsilon=epsilon, xi=0.0)[0] for values in (remove_values, add_values))
        assert remove == pytest.approx(max(0.0, 1 - math.exp(epsilon - log_ratio)), abs=1e-15)
        assert add == pytest.approx(max(0.0, 1 - math.exp(epsilon + log_ratio)), abs=1e-15)

    @pytest.mark.parametrize("xi", [0.0, 0.3, 2.0])
    @pytest.mark.parametrize("mean", [0.1, 1.0, 3.0])
    @pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
    def test_have_mean_delta_for_composed_gaussians(self, xi, mean, epsilon):
        """A residual Gaussian mechanism of mean m and a factor ξ are one Gaussian mechanism of mean √(m² + ξ²)."""
        log_ratio = mean * GRID - mean**2 / 2
        expected = gaussian_delta(epsilon=epsilon, mu=math.hypot(mean, xi))
        remove = (DENSITY * np.exp(log_ratio)) @ remove_values(log_ratio, epsilon=epsilon, xi=xi)
        add = DENSITY @ add_values(log_ratio, epsilon=epsilon, xi=xi)
        assert (remove, add) == pytest.approx((expected, expected), rel=tolerances.LINE_QUADRATURE)


def quadrature_bias(envelope: AddEnvelope, clip: float) -> float:
    return float(DENSITY @ np.maximum(envelope.values(GRID) - clip, 0.0))


ENVELOPES = [
    AddEnvelope(epsilon=4.0, xi=0.86, offset=-0.9, slope=0.3),
    AddEnvelope(epsilon=4.0, xi=0.56, offset=-2.0, slope=0.05),
    AddEnvelope(epsilon=1.0, xi=0.0, offset=-0.5, slope=1.0),
    AddEnvelope(epsilon=0.0, xi=0.0, offset=-3.0, slope=2.0),
    AddEnvelope(epsilon=8.0, xi=0.0, offset=-1.0, slope=1.5),
    AddEnvelope(epsilon=2.0, xi=1.5, offset=-0.3, slope=0.0),
]
every_envelope = pytest.mark.parametrize("envelope", ENVELOPES, ids=lambda e: f"{e.epsilon}-{e.xi}-{e.offset}-{e.slope}")


class TestEnvelope:
    @every_envelope
    @pytest.mark.parametrize("share", [0.0, 1e-6, 0.01, 0.3, 0.99, 1.0])
    def test_bias_is_an_upper_bound_and_close(self, envelope, share):
        """Clips at shares of the largest g within reach."""
        clip = share * float(envelope.values(-6.0))
        exact, bias = quadrature_bias(envelope, clip), envelope.bias(clip)
        assert exact * (1 - tolerances.LINE_QUADRATURE) <= bias
        assert bias <= exact * (1 + tolerances.BIAS) + 1e-300

    @every_envelope
    def test_whole_bias_is_the_closed_form(self, envelope):
        """E g(Z) = E δ_G(ε + ν + ξ'Z; ξ) = δ_G(ε + ν + ξ'²/2; √(ξ² + ξ'²))."""
        closed = gaussian_delta(
            epsilon=envelope.epsilon + envelope.offset + envelope.slope**2 / 2, mu=math.hypot(envelope.xi, envelope.slope)
        )
        assert closed * (1 - tolerances.LINE_QUADRATURE) <= envelope.bias(0.0) <= closed * (1 + tolerances.BIAS)

    @every_envelope
    @pytest.mark.parametrize("bias", [1e-300, 1e-12, 5e-8, 1e-3, 0.5, 2.0])
    def test_clip_keeps_the_bias_and_is_not_much_larger_than_needed(self, envelope, bias):
        clip = envelope.clip_for(bias)
        assert 0 < clip <= 1
        assert envelope.bias(clip) <= bias
        if envelope.slope > 0 and envelope.bias(0.0) > bias:
            assert envelope.bias(0.98 * clip) > 0.98 * bias

    def test_clip_refuses_no_bias(self):
        for bias in (0.0, -1e-9, math.nan):
            with pytest.raises(InputError, match="bias="):
                ENVELOPES[0].clip_for(bias)

    @every_envelope
    def test_g_decreases(self, envelope):
        assert np.all(np.diff(envelope.values(np.linspace(-30, 30, 5_001))) <= 1e-15)


FIXED = [
    ("random_allocation", 12, 1), ("min_sep_ra", 11, 2), ("min_sep_ra", 12, 4), ("nested_ra", 12, 2), ("cyclic_ra", 12, 4),
    ("balls_in_bins", 12, 3),
]


@functools.lru_cache(maxsize=None)
def drawn_under_q(case: tuple[str, int, int]):
    return cases.simulation(*case).draw(STREAM, 0, sigmas=cases.SIGMAS, proposal=(Q,), evaluate=cases.EVALUATED)


class TestEnvelopeOfMechanisms:
    @pytest.mark.parametrize("case", FIXED, ids=lambda case: "-".join(map(str, case)))
    def test_no_sample_is_above_it(self, case):
        """X <= g(Z) for every output, with Z = ⟨d, y⟩/σ. Without the linear term ξ'Z this is false (test_jensen.py shows where)."""
        draws = drawn_under_q(case)
        for column, sigma in enumerate(cases.SIGMAS):
            envelope = add_envelope(cases.mechanism(*case, sigma=sigma), epsilon=1.0)
            log_ratio, z = draws.log_ratio[0, column], draws.projection[column]
            assert envelope.xi == pytest.approx(3 * cases.simulation(*case).strategy.kappa / sigma)
            # ξ' is rounded up, which helps where z < 0, where g is large; elsewhere it costs that rounding.
            rounding = tolerances.LOG_RATIO * (1 + envelope.slope * np.abs(z))
            assert np.all(log_ratio >= envelope.offset + envelope.slope * z - rounding)
            values = add_values(log_ratio, epsilon=1.0, xi=envelope.xi)
            assert np.all(values <= envelope.values(z) * (1 + tolerances.LOG_RATIO * 100) + 1e-15)

    @pytest.mark.parametrize("case", FIXED, ids=lambda case: "-".join(map(str, case)))
    def test_offset_and_slope_are_those_of_the_enumeration(self, case):
        """ν = −½E‖(Cx)_⊥‖²/σ² and ξ' = ‖E (Cx)_⊥‖/σ."""
        model = cases.simulation(*case)
        shape = cases.geometry(model)
        rows, probabilities = cases.schedules(model.scheme)
        means = rows @ shape.matrix.T
        means = means - np.outer(means @ shape.direction, shape.direction)
        envelope = add_envelope(cases.mechanism(*case, sigma=1.3), epsilon=1.0)
        offset = -probabilities @ np.sum(means**2, axis=1) / (2 * 1.3**2)
        assert envelope.offset == pytest.approx(offset, abs=1e-12, rel=tolerances.ROUNDED_UP)
        assert envelope.slope == pytest.approx(np.linalg.norm(probabilities @ means) / 1.3, abs=1e-7, rel=tolerances.ROUNDED_UP)

    @pytest.mark.parametrize("case", [("poisson", 11, 1), ("cyclic_poisson", 12, 2), ("min_sep_poisson", 11, 2)], ids=lambda case: case[0])
    @pytest.mark.parametrize(("sigma", "epsilon"), [(4.0, 0.5), (1.3, 1.0), (0.5, 2.0)])
    def test_thinned_laws_bound_every_sample(self, case, sigma, epsilon):
        """LR >= exp(−KL(π‖P) + ν_π + ξ'_π Z_π), with everything about the thinned law π from its enumeration."""
        model = cases.simulation(*case)
        envelope = add_envelope(cases.mechanism(*case, sigma=sigma), epsilon=epsilon)
        thinned = [thinned_limit(model, sigma, factor) for factor in THINNINGS]
        matching = [one for one in thinned if np.allclose(one[:2], (envelope.offset, envelope.slope), rtol=1e-8, atol=1e-9)]
        assert matching, "the envelope is that of one of the thinned laws"
        direction = matching[0][2]
        y = sigma * cases.normals(STREAM, 1, (model.model.padded_terms, 256))[:, : case[1]]
        log_ratio = cases.residual_log_ratio(model, P, sigma=sigma, y=y)
        assert np.all(log_ratio >= envelope.offset + envelope.slope * (y @ direction) / sigma - tolerances.LOG_RATIO)
        best = min(AddEnvelope(epsilon=epsilon, xi=0.0, offset=offset, slope=slope).bias(0.0) for offset, slope, _ in thinned)
        assert envelope.bias(0.0) == pytest.approx(best, rel=1e-6)

    def test_certain_participation_needs_no_thinning(self):
        """K·b = T makes min-sep Poisson's probability one; a thinned law then has infinite divergence and must not be used."""
        envelope = add_envelope(cases.mechanism("min_sep_poisson", 12, 4, sigma=1.3), epsilon=1.0)
        shape = cases.geometry(cases.simulation("min_sep_poisson", 12, 4))
        schedule = shape.matrix[:, ::4].sum(axis=1)
        assert envelope.slope == pytest.approx(np.linalg.norm(schedule) / 1.3)
        assert envelope.offset == pytest.approx(-np.sum(schedule**2) / (2 * 1.3**2))
        delta = cases.single_gaussian_delta(1.0, float(np.linalg.norm(schedule)) / 1.3)
        assert delta <= envelope.bias(0.0) <= delta * (1 + tolerances.BIAS)

    @pytest.mark.parametrize("name", ["min_sep_ra", "nested_ra", "balls_in_bins", "random_allocation", "poisson", "min_sep_poisson"])
    @pytest.mark.parametrize(("sigma", "epsilon"), [(0.6, 0.0), (0.8, 1.5), (1.5, 3.0)])
    def test_whole_bias_bounds_delta_add(self, name, sigma, epsilon):
        bandwidth = 1 if name in ("poisson", "random_allocation") else 2
        subject = cases.mechanism(name, 2, bandwidth, participations=1, sigma=sigma)
        assert add_envelope(subject, epsilon=epsilon).bias(0.0) >= exact_deltas(subject, epsilon=epsilon)[1] * (1 - tolerances.QUADRATURE)

    @pytest.mark.parametrize("case", [("min_sep_ra", 11, 2), ("poisson", 11, 1)], ids=lambda case: case[0])
    @pytest.mark.parametrize("share", [0.05, 0.5])
    def test_clipped_mean_and_bias_bound_the_mean(self, case, share):
        """E X <= E min(X, B') + bias(B'), here with the sampled means of one set of outputs, for which it holds only on average."""
        envelope = add_envelope(cases.mechanism(*case, sigma=0.9), epsilon=0.5)
        values = add_values(drawn_under_q(case).log_ratio[0, 0], epsilon=0.5, xi=envelope.xi)
        clip = share * float(values.max())
        excess = np.maximum(values - clip, 0.0)
        assert excess.mean() - tolerances.STANDARD_DEVIATIONS * excess.std() / math.sqrt(excess.size) <= envelope.bias(clip)

    @pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
    def test_refuses_a_bad_epsilon(self, epsilon):
        with pytest.raises(InputError, match="epsilon="):
            add_envelope(cases.mechanism("min_sep_ra", 11, 2, sigma=1.0), epsilon=epsilon)

    def test_does_not_change_with_the_scale_of_the_coefficients(self):
        subject = cases.mechanism("min_sep_ra", 11, 2, sigma=1.0)
        scaled = dataclasses.replace(subject.strategy, coefficients=tuple(8.0 * np.array(subject.strategy.coefficients)))
        other = add_envelope(Mechanism(scheme=subject.scheme, strategy=scaled, sigma=8.0), epsilon=1.0)
        assert dataclasses.astuple(other) == pytest.approx(dataclasses.astuple(add_envelope(subject, epsilon=1.0)))


def thinned_limit(model: Simulation, sigma: float, factor: float) -> tuple[float, float, np.ndarray]:
    """−KL(π‖P) + ν_π, ξ'_π and the unit vector along C E_π x, by enumeration."""
    rows, probabilities = cases.law_of_schedules(model)
    _, thinned = cases.law_of_schedules(dataclasses.replace(model, boost=factor), boosted=True)
    means = rows @ model.strategy.dense().T
    mean = thinned @ means
    divergence = float(rel_entr(thinned, probabilities).sum())
    norm = float(np.linalg.norm(mean))
    return -divergence - float(thinned @ np.sum(means**2, axis=1)) / (2 * sigma**2), norm / sigma, mean / norm
