"""What every accountant must satisfy; an accountant joins by being in `ACCOUNTANTS`.

A test class inherits `AccountantContract`. Bounds are held to their word; estimates are allowed `tolerances.STANDARD_DEVIATIONS` of their
standard errors, and an estimate that its accountant calls unresolved is skipped.
"""

import inspect
import json
import math

import numpy as np
import pytest

from accountants.base import Accountant
from accountants.evidence import DIRECTIONS, KINDS, Evidence
from accountants.gaussian import GaussianAccountant, lower_delta
from accountants.registry import ACCOUNTANTS
from search_spaces.errors import InputError, UnresolvedError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import SCHEMES, make_scheme
from search_spaces.strategies import ToeplitzStrategy, banded_square_root
from tests import tolerances
from tests.accountants.quadrature import exact_deltas

BANDWIDTHS = {"poisson": 1, "random_allocation": 1, "balls_in_bins": 3, "min_sep_ra": 3}
EPSILON, DELTA = 1.5, 1e-3


def small_mechanism(name: str, *, sigma: float = 1.2) -> Mechanism:
    """12 iterations, 3 participations, bandwidth 2 unless the scheme asks for another."""
    bandwidth = BANDWIDTHS.get(name, 2)
    scheme = make_scheme(name, iterations=12, participations=3, bandwidth=bandwidth)
    return Mechanism(scheme=scheme, strategy=banded_square_root(iterations=12, bandwidth=bandwidth), sigma=sigma)


def tiny_mechanisms() -> list[Mechanism]:
    """One participation in two iterations, where δ is known by quadrature; strategies in and against the order of the paper's."""
    mechanisms = []
    for name, scheme in SCHEMES.items():
        wide = name not in ("poisson", "random_allocation")
        for coefficients in [(0.9, 0.5), (0.4, 1.1)] if wide else [(1.0,), (0.7,)]:
            strategy = ToeplitzStrategy(iterations=2, coefficients=coefficients)
            built = scheme(iterations=2, participations=1, bandwidth=len(coefficients))
            mechanisms.append(Mechanism(scheme=built, strategy=strategy, sigma=0.8))
    return mechanisms


def slack(statement: Evidence) -> float:
    """How far the truth may lie on the wrong side of a statement."""
    return 0.0 if statement.standard_error is None else tolerances.STANDARD_DEVIATIONS * statement.standard_error


def deltas(accountant: Accountant, mechanism: Mechanism, *, epsilon: float = EPSILON) -> tuple[Evidence, Evidence]:
    try:
        return accountant.delta(mechanism, epsilon=epsilon)
    except UnresolvedError as error:
        assert accountant.kind == "estimate", "a bound always has an answer for δ"
        pytest.skip(str(error))


def cases(mechanisms: list[Mechanism], *, served: bool = True) -> pytest.MarkDecorator:
    """Accountants with the mechanisms that they support, or with those that they do not."""
    return pytest.mark.parametrize(
        ("accountant", "mechanism"),
        [
            pytest.param(accountant, mechanism, id=f"{accountant.name}-{mechanism.scheme.name}-{mechanism.strategy.coefficients[0]:.1f}")
            for accountant in ACCOUNTANTS.values()
            for mechanism in mechanisms
            if (accountant.unsupported(mechanism) is None) == served
        ],
    )


SMALL = [small_mechanism(name) for name in SCHEMES]
every_accountant = pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=ACCOUNTANTS)


def served_mechanism(accountant: Accountant) -> Mechanism:
    return next(mechanism for mechanism in SMALL if accountant.unsupported(mechanism) is None)


