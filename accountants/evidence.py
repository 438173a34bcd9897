"""`Evidence`: one statement about one direction of one mechanism, the common result of all accountants."""

import dataclasses
import math
from collections.abc import Iterable, Mapping

from search_spaces import checks
from search_spaces.errors import InputError, NumericalError

DIRECTIONS = ("remove", "add")
"""`remove` bounds H(P, Q), `add` bounds H(Q, P); a mechanism is (ε,δ)-DP iff both are at most δ."""

REPLACE = "replace"
"""The one direction of replace adjacency, which is symmetric: its statement bounds H(P, Q) and H(Q, P) alike. No member of `DIRECTIONS`, over
which the add/remove accountants iterate."""

KINDS = ("estimate", "bound", "certified")
"""`estimate` is no guarantee; `bound` is deterministic; `certified` holds for a noise multiplier chosen by a test on random samples."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
    """One statement: the mechanism has (ε, δ) in this direction, and how that is known.

    Attributes:
      accountant: name of the accountant that made the statement.
      direction: `remove` or `add`; `replace` where the adjacency is.
      kind: `estimate`, `bound` or `certified`.
      epsilon: ε >= 0; infinite only where `details["reason"]` says why.
      delta: δ in [0, 1].
      adjacency: `add_remove` or `replace`.
      standard_error: standard error of δ (or of ε, whichever was computed; `details["of"]` says so), for estimates only.
      seconds: wall time spent.
      details: how it was made: plain JSON values (samples, seed, dtype, method, …).

    Raises:
      InputError: a field outside its range.
      NumericalError: NaN, or an infinite ε without a reason.
    """

    accountant: str
    direction: str
    kind: str
    epsilon: float
    delta: float
    adjacency: str = "add_remove"
    standard_error: float | None = None
    seconds: float = 0.0
    details: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.one_of((REPLACE,) if self.adjacency == REPLACE else DIRECTIONS, direction=self.direction)
        checks.one_of(KINDS, kind=self.kind)
        if math.isnan(self.epsilon) or math.isnan(self.delta):
            raise NumericalError(f"{self.accountant} ({self.direction}) produced epsilon={self.epsilon}, delta={self.delta}.")
        if math.isinf(self.epsilon) and "reason" not in self.details:
            raise NumericalError(f"{self.accountant} ({self.direction}) produced an infinite epsilon without a reason.")
        if self.epsilon < 0 or not 0 <= self.delta <= 1:
            raise NumericalError(f"{self.accountant} ({self.direction}) produced epsilon={self.epsilon}, delta={self.delta}.")
        if (self.kind == "estimate") != (self.standard_error is not None):
            raise InputError(f"Expected standard_error={self.standard_error!r} to be given for estimates and only for them.")

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values, in field order."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {"details": dict(self.details)}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> "Evidence":
        """The inverse of `to_dict`.

        Raises:
          InputError: a field is missing, unknown or out of range.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if unknown := set(values) - names:
            raise InputError(f"Expected evidence fields {sorted(unknown)} to be among {sorted(names)}.")
        try:
            return cls(**values)
        except TypeError as error:
            raise InputError(f"Expected evidence to have all fields: {error}.") from error


def worst(evidence: Iterable[Evidence]) -> Evidence:
    """The statement with the largest δ (then ε): what holds for both directions at once."""
    return max(evidence, key=lambda e: (e.delta, e.epsilon))
