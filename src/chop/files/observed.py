"""What of a function was observed: its mask, and NaN, which NetCDF and numpy write where nothing was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import FileError
from chop.core.fields import filled
from chop.files.readings import Placed
from chop.files.sources import Values


@dataclass(frozen=True, eq=False)
class Observed:
    """Values that are finite everywhere, and where they were observed; None means everywhere."""

    values: Tensor
    mask: Tensor | None


def observed(
    values: Values, seen: Values | None, array: Placed, mask: Placed | None, first: int, where: str
) -> Observed:
    """NaN marks what was not observed, if it does not contradict a mask; it is filled by what was."""
    name, unknown, infinite = array.spec.name, np.isnan(values), np.isinf(values)
    if infinite.any():
        raise FileError(f"{where}: {name}{_question(infinite, array, first)} holds infinity")
    if not unknown.any():
        return Observed(_tensor(values), None if seen is None else _tensor(seen))
    if mask is not None and not mask.of_points and (unknown & seen).any():
        raise FileError(
            f"{where}: {name}{_question(unknown & seen, array, first)} holds NaN where {mask.spec.name} says "
            "that it was observed; write 0 there"
        )
    known = ~unknown if seen is None else seen & ~unknown
    nothing = unknown.any(axis=(-1, -2)) & ~known.any(axis=(-1, -2))
    if name != "target" and (mask is None or mask.of_points) and nothing.any():
        raise FileError(
            f"{where}: {name}{_question(nothing, array, first)} holds NaN at every point, nothing to go by; "
            "leave it out, or fill it in and write 0 there into a mask"
        )
    # What a mask hides and the file holds stays as it is: somebody filled it in.
    fill = filled(_tensor(values), _tensor(known))
    return Observed(torch.where(_tensor(unknown), fill, _tensor(values)), _tensor(known))


def _question(bad: Any, array: Placed, first: int) -> str:
    return f" of question {first + int(np.argwhere(bad)[0][0])}" if array.by_question else ""


def _tensor(values: Values) -> Tensor:
    return torch.from_numpy(np.array(values))


__all__ = ["Observed", "observed"]
