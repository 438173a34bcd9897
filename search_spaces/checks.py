"""Argument checks, keyword style: `positive(sigma=sigma)` raises `InputError("Expected sigma=0.0 to be a number > 0.")`.

Each returns the checked value (converted to a plain int or float), so that a constructor can check and store in one line.
"""

import math
import numbers
from collections.abc import Collection, Iterable

from search_spaces.errors import InputError


def _expect(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise InputError(f"Expected {name}={value!r} to be {allowed}.")


def _number(name: str, value: object, allowed: str) -> float:
    _expect(isinstance(value, numbers.Real) and not isinstance(value, bool), name, value, allowed)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    _expect(math.isfinite(number), name, value, allowed)
    return number


def integer(*, at_least: int = 1, at_most: int | None = None, **argument: object) -> int:
    """An integer in [at_least, at_most]; NumPy integers are accepted, booleans and floats are not."""
    ((name, value),) = argument.items()
    allowed = f"an integer >= {at_least}" if at_most is None else f"an integer in [{at_least}, {at_most}]"
    _expect(isinstance(value, numbers.Integral) and not isinstance(value, bool), name, value, allowed)
    number = int(value)
    _expect(number >= at_least and (at_most is None or number <= at_most), name, value, allowed)
    return number


def positive(**argument: object) -> float:
    """A finite number > 0."""
    ((name, value),) = argument.items()
    number = _number(name, value, "a finite number > 0")
    _expect(number > 0, name, value, "a finite number > 0")
    return number


def non_negative(**argument: object) -> float:
    """A finite number >= 0."""
    ((name, value),) = argument.items()
    number = _number(name, value, "a finite number >= 0")
    _expect(number >= 0, name, value, "a finite number >= 0")
    return number


def between(low: float, high: float, **argument: object) -> float:
    """A finite number strictly between `low` and `high`."""
    ((name, value),) = argument.items()
    allowed = f"a number strictly between {low:.6g} and {high:.6g}"
    number = _number(name, value, allowed)
    _expect(low < number < high, name, value, allowed)
    return number


def within(low: float, high: float, **argument: object) -> float:
    """A finite number with `low` <= number <= `high`."""
    ((name, value),) = argument.items()
    allowed = f"a number in [{low:.6g}, {high:.6g}]"
    number = _number(name, value, allowed)
    _expect(low <= number <= high, name, value, allowed)
    return number


def one_of(choices: Collection[str], **argument: object) -> str:
    """One of the given words."""
    ((name, value),) = argument.items()
    _expect(isinstance(value, str) and value in choices, name, value, "one of " + ", ".join(choices))
    return str(value)


def coefficients(values: Iterable[object], *, name: str = "coefficients") -> tuple[float, ...]:
    """A non-empty sequence of finite numbers >= 0 whose first entry is > 0 (so that C is invertible)."""
    _expect(isinstance(values, Iterable) and not isinstance(values, str), name, values, "a sequence of numbers")
    numbers_ = tuple(_number(f"{name}[{i}]", value, "a finite number >= 0") for i, value in enumerate(values))
    _expect(len(numbers_) > 0, name, numbers_, "a non-empty sequence of numbers")
    for i, value in enumerate(numbers_):
        _expect(value >= 0, f"{name}[{i}]", value, "a finite number >= 0")
    _expect(numbers_[0] > 0, f"{name}[0]", numbers_[0], "a finite number > 0")
    return numbers_
