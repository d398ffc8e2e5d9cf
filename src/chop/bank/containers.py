"""Functions in arrays of any kind: read in batches, and answers in the kind of array that was asked with.

An array holds functions along its first axis. What lies behind it, `ArrayLayout`, is remembered from the
arrays that an estimator was fitted on: the axes of points and channels and, of labelled arrays, their names
and coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop.bank.estimator_errors import EstimatorInputError
from chop.bank.pairs import PairForm
from chop.core.fields import shape_text
from chop.core.labelled import is_labelled
from chop.numerics import Array


@dataclass(frozen=True, eq=False)
class ArrayLayout:
    """The axes of one function in an array, behind that of the functions."""

    shape: tuple[int, ...]
    dims: tuple[str, ...] | None = None
    """Their names, where they have some."""
    coords: Mapping[str, Array] | None = None
    """Coordinates along them."""

    @classmethod
    def of(cls, array: Any) -> ArrayLayout:
        """As an array has them."""
        shape = tuple(int(size) for size in array.shape[1:])
        if not is_labelled(array):
            return cls(shape)
        dims = tuple(map(str, array.dims[1:]))
        along = {name: np.asarray(array.coords[name]) for name in array.dims[1:] if name in array.coords}
        return cls(shape, dims, {str(name): values for name, values in along.items()})

    @classmethod
    def flat(cls, points: int, channels: int) -> ArrayLayout:
        """Points, and channels if there are several: where nobody showed an array."""
        return cls((points,) if channels == 1 else (points, channels))


def plain_array(given: Any, name: str) -> Any:
    """An array with a first axis of functions: numpy's, torch's or a labelled one, of floating numbers."""
    if hasattr(given, "toarray"):
        raise EstimatorInputError(f"{name} is a sparse array; functions have values everywhere: .toarray()")
    if isinstance(given, Tensor):
        made: Any = given if given.is_floating_point() else given.to(torch.get_default_dtype())
    elif is_labelled(given):
        made = given if given.dtype.kind == "f" else given.astype(np.float64)
    else:
        array = given if isinstance(given, np.ma.MaskedArray) else np.asarray(given)
        if np.iscomplexobj(array):
            raise EstimatorInputError(f"Complex data not supported: {name} must be real, give two channels")
        made = array if array.dtype.kind == "f" else _floating(array, name)
    if made.ndim < 1 or not made.shape[0]:
        raise EstimatorInputError(
            f"{name} has 0 sample(s) (shape={tuple(made.shape)}) while a minimum of 1 is required: an axis "
            "of functions comes first"
        )
    if 0 in made.shape:
        raise EstimatorInputError(
            f"{name} has 0 feature(s) (shape={tuple(made.shape)}) while a minimum of 1 is required: "
            "functions need a point"
        )
    return made


def check_finite(array: Any, name: str, gaps: bool = False) -> None:
    """Say so where an array holds what is no number; NaN may be there as ``gaps``, or hidden by a mask."""
    seen = array.compressed() if isinstance(array, np.ma.MaskedArray) else array
    values = seen if isinstance(seen, Tensor) else np.asarray(seen)
    good = torch if isinstance(values, Tensor) else np
    bad = good.isinf(values) if gaps else ~good.isfinite(values)
    if bool(bad.any()):
        what = "inf" if gaps else "NaN or inf"
        raise EstimatorInputError(
            f"{name} {shape_text(array)} has {int(bad.sum())} values that are {what}; fill them in, or leave "
            "those functions out"
        )


def _floating(array: Any, name: str) -> Any:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise EstimatorInputError(f"{name} cannot be read as numbers: {error}") from None


def in_layout(given: Any, layout: ArrayLayout, form: PairForm, name: str = "X", output: bool = False) -> Any:
    """Functions as ``(Q, n, c)``, numpy's or torch's, of an array that has the axes it should have."""
    array = plain_array(given, name)
    points, channels = (
        (len(form.output_coords), form.output_channels)
        if output
        else (len(form.input_coords), form.input_channels)
    )
    if is_labelled(array):
        array = _in_order(array, layout, name).to_numpy()
    shape = tuple(array.shape[1:])
    if shape not in (layout.shape, (points, channels)):
        if len(shape) == len(layout.shape) == 1:
            raise EstimatorInputError(
                f"{name} has {shape[0]} features, but InContextOperator is expecting {layout.shape[0]} "
                "features as input: functions at the points it was fitted on"
            )
        raise EstimatorInputError(
            f"{name} {shape_text(array)} holds functions {shape}, but those it was fitted on are "
            f"{layout.shape}. Reshape your data to ({', '.join(map(str, ('N', *layout.shape)))})"
        )
    return array.reshape(len(array), points, channels)


def _in_order(array: Any, layout: ArrayLayout, name: str) -> Any:
    """A labelled array with its dimensions as they were, at the coordinates where they were."""
    if layout.dims is None:
        return array
    first, *rest = map(str, array.dims)
    if sorted(rest) != sorted(layout.dims):
        raise EstimatorInputError(
            f"{name} has the dimensions {tuple(array.dims)}, but after the first {layout.dims} are expected"
        )
    for axis, values in (layout.coords or {}).items():
        if axis in array.coords and not np.array_equal(np.asarray(array.coords[axis]), values):
            raise EstimatorInputError(
                f"{name} has other coordinates along {axis!r} than the functions it was fitted on; "
                "interpolate it to those"
            )
    return array.transpose(first, *layout.dims)


def like(asked: Any, values: Tensor, layout: ArrayLayout, inputs: ArrayLayout) -> Any:
    """Answers ``(Q, m, c)`` as an array of the kind that was asked with, in the layout of outputs."""
    shaped = values.reshape(len(values), *layout.shape)
    if isinstance(asked, Tensor):
        return shaped.to(asked.device)
    numbers = shaped.float().numpy() if shaped.dtype == torch.bfloat16 else shaped.numpy()
    return _labelled_like(asked, numbers, layout, inputs) if is_labelled(asked) else numbers


def _labelled_like(asked: Any, numbers: Array, layout: ArrayLayout, inputs: ArrayLayout) -> Any:
    """With the questions' own dimension and coordinates, and those of the outputs behind."""
    first = asked.dims[0]
    kept = {name: part for name, part in asked.coords.items() if tuple(part.dims) == (first,)}
    dims, coords = layout.dims, dict(layout.coords or {})
    if dims is None and layout.shape == inputs.shape == tuple(asked.shape[1:]):
        dims = tuple(asked.dims[1:])  # nobody named the outputs, which lie where inputs do
        coords = {name: np.asarray(asked.coords[name]) for name in dims if name in asked.coords}
    if dims is None:
        dims = ("point", "channel")[: len(layout.shape)] if len(layout.shape) < 3 else ()
        dims = dims or tuple(f"axis_{i}" for i in range(len(layout.shape)))
    along = {name: (name, values) for name, values in coords.items()}
    return type(asked)(numbers, {**along, **kept}, [first, *dims])


