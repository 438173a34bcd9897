"""Rényi-tilted laws for certificates: replica programs, exact samplers, bounded estimators (math/certificates.md, section 2)."""

from accountants.tilted.cost import Cost
from accountants.tilted.estimators import (
    AddShift,
    best_add_shift,
    shifted_add_bound,
    shifted_add_values,
    tilted_remove_values,
)
from accountants.tilted.law import (
    LARGEST_MEMORY,
    MEMORY_LIMIT,
    TiltedLaw,
    tilted_cost,
    tilted_law,
    tilted_log_moment,
    tilted_remove_bound,
    tilted_unsupported,
)

__all__ = [
    "LARGEST_MEMORY", "MEMORY_LIMIT", "AddShift", "Cost", "TiltedLaw", "best_add_shift", "shifted_add_bound", "shifted_add_values",
    "tilted_cost", "tilted_law", "tilted_log_moment", "tilted_remove_bound", "tilted_remove_values", "tilted_unsupported",
]
