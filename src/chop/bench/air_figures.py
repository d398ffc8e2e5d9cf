"""Figures of air quality: boxes and lines of errors by lead, the program's weights, station graphs and maps.

Maps show the day of the question with the median Raw error, not a chosen one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chop.bench.air import WRITTEN, Forecast
from chop.bench.air_directions import SELECTIONS, Direction, shown_name
from chop.bench.air_questions import LEADS
from chop.bench.figures import (
    BOXES,
    FIELD_MAP,
    INK,
    PROGRAM_LOOK,
    RAW_LOOK,
    Look,
    draw_box,
    label_axis,
    legend,
    new_figure,
    write_change,
)  # fmt: skip
from chop.bench.methods import AIR, AIR_LABELS, AIR_METHODS, PERSISTENCE, RAW, YESTERDAY
from chop.bench.results import Results
from chop.bench.suite import Setting
from chop.core.program import Program
from chop.core.text import parse
from chop.problems.air import POLLUTANTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from chop.bench.air_questions import RegionSource
    from chop.core.model import FrozenModel
    from chop.problems.air.region import Region
    from chop.problems.case import Case

Array = NDArray[Any]
UNIT = "µg/m³"
DUST = "PM2.5"
LOOKS = {
    RAW: RAW_LOOK,
    AIR: replace(PROGRAM_LOOK, label=AIR_LABELS[AIR]),
    PERSISTENCE: Look(AIR_LABELS[PERSISTENCE], "#009e73", "", "-.", "^"),
    YESTERDAY: Look(AIR_LABELS[YESTERDAY], "#cc79a7", "", ":", "v"),
    "mean_output": Look(AIR_LABELS["mean_output"], "#56606b", "", (0, (1, 1)), "x"),
    "nearest_output": Look(AIR_LABELS["nearest_output"], "#e69f00", "", (0, (5, 1, 1, 1)), "+"),
}
SHADES = ("#d55e00", "#009e73", "#e69f00", "#56606b", "#f0e442", "#0072b2", "#56b4e9")
HATCHES = ("", "///", "...", "xx", "", "\\\\\\", "++")


DRAWN_EDGES = 400
"""Of a graph's edges, about as many as can be told apart."""
TIMES = (6, 12, 18)
MAP_LEAD = 6
_GREY = "#b5bac0"
SIDE_BY_SIDE = 2
"""Directions in one figure; further ones get figures of their own."""


def measured_directions(results: Results, carried: bool = False) -> list[Direction]:
    """Those of which something is finished, each carried one before its network at home."""
    found = dict.fromkeys(dict(entry.condition.settings)["direction"] for entry in results.entries.values())
    return [direction for direction in found if direction.carried or not carried]


def candidates() -> tuple[str, ...]:
    """What CHOP(Air) mixes, in order."""
    program: Program = parse(AIR)
    return tuple(str(part) for part in program.bases)  # type: ignore[attr-defined]


def mean_weights(results: Results, forecast: Forecast) -> Array | None:
    """Mean weight of each of CHOP(Air)'s candidates."""
    records = results.records(forecast.direction.condition(forecast.selection, forecast.lead).name, AIR)
    if not records:
        return None
    sizes = np.array([len(record["hours"]) for record in records], dtype=np.float64)
    rows = np.array([record["weights"][forecast.pollutant] for record in records])
    return np.asarray(sizes @ rows / sizes.sum())


