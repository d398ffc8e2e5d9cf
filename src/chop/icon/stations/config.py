"""The shape of a station network: plain numbers that travel in the header of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from chop.core.errors import ModelError
from chop.icon.functions.config import LAYERS


@dataclass(frozen=True)
class StationConfig:
    """What a network on station graphs is made of.

    A window has ``hours`` frames of ``len(channels)`` numbers at each station; the answer is one frame
    more. ``lengths`` are the kernels' lengths in kilometres before training.
    """

    channels: tuple[str, ...] = ("hour", "NO2", "PM2.5", "O3")
    hours: int = 24
    width: int = 96
    heads: int = 4
    window_layers: int = 3
    pair_layers: int = 1
    asking_layers: int = 2
    lengths: tuple[float, ...] = (20.0, 60.0, 150.0, 400.0)
    each: int = 16
    """Numbers of a token that one kernel carries."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", tuple(str(name) for name in self.channels))
        object.__setattr__(self, "lengths", tuple(float(length) for length in self.lengths))
        for field in fields(self):
            value = getattr(self, field.name)
            most = LAYERS if field.name.endswith("_layers") else 2**12
            if field.type == "int" and not (type(value) is int and 1 <= value <= most):
                raise ModelError(
                    f"{field.name} of a network must be a whole number, 1 to {most}, not {value!r:.40}"
                )
        if not self.channels or self.channels[0] != "hour":
            raise ModelError(
                f"the first channel of a station network is the hour, not {self.channels[:1]!r:.40}"
            )
        if not self.lengths or not all(0 < length < float("inf") for length in self.lengths):
            raise ModelError(f"kernel lengths must be positive, not {self.lengths}")
        if self.width % self.heads or (3 * len(self.lengths) * self.each) % self.width:
            raise ModelError(
                f"width {self.width} must be a multiple of {self.heads} heads and divide "
                f"{3 * len(self.lengths)} kernels of {self.each} numbers"
            )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> StationConfig:
        """The inverse of `to_dict`; an unknown or missing setting is an error."""
        names = {field.name for field in fields(StationConfig)}
        if set(values) != names:
            odd = ", ".join(sorted(set(values) ^ names))
            raise ModelError(f"the configuration of the network does not fit this version: {odd}")
        return StationConfig(**values)


AIR = StationConfig()

__all__ = ["AIR", "StationConfig"]
