"""The bundled in-context operator networks: shape, weights, pretraining."""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.icon.config import CONSERVATION, MFC, IconConfig, StationConfig
    from chop.icon.functions.network import Icon
    from chop.icon.stations.network import StationIcon
    from chop.icon.weights import bundled, load, provenance, save

__all__ = [
    "CONSERVATION", "MFC", "Icon", "IconConfig", "StationConfig", "StationIcon", "bundled", "load",
    "provenance", "save",
]  # fmt: skip

__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.icon.config": ("CONSERVATION", "MFC", "IconConfig", "StationConfig"),
        "chop.icon.functions.network": ("Icon",),
        "chop.icon.stations.network": ("StationIcon",),
        "chop.icon.weights": ("bundled", "load", "provenance", "save"),
    },
)
