"""All accountants by name, and `account`: every statement they can make about a mechanism."""

import warnings
from collections.abc import Iterable

from accountants.base import Accountant
from accountants.evidence import Evidence
from accountants.gaussian import GaussianAccountant
from accountants.jensen import JensenAccountant
from accountants.pld import PldAccountant
from search_spaces import checks
from search_spaces.errors import InputError, NumericalError, UnresolvedError, UnsupportedError
from search_spaces.mechanism import Mechanism

ACCOUNTANTS: dict[str, Accountant] = {
    accountant.name: accountant for accountant in (GaussianAccountant(), JensenAccountant(), PldAccountant())
}
"""Every accountant, by name; a new one joins here and is thereby used, offered and tested (tests/contracts/accountant_contract.py)."""


def account(
    mechanism: Mechanism, *, epsilon: float | None = None, delta: float | None = None, accountants: Iterable[str] | None = None
) -> list[Evidence]:
    """Evidence for both directions by each accountant: δ at ε >= 0, or ε at δ in (0, 1).

    Args:
      mechanism: what is accounted.
      epsilon, delta: exactly one of them.
      accountants: names; None means every accountant that supports the mechanism. Of these, one that cannot resolve its answer is left out
        with a warning; a named one raises.

    Raises:
      InputError: both or neither of ε and δ, one out of range, or an unknown name.
      UnsupportedError: a named accountant does not support the mechanism.
      UnresolvedError, NumericalError: a named accountant (or every one) has no trustworthy answer.
    """
    if (epsilon is None) == (delta is None):
        raise InputError(f"Expected exactly one of epsilon={epsilon!r} and delta={delta!r} to be given.")
    if accountants is not None:
        return [statement for name in accountants for statement in _ask(supported(name, mechanism), mechanism, epsilon, delta)]
    evidence, failures = [], []
    for name in supporting(mechanism):
        try:
            evidence += _ask(ACCOUNTANTS[name], mechanism, epsilon, delta)
        except (UnresolvedError, NumericalError) as error:
            failures.append(error)
            warnings.warn(f"The accountant {name} has no answer: {error}", stacklevel=2)
    if not evidence:
        raise failures[0]
    return evidence


def supporting(mechanism: Mechanism) -> tuple[str, ...]:
    """Names of the accountants that support the mechanism, in registry order."""
    return tuple(name for name, accountant in ACCOUNTANTS.items() if accountant.unsupported(mechanism) is None)


def supported(name: str, mechanism: Mechanism) -> Accountant:
    """The accountant of that name.

    Raises:
      InputError: unknown name.
      UnsupportedError: it does not support the mechanism; the message says why and which ones do.
    """
    accountant = ACCOUNTANTS[checks.one_of(ACCOUNTANTS, accountant=name)]
    if reason := accountant.unsupported(mechanism):
        raise UnsupportedError(
            f"Expected accountant={name!r} to support {mechanism.scheme.name}: {reason.rstrip('.')}; "
            f"these do: {', '.join(supporting(mechanism))}."
        )
    return accountant


def _ask(accountant: Accountant, mechanism: Mechanism, epsilon: float | None, delta: float | None) -> tuple[Evidence, Evidence]:
    return accountant.delta(mechanism, epsilon=epsilon) if delta is None else accountant.epsilon(mechanism, delta=delta)
