"""Private logistic regression with PyTorch and Opacus, with the batches and the correlated noise of config.json beside this file.

Replace `load_data`, the model and the optimiser by your own. Everything private goes through `make_private`.
"""

from pathlib import Path

import torch
from opacus.utils.batch_memory_manager import BatchMemoryManager

from engine.exports import load_config
from engine.exports.opacus_run import make_private

HERE = Path(__file__).parent
LEARNING_RATE = 0.5
PHYSICAL_BATCH = 64
"""Examples whose gradients are in memory at once. No influence on privacy."""


def load_data() -> torch.utils.data.TensorDataset:
    """Features and labels in {0, 1}: made up, for you to replace."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2000, 10, generator=generator)
    return torch.utils.data.TensorDataset(features, (features @ torch.randn(10, generator=generator) > 0).float())


def main() -> None:
    """Trains for exactly T steps and prints the accuracy."""
    config = load_config(HERE, to="opacus")
    dataset = load_data()
    plain = torch.nn.Linear(10, 1)
    model, optimizer, loader = make_private(
        config, model=plain, optimizer=torch.optim.SGD(plain.parameters(), lr=LEARNING_RATE), dataset=dataset,
    )
    loss = torch.nn.BCEWithLogitsLoss()
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=PHYSICAL_BATCH, optimizer=optimizer) as parts:
        for features, labels in parts:
            optimizer.zero_grad()
            if len(labels):
                loss(model(features).squeeze(1), labels).backward()
            # Also after an empty batch: its step has noise like any other.
            optimizer.step()
    features, labels = dataset.tensors
    with torch.no_grad():
        accuracy = ((plain(features).squeeze(1) > 0) == labels.bool()).float().mean().item()
    print(f"epsilon={config.problem.epsilon} delta={config.problem.delta}: accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
