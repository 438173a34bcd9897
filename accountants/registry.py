"""All accountants by name, and `account`: every statement they can make about a mechanism."""

import warnings
from collections.abc import Iterable

from accountants.balls_in_bins.accounting import ConditionalComposition
from accountants.base import Accountant, PartlyUnresolvedError
from accountants.evidence import Evidence
from accountants.gaussian import GaussianAccountant
from accountants.jensen import JensenAccountant
from accountants.monte_carlo.accountant import MonteCarloAccountant
from accountants.pld import PldAccountant
from accountants.renyi import RenyiAccountant
from search_spaces import checks
from search_spaces.errors import InputError, NumericalError, UnresolvedError, UnsupportedError
from search_spaces.mechanism import Mechanism

ACCOUNTANTS: dict[str, Accountant] = {
    accountant.name: accountant
    for accountant in (
        GaussianAccountant(), JensenAccountant(), PldAccountant(), RenyiAccountant(), ConditionalComposition(), MonteCarloAccountant(),
    )
}
"""Every accountant, by name; a new one joins here and is thereby used, offered and tested (tests/contracts/accountant_contract.py)."""


def account(
    mechanism: Mechanism, *, epsilon: float | None = None, delta: float | None = None, accountants: Iterable[str | Accountant] | None = None,
) -> list[Evidence]:
    """Evidence for both directions by each accountant: δ at ε >= 0, or ε at δ in (0, 1).

    Args:
      mechanism: what is accounted.
      epsilon, delta: exactly one of them.
      accountants: names, or accountants with settings of their own; None means every accountant that supports the mechanism and answers
        within seconds. Of several, one that cannot resolve its answer is left out with a warning; one that resolves one direction states it,
        and of the other only what always holds (δ = 1, ε = ∞), with a warning.

    Raises:
      InputError: both or neither of ε and δ, one out of range, or an unknown name.
      UnsupportedError: a given accountant does not support the mechanism.
      UnresolvedError, NumericalError: no accountant has a trustworthy answer.
    """
    if (epsilon is None) == (delta is None):
        raise InputError(f"Expected exactly one of epsilon={epsilon!r} and delta={delta!r} to be given.")
    asked = [supported(one, mechanism) for one in (asked_by_default(mechanism) if accountants is None else accountants)]
    evidence, failures = [], []
    for accountant in asked:
        try:
            evidence += accountant.delta(mechanism, epsilon=epsilon) if delta is None else accountant.epsilon(mechanism, delta=delta)
        except PartlyUnresolvedError as error:
            evidence += error.statements
            warnings.warn(f"The accountant {accountant.name} has an answer in one direction only: {error}", stacklevel=2)
        except (UnresolvedError, NumericalError) as error:
            failures.append(error)
            if len(asked) > 1:
                warnings.warn(f"The accountant {accountant.name} has no answer: {error}", stacklevel=2)
    if not evidence and failures:
        raise failures[0]
    return evidence


def supporting(mechanism: Mechanism) -> tuple[str, ...]:
    """Names of the accountants that support the mechanism, in registry order."""
    return tuple(name for name, accountant in ACCOUNTANTS.items() if accountant.unsupported(mechanism) is None)


def asked_by_default(mechanism: Mechanism) -> tuple[str, ...]:
    """Names of those that are asked when nobody names one, in registry order."""
    return tuple(name for name in supporting(mechanism) if ACCOUNTANTS[name].by_default(mechanism))


def supported(accountant: str | Accountant, mechanism: Mechanism) -> Accountant:
    """An accountant, by name or as it is, that supports the mechanism.

    Raises:
      InputError: unknown name.
      UnsupportedError: it does not support the mechanism; the message says why and which ones do.
    """
    if isinstance(accountant, str):
        accountant = ACCOUNTANTS[checks.one_of(ACCOUNTANTS, accountant=accountant)]
    if reason := accountant.unsupported(mechanism):
        raise UnsupportedError(
            f"Expected accountant={accountant.name!r} to support {mechanism.scheme.name}: {reason.rstrip('.')}; "
            f"these do: {', '.join(supporting(mechanism))}."
        )
    return accountant
