"""Arrays whose axes have names, as xarray has them: prompts from them, and results as them.

xarray is not needed by anything else: arrays with ``dims`` and ``coords`` are taken for labelled ones, and
the library is imported when a result is asked for as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import ChopError, PromptError
from chop.core.fields import without_repeats

if TYPE_CHECKING:
    import xarray

    from chop.core.running import Result

CHANNEL_NAMES = ("channel", "channels", "c")
AXIS_NAMES = {"time": "t"}
"""What a dimension is called here, where it is not called the same."""


def is_labelled(array: object) -> bool:
    """Whether an array brings names of its axes and coordinates along them."""
    return all(hasattr(array, name) for name in ("dims", "coords", "to_numpy"))


@dataclass(frozen=True)
class LabelledArrays:
    """Labelled inputs, outputs and query, their dimensions in one order."""

    inputs: Any
    outputs: Any
    query: Any
    batch: int
    """How many dimensions of questions stand before that of the examples."""

    @classmethod
    def of(cls, inputs: Any, outputs: Any, query: Any) -> LabelledArrays:
        """Dimensions are ``(*questions, example, *points, channel)``; the example is what the query lacks."""
        extra = [name for name in inputs.dims if name not in query.dims]
        if len(extra) != 1 or set(query.dims) - set(inputs.dims) or extra[0] not in outputs.dims:
            raise PromptError(
                f"inputs {inputs.dims} need the dimensions of the query {query.dims} and one of examples, "
                f"which outputs {outputs.dims} have too"
            )
        batch = inputs.dims.index(extra[0])
        lead, inner = inputs.dims[: batch + 1], inputs.dims[batch + 1 :]
        if outputs.dims[: batch + 1] != lead or not inner:
            raise PromptError(
                f"dimensions are ordered as (questions, examples, points, channel), not {inputs.dims} and "
                f"{outputs.dims}: write inputs.transpose(...)"
            )
        return cls(inputs, outputs, query.transpose(*lead[:-1], *inner), batch)

    @property
    def arrays(self) -> dict[str, Any]:
        return {name: getattr(self, name).to_numpy() for name in ("inputs", "outputs", "query")}

    def coordinates(self, name: str) -> dict[str, Any] | None:
        """Those along each dimension of points of a part; None for a single dimension that has none."""
        array = getattr(self, name)
        found = _coordinates(array, array.dims[self.batch + 1 :])
        if name == "inputs" and found is not None:
            own = _coordinates(self.query, self.query.dims[self.batch :])
            if own is not None and any(not np.array_equal(own[axis], found[axis]) for axis in found):
                raise PromptError("inputs and query differ in their coordinates; make a chop.Field of each")
        return found


def _coordinates(array: Any, inner: tuple[Any, ...]) -> dict[str, Any] | None:
    """The last dimension holds channels if it is called so, or has no coordinates that are numbers."""
    if len(inner) > 1 and (inner[-1] in CHANNEL_NAMES or not _has_numbers(array, inner[-1])):
        inner = inner[:-1]
    missing = [name for name in inner if not _has_numbers(array, name)]
    if missing and (len(inner) > 1 or missing[0] in array.coords):
        raise PromptError(
            f"the dimension {missing[0]!r} needs coordinates that are numbers (times: hours since a start): "
            f"write .assign_coords({missing[0]}=...) or give coords="
        )
    if missing:
        return None
    return {AXIS_NAMES.get(str(name), str(name)): array.coords[name].to_numpy() for name in inner}


def _has_numbers(array: Any, name: Any) -> bool:
    return name in array.coords and array.coords[name].dtype.kind in "iuf"


def result_as_xarray(result: Result) -> xarray.DataArray:
    """What `Result.to_xarray` does."""
    try:
        import xarray
    except ModuleNotFoundError:
        raise ChopError("to_xarray needs xarray: pip install 'chain-of-operators[air]'") from None
    from chop.core.bands import can_be_told
    from chop.core.trace import SHOWN_LEVEL

    prompt = result.prompt
    axes = [axis.name for axis in prompt.axes or ()]
    batch = _batch_names(len(prompt.batch))
    channels = ["channel"] if prompt.outputs.channels > 1 else []
    grid = _grid_of(without_repeats(prompt.at))
    coords: dict[str, Any]
    if grid is not None:
        coords = dict(zip(axes, grid, strict=True))
        dims, shape = axes, [len(part) for part in grid]
    else:
        dims, shape = ["point"], [prompt.at.shape[-2]]
        shared = without_repeats(prompt.at)
        shared = shared.reshape(shared.shape[-2:]) if reduce(mul, shared.shape[:-2], 1) == 1 else prompt.at
        over = batch if shared.ndim > 2 else []
        coords = {name: ([*over, "point"], _array(shared[..., i])) for i, name in enumerate(axes)}
    coords["rejected"] = (batch, _array(result.rejected))
    if result.error is not None:
        coords["error"] = (batch, _array(result.error))
    sizes = (*prompt.batch, *shape, *[prompt.outputs.channels] * len(channels))
    names = [*batch, *dims, *channels]
    if can_be_told(result.answered, result.scores, SHOWN_LEVEL):
        band = result.band(SHOWN_LEVEL)
        for name, bound in (("lower", band.lower), ("upper", band.upper)):
            coords[name] = (names, _array(_for_numpy(bound)).reshape(sizes))
    return xarray.DataArray(result.numpy().reshape(sizes), coords, names, name="answer")


def _for_numpy(values: Tensor) -> Tensor:
    """numpy has no bfloat16."""
    return values.float() if values.dtype == torch.bfloat16 else values


def _batch_names(count: int) -> list[str]:
    return ["question"] if count == 1 else [f"question_{i}" for i in range(count)]


def _grid_of(at: Tensor) -> list[Any] | None:
    """The coordinates along each axis, if all questions share one grid whose last axis runs fastest."""
    if at.shape[:-2].numel() != 1:
        return None
    points = at.reshape(at.shape[-2:])
    along = [torch.tensor(list(dict.fromkeys(part.tolist())), dtype=at.dtype) for part in points.T.cpu()]
    if points.shape[-1] == 1:
        along = [points[:, 0].cpu()]
    elif reduce(mul, map(len, along), 1) != len(points):
        return None
    mesh = torch.stack(torch.meshgrid(*along, indexing="ij"), dim=-1).reshape(-1, points.shape[-1])
    return [_array(part) for part in along] if torch.equal(mesh, points.cpu()) else None


def _array(tensor: Tensor) -> Any:
    return tensor.cpu().numpy()
