"""The bundled in-context operator networks: shape, weights, pretraining. Loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chop.icon.config import CONSERVATION, MFC, IconConfig
    from chop.icon.network import Icon
    from chop.icon.station_config import StationConfig
    from chop.icon.station_network import StationIcon
    from chop.icon.weights import bundled, load, provenance, save

_HOME = {
    "CONSERVATION": "config",
    "MFC": "config",
    "Icon": "network",
    "IconConfig": "config",
    "StationConfig": "station_config",
    "StationIcon": "station_network",
    "bundled": "weights",
    "load": "weights",
    "provenance": "weights",
    "save": "weights",
}

__all__ = [
    "CONSERVATION", "MFC", "Icon", "IconConfig", "StationConfig", "StationIcon", "bundled", "load",
    "provenance", "save",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
