"""Argument checks: one sentence with the argument, its value and what is allowed."""

import decimal
import fractions
import math

import numpy as np
import pytest

from search_spaces import checks, errors
from search_spaces.errors import InputError

NOT_NUMBERS = (None, "1", True, False, 1j, [1.0], (), decimal.Decimal(1), np.bool_(True), np.array(1.0), b"1")
NOT_FINITE = (math.nan, math.inf, -math.inf, np.float64("nan"), 10**400, -(10**400), fractions.Fraction(10**400, 3))

REFUSALS = [
    (checks.positive, {}, (0, 0.0, -0.0, -1, -5e-324, fractions.Fraction(0), *NOT_NUMBERS, *NOT_FINITE), "a finite number > 0"),
    (checks.non_negative, {}, (-1, -5e-324, *NOT_NUMBERS, *NOT_FINITE), "a finite number >= 0"),
    (checks.integer, {}, (0, -1, 1.0, np.float64(2), math.nan, math.inf, fractions.Fraction(2), *NOT_NUMBERS), "an integer >= 1"),
    (checks.integer, {"at_least": 0, "at_most": 3}, (-1, 4, 10**400, *NOT_NUMBERS), "an integer in [0, 3]"),
    (checks.one_of, {"choices": {"a": 1, "b": 2}}, ("c", "", "A", None, 1, ["a"], {}, b"a"), "one of a, b"),
]


@pytest.mark.parametrize(
    ("check", "limits", "value", "allowed"),
    [pytest.param(check, limits, value, allowed) for check, limits, values, allowed in REFUSALS for value in values],
)
def test_refusals_name_argument_value_and_what_is_allowed(check, limits, value, allowed):
    with pytest.raises(InputError) as caught:
        check(**limits, some_name=value)
    assert str(caught.value) == f"Expected some_name={value!r} to be {allowed}."


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.1, 1.1, *NOT_NUMBERS, *NOT_FINITE])
def test_between_excludes_its_ends(value):
    with pytest.raises(InputError) as caught:
        checks.between(0, 1, some_name=value)
    assert str(caught.value) == f"Expected some_name={value!r} to be a number strictly between 0 and 1."


@pytest.mark.parametrize("value", [-5e-324, 1 + 2**-52, 2, *NOT_NUMBERS, *NOT_FINITE])
def test_within_includes_its_ends(value):
    assert [checks.within(0, 1, some_name=end) for end in (0, 1, 0.5)] == [0.0, 1.0, 0.5]
    with pytest.raises(InputError) as caught:
        checks.within(0, 1, some_name=value)
    assert str(caught.value) == f"Expected some_name={value!r} to be a number in [0, 1]."


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda: checks.integer(n=np.int64(5)), 5), (lambda: checks.integer(at_least=0, n=0), 0),
        (lambda: checks.integer(at_most=3, n=3), 3),
        (lambda: checks.integer(n=10**400), 10**400), (lambda: checks.positive(x=5e-324), 5e-324), (lambda: checks.positive(x=2), 2.0),
        (lambda: checks.positive(x=np.float32(0.5)), 0.5), (lambda: checks.positive(x=fractions.Fraction(1, 4)), 0.25),
        (lambda: checks.non_negative(x=0), 0.0), (lambda: checks.between(0, 1, x=np.float64(0.25)), 0.25),
        (lambda: checks.one_of(("a", "b"), x="b"), "b"), (lambda: checks.coefficients([1, np.float64(0)]), (1.0, 0.0)),
        (lambda: checks.coefficients(c for c in (2.0, 1.0)), (2.0, 1.0)),
    ],
)
def test_what_passes_comes_back_as_a_plain_value(result, expected):
    assert result() == expected and type(result()) is type(expected)


def test_a_check_takes_one_named_argument():
    for call in (lambda: checks.positive(a=1, b=2), lambda: checks.positive()):
        with pytest.raises(ValueError, match="unpack"):
            call()


def test_input_errors_are_value_errors_and_deliberate():
    assert issubclass(errors.UnsupportedError, InputError) and issubclass(InputError, ValueError)
    own = [value for value in vars(errors).values() if isinstance(value, type)]
    assert all(issubclass(error, errors.BandsmithError) and error.__doc__ for error in own)
