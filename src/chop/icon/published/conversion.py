"""A published checkpoint as a weights file of ours: what network it holds is read off its tensors.

How many layers, how wide, how many coordinates: the names and shapes of tensors say it. What they do not say
is an option, and where the checkpoint's own configuration contradicts it, that is told instead of believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chop import __version__
from chop.core.errors import ModelError
from chop.icon.config import NetworkConfig, PublishedConfig
from chop.icon.published.card import card_text
from chop.icon.published.checkpoint import Checkpoint, plain_values, read_checkpoint
from chop.icon.published.pickled import StoredTensor
from chop.icon.weights import Provenance, expected_tensors, write_weights
from chop.runs.fingerprint import of_file
from chop.storage.atomic import check_writable, write_text
from chop.storage.json_text import printable

HEADS = 8
"""Of every published network."""
ORIGINS = {
    "icon-chop": ("https://github.com/scaling-group/icon-chop (arXiv:2606.12318)", "Apache-2.0"),
    "icon-core": ("https://github.com/scaling-group/icon-core", "MIT"),
}
"""Where published networks come from, and the licence there."""
_PREFIXES = ("net.", "_orig_mod.", "module.")
"""What training frameworks put before the names of a network's tensors."""
_HEAD_NAMES = ("nhead", "num_heads")


@dataclass(frozen=True)
class Conversion:
    """What a checkpoint does not show, or does not say about itself."""

    heads: int | None = None
    """None: as published."""
    x_scale: float = 1.0
    origin: str = "not stated"
    licence: str | None = None
    """None: that of a known origin."""


def convert_checkpoint(path: Path, out: Path, options: Conversion, overwrite: bool = False) -> Path:
    """Write the network of a checkpoint as a weights file, and a page about it beside it."""
    if out.suffix != ".safetensors":
        raise ModelError(f"{out} must end in .safetensors, as weights do")
    page = out.with_suffix(".md")
    for file in (out, page):
        check_writable(file, ModelError, overwrite)
    header, tensors = read_published(path, options)
    parameters = sum(value.numel() for value in tensors.values())
    write_weights(out, header, tensors, overwrite)
    write_text(page, card_text(out.stem, header.config, header.training, parameters), ModelError, overwrite)
    return out


def read_published(path: Path, options: Conversion) -> tuple[Provenance, dict[str, Tensor]]:
    """The network in a checkpoint: its shape, where it comes from, its tensors."""
    checkpoint = read_checkpoint(path)
    weights = _Weights(path.name, _named_tensors(checkpoint))
    declared = _declared(checkpoint)
    config = _config(weights, _heads(path.name, declared, options.heads), declared, options)
    weights.need_all(config)
    tensors = {name: checkpoint.tensor(stored) for name, stored in weights.tensors.items()}
    for name, value in tensors.items():
        if not bool(torch.isfinite(value).all()):
            raise ModelError(f"{path.name}: {name} has values that are not finite")
    return Provenance(config, _history(path, checkpoint, options)), tensors


@dataclass(frozen=True, eq=False)
class _Weights:
    """The tensors of a network by their names, in a file of a name."""

    file: str
    tensors: Mapping[str, StoredTensor]

    def shape(self, name: str, axes: int) -> tuple[int, ...]:
        """The shape of a tensor that must be there with so many axes."""
        if name not in self.tensors:
            raise ModelError(f"{self.file} has no tensor {name}")
        shape = self.tensors[name].shape
        if len(shape) != axes:
            raise ModelError(f"{self.file}: {name} has shape {shape!s:.60}, not {axes} axes")
        return shape

    def count(self, prefix: str) -> int:
        """How many parts are numbered 0, 1, 2 ... after a prefix."""
        numbers = {
            name.removeprefix(prefix).partition(".")[0] for name in self.tensors if name.startswith(prefix)
        }
        return next(n for n in range(len(numbers) + 1) if str(n) not in numbers)

    def need_all(self, config: NetworkConfig) -> None:
        """Exactly the tensors of a network of this shape."""
        expected = expected_tensors(config)
        for name in sorted(expected.keys() - self.tensors.keys()):
            raise ModelError(f"{self.file} has no tensor {name}")
        for name in sorted(self.tensors.keys() - expected.keys()):
            raise ModelError(f"{self.file}: {_shown(name)} is no tensor of {_kind(config)}")
        for name, stored in self.tensors.items():
            shape, dtype = expected[name]
            if (stored.shape, stored.dtype) != (shape, dtype):
                raise ModelError(
                    f"{self.file}: {name} is {stored.dtype} {stored.shape!s:.60}, "
                    f"{_kind(config)} of this size has {dtype} {shape}"
                )


