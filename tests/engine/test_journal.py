"""The journal of a certification: exact, append-only, proof against half lines, damage and counting twice."""

import dataclasses
import json
import math

import hypothesis
import hypothesis.strategies as some
import pytest

from accountants.certificates.records import Candidate, DirectionTest, Plan, committed
from accountants.certificates.sampling import BlockSums
from engine.certification import run_test
from engine.files import sha256_of
from engine.journal import Journal
from search_spaces.errors import CertificateError, NumericalError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic

BLOCKS, SIZE, RUN_SEED = 6, 1024, 3
MECHANISM = Mechanism(
    scheme=make_scheme("min_sep_ra", iterations=16, participations=2, bandwidth=4),
    strategy=harmonic(iterations=16, bandwidth=4, r=0.1), sigma=0.1 + 0.7,
)


def make_plan(threshold: float = 0.005) -> Plan:
    tests = tuple(
        DirectionTest(direction=direction, sampler="plain", threshold=threshold, blocks=BLOCKS, samples=BLOCKS * SIZE)
        for direction in ("remove", "add")
    )
    plan = Plan(method="tail_sum", epsilon=2.0, delta=0.01, seed=0, candidates=(Candidate(mechanism=MECHANISM, tests=tests),))
    return committed(plan, run_seed=RUN_SEED)


def sums_of(block: int, total: float = 0.1) -> BlockSums:
    return BlockSums(block=block, samples=SIZE, total=total + block / 3, squares=1e-300 * block, largest=2 / 3)


def opened(folder, plan: Plan | None = None, **inputs) -> Journal:
    """A journal with its plan, which must be there already unless one is given."""
    journal = Journal(folder, {"problem": 1} | inputs)

    def make() -> Plan:
        assert plan is not None, "this plan is made already"
        return plan

    journal.plan(make, run_seed=RUN_SEED)
    return journal


def lines(folder) -> list[bytes]:
    (path,) = folder.glob("*/blocks.jsonl")
    return path.read_bytes().splitlines(keepends=True)


def rewrite(folder, changed: list[bytes]) -> None:
    (path,) = folder.glob("*/blocks.jsonl")
    path.write_bytes(b"".join(changed))


@pytest.fixture
def folder(tmp_path):
    """Two chunks of a test's blocks are kept."""
    journal = opened(tmp_path, make_plan())
    journal.add(0, "remove", [sums_of(4), sums_of(0)])
    journal.add(0, "remove", [sums_of(1)])
    return tmp_path


def test_what_was_added_is_known_to_the_next_one(folder):
    journal = opened(folder)
    assert sorted(journal.known(0, "remove"), key=lambda part: part.block) == [sums_of(0), sums_of(1), sums_of(4)]
    assert journal.known(0, "add") == [] == journal.known(1, "remove")


@hypothesis.given(total=some.floats(0, 1e300), squares=some.floats(0, 1e300), largest=some.floats(0, 1))
def test_floats_come_back_exactly(tmp_path_factory, total, squares, largest):
    folder = tmp_path_factory.mktemp("exact")
    part = BlockSums(block=2, samples=SIZE, total=total, squares=squares, largest=largest)
    opened(folder, make_plan()).add(0, "add", [part])
    (again,) = opened(folder).known(0, "add")
    assert dataclasses.astuple(again) == dataclasses.astuple(part)


def test_a_value_that_is_no_number_is_never_kept(folder):
    journal = opened(folder)
    with pytest.raises(NumericalError):
        journal.add(0, "add", [sums_of(0, total=math.nan)])
    assert len(lines(folder)) == 2


def test_only_missing_blocks_are_drawn_and_each_counts_once(folder):
    asked, plan = [], make_plan()

    def draw(plan, candidate, direction, blocks, on_wait):
        asked.append((candidate, direction, list(blocks)))
        yield [sums_of(block) for block in blocks]

    for _ in range(2):
        made = run_test(plan, 0, "remove", draw=draw, journal=opened(folder))
        assert made.samples == BLOCKS * SIZE and made.mean == math.fsum(sums_of(block).total for block in range(BLOCKS)) / (BLOCKS * SIZE)
    assert asked == [(0, "remove", [2, 3, 5])]


def test_a_drawer_that_draws_a_block_again_or_leaves_one_out_makes_no_certificate(folder):
    for drawn in ([2, 3], [0, 2, 3, 5], [2, 3, 5, 6]):
        with pytest.raises(CertificateError, match="each to be counted once"):
            run_test(make_plan(), 0, "remove", draw=lambda *_: ([sums_of(block)] for block in drawn))


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_a_line_that_a_crash_cut_off_is_drawn_again_and_reported(folder, caplog, cut):
    first, second = lines(folder)
    rewrite(folder, [first, second[:cut]])
    journal = opened(folder)
    assert {part.block for part in journal.known(0, "remove")} == {0, 4}
    assert "cut off" in caplog.text
    journal.add(0, "remove", [sums_of(1)])
    assert lines(folder) == [first, second]


def test_a_damaged_line_is_drawn_again_and_named(folder, caplog):
    first, second = lines(folder)
    rewrite(folder, [first.replace(b"0.1", b"0.2", 1), b"nonsense\n", second])
    assert {part.block for part in opened(folder).known(0, "remove")} == {1}
    assert "line 1 is damaged" in caplog.text and "line 2 is damaged" in caplog.text


def test_the_same_sums_twice_count_once_and_other_sums_are_an_error(folder):
    first, second = lines(folder)
    rewrite(folder, [first, second, first])
    journal = opened(folder)
    assert len(journal.known(0, "remove")) == 3
    journal.add(0, "remove", [sums_of(0)])
    assert len(lines(folder)) == 3
    with pytest.raises(CertificateError, match="Block 4 .* other sums"):
        journal.add(0, "remove", [sums_of(4, total=0.2)])

    content = json.loads(second) | {"blocks": [list(dataclasses.astuple(sums_of(4, total=0.2)))]}
    del content["sha256"]
    rewrite(folder, [first, json.dumps(content | {"sha256": sha256_of(content)}).encode() + b"\n"])
    with pytest.raises(CertificateError, match="line 2"):
        opened(folder)


def test_other_inputs_have_a_plan_and_blocks_of_their_own(folder):
    other = opened(folder, make_plan(threshold=0.004), max_samples=7)
    assert other.known(0, "remove") == []
    assert len(list(folder.iterdir())) == 2 and len(opened(folder).known(0, "remove")) == 3


def test_blocks_of_another_plan_do_not_count(folder, caplog):
    (path,) = folder.glob("*/plan.json")
    path.unlink()
    assert opened(folder, make_plan(threshold=0.004)).known(0, "remove") == []
    assert "another plan" in caplog.text


@pytest.mark.parametrize("sealed", [False, True])
def test_a_plan_that_was_changed_is_refused(folder, sealed):
    (path,) = folder.glob("*/plan.json")
    document = json.loads(path.read_text())
    document["plan"]["candidates"][0]["tests"][0]["threshold"] = 0.009
    if sealed:
        del document["sha256"]
        document["sha256"] = sha256_of(document)
    path.write_text(json.dumps(document))
    with pytest.raises(CertificateError, match="seed of the plan" if sealed else "was changed"):
        opened(folder)


def test_a_plan_of_another_run_seed_is_refused(folder):
    with pytest.raises(CertificateError, match="run seed 4"):
        Journal(folder, {"problem": 1}).plan(make_plan, run_seed=4)
