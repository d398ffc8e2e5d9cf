"""Which values were observed, as the masks of a file say it: one for each function, or one of the points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from chop.core.errors import FileError
from chop.files.gridded import Grid
from chop.files.layout import FUNCTIONS, GENERATED, SPECS, kind_of
from chop.files.readings import Placed, read_values, refuse_text
from chop.files.sources import Source, Stored


def place_masks(
    source: Source,
    found: Mapping[str, Stored],
    functions: Mapping[str, Placed],
    made: Mapping[str, Grid],
    questions: int,
) -> dict[str, Placed]:
    """The masks of a file by name; ``functions`` are the values and coordinates that are in their place."""
    where = str(source.path)
    # Generated files mean the target alone.
    loose = "mask" in source.arrays and "target_mask" in found and kind_of(source.notes) != GENERATED
    masks = {}
    for function in FUNCTIONS:
        if function.mask in found and not (loose and function.name == "target"):
            mask = read_values(
                SPECS[function.mask], found[function.mask], made.get(function.name), None, where
            )
            if mask.shape[0] not in (1, questions):
                raise FileError(f"{where}: {function.mask} has {mask.shape[0]} questions, not {questions}")
            masks[function.mask] = replace(mask, by_question=mask.shape[0] > 1)
    return masks | _loose(found["target_mask"], functions, made, masks, questions, where) if loose else masks


def _loose(
    stored: Stored,
    functions: Mapping[str, Placed],
    made: Mapping[str, Grid],
    masks: Mapping[str, Placed],
    questions: int,
    where: str,
) -> dict[str, Placed]:
    """An array called ``mask``: of points, for every function on as many; or of the questions' targets."""
    refuse_text(SPECS["target_mask"], stored, where)
    of_points, of_target = {}, None
    for function in FUNCTIONS:
        spec = SPECS[function.mask]
        grid, values = made.get(function.name), functions.get(function.values, functions["output_values"])
        inner = grid.shape if grid is not None else (functions[function.coords].shape[-2],)
        channels = _channels(stored.shape, inner, values.shape[-1])
        if channels is not None and spec.name not in masks:
            full = (*(1 for _ in spec.axes[:-2]), prod(inner), channels)
            of_points[spec.name] = Placed(spec, stored, full, by_question=False, of_points=True)
        channels = _channels(stored.shape, (questions, *inner), values.shape[-1])
        if function.name == "target" and channels is not None:
            of_target = Placed(spec, stored, (questions, prod(inner), channels), by_question=True)
    if of_target is not None and of_points:
        raise FileError(
            f"{where}: mask is {stored.shape}, which can be of the points or of the target of each question; "
            "call it target_mask, or input_mask, output_mask and query_mask"
        )
    if of_target is None and not of_points:
        raise FileError(
            f"{where}: mask is {stored.shape}, which fits neither the points of a function nor the targets; "
            "a mask has 1 where a value was observed, else 0"
        )
    return of_points if of_target is None else {"target_mask": of_target}


def _channels(shape: tuple[int, ...], points: tuple[int, ...], channels: int) -> int | None:
    """How many channels a mask of a shape tells about at those points; None if it is not about them."""
    rest = shape[len(points) :]
    fits = shape[: len(points)] == points and rest in ((), (1,), (channels,))
    return (rest[0] if rest else 1) if fits else None


__all__ = ["place_masks"]
