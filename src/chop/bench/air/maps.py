"""Maps: the station graphs of both regions, and forecasts of one day beside what was observed.

The day is that of the question with the median Raw error, not a chosen one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chop.bench.air.conditions import CHOP, NAMES, POLLUTANTS, RAW, WRITTEN, Condition, Direction, label_of
from chop.bench.air.figures import UNIT
from chop.bench.air.results import Results
from chop.bench.air.work import Setting
from chop.bench.figures import INK, new_figure
from chop.core.text import parse

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from chop.bench.air.questions import Source
    from chop.core.model import FrozenModel
    from chop.problems.air.region import Region
    from chop.problems.case import Case

Array = NDArray[Any]
FIELD_MAP = "viridis"
DRAWN_EDGES = 400
"""Of a graph's edges, about as many as can be told apart."""
TIMES = (6, 12, 18)
MAP_LEAD = 6
_GREY = "#b5bac0"


class Places(NamedTuple):
    """Where stations are, in degrees ``(S,)`` each."""

    lon: Array
    lat: Array


def map_figures(results: Results, setting: Setting) -> dict[str, Figure]:
    """Every map for which there are results, by the name of its file."""
    made = {"stations": graphs(setting)}
    for direction in results.directions:
        if direction.carried:
            made[f"maps_{direction.name}"] = forecasts(results, setting, direction)
    return made