def air_figures(results: Results, setting: Setting | None) -> dict[str, Figure]:
    """Every figure for which there are results, by the name of its file; maps need the ``setting``."""
    carried = measured_directions(results, carried=True)
    made: dict[str, Figure] = {}
    if carried:
        made = {f"boxes_{direction.name}": boxes(results, direction) for direction in carried}
        for number, part in _side_by_side(carried).items():
            made |= {f"leads{number}": by_lead(results, part), f"weights{number}": weights(results, part)}
    if setting is not None:
        made["stations"] = station_graphs(setting)
        for direction in (direction for direction in carried if _there(direction, setting)):
            day = results.typical(Forecast(direction, "random", MAP_LEAD, DUST).name)
            assert day is not None
            source, network = setting.source(direction.region), setting.network(direction.network)
            made[f"maps_{direction.name}"] = one_day(source, network, (day + MAP_LEAD) // 24, direction.label)
    return made


def _there(direction: Direction, setting: Setting) -> bool:
    """Whether network and data are at hand: a folder may hold results of more."""
    networks = {network.name for network in setting.networks}
    return direction.network in networks and direction.region in {part.region for part in setting.sources}


def _side_by_side(carried: Sequence[Direction]) -> dict[str, Sequence[Direction]]:
    """Directions as they share figures, by what the names of those end with."""
    starts = range(0, len(carried), SIDE_BY_SIDE)
    return {f"_{i + 1}" if i else "": carried[s : s + SIDE_BY_SIDE] for i, s in enumerate(starts)}


def air_captions(results: Results) -> dict[str, str]:
    """What stands under each figure that there may be, in their order."""
    carried = measured_directions(results, carried=True)
    parts = _side_by_side(carried)

    def which(part: Sequence[Direction]) -> str:
        return "" if len(parts) == 1 else f": {', '.join(direction.label for direction in part)}"

    return {
        "stations": "Stations and their graphs. Only some of the edges are drawn; the networks use all of "
        "them.",
        **{
            f"maps_{d.name}": f"Forecasts of the {shown_name(d.network)} network in {shown_name(d.region)} "
            "at three times of one day."
            for d in carried
        },
        **{
            f"boxes_{d.name}": f"{d.label}: errors by lead; percentages are changes of the mean."
            for d in carried
        },
        **{f"leads{end}": f"Mean errors of all methods by lead{which(part)}." for end, part in parts.items()},
        **{
            f"weights{end}": f"Mean weights that CHOP(Air) gives to its candidates by lead{which(part)}."
            for end, part in parts.items()
        },
    }


def boxes(results: Results, direction: Direction) -> Figure:
    """Both pollutants and selections: Raw ICON and CHOP(Air) at every lead."""
    figure = new_figure(15.0, 8.0)
    axes: Any = figure.subplots(len(POLLUTANTS), len(SELECTIONS), sharey="row", squeeze=False)
    for row, (pollutant, written) in zip(axes, WRITTEN.items(), strict=True):
        for ax, selection in zip(row, SELECTIONS, strict=True):
            counts = [
                _pair(ax, results, Forecast(direction, selection, lead, pollutant).name, place)
                for place, lead in enumerate(LEADS)
            ]
            n = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
            label_axis(ax, LEADS, f"{written}, {selection} examples", f"lead (h); n = {n} questions each")
        low, high = row[0].get_ylim()
        row[0].set_ylim(0.0, high + 0.12 * (high - low))
        row[0].set_ylabel(f"RMSE of one question ({UNIT})")
    legend(figure, [LOOKS[RAW], LOOKS[AIR]], BOXES.replace("range", "range, beyond not shown"))
    figure.suptitle(f"Air quality, {direction.label}", fontsize=12, color=INK)
    return figure


def _pair(ax: Any, results: Results, forecast: str, place: int) -> int:
    """The two boxes of one forecast; returns how many questions they hold."""
    counted = 0
    for shift, method in ((-0.2, RAW), (0.2, AIR)):
        errors = results.errors(forecast, method)
        assert errors is not None
        errors = errors[np.isfinite(errors)]
        counted = len(errors)
        if counted:
            draw_box(ax, errors, place + shift, 0.34, LOOKS[method], mean=4.0, median=1.3)
    reduction = results.reduction(forecast, AIR)
    if reduction is not None:
        write_change(ax, place, reduction, 1, LOOKS[RAW if reduction < 0 else AIR].color)
    return counted


def by_lead(results: Results, carried: Sequence[Direction]) -> Figure:
    """Mean errors of all methods."""

    def draw(ax: Any, forecasts: list[Forecast]) -> None:
        for method in AIR_METHODS[::-1]:  # the program on top
            draw_means(ax, method, [results.mean(forecast.name, method) for forecast in forecasts])

    figure, axes = _panels(results, carried, "Mean RMSE of all methods", "≤", draw)
    for row in axes:
        row[0].set_ylim(bottom=0.0)
        row[0].set_ylabel(f"mean RMSE ({UNIT})")
    _legend_below(figure, axes[0][0], -1)
    return figure


def draw_means(ax: Any, method: str, means: Sequence[float]) -> None:
    """One method's mean error at each lead."""
    look = LOOKS[method]
    ax.plot(
        range(len(means)), means, color=look.color, linestyle=look.dash, marker=look.marker, markersize=4,
        linewidth=1.5, label=look.label,
    )  # fmt: skip


def weights(results: Results, carried: Sequence[Direction]) -> Figure:
    """What CHOP(Air) leans on: the mean weight of each candidate."""

    def draw(ax: Any, forecasts: list[Forecast]) -> None:
        found = [mean_weights(results, forecast) for forecast in forecasts]
        parts = np.array([[0.0] * len(candidates()) if row is None else row for row in found])
        floor = np.zeros(len(LEADS))
        for i, text in enumerate(candidates()):
            ax.bar(
                range(len(LEADS)), parts[:, i], bottom=floor, width=0.86, color=SHADES[i % len(SHADES)],
                hatch=HATCHES[i % len(HATCHES)], edgecolor=INK, linewidth=0.4, label=text,
            )  # fmt: skip
            floor = floor + parts[:, i]

    title = "What CHOP(Air) leans on: mean weights of its candidates"
    figure, axes = _panels(results, carried, title, "=", draw)
    for row in axes:
        row[0].set_ylim(0.0, 1.0)
        row[0].set_ylabel("mean weight")
    _legend_below(figure, axes[0][0])
    return figure


def _panels(
    results: Results, carried: Sequence[Direction], title: str, sign: str,
    draw: Callable[[Any, list[Forecast]], None],
) -> tuple[Figure, Any]:  # fmt: skip
    """Pollutants down, directions and selections across, leads along each axis."""
    columns = [(direction, selection) for direction in carried for selection in SELECTIONS]
    figure = new_figure(4.0 * len(columns), 6.6)
    axes: Any = figure.subplots(len(POLLUTANTS), len(columns), sharey="row", squeeze=False)
    figure.suptitle(title, fontsize=12, color=INK)
    for (pollutant, written), row in zip(WRITTEN.items(), axes, strict=True):
        for ax, (direction, selection) in zip(row, columns, strict=True):
            draw(ax, [Forecast(direction, selection, lead, pollutant) for lead in LEADS])
            n = results.entries[direction.conditions[0].name, RAW].n
            label_axis(ax, LEADS, f"{written}, {direction.label}, {selection}", f"lead (h); n {sign} {n}")
    return figure, axes


def _legend_below(figure: Figure, ax: Any, step: int = 1) -> None:
    handles, labels = ax.get_legend_handles_labels()
    columns = 4 if figure.get_figwidth() > 12 else 2  # a narrow figure would cut a row
    figure.legend(
        handles[::step], labels[::step], loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )


class Places(NamedTuple):
    """Where stations are, in degrees ``(S,)`` each."""

    lon: Array
    lat: Array


def station_graphs(setting: Setting) -> Figure:
    """Who neighbours whom in each region; the colour is the mean of the example period."""
    parts = []
    for source in sorted(setting.sources, key=lambda source: source.region):
        history = source.history()  # one region at a time is kept
        region, rows = history.region, history.range(*source.split.examples)
        mean = np.nanmean(region.values[rows, :, region.channel(DUST)], axis=0)
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
        share = "all drawn" if step == 1 else f"1 in {step} drawn"
        ax.set_title(
            f"{shown_name(name)}: {len(places.lon)} stations, {edges.shape[1]:,} edges ({share})",
            fontsize=10,
        )
        _map_frame(ax, places)
    figure.colorbar(shown, ax=list(axes), label=f"mean {WRITTEN[DUST]} of the example period ({UNIT})")
    figure.suptitle("Stations and their graphs (3° radius)", fontsize=12, color=INK)
    return figure


def one_day(source: RegionSource, network: FrozenModel, day: int, title: str) -> Figure:
    """Three times of a day (counted from 1970): observed, Raw ICON, CHOP(Air); both pollutants."""
    case = source.case(tuple(24 * day + at - MAP_LEAD for at in TIMES), "random", MAP_LEAD)
    region = source.history().region
    columns, rows = len(TIMES) * len(POLLUTANTS), 3
    figure = new_figure(2.3 * columns + 1.0, rows * 2.3 * _height(region) + 2.0)
    halves: Any = figure.subfigures(1, len(POLLUTANTS))
    fields = {text: parse(text).run(network, case.prompt, trace=False).values for text in (RAW, AIR)}
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
            axes[row, column].set_title(f"{LOOKS[method].label}, RMSE {error:.1f}", fontsize=9)
    for ax in axes.flat:
        _map_frame(ax, region)
        ax.label_outer()
    label = f"{WRITTEN[pollutant]} ({UNIT})"
    half.colorbar(
        shown, ax=list(axes.flat), label=label, extend="max", location="bottom", shrink=0.8, aspect=40
    )


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
