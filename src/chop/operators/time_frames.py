"""Frames of functions of time: the first, the last, the mean of all, at the places of an answer."""

from __future__ import annotations

import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.grids import nearest_index, resample
from chop.core.prompt import Field, without_repeats


def extreme_frame(part: Field, at: Tensor, axis: int | None, who: str, last: bool) -> Tensor:
    """Functions ``(..., n, c)`` at their last (or first) time, taken to the places ``at`` ``(..., m, k)``.

    ``axis`` is where time stands among the coordinates; without time all points are the frame.
    """
    if axis is None:
        return resample(part.values, nearest_index(part.coords, at))
    frame = _extreme(part, axis, who, last)
    others = [i for i in range(at.shape[-1]) if i != axis]
    if not others:  # time is all there is: the frame is one point
        return frame.values[..., :1, :].expand(*part.batch, at.shape[-2], part.channels)
    return resample(frame.values, nearest_index(frame.coords[..., others], at[..., others]))


def mean_frame(part: Field, at: Tensor, axis: int | None, who: str) -> Tensor:
    """The mean over all times of functions ``(..., n, c)``, each frame taken to the places ``at``."""
    if axis is None:
        return resample(part.values, nearest_index(part.coords, at))
    others = [i for i in range(at.shape[-1]) if i != axis]
    if not others:
        return part.values.mean(dim=-2, keepdim=True).expand(*part.batch, at.shape[-2], part.channels)
    times = without_repeats(part.coords)[..., axis]
    count = len(times.reshape(-1, times.shape[-1])[0].unique())
    if times.shape[-1] % count:
        raise ProgramError(f"{who} needs equally many points at every time")
    order = times.argsort(dim=-1, stable=True)
    grouped = times.gather(-1, order).unflatten(-1, (count, -1))
    if not bool((grouped == grouped[..., :1]).all()):
        raise ProgramError(f"{who} needs equally many points at every time")
    order = order.expand(*part.batch, times.shape[-1])
    ordered = resample(part.coords[..., others], order).unflatten(-2, (count, -1))
    frames = resample(part.values, order).unflatten(-2, (count, -1))
    return resample(frames, nearest_index(ordered, at[..., others].unsqueeze(-3))).mean(dim=-3)


def _extreme(part: Field, axis: int, who: str, last: bool) -> Field:
    times = without_repeats(part.coords)[..., axis]
    wanted = times.amax(dim=-1, keepdim=True) if last else times.amin(dim=-1, keepdim=True)
    chosen = times == wanted
    count = chosen.sum(dim=-1)
    size = int(count.max())
    if bool((count != size).any()):
        raise ProgramError(f"{who} needs equally many points in that frame for all prompts of a batch")
    # A stable sort brings the chosen points to the front in their stored order.
    index = (~chosen).to(torch.uint8).argsort(dim=-1, stable=True)[..., :size]
    index = index.expand(*part.batch, size)
    return Field(resample(part.coords, index), resample(part.values, index))