def graphs(setting: Setting) -> Figure:
    """Who neighbours whom in each region; the colour is the mean of the example period."""
    parts = []
    for source in sorted(setting.sources, key=lambda source: source.region):
        history = source.history()  # one region at a time is kept
        region, rows = history.region, history.range(*source.split.examples)
        mean = np.nanmean(region.values[rows, :, region.channel(POLLUTANTS[0])], axis=0)
        edges = history.graph.graph.edges.numpy()
        parts.append((region.name, Places(region.lon, region.lat), edges[:, edges[0] < edges[1]], mean))
    top = max(float(np.nanmax(mean)) for *_, mean in parts)
    figure = new_figure(5.4 * len(parts), 5.8)
    axes: Any = figure.subplots(1, len(parts), squeeze=False)[0]
    for ax, (name, places, edges, mean) in zip(axes, parts, strict=True):
        step = max(1, edges.shape[1] // DRAWN_EDGES)
        chosen = np.random.default_rng(0).permutation(edges.shape[1])[: edges.shape[1] // step]
        ends = edges[:, chosen]
        ax.plot(places.lon[ends], places.lat[ends], color=_GREY, linewidth=0.5, zorder=1)
        shown = _dots(ax, places, mean, top)
        said = "all drawn" if step == 1 else f"1 in {step} drawn"
        ax.set_title(
            f"{NAMES.get(name, name)}: {len(places.lon)} stations, {edges.shape[1]:,} edges ({said})",
            fontsize=10,
        )
        _map_frame(ax, places)
    figure.colorbar(
        shown, ax=list(axes), label=f"mean {WRITTEN[POLLUTANTS[0]]} of the example period ({UNIT})"
    )
    figure.suptitle("Stations and their graphs (3° radius)", fontsize=12, color=INK)
    return figure


def forecasts(results: Results, setting: Setting, direction: Direction) -> Figure:
    """The day of the question with the median Raw error."""
    network, source = setting.network(direction.network), setting.source(direction.region)
    return one_day(source, network, _typical_day(results, direction), direction.label)


def one_day(source: Source, network: FrozenModel, day: int, title: str) -> Figure:
    """Three times of a day (counted from 1970): observed, Raw ICON, CHOP(Air); both pollutants."""
    case = source.case(tuple(24 * day + at - MAP_LEAD for at in TIMES), "random", MAP_LEAD)
    region = source.history().region
    columns, rows = len(TIMES) * len(POLLUTANTS), 3
    figure = new_figure(2.3 * columns + 1.0, rows * 2.3 * _height(region) + 2.0)
    halves: Any = figure.subfigures(1, len(POLLUTANTS))
    fields = {text: parse(text).run(network, case.prompt, trace=False).values for text in (RAW, CHOP)}
    for half, pollutant in zip(halves, POLLUTANTS, strict=True):
        _one_pollutant(half, case, region, pollutant, fields)
    figure.suptitle(
        f"{title}, {MAP_LEAD} h ahead with random examples, {np.datetime64(day, 'D')}; "
        "grey circles: not observed",
        fontsize=12, color=INK,
    )  # fmt: skip
    return figure


def _one_pollutant(half: Any, case: Case, region: Region, pollutant: str, fields: dict[str, Tensor]) -> None:
    """Truth and two forecasts down, times across."""
    from chop.problems.air.windows import rmse

    channel = region.channel(pollutant)
    mean, std = case.meta["mean"][channel], case.meta["std"][channel]
    assert case.mask is not None
    seen = case.mask[:, :, channel].numpy()
    truth = np.where(seen, case.target[:, :, channel].numpy() * std + mean, np.nan)
    top = float(np.nanquantile(truth, 0.98)) if seen.any() else 1.0
    axes = half.subplots(1 + len(fields), len(TIMES), sharex=True, sharey=True, squeeze=False)
    for column, at in enumerate(TIMES):
        _dots(axes[0, column], region, truth[column], top)
        axes[0, column].set_title(f"observed at {at:02d}:00", fontsize=9)
        for row, (method, values) in enumerate(fields.items(), 1):
            error = float(rmse(values, case)[column, POLLUTANTS.index(pollutant)])
            shown = _dots(axes[row, column], region, values[column, :, channel].numpy() * std + mean, top)
            axes[row, column].set_title(f"{label_of(method)}, RMSE {error:.1f}", fontsize=9)
    for ax in axes.flat:
        _map_frame(ax, region)
        ax.label_outer()
    label = f"{WRITTEN[pollutant]} ({UNIT})"
    half.colorbar(
        shown, ax=list(axes.flat), label=label, extend="max", location="bottom", shrink=0.8, aspect=40
    )


def _typical_day(results: Results, direction: Direction) -> int:
    """The day (since 1970) of the question with the median Raw error."""
    condition = Condition(direction, "random", MAP_LEAD, POLLUTANTS[0])
    errors = results.errors(condition, RAW)
    order = np.argsort(np.where(np.isfinite(errors), errors, np.inf), kind="stable")
    hours = [hour for record in results.records(condition, RAW) for hour in record["hours"]]
    return int(hours[int(order[len(order) // 2])] + MAP_LEAD) // 24


def _dots(ax: Any, places: Places | Region, values: Any, top: float) -> Any:
    seen = np.isfinite(values)
    size = float(np.clip(4000 / len(seen), 20, 60))
    ax.scatter(
        places.lon[~seen], places.lat[~seen], s=0.7 * size, facecolor="none", edgecolor=_GREY, linewidth=0.7
    )
    return ax.scatter(
        places.lon[seen], places.lat[seen], c=values[seen], s=size, cmap=FIELD_MAP, vmin=0.0, vmax=top,
        edgecolor=INK, linewidth=0.25, zorder=2,
    )  # fmt: skip


def _height(places: Places | Region) -> float:
    """How high a map is that is 1 wide."""
    lon, lat = (float(np.ptp(axis)) + 0.5 for axis in (places.lon, places.lat))
    return float(np.clip(lat / (lon * np.cos(np.radians(np.mean(places.lat)))), 0.5, 2.0))


def _map_frame(ax: Any, places: Places | Region) -> None:
    ax.set_aspect(1.0 / np.cos(np.radians(float(np.mean(places.lat)))))
    ax.set_xlabel("longitude (°E)", fontsize=8)
    ax.set_ylabel("latitude (°N)", fontsize=8)
    ax.tick_params(labelsize=7)


__all__ = ["forecasts", "graphs", "map_figures", "one_day"]
