"""Private logistic regression on handwritten digits with the JAX-Privacy export: `python -m examples.logistic_regression FOLDER`."""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from engine.exports import ExportConfig, load_config
from engine.exports.jax_privacy_plan import make_plan
from examples.digits import CLASSES, Digits, load
from search_spaces.schemes.batches import physical_batches

PHYSICAL_BATCH = 64


def loss(params: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of a batch."""
    logits = images.reshape(len(images), -1) @ params["weights"] + params["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def train(config: ExportConfig, data: Digits, *, learning_rate: float, seed: int | None = None) -> float:
    """Test accuracy after one private run.

    Args:
      config: exported to jax-privacy.
      data: training and test examples.
      learning_rate: of plain SGD.
      seed: of batches and noise; None, as for real runs, draws both from the operating system.
    """
    plan = make_plan(config, seed=seed)
    transform = optax.chain(plan.noise_addition_transform, optax.sgd(learning_rate))
    params = {"weights": jnp.zeros((data.images[0].size, CLASSES)), "bias": jnp.zeros(CLASSES)}
    state, zero = transform.init(params), jax.tree.map(jnp.zeros_like, params)
    gradient = plan.clipped_grad(loss, batch_argnums=(1, 2))

    @jax.jit
    def add(clipped: dict, params: dict, images: jax.Array, labels: jax.Array, mask: jax.Array) -> dict:
        return jax.tree.map(jnp.add, clipped, gradient(params, images, labels, is_padding_example=~mask))

    @jax.jit
    def update(params: dict, state: object, clipped: dict) -> tuple[dict, object]:
        updates, state = transform.update(clipped, state)
        return optax.apply_updates(params, updates), state

    clipped = zero
    for part in physical_batches(plan.batch_selection_strategy.batch_iterator(len(data.labels), seed), size=PHYSICAL_BATCH):
        clipped = add(clipped, params, data.images[part.indices], data.labels[part.indices], part.mask)
        if part.ends_step:
            params, state = update(params, state, clipped)
            clipped = zero
    logits = data.test_images.reshape(len(data.test_labels), -1) @ params["weights"] + params["bias"]
    return float(np.mean(np.argmax(logits, axis=1) == data.test_labels))


def main() -> None:
    """Trains once from an exported folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--learning-rate", type=float, default=1.0)
    chosen = parser.parse_args()
    accuracy = train(load_config(chosen.folder, to="jax-privacy"), load(), learning_rate=chosen.learning_rate)
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
