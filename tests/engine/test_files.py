"""Files appear whole or not at all; JSON is canonical and finite."""

import json
import math
import os

import pytest
from hypothesis import given, strategies as st

from engine.files import canonical_json, read_json, readable_json, sha256_of, write_atomically
from search_spaces.errors import InputError, NumericalError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values), max_leaves=8,
)


@pytest.mark.parametrize("moment", ["replace", "fsync"])
def test_a_crash_while_writing_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, moment):
    path = tmp_path / "file"
    write_atomically(path, "old")

    def crash(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, moment, crash)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_new_file_is_on_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    monkeypatch.setattr(os, "replace", lambda *names: calls.append("replace"))
    write_atomically(tmp_path / "file", "text")
    assert calls == ["fsync", "replace", "fsync"]


def test_permissions_are_those_of_any_other_file(tmp_path):
    write_atomically(tmp_path / "ours", "")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@given(JSON)
def test_canonical_json_is_exact_and_independent_of_key_order(value):
    text = canonical_json(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert canonical_json(json.loads(readable_json(value))) == text


def test_the_hash_sees_the_last_bit_of_a_float():
    assert sha256_of({"x": 0.1, "y": 1}) == sha256_of({"y": 1, "x": 0.1})
    assert sha256_of({"x": 0.1}) != sha256_of({"x": math.nextafter(0.1, 1)})


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf]])
def test_values_that_are_not_finite_are_refused(value):
    with pytest.raises(NumericalError, match="JSON"):
        canonical_json({"x": value})


def test_values_that_are_not_json_are_refused():
    with pytest.raises(InputError, match="plain JSON values"):
        canonical_json({"x": object()})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "valid JSON"), ("{", "valid JSON"), ('{"x": NaN}', "NaN"), ('{"x": -Infinity}', "Infinity"), ('{"x": 1e999}', "1e999"),
        ('{"x": 1, "x": 2}', "repeated"), ("[1]", "object"), ("[" * 100_000, "valid JSON"), ("\xff", "valid JSON"),
    ],
)
def test_unreadable_json_is_one_sentence_that_names_the_file(tmp_path, text, said):
    path = tmp_path / "strategy.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=said) as caught:
        read_json(path)
    assert "strategy.json" in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="readable file"):
            read_json(path)
