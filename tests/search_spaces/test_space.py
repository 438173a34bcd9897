"""Search spaces: what they hold, the r coordinate, and fingerprints."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.schemes import SCHEMES, make_scheme
from search_spaces.space import (
    LOWEST_S,
    SchemeSpace,
    SearchSpace,
    configuration_key,
    position_from_r,
    r_from_position,
    r_range,
)
from search_spaces.strategies import harmonic, harmonic_range
from tests import tolerances

ANCHOR = Problem(iterations=1024, participations=4, epsilon=4, delta=1e-5)


def sizes() -> st.SearchStrategy[Problem]:
    return st.integers(1, 60).flatmap(
        lambda t: st.integers(1, t).map(lambda k: Problem(iterations=t, participations=k, epsilon=1, delta=1e-5))
    )


class TestContents:
    @given(sizes())
    def test_holds_every_configuration_that_can_be_built_and_no_other(self, problem):
        space = SearchSpace.for_problem(problem)
        held = {(part.scheme, bandwidth) for part in space.schemes for bandwidth in part.bandwidths}
        assert held == {(name, b) for name in SCHEMES for b in range(1, problem.iterations + 1) if _buildable(name, problem, b)}
        for part in space.schemes:
            assert list(part.bandwidths) == sorted(set(part.bandwidths))
            assert part.contiguous == (list(part.bandwidths) == list(range(part.bandwidths[0], part.bandwidths[-1] + 1)))

    def test_at_the_anchor(self):
        space = SearchSpace.for_problem(ANCHOR)
        assert space.names == tuple(SCHEMES)
        everything, listed = tuple(range(1, 257)), (1, 2, 4, 8, 16, 32, 64, 128, 256)
        for name in ("deterministic", "balls_in_bins", "min_sep_poisson", "min_sep_ra"):
            assert space.scheme_space(name) == SchemeSpace(scheme=name, bandwidths=everything) and space.scheme_space(name).contiguous
        for name in ("cyclic_poisson", "cyclic_ra", "nested_ra"):
            assert space.scheme_space(name).bandwidths == listed and not space.scheme_space(name).contiguous
        for name in ("poisson", "random_allocation"):
            assert space.scheme_space(name).bandwidths == (1,)

    def test_divisors_are_not_only_powers_of_two(self):
        space = SearchSpace.for_problem(Problem(iterations=100, participations=3, epsilon=1, delta=1e-5, dataset_size=60_000))
        assert space.scheme_space("nested_ra").bandwidths == (1, 2, 4, 5, 10, 20, 25)
        assert "balls_in_bins" not in space.names

    def test_restrictions(self):
        space = SearchSpace.for_problem(ANCHOR, schemes=["min_sep_ra", "nested_ra", "min_sep_ra"], bandwidths=(100, 32, 32))
        assert space.schemes == (SchemeSpace(scheme="nested_ra", bandwidths=(32,)), SchemeSpace(scheme="min_sep_ra", bandwidths=(32, 100)))
        separated = tuple(name for name in SCHEMES if name not in ("poisson", "random_allocation"))
        assert SearchSpace.for_problem(ANCHOR, bandwidths=[32]).names == separated
        assert SearchSpace.for_problem(ANCHOR, schemes=iter(["poisson"]), bandwidths=np.array([1])).names == ("poisson",)

    @pytest.mark.parametrize(
        ("restriction", "message"),
        [
            ({"schemes": ["nested"]}, "Expected scheme='nested' to be one of deterministic, poisson, "),
            ({"schemes": []}, "Expected schemes=[] to name at least one of deterministic, "),
            ({"schemes": "nested_ra"}, "Expected schemes='nested_ra' to be a sequence of scheme names."),
            ({"schemes": 3}, "Expected schemes=3 to be a sequence of scheme names."),
            ({"schemes": [None]}, "Expected scheme=None to be one of "),
            ({"bandwidths": []}, "Expected bandwidths=[] to hold at least one integer in [1, 256]."),
            ({"bandwidths": "32"}, "Expected bandwidths='32' to be a sequence of integers."),
            ({"bandwidths": 32}, "Expected bandwidths=32 to be a sequence of integers."),
            ({"bandwidths": [257]}, "Expected bandwidth=257 to be an integer <= iterations/participations = 1024/4"),
            ({"bandwidths": [32.0]}, "Expected bandwidth=32.0 to be an integer >= 1."),
            ({"bandwidths": [0]}, "Expected bandwidth=0 to be an integer >= 1."),
            ({"bandwidths": [True]}, "Expected bandwidth=True to be an integer >= 1."),
            (
                {"schemes": ["nested_ra", "cyclic_ra"], "bandwidths": [32, 33]},
                "Expected bandwidth=33 to be admitted by one of the schemes cyclic_ra, nested_ra at iterations=1024 and participations=4.",
            ),
            (
                {"schemes": ["nested_ra", "min_sep_ra"], "bandwidths": [33]},
                "Expected bandwidths=[33] to hold at least one that scheme='nested_ra' admits: 1, 2, 4, 8, 16, 32, 64, 128, 256.",
            ),
            ({"schemes": ["poisson"], "bandwidths": [2]}, "Expected bandwidths=[2] to hold at least one that scheme='poisson' admits: 1."),
        ],
    )
    def test_impossible_restrictions_are_refused_in_one_sentence(self, restriction, message):
        with pytest.raises(InputError) as caught:
            SearchSpace.for_problem(ANCHOR, **restriction)
        assert str(caught.value).startswith(message) and "\n" not in str(caught.value)

    def test_a_named_scheme_that_cannot_serve_the_problem_is_refused(self):
        problem = Problem(iterations=11, participations=3, epsilon=1, delta=1e-5)
        with pytest.raises(InputError, match="Expected scheme='balls_in_bins' to serve iterations=11 and participations=3"):
            SearchSpace.for_problem(problem, schemes=["balls_in_bins", "min_sep_ra"])

    def test_check_admits_what_is_inside_and_names_what_is_outside(self):
        space = SearchSpace.for_problem(ANCHOR, schemes=["nested_ra", "min_sep_ra"])
        space.check(scheme="min_sep_ra", bandwidth=100, r=0.02)
        for configuration, message in (
            ({"scheme": "poisson", "bandwidth": 1, "r": 0.0}, "Expected scheme='poisson' to be one of nested_ra, min_sep_ra"),
            ({"scheme": "nested_ra", "bandwidth": 100, "r": 0.0}, "Expected bandwidth=100 to be searched with nested_ra"),
            ({"scheme": "min_sep_ra", "bandwidth": 257, "r": 0.0}, "Expected bandwidth=257 to be searched with min_sep_ra: one of 1..256"),
            ({"scheme": "min_sep_ra", "bandwidth": 100, "r": 0.5}, "Expected r=0.5 to be a number in "),
            ({"scheme": "min_sep_ra", "bandwidth": 100, "r": -0.01}, "Expected r=-0.01 to be a number in "),
            ({"scheme": "min_sep_ra", "bandwidth": 2.0, "r": 0.1}, "Expected bandwidth=2.0 to be an integer >= 1"),
        ):
            with pytest.raises(InputError) as caught:
                space.check(**configuration)
            assert str(caught.value).startswith(message)


class TestCoordinate:
    @given(st.integers(2, 100_000), st.floats(0, 1))
    def test_r_stays_strictly_inside_the_family_and_comes_back(self, bandwidth, position):
        r = r_from_position(bandwidth, position)
        low, high = harmonic_range(bandwidth)
        assert low < r < high and r_range(bandwidth)[0] <= r <= r_range(bandwidth)[1]
        back = r_from_position(bandwidth, position_from_r(bandwidth, r))
        assert abs(back - r) <= tolerances.ROUND_TRIP * (1 + bandwidth * abs(r)) / bandwidth

    @pytest.mark.parametrize("bandwidth", [2, 3, 32, 1024, 10**6])
    def test_position_is_linear_in_the_logarithm_and_its_ends_are_the_ends(self, bandwidth):
        s = [math.log1p(bandwidth * r_from_position(bandwidth, position)) for position in np.linspace(0, 1, 9)]
        assert np.ptp(np.diff(s)) < 1e-9
        assert s[0] == pytest.approx(LOWEST_S, abs=1e-9)
        assert math.log1p(bandwidth / 2) - 2e-6 < s[-1] < math.log1p(bandwidth / 2)
        assert (position_from_r(bandwidth, r_range(bandwidth)[0]), position_from_r(bandwidth, r_range(bandwidth)[1])) == (0.0, 1.0)

    @pytest.mark.parametrize(("bandwidth", "r"), [(32, 0.0), (32, 0.3), (128, 0.02), (128, 0.05), (2, -0.4)])
    def test_known_good_r_are_reachable(self, bandwidth, r):
        assert r_from_position(bandwidth, position_from_r(bandwidth, r)) == pytest.approx(r, abs=1e-14)

    @pytest.mark.parametrize("position", [0, 0.3, 1])
    def test_bandwidth_one_has_one_strategy(self, position):
        assert r_from_position(1, position) == 0.0
        assert position_from_r(1, 0.0) == position_from_r(1, 0.3) == 0.5

    @given(st.integers(1, 50), st.floats(0, 1))
    def test_every_position_gives_a_usable_strategy(self, bandwidth, position):
        strategy = harmonic(iterations=50, bandwidth=bandwidth, r=r_from_position(bandwidth, position))
        assert min(strategy.coefficients) > 0 and math.isfinite(strategy.rmse(sigma=1, participations=1))

    @pytest.mark.parametrize("position", [-1e-9, 1 + 1e-9, math.nan, math.inf, None, True, "0.5"])
    def test_a_position_outside_is_refused(self, position):
        with pytest.raises(InputError) as caught:
            r_from_position(8, position)
        assert str(caught.value) == f"Expected position={position!r} to be a number in [0, 1]."

    @pytest.mark.parametrize("r", [0.5, -1 / 8, -0.124, 0.6, math.nan, math.inf, None, True])
    def test_an_r_outside_is_refused_not_clipped(self, r):
        with pytest.raises(InputError) as caught:
            position_from_r(8, r)
        assert str(caught.value) == f"Expected r={r!r} to be a number in [-0.118777, 0.499999]."

    @pytest.mark.parametrize("bandwidth", [0, -1, 2.0, 0.5, True, None])
    def test_a_bandwidth_that_is_no_count_is_refused(self, bandwidth):
        for call in (lambda: r_from_position(bandwidth, 0.5), lambda: position_from_r(bandwidth, 0.0), lambda: r_range(bandwidth)):
            with pytest.raises(InputError, match="Expected bandwidth="):
                call()


class TestFingerprint:
    OTHERS = [
        (Problem(iterations=2048, participations=4, epsilon=4, delta=1e-5), {}, "iterations: 1024 here, 2048 there"),
        (dataclasses.replace(ANCHOR, participations=2), {}, "participations: 4 here, 2 there"),
        (dataclasses.replace(ANCHOR, epsilon=4.000001), {}, "epsilon: 4.0 here, 4.000001 there"),
        (dataclasses.replace(ANCHOR, delta=1e-6), {}, "delta: 1e-05 here, 1e-06 there"),
        (dataclasses.replace(ANCHOR, dataset_size=50_000), {}, "dataset_size: None here, 50000 there"),
        (ANCHOR, {"schemes": [n for n in SCHEMES if n != "min_sep_ra"]}, "min_sep_ra bandwidths: 1..256 here, absent there"),
        (ANCHOR, {"schemes": ["min_sep_ra"], "bandwidths": range(1, 256)}, "min_sep_ra bandwidths: 1..256 here, 1..255 there"),
        (
            ANCHOR, {"schemes": ["nested_ra"], "bandwidths": [1, 4]},
            "nested_ra bandwidths: [1, 2, 4, 8, 16, 32, 64, 128, 256] here, [1, 4] there",
        ),
        (ANCHOR, {"schemes": ["min_sep_ra"], "bandwidths": [7]}, "min_sep_ra bandwidths: 1..256 here, 7 there"),
    ]

    def test_does_not_depend_on_how_the_space_was_asked_for(self):
        space = SearchSpace.for_problem(ANCHOR)
        same = SearchSpace.for_problem(
            Problem(iterations=np.int64(1024), participations=4, epsilon=4, delta=1e-5),
            schemes=reversed(list(SCHEMES)), bandwidths=range(256, 0, -1),
        )
        assert space == same and space.fingerprint() == same.fingerprint() and space.differences(same) == ()

    def test_is_this_value(self):
        """A golden value: a change means that studies made before can no longer be continued, and has to be meant."""
        assert SearchSpace.for_problem(ANCHOR).fingerprint() == "0f3e7c4c1cae4c7ada3d54b29e5de04f22ce46773df0012a98a1b7a9416a9688"

    @pytest.mark.parametrize(("problem", "restriction", "difference"), OTHERS)
    def test_changes_with_everything_that_matters_and_the_difference_is_named(self, problem, restriction, difference):
        space, other = SearchSpace.for_problem(ANCHOR), SearchSpace.for_problem(problem, **restriction)
        assert space.fingerprint() != other.fingerprint()
        assert difference in space.differences(other)
        assert len(other.differences(space)) == len(space.differences(other))

    @given(sizes(), sizes())
    def test_is_equal_exactly_where_nothing_differs(self, problem, another):
        space, other = SearchSpace.for_problem(problem), SearchSpace.for_problem(another)
        assert (space.fingerprint() == other.fingerprint()) == (space == other) == (space.differences(other) == ())

    def test_survives_json(self):
        space = SearchSpace.for_problem(ANCHOR)
        stored = json.loads(json.dumps(space.to_dict()))
        assert stored == space.to_dict() and space.differences(stored) == ()
        stored["r"]["largest_r"] = 0.4
        del stored["problem"]["delta"]
        stored["sampler"] = "random"
        assert set(space.differences(stored)) == {
            "r largest_r: 0.499999 here, 0.4 there", "delta: 1e-05 here, absent there", "sampler: absent here, 'random' there",
        }


class TestConfigurationKey:
    def test_duplicates_have_one_key_and_neighbours_another(self):
        key = configuration_key(scheme="nested_ra", bandwidth=32, r=0.05)
        assert key == configuration_key(scheme="nested_ra", bandwidth=np.int64(32), r=0.05 + 1e-15)
        others = [
            configuration_key(scheme="nested_ra", bandwidth=32, r=0.05 + 1e-9), configuration_key(scheme="nested_ra", bandwidth=31, r=0.05),
            configuration_key(scheme="min_sep_ra", bandwidth=32, r=0.05),
        ]
        assert key not in others and hash(key) is not None

    def test_r_does_not_matter_at_bandwidth_one(self):
        keys = {configuration_key(scheme="poisson", bandwidth=1, r=r) for r in (-0.5, -0.0, 0.0, 0.3)}
        assert keys == {("poisson", 1, 0.0)}

    def test_negative_zero_is_zero(self):
        assert str(configuration_key(scheme="nested_ra", bandwidth=2, r=-1e-20)) == "('nested_ra', 2, 0.0)"

    @pytest.mark.parametrize(("argument", "value"), [("scheme", "x"), ("bandwidth", 0), ("r", math.nan), ("r", 0.5), ("r", -1 / 8)])
    def test_is_refused_for_no_configuration(self, argument, value):
        with pytest.raises(InputError, match=f"Expected {argument}="):
            configuration_key(**({"scheme": "nested_ra", "bandwidth": 8, "r": 0.1} | {argument: value}))


def test_a_space_is_a_value():
    space = SearchSpace.for_problem(ANCHOR)
    assert hash(space) == hash(SearchSpace.for_problem(ANCHOR))
    with pytest.raises(dataclasses.FrozenInstanceError):
        space.schemes = ()


def _buildable(name: str, problem: Problem, bandwidth: int) -> bool:
    try:
        make_scheme(name, iterations=problem.iterations, participations=problem.participations, bandwidth=bandwidth)
    except InputError:
        return False
    return True
