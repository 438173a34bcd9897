"""Accountants for DP-SGD with fixed-size batches under replace adjacency; everything others need is listed here.

`account` (ε from δ, δ from ε), `calibrate` (σ from ε, δ), `largest_iterations` (T from ε, δ, σ): accountants `renyi` (certified;
geometry `pairwise` or `ball`), `pld` (lossless), and `wang` and `birrell` for comparison. `statements` asks several of them at once,
`tightest` and `longest` find σ and T by the best of them. Their statements are about replacing one example
and cannot be compared with those about adding or removing one.
"""

from accountants.fixed_size.accounting import ACCOUNTANTS, account, calibrate, largest_iterations
from accountants.fixed_size.mechanism import FixedSizeMechanism
from accountants.fixed_size.renyi import GEOMETRIES
from accountants.fixed_size.statements import longest, statements, tightest

__all__ = [
    "ACCOUNTANTS", "GEOMETRIES", "FixedSizeMechanism", "account", "calibrate", "largest_iterations", "longest", "statements", "tightest",
]
