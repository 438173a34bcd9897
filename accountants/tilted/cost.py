"""What a replica program costs, known before it runs."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """Size of a replica program.

    Attributes:
      operations: states times transitions: the number of products that are formed.
      bytes: peak memory, table included.
    """

    operations: int
    bytes: int
