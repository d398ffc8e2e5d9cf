"""A published checkpoint as a weights file of ours, with a page that says where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chop import __version__
from chop.core.errors import ModelError
from chop.icon.published.card import card_text
from chop.icon.published.checkpoint import Checkpoint, plain_values, read_checkpoint
from chop.icon.published.pickled import StoredTensor
from chop.icon.published.shapes import Hidden, StoredWeights, published_config, shown
from chop.icon.weights import Provenance, write_weights
from chop.runs.fingerprint import of_file
from chop.storage.atomic import check_writable, write_text
from chop.storage.json_text import printable

ORIGINS = {
    "icon-chop": ("https://github.com/scaling-group/icon-chop (arXiv:2606.12318)", "Apache-2.0"),
    "icon-core": ("https://github.com/scaling-group/icon-core", "MIT"),
}
"""Where published networks come from, and the licence there."""
_PREFIXES = ("net.", "_orig_mod.", "module.")
"""What training frameworks put before the names of a network's tensors."""


@dataclass(frozen=True)
class Source:
    """Where a checkpoint comes from, and under which licence; None: that of a known origin."""

    origin: str = "not stated"
    licence: str | None = None


def convert_checkpoint(
    path: Path, out: Path, hidden: Hidden, source: Source, overwrite: bool = False
) -> Path:
    """Write the network of a checkpoint as a weights file, and a page about it beside it."""
    if out.suffix != ".safetensors":
        raise ModelError(f"{out} must end in .safetensors, as weights do")
    page = out.with_suffix(".md")
    for file in (out, page):
        check_writable(file, ModelError, overwrite)
    header, tensors = read_published(path, hidden, source)
    parameters = sum(value.numel() for value in tensors.values())
    write_weights(out, header, tensors, overwrite)
    write_text(page, card_text(out.stem, header.config, header.training, parameters), ModelError, overwrite)
    return out


def read_published(path: Path, hidden: Hidden, source: Source) -> tuple[Provenance, dict[str, Tensor]]:
    """The network in a checkpoint: its shape, where it comes from, its tensors."""
    checkpoint = read_checkpoint(path)
    weights = StoredWeights(path.name, _named_tensors(checkpoint))
    config = published_config(weights, _declared(checkpoint), hidden)
    weights.need_all(config, room=path.stat().st_size)
    tensors = {name: checkpoint.tensor(stored) for name, stored in weights.tensors.items()}
    for name, value in tensors.items():
        if not bool(torch.isfinite(value).all()):
            raise ModelError(f"{path.name}: {name} has values that are not finite")
    return Provenance(config, _history(path, checkpoint, source)), tensors


def _named_tensors(checkpoint: Checkpoint) -> dict[str, StoredTensor]:
    """The tensors of the network, under the names its own code gives them."""
    content, file = checkpoint.content, checkpoint.path.name
    state = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(state, dict) or not state:
        raise ModelError(f"{file} has no state_dict: no tensors by names")
    found: dict[str, StoredTensor] = {}
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, StoredTensor):
            raise ModelError(f"{file}: {shown(str(name))} in its state_dict is no tensor")
        own = name
        while prefix := next((prefix for prefix in _PREFIXES if own.startswith(prefix)), None):
            own = own.removeprefix(prefix)
        if own in found:
            raise ModelError(f"{file} has two tensors {shown(own)}")
        found[own] = value
    return found


def _declared(checkpoint: Checkpoint) -> Any:
    """The configuration that a checkpoint says it was trained with, as plain values; None if it has none."""
    content = checkpoint.content
    settings = content.get("hyper_parameters") if isinstance(content, dict) else None
    return plain_values(settings, checkpoint.path.name)


def _history(path: Path, checkpoint: Checkpoint, source: Source) -> dict[str, Any]:
    """Where the network came from and under which licence, for the header of its file."""
    origin, licence = ORIGINS.get(source.origin, (source.origin, "not stated"))
    step = checkpoint.content.get("global_step")
    return {
        "origin": origin,
        "licence": source.licence or licence,
        "checkpoint": printable(path.name),
        "sha256": of_file(path),
        **({"steps": step} if type(step) is int else {}),
        "made_by": f"chop convert, chain-of-operators {__version__}",
    }
