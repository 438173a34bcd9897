"""A small private convolutional network on handwritten digits with the Opacus export: `python -m examples.convolutional_network FOLDER`."""

import argparse
from pathlib import Path

import torch

from engine.exports import ExportConfig, load_config
from engine.exports.opacus_run import make_private
from examples.digits import CLASSES, Digits, load


def network() -> torch.nn.Module:
    """Two convolutions and a linear layer, 6 090 parameters."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(32 * 2 * 2, CLASSES),
    )


def train(config: ExportConfig, data: Digits, *, learning_rate: float, seed: int | None = None) -> float:
    """Test accuracy after one private run.

    Args:
      config: exported to opacus.
      data: training and test examples.
      learning_rate: of plain SGD.
      seed: of the initial weights, batches and noise; None, as for real runs, draws all from the operating system.
    """
    generator = None
    if seed is not None:
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
    plain = network()
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(data.images)[:, None], torch.from_numpy(data.labels))
    model, optimizer, loader = make_private(
        config, model=plain, optimizer=torch.optim.SGD(plain.parameters(), lr=learning_rate), dataset=dataset, rng=seed,
        generator=generator,
    )
    loss = torch.nn.CrossEntropyLoss()
    for images, labels in loader:
        optimizer.zero_grad()
        if len(labels):
            loss(model(images), labels).backward()
        optimizer.step()
    with torch.no_grad():
        predicted = plain(torch.from_numpy(data.test_images)[:, None]).argmax(dim=1)
    return float((predicted == torch.from_numpy(data.test_labels)).float().mean())


def main() -> None:
    """Trains once from an exported folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--learning-rate", type=float, default=1.0)
    chosen = parser.parse_args()
    accuracy = train(load_config(chosen.folder, to="opacus"), load(), learning_rate=chosen.learning_rate)
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