class AccountantContract:
    """Inherit this to check every accountant in `ACCOUNTANTS`."""

    @every_accountant
    def test_is_registered_under_its_name_with_a_known_kind(self, accountant):
        assert ACCOUNTANTS[accountant.name] is accountant
        assert accountant.kind in KINDS

    @cases(SMALL)
    def test_states_both_directions_in_order(self, accountant, mechanism):
        for statement, direction in zip(deltas(accountant, mechanism), DIRECTIONS, strict=True):
            assert (statement.direction, statement.accountant, statement.kind) == (direction, accountant.name, accountant.kind)
            assert (statement.epsilon, statement.adjacency) == (EPSILON, mechanism.scheme.adjacency)
            assert statement.details["of"] == "delta"
            assert Evidence.from_dict(json.loads(json.dumps(statement.to_dict()))) == statement

    @cases(tiny_mechanisms())
    @pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.5])
    def test_is_not_below_the_exact_delta(self, accountant, mechanism, epsilon):
        for statement, exact in zip(deltas(accountant, mechanism, epsilon=epsilon), exact_deltas(mechanism, epsilon=epsilon)):
            assert statement.delta + slack(statement) >= exact * (1 - tolerances.QUADRATURE) - 1e-12
            if accountant.kind == "estimate":
                assert statement.delta - slack(statement) <= exact * (1 + tolerances.QUADRATURE)

    @cases(SMALL)
    def test_delta_does_not_increase_in_epsilon_or_sigma(self, accountant, mechanism):
        in_epsilon = [deltas(accountant, mechanism, epsilon=epsilon) for epsilon in (0.0, 0.7, 1.5, 3.0)]
        in_sigma = [deltas(accountant, mechanism.with_sigma(sigma)) for sigma in (0.03, 0.3, 0.9, 1.2, 2.0)]
        for statements in (in_epsilon, in_sigma):
            for direction in range(2):
                for larger, smaller in zip(statements, statements[1:]):
                    assert smaller[direction].delta <= larger[direction].delta + slack(larger[direction]) + slack(smaller[direction])

    @cases(SMALL)
    def test_epsilon_and_delta_agree(self, accountant, mechanism):
        try:
            statements = accountant.epsilon(mechanism, delta=DELTA)
        except UnresolvedError as error:
            pytest.skip(str(error))
        assert [statement.direction for statement in statements] == list(DIRECTIONS)
        for index, statement in enumerate(statements):
            assert (statement.delta, statement.kind, statement.details["of"]) == (DELTA, accountant.kind, "epsilon")
            at = deltas(accountant, mechanism, epsilon=statement.epsilon)[index]
            assert at.delta <= DELTA * (1 + tolerances.FOLLOWS) + slack(at) + abs(at.epsilon) * slack(statement)
            if accountant.kind != "estimate" and statement.epsilon > 0:
                assert deltas(accountant, mechanism, epsilon=0.999 * statement.epsilon)[index].delta > DELTA

    @cases(SMALL)
    def test_is_between_the_gaussian_factor_and_the_unamplified_gaussian(self, accountant, mechanism):
        unamplified = GaussianAccountant().delta(mechanism, epsilon=EPSILON)
        for statement, upper in zip(deltas(accountant, mechanism), unamplified):
            assert statement.delta <= upper.delta * (1 + tolerances.FOLLOWS) + slack(statement)
            if mechanism.scheme.fixed_participations:
                assert statement.delta + slack(statement) >= lower_delta(mechanism, epsilon=EPSILON) * (1 - tolerances.FOLLOWS)

    @cases(SMALL, served=False)
    def test_refuses_with_one_sentence_what_it_does_not_support(self, accountant, mechanism):
        reason = accountant.unsupported(mechanism)
        assert mechanism.scheme.name in reason
        with pytest.raises(UnsupportedError, match=mechanism.scheme.name):
            accountant.delta(mechanism, epsilon=EPSILON)
        with pytest.raises(UnsupportedError, match=mechanism.scheme.name):
            accountant.epsilon(mechanism, delta=DELTA)

    @every_accountant
    def test_supports_whatever_the_noise_is(self, accountant):
        for name in SCHEMES:
            assert len({accountant.unsupported(small_mechanism(name, sigma=sigma)) for sigma in (0.01, 1.0, 100.0)}) == 1

    @every_accountant
    def test_privacy_parameters_are_keyword_only(self, accountant):
        mechanism = served_mechanism(accountant)
        for method, name in ((accountant.delta, "epsilon"), (accountant.epsilon, "delta")):
            assert inspect.signature(method).parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
            with pytest.raises(TypeError):
                method(mechanism, 0.5)

    @every_accountant
    @pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf, "4", None, True])
    def test_refuses_a_bad_epsilon(self, accountant, epsilon):
        with pytest.raises(InputError, match="epsilon="):
            accountant.delta(served_mechanism(accountant), epsilon=epsilon)

    @every_accountant
    @pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, math.nan, math.inf, None])
    def test_refuses_a_bad_delta(self, accountant, delta):
        with pytest.raises(InputError, match="delta="):
            accountant.epsilon(served_mechanism(accountant), delta=delta)

    @every_accountant
    def test_answers_depend_on_sigma_over_the_column_norm_alone(self, accountant):
        mechanism = served_mechanism(accountant)
        scaled = ToeplitzStrategy(iterations=12, coefficients=tuple(4.0 * np.array(mechanism.strategy.coefficients)))
        twin = Mechanism(scheme=mechanism.scheme, strategy=scaled, sigma=4.0 * mechanism.sigma)
        for one, other in zip(deltas(accountant, mechanism), deltas(accountant, twin)):
            assert other.delta == pytest.approx(one.delta, rel=tolerances.FOLLOWS)
