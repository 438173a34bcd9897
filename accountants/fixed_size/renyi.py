"""The Rényi accountant for fixed-size batches: the order chosen in float64, the one-step bound at that order certified, all rounded up.

Source: math/fixed-size-batches.md, sections 6 and 7; geometry `ball`: `accountants.fixed_size.triples`.
"""

import dataclasses
from collections.abc import Callable, Mapping

from accountants.fixed_size import branch_and_bound, conversion, quantity, triples
from accountants.fixed_size.branch_and_bound import CertifiedOrder
from accountants.fixed_size.mechanism import FixedSizeMechanism

GEOMETRIES = ("pairwise", "ball")
"""`pairwise`: all pairs of gradients at most 2/σ apart (the paper's). `ball`: all three in a ball of radius 1/σ (exact for one step)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """A number and how it was found: ε or δ, its kind (`accountants.evidence.KINDS`) and plain JSON details."""

    value: float
    kind: str
    details: Mapping[str, object]


def epsilon(mechanism: FixedSizeMechanism, *, delta: float, geometry: str) -> Result:
    """ε at δ in (0, 1), a bound."""
    rho = _float_rho(mechanism, geometry)
    cost = lambda order: conversion.epsilon_at(order, rho(order), iterations=mechanism.iterations, delta=delta)
    choice = conversion.best_order(cost)
    certified = _certify(mechanism, choice.order, geometry, scale=max(1.0, cost(choice.order)))
    value = conversion.epsilon_bound(choice.order, certified.upper, iterations=mechanism.iterations, delta=delta)
    return Result(value=value, kind="bound", details=_details(geometry, choice, certified))


def delta(mechanism: FixedSizeMechanism, *, epsilon: float, geometry: str) -> Result:
    """δ at ε >= 0, a bound."""
    rho = _float_rho(mechanism, geometry)
    choice = conversion.best_order(
        lambda order: conversion.log_delta_at(order, rho(order), iterations=mechanism.iterations, epsilon=epsilon)
    )
    certified = _certify(mechanism, choice.order, geometry, scale=1.0 / (choice.order - 1))
    value = conversion.delta_bound(choice.order, certified.upper, iterations=mechanism.iterations, epsilon=epsilon)
    return Result(value=value, kind="bound", details=_details(geometry, choice, certified))


def _float_rho(mechanism: FixedSizeMechanism, geometry: str) -> Callable[[int], float]:
    rate, squared_shift = float(mechanism.rate), float(mechanism.squared_shift)
    curve = quantity.collapsed if geometry == "ball" else quantity.larger_end
    return lambda order: curve(order, rate, squared_shift)


def _certify(mechanism: FixedSizeMechanism, order: int, geometry: str, *, scale: float) -> CertifiedOrder:
    if geometry == "ball":
        return triples.certify(order=order, rate=mechanism.rate, squared_shift=mechanism.squared_shift)
    gap = conversion.certified_gap(mechanism.iterations, scale)
    return branch_and_bound.certify(order=order, rate=mechanism.rate, squared_shift=mechanism.squared_shift, gap=gap)


def _details(geometry: str, choice: conversion.OrderChoice, certified: CertifiedOrder) -> dict[str, object]:
    return {
        "geometry": geometry, "rho": certified.upper, "rho_at_least": certified.lower, "maximiser_u": certified.maximiser,
        "nodes": certified.nodes,
    } | choice.describe()
