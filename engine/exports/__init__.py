"""From strategy file to training run: batches, correlated noise and a sealed configuration, for several trainers."""

from engine.exports.config import ExportConfig, load_config
from engine.exports.exporters import EXPORTERS, export
from engine.exports.run import TrainingRun

__all__ = ["EXPORTERS", "ExportConfig", "TrainingRun", "export", "load_config"]
