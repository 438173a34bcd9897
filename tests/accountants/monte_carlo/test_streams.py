"""Random streams: no two purposes, paths, blocks or kinds share a key, and a seed means the same numbers for ever."""

import itertools

import jax
import numpy as np
import pytest

from accountants.monte_carlo.streams import PURPOSES, Stream
from search_spaces.errors import InputError


def words(stream: Stream, block: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What decides the positions and the normals of a block."""
    state = stream.positions(block).bit_generator.state["state"]
    key = np.asarray(jax.random.key_data(stream.normals(block)))
    return (state["state"], state["inc"]), tuple(int(word) for word in key)


def test_no_two_streams_share_a_key():
    streams = [
        Stream(seed=seed, purpose=purpose, path=path)
        for seed in (0, 1, 1 << 40, 1 << 200)
        for purpose in PURPOSES
        for path in [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (3, 1), (1 << 20,), ((1 << 32) - 1,)]
    ]
    drawn = [words(stream, block) for stream, block in itertools.product(streams, (0, 1, 2, 3, 1 << 20))]
    assert len({positions for positions, _ in drawn}) == len({key for _, key in drawn}) == len(drawn)


def test_positions_and_normals_of_a_block_have_keys_of_their_own():
    stream = Stream(seed=5, purpose="pilot")
    key = np.asarray(jax.random.key_data(stream.normals(0)))
    assert stream.positions(0).bit_generator.seed_seq.generate_state(2, np.uint32).tolist() != key.tolist()
    assert stream.normals(0).dtype == jax.random.key(0, impl="threefry2x32").dtype


def test_a_block_is_the_same_whenever_it_is_asked_for():
    one, other = Stream(seed=9, purpose="certify", path=(1, 0)), Stream(seed=9, purpose="certify", path=(1, 0))
    backwards = {block: words(other, block) for block in reversed(range(6))}
    assert all(words(one, block) == backwards[block] for block in range(6))


def test_the_meaning_of_a_seed_is_part_of_the_file_format():
    """Recorded once. A change makes every certificate written so far impossible to re-check."""
    assert PURPOSES == {"pilot": 0, "estimate": 1, "histogram": 2, "certify": 3, "verify": 4}
    stream = Stream(seed=12345, purpose="certify", path=(2, 1))
    assert stream.positions(7).integers(1 << 30, size=4).tolist() == GOLDEN_POSITIONS
    assert words(stream, 7)[1] == GOLDEN_KEY
    with jax.enable_x64(True):
        normals = np.asarray(jax.random.normal(stream.normals(7), (2, 2), np.float64)).ravel()
    np.testing.assert_allclose(normals, GOLDEN_NORMALS, rtol=1e-14)


GOLDEN_POSITIONS = [463154655, 919576312, 621382783, 815001765]
GOLDEN_KEY = (3408016787, 3654063399)
GOLDEN_NORMALS = [-0.1499050542881823, -0.7341065555237674, 1.046892955305456, 1.1790352276381737]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"seed": -1}, "seed=-1"), ({"seed": 1.5}, "seed=1.5"), ({"seed": True}, "seed=True"), ({"purpose": "search"}, "purpose='search'"),
        ({"path": (-1,)}, "path=-1"), ({"path": (0, 1 << 32)}, "path=4294967296"), ({"path": (0.5,)}, "path=0.5"),
    ],
)
def test_refuses_what_is_not_a_stream(changed, named):
    with pytest.raises(InputError, match=named):
        Stream(**({"seed": 0, "purpose": "pilot"} | changed))


@pytest.mark.parametrize("block", [-1, 1 << 32, 0.0])
def test_refuses_what_is_not_a_block(block):
    stream = Stream(seed=0, purpose="pilot")
    for ask in (stream.positions, stream.normals):
        with pytest.raises(InputError, match="block="):
            ask(block)
