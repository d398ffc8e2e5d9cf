"""The shape of an in-context operator network: plain numbers that travel in the header of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from chop.core.errors import ModelError

LAYERS = 64
"""Of each kind that a network may have; files from anyone say how many, and each takes time to build."""


@dataclass(frozen=True)
class IconConfig:
    """What a network is made of.

    ``coordinates`` is how many a prompt may have at most: 1 means x, 2 means (t, x), and x is periodic
    with period 1. With ``grid`` every function of x is read at that many equidistant points (others are
    interpolated linearly), one token carries both functions of a pair and the network predicts the
    change from the query; without it functions live on any points, and inputs, outputs and answer have
    tokens of their own.
    """

    coordinates: int = 1
    inputs: int = 1
    outputs: int = 1
    grid: int | None = 100
    width: int = 128
    heads: int = 4
    encoder_layers: int = 3
    decoder_layers: int = 4
    patch: int = 10
    margin: int = 5

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "grid" and value is None:
                continue
            least = 0 if field.name == "margin" else 1
            most = LAYERS if field.name.endswith("_layers") else 2**16
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise ModelError(
                    f"{field.name} of a network must be a whole number, {least} to {most}, not {value!r:.40}"
                )
        if self.coordinates > 2:
            raise ModelError(f"a network knows one or two coordinates, not {self.coordinates}")
        if self.width % self.heads or (self.width // self.heads) % 4:
            raise ModelError(f"width {self.width} must be {self.heads} heads of a multiple of 4 numbers")
        if self.grid is not None and (self.coordinates != 1 or self.grid % self.patch):
            raise ModelError("a fixed grid needs one coordinate and a whole number of patches")
        if self.grid is not None and self.inputs != self.outputs:
            raise ModelError("a network that predicts the change needs as many outputs as inputs")

    @property
    def window(self) -> int:
        """Points seen by one token: its own patch and a margin on both sides."""
        return self.patch + 2 * self.margin

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> IconConfig:
        """The inverse of `to_dict`; an unknown or missing setting is an error."""
        names = {field.name for field in fields(IconConfig)}
        if set(values) != names:
            odd = ", ".join(sorted(set(values) ^ names))
            raise ModelError(f"the configuration of the network does not fit this version: {odd}")
        return IconConfig(**values)


CONSERVATION = IconConfig()
MFC = IconConfig(coordinates=2, grid=None)

__all__ = ["CONSERVATION", "LAYERS", "MFC", "IconConfig"]
