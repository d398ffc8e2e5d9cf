"""What tells data and networks apart: tensors, prompts, models, plain values and files.

`written` digests stand in journals, stores and file names: what is fed to them, byte for byte, is part of
those formats and does not change. `quick` ones live as long as the process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from chop.core.model import Caller, FrozenModel
from chop.core.prompt import Axis, Prompt

if TYPE_CHECKING:
    Digest = hashlib._Hash | hashlib.blake2b

Array = np.ndarray[Any, Any]


def written() -> Digest:
    """A digest for what is kept in files: SHA-256."""
    return hashlib.sha256()


def quick() -> Digest:
    """A digest for what is looked up at every turn: BLAKE2b, 16 bytes."""
    return hashlib.blake2b(digest_size=16)


def plain(value: Any) -> str:
    """Plain values as JSON in one form, whatever the order of their names."""
    return json.dumps(value, sort_keys=True)


def feed_bytes(digest: Digest, data: Tensor | Array) -> None:
    """The numbers alone; dtype and shape are known to whoever asks."""
    if isinstance(data, Tensor):
        tensor = data.detach().cpu().contiguous()
        try:
            data = tensor.numpy()
        except TypeError:  # numpy does not know every dtype of torch
            data = tensor.reshape(-1).view(torch.uint8).numpy()
    digest.update(np.ascontiguousarray(data).data)


def feed_tensor(digest: Digest, tensor: Tensor) -> None:
    """Dtype, shape and numbers."""
    digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    feed_bytes(digest, tensor)


def _feed_lean(digest: Digest, tensor: Tensor) -> None:
    """Dtype, shape and numbers, without reading twice what an expanded view only repeats."""
    lean = tensor
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and lean.shape[axis] > 1:
            lean = lean.narrow(axis, 0, 1)
    digest.update(f"{tensor.dtype}{tuple(tensor.shape)}{tuple(lean.shape)}".encode())
    feed_bytes(digest, lean)


def feed_state(
    digest: Digest, module: nn.Module, feed: Callable[[Digest, Tensor], None] = feed_tensor
) -> None:
    """A torch module's weights and buffers, by name."""
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        feed(digest, value)


def feed_prompt(digest: Digest, prompt: Prompt) -> None:
    """What a prompt holds; `axes_of` and its times are told apart from that."""
    for tensor in prompt.tensors():
        feed_tensor(digest, tensor)
    if prompt.graph is not None:
        feed_tensor(digest, prompt.graph.edges)


def content_key(prompt: Prompt) -> bytes:
    """A digest of what a model can see of a prompt, and of where its examples come from.

    The origin counts because a model may encode the examples of the parent instead of the prompt's own,
    which is the same answer only to rounding.
    """
    digest = quick()
    while True:
        for tensor in prompt.tensors():
            _feed_lean(digest, tensor)
        if prompt.times is not None:
            _feed_lean(digest, prompt.times)
        if prompt.graph is not None:
            _feed_lean(digest, prompt.graph.edges)
        digest.update(_axes_text(prompt.axes))
        if prompt.origin is None:
            return digest.digest()
        _feed_lean(digest, prompt.origin.kept)
        prompt = prompt.origin.parent


@lru_cache(maxsize=64)
def _axes_text(axes: tuple[Axis, ...] | None) -> bytes:
    return repr(axes).encode()


def axes_of(prompt: Prompt) -> list[list[Any]]:
    """Names and periods of the coordinates, as plain values."""
    return [[axis.name, axis.period] for axis in prompt.axes or ()]


def of_model(model: FrozenModel, probe: Prompt) -> str:
    """A torch module by its class and state; any other callable by its answers to some questions."""
    if isinstance(model, nn.Module):
        return of_module(model)
    digest = written()
    with torch.inference_mode():
        feed_tensor(digest, Caller(model, probe)([probe])[0])
    return digest.hexdigest()


def of_module(module: nn.Module) -> str:
    """A torch module by its class and state."""
    digest = written()
    digest.update(type(module).__qualname__.encode())
    feed_state(digest, module)
    return digest.hexdigest()


def of_network(config: Any, network: nn.Module) -> str:
    """A network by its shape (plain values) and its weights, not by what else its file says about itself."""
    digest = written()
    digest.update(plain(config).encode())
    feed_state(digest, network, feed_bytes)
    return digest.hexdigest()


def of_file(path: Path) -> str:
    """A file by its bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, written).hexdigest()


__all__ = [
    "axes_of", "content_key", "feed_bytes", "feed_prompt", "feed_state", "feed_tensor", "of_file",
    "of_model", "of_module", "of_network", "plain", "quick", "written",
]  # fmt: skip
