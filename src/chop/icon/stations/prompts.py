"""Which prompts a network of stations can be asked, and which of them together."""

from __future__ import annotations

from torch import Tensor

from chop.core.errors import ModelError
from chop.core.prompt import Prompt, without_repeats


def need_windows(prompt: Prompt, channels: tuple[str, ...], hours: int) -> None:
    """A prompt whose inputs are windows of so many hours at the stations asked, with these channels."""
    names = tuple(axis.name for axis in prompt.axes or ())
    if len(names) != 3 or (prompt.axes_stated and names != ("t", "lon", "lat")):
        raise ModelError(f"this network knows functions of (t, lon, lat), the prompt has {names}")
    given = (prompt.query.channels, prompt.outputs.channels)
    if given != (len(channels), len(channels)):
        raise ModelError(
            f"this network maps the {len(channels)} channels {', '.join(channels)} to themselves, "
            f"the prompt maps {given[0]} to {given[1]}"
        )
    stations = prompt.at.shape[-2]
    for points in (prompt.query.points, prompt.inputs.points):
        if points != hours * stations:
            raise ModelError(
                f"a window needs {hours} frames of the {stations} stations asked, not {points} points"
            )
    if prompt.outputs.points != stations:
        raise ModelError(f"outputs have {prompt.outputs.points} stations, but {stations} are asked")
    for coords in (prompt.inputs.coords, prompt.query.coords):
        t = without_repeats(coords)[..., 0].unflatten(-1, (hours, stations))
        if not bool((t == t[..., :1]).all() and (t[..., 1:, 0] > t[..., :-1, 0]).all()):
            raise ModelError("the frames of a window must follow each other, the oldest first")


def same_stations(prompt: Prompt, hours: int) -> bool:
    """All prompts of the batch, their inputs and outputs have the same stations in the same order."""
    places = first_places(prompt)
    windows = (prompt.inputs.coords, prompt.query.coords)
    where = [without_repeats(coords)[..., 1:].unflatten(-2, (hours, -1)) for coords in windows]
    where += [without_repeats(coords)[..., 1:] for coords in (prompt.outputs.coords, prompt.at)]
    return all(bool((part == places).all()) for part in where)


def first_places(prompt: Prompt) -> Tensor:
    """Longitude and latitude ``(S, 2)`` of the first prompt's stations."""
    return prompt.at[(0,) * len(prompt.batch)][:, 1:]
