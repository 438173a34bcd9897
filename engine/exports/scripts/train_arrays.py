"""Private logistic regression in plain NumPy, with the batches and the correlated noise of config.json beside this file.

Replace `load_data` and the gradient by your own; keep the order: clip every example, sum, add the noise, divide by the public constant.
"""

from pathlib import Path

import numpy as np

from engine.exports import TrainingRun, load_config

HERE = Path(__file__).parent
LEARNING_RATE = 0.5


def load_data() -> tuple[np.ndarray, np.ndarray]:
    """(n, d) features and (n,) labels in {0, 1}: made up, for you to replace."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2000, 10))
    return features, (features @ rng.standard_normal(10) > 0).astype(float)


def main() -> None:
    """Trains for exactly T steps and prints the accuracy."""
    config = load_config(HERE, to="arrays")
    features, labels = load_data()
    run = TrainingRun(config, num_examples=len(labels))
    run.attach_noise()
    noise_rng = np.random.default_rng()
    # The same as `coefficients` in arrays.npz, but under the seal of config.json.
    column = np.asarray(config.mechanism.strategy.coefficients)
    weights, window = np.zeros(features.shape[1]), np.zeros((len(column) - 1, features.shape[1]))
    for step, batch in enumerate(run.batches()):
        run.expect_batch_of(step)
        errors = 1 / (1 + np.exp(-features[batch] @ weights)) - labels[batch]
        gradients = errors[:, None] * features[batch]
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        clipped_sum = (gradients * np.minimum(1, config.clip_norm / np.maximum(norms, 1e-12))).sum(axis=0)
        # One row of C n = z: what earlier noises contribute is taken off, the latest first.
        noise = (config.noise_stddev * noise_rng.standard_normal(window.shape[1]) - column[1:] @ window) / column[0]
        window = np.concatenate([noise[None], window])[: len(column) - 1]
        weights -= LEARNING_RATE * (clipped_sum + noise) / config.normalize_by
    guarantee = config.problem
    print(f"epsilon={guarantee.epsilon} delta={guarantee.delta}: accuracy {np.mean((features @ weights > 0) == labels):.3f}")


if __name__ == "__main__":
    main()