def as_functions(numbers: Any) -> Any:
    """``(N,)`` as functions at one point."""
    return numbers.expand_dims("point", -1) if is_labelled(numbers) else numbers[:, None]


def in_dtype(outputs: Any, inputs: Any) -> Any:
    """Outputs in the dtype of inputs: a bank keeps one."""
    if isinstance(outputs, Tensor):
        return (
            outputs.to(inputs.dtype)
            if isinstance(inputs, Tensor)
            else outputs.cpu().numpy().astype(inputs.dtype)
        )
    if isinstance(inputs, Tensor):
        return torch.as_tensor(np.asarray(outputs)).to(inputs)
    return outputs.astype(inputs.dtype)


def mask_in_layout(mask: Any, form: PairForm) -> Any:
    """A mask as ``(N, m, c)``, like the arrays it belongs to."""
    if mask is None or isinstance(mask, str):
        return mask
    outputs = (len(form.output_coords), form.output_channels)
    if isinstance(mask, Mapping):
        sizes = {"inputs": (len(form.input_coords), form.input_channels)}
        return {name: _as_rows(part, *sizes.get(name, outputs)) for name, part in mask.items()}
    return _as_rows(mask, *outputs)


def _as_rows(mask: Any, points: int, channels: int) -> Array:
    array = np.asarray(mask)
    if array.ndim < 1 or array.size != len(array) * points * channels:
        raise EstimatorInputError(
            f"a mask {array.shape} does not fit functions at {points} points with {channels} channels"
        )
    return array.reshape(len(array), points, channels)