def _config(weights: _Weights, heads: int, declared: Any, options: Conversion) -> NetworkConfig:
    """The shape of the network whose tensors these are."""
    if "pre_projection.weight" in weights.tensors:
        return _functions_config(weights, heads, options)
    if any(name.startswith("patch_pos_encoding") for name in weights.tensors):
        raise ModelError(
            f"{weights.file} is a VICON, a network of images; wrap it with chop.from_torch, as the tutorial "
            "about models of your own shows"
        )
    some = ", ".join(_shown(name) for name in sorted(weights.tensors)[:3])
    raise ModelError(
        f"{weights.file} holds {some} ..., not a published ICON, which has pre_projection.weight or "
        "pre_proj_cond.weight; wrap a model of your own with chop.from_torch"
    )


def _functions_config(weights: _Weights, heads: int, options: Conversion) -> PublishedConfig:
    width, inputs = weights.shape("pre_projection.weight", 2)
    channels, _ = weights.shape("post_projection.weight", 2)
    named = "function_pe.weight" in weights.tensors
    hidden, _ = weights.shape("transformer.layers.0.linear1.weight", 2)
    with _said_of(weights.file):
        return PublishedConfig(
            coordinates=inputs - channels,
            channels=channels,
            width=width,
            heads=heads,
            transformer_layers=weights.count("transformer.layers."),
            hidden=hidden,
            functions=weights.shape("function_pe.weight", 2)[0] if named else 0,
            x_scale=options.x_scale,
        )


@contextmanager
def _said_of(file: str) -> Iterator[None]:
    """Errors about a shape, as errors about the file it was read from."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None


def _named_tensors(checkpoint: Checkpoint) -> dict[str, StoredTensor]:
    """The tensors of the network, under the names its own code gives them."""
    content, file = checkpoint.content, checkpoint.path.name
    state = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(state, dict) or not state:
        raise ModelError(f"{file} has no state_dict: no tensors by names")
    found: dict[str, StoredTensor] = {}
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, StoredTensor):
            raise ModelError(f"{file}: {_shown(str(name))} in its state_dict is no tensor")
        own = name
        while prefix := next((prefix for prefix in _PREFIXES if own.startswith(prefix)), None):
            own = own.removeprefix(prefix)
        if own in found:
            raise ModelError(f"{file} has two tensors {_shown(own)}")
        found[own] = value
    return found


def _declared(checkpoint: Checkpoint) -> Any:
    """The configuration that a checkpoint says it was trained with, as plain values; None if it has none."""
    content = checkpoint.content
    settings = content.get("hyper_parameters") if isinstance(content, dict) else None
    return plain_values(settings, checkpoint.path.name)


def _heads(file: str, declared: Any, given: int | None) -> int:
    """The number of heads: no tensor shows it."""
    said = {value for name in _HEAD_NAMES for value in values_named(declared, name) if type(value) is int}
    if given is None and said - {HEADS}:
        other = min(said - {HEADS})
        raise ModelError(
            f"{file} says of itself that it has {other} heads, and its tensors do not show it; give the "
            f"number that is right (--heads {other}, or --heads {HEADS} as in published networks)"
        )
    return HEADS if given is None else given


def values_named(settings: Any, name: str) -> Iterator[Any]:
    """All values under a name, however deep in a configuration."""
    if isinstance(settings, dict):
        for key, value in settings.items():
            if key == name:
                yield value
            yield from values_named(value, name)
    elif isinstance(settings, list):
        for value in settings:
            yield from values_named(value, name)


def _history(path: Path, checkpoint: Checkpoint, options: Conversion) -> dict[str, Any]:
    """Where the network came from and under which licence, for the header of its file."""
    origin, licence = ORIGINS.get(options.origin, (options.origin, "not stated"))
    step = checkpoint.content.get("global_step")
    return {
        "origin": origin,
        "licence": options.licence or licence,
        "checkpoint": printable(path.name),
        "sha256": of_file(path),
        **({"steps": step} if type(step) is int else {}),
        "made_by": f"chop convert, chain-of-operators {__version__}",
    }


def _kind(config: NetworkConfig) -> str:
    return "an ICON" if isinstance(config, PublishedConfig) else "a graph ICON"


def _shown(name: str) -> str:
    return printable(name[:60])
