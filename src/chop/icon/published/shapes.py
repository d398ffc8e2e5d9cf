"""Which published network some tensors are: their names and shapes say how wide, how deep, of which kind.

What they do not say is an option (`Hidden`). Where a checkpoint says it of itself, that is used to choose
between kinds that fit the tensors, and told where it contradicts what is published.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from chop.core.errors import ModelError
from chop.icon.config import GraphConfig, NetworkConfig, PublishedConfig
from chop.icon.published.pickled import StoredTensor
from chop.icon.weights import expected_tensors
from chop.problems.air.region import channel_order
from chop.storage.json_text import printable

HEADS = 8
"""Of every published network."""
_HEAD_NAMES = ("nhead", "num_heads")
_VISIBLE = {
    "phi_readout.weight": "set_rotary",
    "pos_bias.weight": "relative",
    "cond_embedding_proj.weight": "placed",
    "example_embeddings.weight": "absolute",
    "cond_embedding_proj.0.weight": "similar",
    "cond_q_proj.weight": "similar",
    "role_encoding.role_vec": "similar",
    "role_encoding.bias.weight": "similar",
}
"""Tensors that only some attention has, the telling ones first."""
_CALLED = {
    "VanillaAttentionLayer": "plain",
    "RoPEAttentionLayer": "rotary",
    "AttnBiasAttentionLayer": "similar",
}
"""What the published code calls the kinds that no tensor shows."""


@dataclass(frozen=True)
class Hidden:
    """What the tensors of a network do not show; None: as published."""

    heads: int | None = None
    x_scale: float = 1.0
    attention: str | None = None
    channels: tuple[str, ...] | None = None
    """Of a graph network, in the order of its training."""


@dataclass(frozen=True, eq=False)
class StoredWeights:
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

    def need_all(self, config: NetworkConfig, room: int) -> None:
        """Exactly the tensors of a network of this shape, in a file of so many bytes."""
        expected = expected_tensors(config)
        for name in sorted(expected.keys() - self.tensors.keys()):
            raise ModelError(f"{self.file} has no tensor {name}")
        for name in sorted(self.tensors.keys() - expected.keys()):
            raise ModelError(f"{self.file}: {shown(name)} is no tensor of {_kind(config)}")
        for name, stored in self.tensors.items():
            shape, dtype = expected[name]
            if (stored.shape, stored.dtype) != (shape, dtype):
                raise ModelError(
                    f"{self.file}: {name} is {stored.dtype} {stored.shape!s:.60}, "
                    f"{_kind(config)} of this size has {dtype} {shape}"
                )
        claimed = sum(math.prod(shape) * getattr(torch, dtype).itemsize for shape, dtype in expected.values())
        if claimed > room:
            raise ModelError(f"{self.file} says {claimed:,} bytes of tensors, but has {room:,} in all")


def published_config(weights: StoredWeights, declared: Any, hidden: Hidden) -> NetworkConfig:
    """The shape of the network whose tensors these are; ``declared`` is what it says of itself."""
    heads = _heads(weights.file, declared, hidden.heads)
    if "pre_projection.weight" in weights.tensors:
        return _functions_config(weights, heads, hidden)
    if "pre_proj_cond.weight" in weights.tensors:
        return _graph_config(weights, heads, declared, hidden)
    if any(name.startswith("patch_pos_encoding") for name in weights.tensors):
        raise ModelError(
            f"{weights.file} is a VICON, a network of images; wrap it with chop.from_torch, as the tutorial "
            "about models of your own shows"
        )
    some = ", ".join(shown(name) for name in sorted(weights.tensors)[:3])
    raise ModelError(
        f"{weights.file} holds {some} ..., not a published ICON, which has pre_projection.weight or "
        "pre_proj_cond.weight; wrap a model of your own with chop.from_torch"
    )


def _functions_config(weights: StoredWeights, heads: int, hidden: Hidden) -> PublishedConfig:
    width, inputs = weights.shape("pre_projection.weight", 2)
    channels, _ = weights.shape("post_projection.weight", 2)
    named = "function_pe.weight" in weights.tensors
    wide, _ = weights.shape("transformer.layers.0.linear1.weight", 2)
    with _said_of(weights.file):
        return PublishedConfig(
            coordinates=inputs - channels,
            channels=channels,
            width=width,
            heads=heads,
            transformer_layers=weights.count("transformer.layers."),
            hidden=wide,
            functions=weights.shape("function_pe.weight", 2)[0] if named else 0,
            x_scale=hidden.x_scale,
        )


def _graph_config(weights: StoredWeights, heads: int, declared: Any, hidden: Hidden) -> GraphConfig:
    block = "gicon_blocks.0"
    layer = f"{block}.incontext_transformer.layers.0"
    width, inputs = weights.shape("pre_proj_cond.weight", 2)
    count, _ = weights.shape("post_proj.weight", 2)
    trained = hidden.channels or GraphConfig().trained_order
    if len(trained) != count:
        raise ModelError(
            f"{weights.file} has {count} channels, the published ones are {len(trained)}; name them in the "
            "order of training (--channels t2m,hour,PM2.5,O3)"
        )
    if len(set(trained)) < count:
        raise ModelError(f"the channels {', '.join(trained)!r:.80} of {weights.file} have one name twice")
    if not count or inputs % count:
        raise ModelError(
            f"{weights.file}: windows of {inputs} numbers are not whole hours of {count} channels"
        )
    absolute = "example_embeddings.weight" in weights.tensors
    attention = _attention(weights, f"{layer}.attn_layer", absolute, declared, hidden.attention)
    with _said_of(weights.file):
        return GraphConfig(
            channels=channel_order(trained),
            trained_order=trained,
            hours=inputs // count,
            width=width,
            heads=heads,
            hidden=weights.shape(f"{layer}.feed_forward.0.weight", 2)[0],
            edge_width=weights.shape("edge_proj.weight", 2)[0],
            message_width=weights.shape(f"{block}.message_mlp.0.weight", 2)[0],
            graph_layers=weights.count("gicon_blocks."),
            transformer_layers=weights.count(f"{block}.incontext_transformer.layers."),
            norm="layer" if f"{layer}.norm1.bias" in weights.tensors else "rms",
            most_examples=_most_examples(weights, f"{layer}.attn_layer"),
            absolute_positions=absolute,
            **attention,
        )


def _attention(
    weights: StoredWeights, at: str, absolute: bool, declared: Any, given: str | None
) -> dict[str, Any]:
    """The kind of attention, with what it leaves to choose."""
    there = {name.removeprefix(f"{at}.") for name in weights.tensors if name.startswith(f"{at}.")}
    seen = next((kind for name, kind in _VISIBLE.items() if name in there), None)
    if seen is not None and given not in (None, seen):
        raise ModelError(f"{weights.file}: its tensors are those of {seen} attention, not of {given}")
    kind = seen or given or _said_attention(declared) or ("plain" if absolute else None)
    if kind is None:
        raise ModelError(
            f"{weights.file}: its tensors do not show whether attention is plain, rotary or similar, and it "
            "does not say it of itself; give --attention"
        )
    angles = {value for value in values_named(declared, "phi_max") if isinstance(value, int | float)}
    if kind == "set_rotary" and any(abs(angle - math.pi) > 1e-6 for angle in angles):
        raise ModelError(f"{weights.file} turns examples by up to {min(angles):g}; the published ones by pi")
    compared = kind in ("similar", "placed")
    role = "input" if "role_encoding.role_vec" in there else None
    pooled = "learning" if "cond_embedding_proj.0.weight" in there else None
    return {
        "attention": kind,
        "similarity": ("attn" if "cond_q_proj.weight" in there else "prod") if compared else None,
        "pooling": "pooling" if "spatial_attention.0.weight" in there else pooled,
        "role": "logit" if "role_encoding.bias.weight" in there else role,
    }


def _said_attention(declared: Any) -> str | None:
    """The kind that the configuration of a checkpoint names, among those that no tensor shows."""
    named = {str(value).rpartition(".")[2] for value in values_named(declared, "_target_")}
    kinds = {kind for name, kind in _CALLED.items() if name in named}
    return kinds.pop() if len(kinds) == 1 else None


def _most_examples(weights: StoredWeights, at: str) -> int:
    """How many examples the embeddings of positions have room for; 0 if there are none."""
    tables = (
        "example_embeddings.weight",
        f"{at}.example_embeddings.weight",
        f"{at}.cond_embedding_proj.weight",
    )
    rooms = [weights.shape(name, 2)[0] - 1 for name in tables if name in weights.tensors]
    if f"{at}.pos_bias.weight" in weights.tensors:
        rooms.append((weights.shape(f"{at}.pos_bias.weight", 2)[0] - 1) // 4)
    return min(rooms, default=0)


@contextmanager
def _said_of(file: str) -> Iterator[None]:
    """Errors about a shape, as errors about the file it was read from."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None


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


def _kind(config: NetworkConfig) -> str:
    return "an ICON" if isinstance(config, PublishedConfig) else "a graph ICON"


def shown(name: str) -> str:
    """A name from a stranger's file, short and fit for a terminal."""
    return printable(name[:60])
