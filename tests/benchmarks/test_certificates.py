"""The rows of the certificate benchmark that state what a tilted test takes."""

import pytest

from accountants.certificates.records import Candidate, DirectionTest, Plan
from accountants.certificates.sampling import block_size, draw_blocks
from accountants.evidence import DIRECTIONS
from accountants.tail_sum import certified_delta
from accountants.tilted import tilted_log_moment, tilted_remove_bound
from benchmarks.certificates import EPSILON, THRESHOLD, tilted, timed
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic

SMALL = Mechanism(
    scheme=make_scheme("min_sep_ra", iterations=16, participations=2, bandwidth=4),
    strategy=harmonic(iterations=16, bandwidth=4, r=0.1), sigma=1.0,
)


@pytest.mark.parametrize("alpha", [2, 3])
def test_row_has_the_bound_of_the_law_and_the_fewest_samples_that_certify(alpha):
    row = tilted(SMALL, alpha=alpha, delta=1e-4, seed=0)
    moment = tilted_log_moment(SMALL, alpha=alpha)
    assert row["bound"] == tilted_remove_bound(SMALL, epsilon=EPSILON, alpha=alpha, log_moment=moment)
    reached = [
        certified_delta("tail_sum", threshold=THRESHOLD * 1e-4, samples=row["samples"] - fewer, bound=row["bound"]) for fewer in (0, 1)
    ]
    assert reached[0] <= 1e-4 < reached[1]
    assert row["seconds"] > row["table"] > 0


def test_replicas_without_a_program_have_a_reason():
    assert "alpha=4" in tilted(SMALL, alpha=4, delta=1e-4, seed=0)["reason"]


def test_seconds_of_a_direction_are_those_of_all_its_tests():
    plan = Plan(method="tail_sum", epsilon=EPSILON, delta=0.5, seed=5, candidates=(Candidate(mechanism=SMALL, tests=tuple(
        DirectionTest(direction=direction, sampler="plain", threshold=0.1, blocks=2, samples=2 * block_size(SMALL)) for direction in DIRECTIONS
    )),))
    seconds = {}
    sums = [one for chunk in timed(seconds)(plan, 0, "remove", range(2), None) for one in chunk]
    assert sums == draw_blocks(plan, 0, "remove", range(2))
    once = seconds["remove"]
    list(timed(seconds)(plan, 0, "remove", range(1), None))
    assert seconds["remove"] > once > 0 and set(seconds) == {"remove"}
