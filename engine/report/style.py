"""One look per scheme and per accountant, the same in every figure and legible to the colour-blind: a colour and a shape each."""

import math

from search_spaces.problem import FIXED_SIZE
from search_spaces.schemes import SCHEMES

_COLOURS = ("#44aa99", "#999933", "#882255", "#88ccee", "#117733", "#aa4499", "#ddaa33", "#cc6677", "#332288", "#555555")
"""Paul Tol's `muted` scheme (sand darkened); the last schemes of `SCHEMES`, which usually win, have the strongest."""

_MARKERS = ("v", "s", "D", "^", "P", "<", "X", "d", "o", ">")
_NAMES = (*SCHEMES, FIXED_SIZE)

_ACCOUNTANTS = {
    "gaussian": "#8a8a8a", "jensen": "#e69f00", "pld": "#0072b2", "renyi": "#009e73", "conditional_composition": "#cc79a7",
    "monte_carlo": "#d55e00", "renyi (pairwise)": "#e69f00", "renyi (ball)": "#009e73",
}
"""Okabe and Ito's colours."""

_OTHERS = ("#56b4e9", "#f0e442", "#000000")

INK, FAINT, ACCENT = "#1f2430", "#8b93a1", "#332288"


def colour(scheme: str) -> str:
    """The colour of a scheme."""
    return _COLOURS[_position(scheme)]


def marker(scheme: str) -> str:
    """The marker of a scheme."""
    return _MARKERS[_position(scheme)]


def line_colour(accountant: str) -> str:
    """The colour of an accountant."""
    return _ACCOUNTANTS.get(accountant) or _OTHERS[sum(map(ord, accountant)) % len(_OTHERS)]


def number(value: float | int | None, digits: int = 6) -> str:
    """A number for people: so many significant digits, exponents without leading zeros, and a word for what is no number."""
    if value is None:
        return "—"
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return "infinite" if value > 0 else str(value)
    mantissa, separator, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}{separator}{int(exponent)}" if separator else mantissa


def with_error(value: float | None, error: float | None, digits: int = 6) -> str:
    """A number with its standard error, where it has one."""
    return number(value, digits) if value is None or error is None else f"{number(value, digits)} ± {number(error, 1)}"


def _position(scheme: str) -> int:
    return (_NAMES.index(scheme) if scheme in _NAMES else len(scheme)) % len(_COLOURS)
