"""The plug-in point for accountants: mechanism → evidence, both directions."""

import abc
from typing import ClassVar

from accountants.evidence import Evidence
from search_spaces.mechanism import Mechanism


class Accountant(abc.ABC):
    """One way to bound or estimate the privacy of a mechanism.

    A new accountant subclasses this, joins `ACCOUNTANTS` in accountants/registry.py and joins tests/contracts/accountant_contract.py by that.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    """`estimate` or `bound` (see `accountants.evidence.KINDS`)."""

    @abc.abstractmethod
    def unsupported(self, mechanism: Mechanism) -> str | None:
        """None if this accountant can serve the mechanism, else one sentence saying why not; cheap, a dry run."""

    def by_default(self, mechanism: Mechanism) -> bool:
        """Whether to ask when nobody names an accountant: False where an answer to a supported mechanism takes minutes."""
        return True

    @abc.abstractmethod
    def delta(self, mechanism: Mechanism, *, epsilon: float) -> tuple[Evidence, Evidence]:
        """δ at ε >= 0, for `remove` and `add`, in this order.

        Raises:
          UnsupportedError: the mechanism is not supported.
          NumericalError: the result cannot be trusted.
          UnresolvedError: an estimate has too few effective samples.
        """

    @abc.abstractmethod
    def epsilon(self, mechanism: Mechanism, *, delta: float) -> tuple[Evidence, Evidence]:
        """ε at δ in (0, 1), for `remove` and `add`, in this order; raises as `delta` does."""
