"""Handwritten digits of 8×8 pixels that ship with scikit-learn, split into training and test examples."""

import dataclasses

import numpy as np
from sklearn.datasets import load_digits

TRAINING_EXAMPLES = 1440
CLASSES = 10


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Digits:
    """Images (n, 8, 8) float32 in [−1, 1] and labels (n,) int64, of both parts."""

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load() -> Digits:
    """The same split on every call."""
    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    images, labels = bunch.images[order].astype(np.float32) / 8 - 1, bunch.target[order].astype(np.int64)
    cut = TRAINING_EXAMPLES
    return Digits(images=images[:cut], labels=labels[:cut], test_images=images[cut:], test_labels=labels[cut:])
