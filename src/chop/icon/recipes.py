"""What pretraining does for each problem: the network's shape, its batches, its loss, what judges a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from chop.icon.config import AIR, CONSERVATION, MFC, NetworkConfig
from chop.icon.functions.data import ConservationBatches, MfcBatches, function_errors, function_loss
from chop.icon.stations.data import AirBatches, station_errors, station_loss


@dataclass(frozen=True)
class Recipe:
    """``batches(size=, seed=, **data)`` gives batch n when called with n; ``errors`` are by name."""

    config: NetworkConfig
    batches: Callable[..., Callable[[int], Any]]
    loss: Callable[[Any, Any], Tensor]
    errors: Callable[[Any, Any, bool], dict[str, float]]


RECIPES: dict[str, Recipe] = {
    "conservation": Recipe(CONSERVATION, ConservationBatches, function_loss, function_errors),
    "mfc": Recipe(MFC, MfcBatches, function_loss, function_errors),
    "air": Recipe(AIR, AirBatches, station_loss, station_errors),
}
