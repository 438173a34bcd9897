"""The estimate of the scaling benchmark, and that its bookkeeping is that of a search."""

import pytest

from benchmarks.scaling import bookkeeping_seconds, estimate, traffic


def test_a_cluster_with_fewer_workers_than_the_driver_can_serve_is_its_own_limit():
    found = estimate(workers=20, trial_seconds=4.0, overhead_seconds=0.1, bytes_per_trial=1000)
    assert (found.demand, found.capacity, found.saturation) == pytest.approx((5, 10, 40))
    assert found.bytes_per_second == pytest.approx(5000)


def test_beyond_saturation_the_driver_is_the_limit():
    found = estimate(workers=80, trial_seconds=4.0, overhead_seconds=0.1, bytes_per_trial=1000)
    assert found.demand > found.capacity == 10
    assert found.bytes_per_second == pytest.approx(10_000)


def test_bookkeeping_runs_the_search_of_a_study_that_is_there(tmp_path):
    assert bookkeeping_seconds(tmp_path / "study.db", 30) > 0


def test_a_trial_is_small():
    assert max(traffic()) < 10_000
