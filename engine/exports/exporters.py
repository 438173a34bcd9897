"""The exporters: plain arrays, JAX-Privacy and Opacus; and `export`, which writes a folder."""

import importlib.resources
import io
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from engine.exports.base import Exporter
from engine.exports.config import FILE, ExportConfig, make_config
from engine.results import read_strategy
from search_spaces import checks
from search_spaces.errors import InputError, UnsupportedError

SCRIPT = "train.py"


class ArraysExporter(Exporter):
    """NumPy arrays, for any trainer, and a training loop in plain NumPy."""

    name = "arrays"
    extra = None

    def files(self, config: ExportConfig) -> Mapping[str, bytes]:
        strategy, scheme = config.mechanism.strategy, config.mechanism.scheme
        arrays = {
            "coefficients": np.asarray(strategy.coefficients), "inverse_coefficients": strategy.inverse_coefficients,
            "expected_batch_fractions": scheme.expected_batch_sizes(1), "coverage": scheme.coverage(),
        }
        return {"arrays.npz": _npz(arrays), SCRIPT: _script("train_arrays.py")}


class JaxPrivacyExporter(Exporter):
    """JAX-Privacy: its clipped gradients, its matrix factorisation privatizer and a batch selection strategy."""

    name = "jax-privacy"
    extra = "jax-privacy"

    def files(self, config: ExportConfig) -> Mapping[str, bytes]:
        return {SCRIPT: _script("train_jax_privacy.py")}


class OpacusExporter(Exporter):
    """PyTorch with Opacus: a batch sampler for `DataLoader` and a DP optimizer with correlated noise."""

    name = "opacus"
    extra = "opacus"

    def files(self, config: ExportConfig) -> Mapping[str, bytes]:
        return {SCRIPT: _script("train_opacus.py")}


EXPORTERS: dict[str, Exporter] = {exporter.name: exporter for exporter in (ArraysExporter(), JaxPrivacyExporter(), OpacusExporter())}
"""Every exporter, by name; a new one joins here and is thereby offered and tested (tests/contracts/exporter_contract.py)."""


def export(path: Path, *, to: str, out: Path, clip_norm: float = 1.0, normalize_by: float = 1.0) -> Path:
    """Write a folder from which a trainer runs the mechanism of a strategy file. It appears whole or not at all.

    Args:
      path: a strategy file.
      to: name of an exporter.
      out: the folder to make; must not exist.
      clip_norm: L2 norm that every example's gradient is clipped to.
      normalize_by: public constant that the noisy sum of clipped gradients is divided by, such as a nominal batch size.

    Returns:
      `out`.

    Raises:
      InputError: the file is invalid or guarantees nothing, a value is out of range, or `out` exists.
      UnsupportedError: the trainer cannot run the mechanism.
      OSError: the folder cannot be written.
    """
    exporter = EXPORTERS[checks.one_of(EXPORTERS, to=to)]
    config = make_config(read_strategy(path), to=to, clip_norm=clip_norm, normalize_by=normalize_by)
    if reason := exporter.unsupported(config.mechanism):
        raise UnsupportedError(f"Expected to={to!r} to run {config.mechanism.scheme.name}: {reason}")
    out = Path(out)
    if out.exists():
        raise InputError(f"Expected out={str(out)!r} not to exist yet.")
    _write_folder(out, {FILE: config.text().encode(), **exporter.files(config)})
    return out


def _write_folder(out: Path, files: Mapping[str, bytes]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.mkdir()
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        temporary.rename(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _script(name: str) -> bytes:
    return (importlib.resources.files("engine.exports.scripts") / name).read_bytes()


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()
