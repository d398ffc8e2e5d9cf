"""What pretraining does for each problem: the network's shape, its batches, its loss, what judges a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from chop.icon.config import AIR, CONSERVATION, MFC, NetworkConfig
from chop.icon.functions.data import Batch, ConservationBatches, MfcBatches
from chop.icon.functions.network import Icon
from chop.icon.stations.data import AirBatches, station_errors, station_loss
from chop.icon.validation import validate


@dataclass(frozen=True)
class Recipe:
    """``batches(size=, seed=, **data)`` gives batch n when called with n; ``errors`` are by name."""

    config: NetworkConfig
    batches: Callable[..., Callable[[int], Any]]
    loss: Callable[[Any, Any], Tensor]
    errors: Callable[[Any, Any, bool], dict[str, float]]


def function_loss(network: Icon, batch: Batch) -> Tensor:
    """Mean over predictions of the root mean square error relative to the answer's own size."""
    memory = network.encode(batch.x, batch.x_at, batch.y, batch.y_at)
    answer = network.decode(memory, batch.x, batch.x_at, batch.y_at, batch.counts)
    error = (answer - batch.y).square().mean(dim=(-1, -2))
    size = batch.y.square().mean(dim=(-1, -2))
    return ((error + 1e-6).sqrt() / (size + 0.02).sqrt()).mean()


RECIPES: dict[str, Recipe] = {
    "conservation": Recipe(
        CONSERVATION,
        ConservationBatches,
        function_loss,
        lambda network, batches, small: validate(network, "conservation", small),
    ),
    "mfc": Recipe(
        MFC, MfcBatches, function_loss, lambda network, batches, small: validate(network, "mfc", small)
    ),
    "air": Recipe(AIR, AirBatches, station_loss, station_errors),
}

__all__ = ["RECIPES", "Recipe", "function_loss"]
