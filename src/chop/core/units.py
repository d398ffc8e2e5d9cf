"""Numbers in the data's own units: what is squared is first brought to a size at which squares are safe.

Whether data are in metres or nanometres must not decide anything. Dividing by a power of two changes no
digit, so the answer in one unit is the answer in another; data of ordinary size are not even touched.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_ORDINARY = 20
"""Sizes from 2**-20 to 2**20 are left alone: squares of them and of small parts of them are safe."""


def binary_unit(size: Tensor) -> Tensor:
    """The power of two next below ``size`` (elementwise, 0 or more); 1 for ordinary sizes and for 0.

    Sizes that are not finite have no unit: theirs is 1.
    """
    _, exponent = torch.frexp(torch.where(torch.isfinite(size), size, 0))
    limits = torch.finfo(size.dtype)
    lowest, highest = math.frexp(limits.tiny)[1] - 1, math.frexp(limits.max)[1] - 1
    power = (exponent - 1).clamp(lowest, highest)
    return torch.where(power.abs() <= _ORDINARY, 1, torch.ldexp(torch.ones_like(size), power))


def in_units(values: Tensor, unit: Tensor) -> Tensor:
    """Values divided by their unit, which broadcasts against them; the very tensor where all units are 1."""
    return values if bool((unit == 1).all()) else values / unit
