"""Weights on disk: ``.safetensors`` with the configuration and the provenance in the header, no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chop.core.errors import ModelError
from chop.icon.config import (
    GraphConfig,
    IconConfig,
    NetworkConfig,
    PublishedConfig,
    StationConfig,
    config_from,
)
from chop.icon.functions.network import Icon
from chop.icon.published.graph_network import PublishedGraphIcon
from chop.icon.published.network import PublishedIcon
from chop.icon.stations.network import StationIcon
from chop.storage.atomic import write_bytes

WEIGHTS_FORMAT = "chop-icon-1"
BUNDLED = Path(__file__).parent / "weights"
LONGEST_HEADER = 2**16
"""Characters of what a header says; ours have hundreds."""
DEEPEST_HEADER = 50
"""Lists in lists of it."""
Network = Icon | StationIcon | PublishedIcon | PublishedGraphIcon


@dataclass(frozen=True)
class Provenance:
    """What a weights file says about itself."""

    config: NetworkConfig
    training: Mapping[str, Any]


def build(config: NetworkConfig) -> Network:
    """A network of a shape, with fresh weights."""
    if isinstance(config, StationConfig):
        return StationIcon(config)
    if isinstance(config, PublishedConfig):
        return PublishedIcon(config)
    if isinstance(config, GraphConfig):
        return PublishedGraphIcon(config)
    assert isinstance(config, IconConfig)
    return Icon(config)


def save(network: Network, path: str | Path, training: Mapping[str, Any] | None = None) -> Path:
    """The network's weights in one file, complete or not there at all."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    return write_weights(Path(path), Provenance(network.config, training or {}), tensors, overwrite=True)


def write_weights(
    path: Path, header: Provenance, tensors: Mapping[str, Tensor], overwrite: bool = False
) -> Path:
    """A file from the tensors of a network and what is said about it."""
    from safetensors.torch import save as packed

    texts = {
        "format": WEIGHTS_FORMAT,
        "config": json.dumps(header.config.to_dict()),
        "training": json.dumps(dict(header.training)),
    }
    return write_bytes(path, packed(dict(tensors), metadata=texts), ModelError, overwrite)


def bundled() -> tuple[str, ...]:
    """Names of the networks that come with the package."""
    return tuple(sorted(path.stem for path in BUNDLED.glob("*.safetensors")))


def find(name_or_path: str | Path) -> Path:
    """The file of a bundled network or of the user's own."""
    text = str(name_or_path)
    if isinstance(name_or_path, str) and text in bundled():
        return BUNDLED / f"{text}.safetensors"
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    raise ModelError(
        f"there is no network {text!r}: neither a file nor one of {', '.join(bundled()) or 'the bundled'}"
    )


def load(name_or_path: str | Path, *, device: str | torch.device | None = None) -> Network:
    """A frozen network: a bundled one by name ("conservation", "mfc"), or a file of weights.

    Training writes such files, and ``chop convert`` makes them of published checkpoints.

    ``device`` is where it works ("cuda", "cuda:1"), the CPU if left out. Prompts may be elsewhere: what the
    network needs of them is moved, and the answer comes back to where its prompt is.
    """
    network, _ = read_weights(find(name_or_path))
    if device is not None:
        try:
            network.to(torch.device(device))
        # What is not compiled in, not plugged in, not known or full says so in all these ways.
        except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
            there = ", ".join(["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))])
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(
                f"the network cannot be put on device {str(device)!r} ({reason}); there is {there}"
            ) from None
    return network


def provenance(name_or_path: str | Path) -> Provenance:
    """Configuration and history of a weights file, without its tensors."""
    header, _ = _open(find(name_or_path), tensors=False)
    return header


def read_weights(path: Path) -> tuple[Network, Provenance]:
    """Network and provenance from a file, everything checked against each other before a network is built."""
    header, tensors = _open(path, tensors=True)
    _check(path, header.config, tensors)
    with torch.random.fork_rng(devices=[]):
        network = build(header.config)
    network.load_state_dict(tensors)
    network.eval().requires_grad_(False)
    return network, header


def expected_tensors(config: NetworkConfig) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of each tensor of a network; it may be enormous and is only imagined."""
    with torch.device("meta"):
        state = build(config).state_dict()
    return {name: (tuple(value.shape), _short(value.dtype)) for name, value in state.items()}


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check(path: Path, config: NetworkConfig, tensors: Mapping[str, Tensor]) -> None:
    """The tensors must be those of the configuration."""
    expected = expected_tensors(config)
    if expected.keys() != tensors.keys():
        odd = sorted(expected.keys() ^ tensors.keys())
        raise ModelError(f"{path.name}: the tensors do not fit the configuration ({', '.join(odd[:3])} ...)")
    for name, value in tensors.items():
        shape, dtype = expected[name]
        if (tuple(value.shape), _short(value.dtype)) != (shape, dtype):
            raise ModelError(
                f"{path.name}: {name} is {value.dtype} {tuple(value.shape)}, "
                f"the configuration wants {dtype} {shape}"
            )
        if not bool(torch.isfinite(value).all()):
            raise ModelError(f"{path.name}: {name} has values that are not finite")


def _open(path: Path, tensors: bool) -> tuple[Provenance, dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header: Mapping[str, str] = file.metadata() or {}
            found = {name: file.get_tensor(name) for name in file.keys()} if tensors else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise ModelError(f"{path.name} is not a readable weights file: {error}") from None
    if header.get("format") != WEIGHTS_FORMAT:
        raise ModelError(
            f"{path.name} holds tensors, but not those of a CHOP network (format "
            f"{header.get('format')!r:.40}, wanted {WEIGHTS_FORMAT!r}); "
            "wrap a model of your own with chop.from_torch"
        )
    try:
        config, training = _table(header, "config"), _table(header, "training")
        return Provenance(config_from(config), training), found
    except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ModelError(f"{path.name}: its header cannot be read ({error})") from None


def _table(header: Mapping[str, str], name: str) -> dict[str, Any]:
    text = header[name]
    levels = accumulate((character in "[{") - (character in "]}") for character in text[: LONGEST_HEADER + 1])
    if len(text) > LONGEST_HEADER or max(levels, default=0) > DEEPEST_HEADER:
        raise ValueError(f"its {name} is too long or nested too deeply")
    return dict(json.loads(text))
