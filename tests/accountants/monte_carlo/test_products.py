"""Simulated products: signal and noise against dense matrices, and the covariance of bins exactly from the tables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from accountants.monte_carlo.products import product_model, simulate_products
from accountants.monte_carlo.simulation import Simulation
from accountants.monte_carlo.streams import Stream
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic
from tests import tolerances
from tests.accountants.monte_carlo import cases
from tests.accountants.monte_carlo.cases import CASES

STREAM = Stream(seed=3, purpose="estimate")
SIZES = [
    pytest.param("min_sep_ra", 150, 2, 70, id="windows longer than a block"),
    pytest.param("min_sep_poisson", 150, 8, 8, id="more than 16 columns"),
    pytest.param("nested_ra", 140, 4, 14, id="many blocks"),
    pytest.param("min_sep_ra", 420, 2, 200, id="several blocks per window"),
]


def build(name: str, iterations: int, participations: int, bandwidth: int) -> Simulation:
    scheme = make_scheme(name, iterations=iterations, participations=participations, bandwidth=bandwidth)
    return Simulation(scheme=scheme, strategy=harmonic(iterations=iterations, bandwidth=bandwidth, r=0.1 / bandwidth))


jitted = jax.jit(simulate_products)


def simulated(model: Simulation, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Signal and noise, (samples, M)."""
    with jax.enable_x64(True):
        signal, noise = jitted(
            STREAM.normals(0), jnp.asarray(positions, jnp.int32), {name: jnp.asarray(table) for name, table in model.model.tables.items()},
            jnp.asarray(model.scheme.iterations, jnp.int32), jnp.asarray(model.scheme.participations, jnp.float64),
        )
    terms = model.model.recurrence.terms
    return np.asarray(signal).T[:, :terms], np.asarray(noise).T[:, :terms]


@pytest.mark.parametrize(("name", "iterations", "participations", "bandwidth"), SIZES)
def test_windows_against_dense_matrices(name, iterations, participations, bandwidth):
    model = build(name, iterations, participations, bandwidth)
    shape = dense_directions(model)
    pairs = np.stack([model.scheme.sample(np.random.default_rng(1), 64), model.scheme.sample(np.random.default_rng(2), 64)], axis=1)
    signal, noise = simulated(model, pairs)
    x = sum(cases.vectors(pairs[:, replica], iterations) for replica in range(2))
    across = lambda y: y @ shape.matrix - np.outer(y @ shape.direction, shape.matrix.T @ shape.direction)
    np.testing.assert_allclose(signal, across(x @ shape.matrix.T), rtol=0, atol=tolerances.PRODUCTS)
    z = cases.normals(STREAM, 0, (model.model.padded_terms, 64))[:, :iterations]
    np.testing.assert_allclose(noise, across(z), rtol=0, atol=tolerances.PRODUCTS)


def dense_directions(model: Simulation) -> cases.Geometry:
    """As `cases.geometry`, without an enumeration."""
    matrix = model.strategy.dense()
    v = np.linalg.solve(matrix.T, np.ones(model.scheme.iterations)) if model.scheme.fixed_participations else np.zeros(len(matrix))
    direction = v / max(np.linalg.norm(v), 1e-300)
    return cases.Geometry(matrix=matrix, direction=direction, factor=0.0, mean=np.zeros(len(matrix)))


def test_both_ways_to_find_neighbours_agree():
    """Few columns are compared one by one, many are marked; places that hold T stand for nothing in either."""
    model = build("min_sep_ra", 150, 2, 70)
    positions = model.scheme.sample(np.random.default_rng(4), 64)[:, None]
    wide = np.pad(positions, ((0, 0), (0, 0), (0, 20)), constant_values=150)
    few, many = simulated(model, positions), simulated(model, wide)
    np.testing.assert_array_equal(few[0], many[0])
    np.testing.assert_array_equal(few[1], many[1])


def test_nobody_takes_part():
    model = build("min_sep_poisson", 150, 8, 8)
    signal, _ = simulated(model, np.full((64, 1, 19), 150))
    np.testing.assert_array_equal(signal, 0.0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_the_model_against_enumeration(case):
    model = cases.simulation(*case)
    shape, product = cases.geometry(model), model.model
    rows, _ = cases.schedules(model.scheme)
    bins = case[0] == "balls_in_bins"
    assert product.bins == bins
    assert product.removed == pytest.approx(shape.factor**2, rel=tolerances.ENUMERATION)
    # Energies of a schedule's terms add up to ½‖Cx‖², as its windows do not overlap.
    taken = np.eye(len(rows))[np.argmax(rows, axis=1)] if bins else rows
    np.testing.assert_allclose(taken @ product.energies, 0.5 * np.sum((rows @ shape.matrix.T) ** 2, axis=1), rtol=tolerances.ENUMERATION)
    direction = product.mean_direction()
    if bins:
        means = cases.bin_means(model)
        np.testing.assert_allclose(means @ shape.mean, direction["products"], rtol=0, atol=tolerances.PROJECTION)
        along = direction["weights"] @ means
    else:
        across = shape.matrix.T @ shape.mean
        np.testing.assert_allclose(direction["products"], across, rtol=0, atol=tolerances.PROJECTION)
        along = shape.matrix @ direction["weights"]
        along = along - (along @ shape.direction) * shape.direction
    np.testing.assert_allclose(along, shape.mean, rtol=0, atol=tolerances.PROJECTION)


@pytest.mark.parametrize("bandwidth", [1, 2, 4])
def test_bins_have_the_covariance_of_their_residual_means(bandwidth):
    model = cases.simulation("balls_in_bins", 12, bandwidth)
    means, tables = cases.bin_means(model), model.model.tables
    gram = means @ means.T
    np.testing.assert_allclose((tables["factor"] @ tables["factor"].T)[:4, :4], gram, rtol=0, atol=tolerances.PRODUCTS)
    np.testing.assert_allclose(tables["residual"][:4, :4], gram, rtol=0, atol=tolerances.PRODUCTS)
    signal, noise = simulated(model, model.scheme.sample(np.random.default_rng(5), 64)[:, None])
    first = model.scheme.sample(np.random.default_rng(5), 64)[:, 0]
    np.testing.assert_allclose(signal, gram[first], rtol=0, atol=tolerances.PRODUCTS)
    normals = cases.normals(STREAM, 0, (model.model.padded_terms, 64))
    np.testing.assert_allclose(noise, normals @ tables["factor"][:4].T, rtol=0, atol=tolerances.PRODUCTS)


def test_bins_off_the_ladder_are_padded_with_nothing():
    """9 bins are padded to 10: the padding adds neither signal nor noise."""
    scheme = make_scheme("balls_in_bins", iterations=18, participations=2, bandwidth=3)
    model = Simulation(scheme=scheme, strategy=ToeplitzStrategy(iterations=18, coefficients=(1.0, 0.4, 0.2)))
    tables = model.model.tables
    assert tables["factor"].shape == (10, 10)
    gram = cases.bin_means(model) @ cases.bin_means(model).T
    np.testing.assert_allclose(tables["factor"] @ tables["factor"].T, np.pad(gram, (0, 1)), rtol=0, atol=tolerances.PRODUCTS)


def test_models_are_built_once():
    model = cases.simulation("min_sep_ra", 12, 4)
    assert product_model(model.scheme, model.strategy) is product_model(model.scheme, model.strategy)


def test_the_tables_take_the_memory_that_is_stated():
    tables = build("min_sep_ra", 1200, 2, 500).model.tables
    assert sum(table.nbytes for table in tables.values()) < 8 * 512**2 * 1.4
