"""The plug-in point for accountants: mechanism → evidence, both directions."""

import abc
from typing import ClassVar

from accountants.evidence import Evidence
from search_spaces.dense_strategies import OverlappingMechanism
from search_spaces.errors import UnresolvedError, UnsupportedError
from search_spaces.mechanism import Mechanism


class PartlyUnresolvedError(UnresolvedError):
    """One direction has too few effective samples; the other has an answer.

    Attributes:
      statements: both directions; what is stated of the unresolved one is δ = 1 or ε = ∞, which always holds, with the reason.
    """

    def __init__(self, reason: str, statements: tuple[Evidence, Evidence]) -> None:
        super().__init__(reason, statements)
        self.statements = statements

    def __str__(self) -> str:
        return self.args[0]


class Accountant(abc.ABC):
    """One way to bound or estimate the privacy of a mechanism.

    A new accountant subclasses this, joins `ACCOUNTANTS` in accountants/registry.py and joins tests/contracts/accountant_contract.py by that.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    """`estimate` or `bound` (see `accountants.evidence.KINDS`)."""

    calibrates_by: ClassVar[str] = "delta"
    """What calibration asks for at the target's other number: `epsilon` where that takes much less time."""

    @abc.abstractmethod
    def unsupported(self, mechanism: Mechanism) -> str | None:
        """None if this accountant can serve the mechanism, else one sentence saying why not; cheap, a dry run."""

    def by_default(self, mechanism: Mechanism) -> bool:
        """Whether to ask when nobody names an accountant: False where an answer to a supported mechanism takes minutes."""
        return True

    def require_support(self, mechanism: Mechanism) -> None:
        """Raises UnsupportedError with the reason if the mechanism is not supported."""
        if reason := self.unsupported(mechanism):
            raise UnsupportedError(reason)

    @abc.abstractmethod
    def delta(self, mechanism: Mechanism, *, epsilon: float) -> tuple[Evidence, Evidence]:
        """δ at ε >= 0, for `remove` and `add`, in this order.

        Raises:
          UnsupportedError: the mechanism is not supported.
          NumericalError: the result cannot be trusted.
          UnresolvedError: an estimate has too few effective samples; `PartlyUnresolvedError` where only one direction's has.
        """

    @abc.abstractmethod
    def epsilon(self, mechanism: Mechanism, *, delta: float) -> tuple[Evidence, Evidence]:
        """ε at δ in (0, 1), for `remove` and `add`, in this order; raises as `delta` does."""


def overlap(mechanism: Mechanism) -> str | None:
    """Why an accountant that needs windows without overlap does not serve a mechanism; None where it does."""
    if isinstance(mechanism, OverlappingMechanism):
        return f"With this matrix, the columns of one example's participations may overlap under {mechanism.scheme.name}."
    return None
