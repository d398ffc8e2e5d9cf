"""In-context operator networks, ours and published ones: shape, weights, pretraining."""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.icon.config import CONSERVATION, MFC, GraphConfig, IconConfig, PublishedConfig, StationConfig
    from chop.icon.functions.network import Icon
    from chop.icon.published.graph_network import PublishedGraphIcon
    from chop.icon.published.network import PublishedIcon
    from chop.icon.stations.network import StationIcon
    from chop.icon.weights import bundled, load, provenance, save

__all__ = [
    "CONSERVATION", "MFC", "GraphConfig", "Icon", "IconConfig", "PublishedConfig", "PublishedGraphIcon",
    "PublishedIcon", "StationConfig", "StationIcon", "bundled", "load", "provenance", "save",
]  # fmt: skip

__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.icon.config": (
            "CONSERVATION",
            "MFC",
            "GraphConfig",
            "IconConfig",
            "PublishedConfig",
            "StationConfig",
        ),
        "chop.icon.functions.network": ("Icon",),
        "chop.icon.published.graph_network": ("PublishedGraphIcon",),
        "chop.icon.published.network": ("PublishedIcon",),
        "chop.icon.stations.network": ("StationIcon",),
        "chop.icon.weights": ("bundled", "load", "provenance", "save"),
    },
)
