"""Private logistic regression with JAX-Privacy, with the batches and the correlated noise of config.json beside this file.

Replace `load_data`, `loss` and the optimiser by your own. Everything private goes through `plan`.
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from engine.exports.jax_privacy_plan import load_plan
from search_spaces.schemes.batches import physical_batches

HERE = Path(__file__).parent
LEARNING_RATE = 0.5
PHYSICAL_BATCH = 64
"""Examples that are worked on at once: compiled code has one shape, whatever the sizes of the batches. No influence on privacy."""


def load_data() -> tuple[np.ndarray, np.ndarray]:
    """(n, d) features and (n,) labels in {0, 1}: made up, for you to replace."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2000, 10)).astype(np.float32)
    return features, (features @ rng.standard_normal(10) > 0).astype(np.float32)


def loss(params: dict[str, jax.Array], features: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean logistic loss of a batch (JAX-Privacy calls it with one example at a time)."""
    logits = features @ params["weights"] + params["bias"]
    return optax.sigmoid_binary_cross_entropy(logits, labels).mean()


def main() -> None:
    """Trains for exactly T steps and prints the accuracy."""
    plan = load_plan(HERE)
    features, labels = load_data()
    params = {"weights": jnp.zeros(features.shape[1]), "bias": jnp.zeros(())}
    optimizer = optax.sgd(LEARNING_RATE)
    optimizer_state = optimizer.init(params)
    noise_state = plan.noise_addition_transform.init(params)
    gradient = jax.jit(plan.clipped_grad(loss, batch_argnums=(1, 2)).fun)

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def update(params, optimizer_state, noise_state, clipped_sum):
        noisy, noise_state = plan.noise_addition_transform.update(clipped_sum, noise_state)
        updates, optimizer_state = optimizer.update(noisy, optimizer_state, params)
        return optax.apply_updates(params, updates), optimizer_state, noise_state

    clipped_sum = jax.tree.map(jnp.zeros_like, params)
    for part in physical_batches(plan.batch_selection_strategy.batch_iterator(len(labels)), size=PHYSICAL_BATCH):
        of_part = gradient(params, features[part.indices], labels[part.indices], is_padding_example=~part.mask)
        clipped_sum = jax.tree.map(jnp.add, clipped_sum, of_part)
        if part.ends_step:
            params, optimizer_state, noise_state = update(params, optimizer_state, noise_state, clipped_sum)
            clipped_sum = jax.tree.map(jnp.zeros_like, params)
    accuracy = np.mean((features @ params["weights"] + params["bias"] > 0) == labels)
    print(f"epsilon={plan.config.problem.epsilon} delta={plan.config.problem.delta}: accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
