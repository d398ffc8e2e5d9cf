"""Training batches for the station network: real windows of one region, all leads, many station graphs.

Each operator of a batch is one lead and six windows of the record; every window's answer is predicted from
the others. Half of the operators bring windows drawn at random, half bring a window and the ones most like
it, because users show both kinds of examples. Windows of one operator lie so far apart that none shows
another's answer. Stations are a random part of the region's, so that no graph is learned by heart, and all
values of an operator are stretched and shifted a little together, as another region's would be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import ChopError
from chop.icon.functions.data import PAIRS, VALIDATION_STREAM, visible_pairs
from chop.icon.stations.network import StationIcon
from chop.numerics import Array
from chop.problems import air
from chop.problems.air.windows import gather_hours, gather_windows
from chop.problems.random_streams import random_stream

LONGEST_LEAD = 24
APART = 72
"""Hours between any two windows of one operator that were chosen for their likeness: more than a window
and the longest lead."""
WEIGHTS = {"hour": 0.1, "NO2": 0.3, "PM2.5": 1.0, "O3": 1.0}
"""What an error of a channel costs in training; weather costs as little as the hour."""
CODE = 16
"""Numbers that stand for one hour of a region when windows are compared."""


@dataclass(frozen=True, eq=False)
class StationBatch:
    """B operators with P windows each: ``x (B, P, hours, S, c)``, ``y (B, P, S, c)``, what was observed
    of both, places ``(S, 2)``, who neighbours whom ``(S, S)`` and counts ``(B, P, P)``.
    """

    x: Tensor
    x_seen: Tensor
    y: Tensor
    y_seen: Tensor
    places: Tensor
    neighbours: Tensor
    counts: Tensor
    name: str = ""


@dataclass(frozen=True)
class AirBatches:
    """Batch ``number`` is always the same. ``folder`` holds the data set of ``region``.

    A few weeks of the period are never trained on: the run is judged by them.
    """

    folder: str
    region: str
    size: int = 6
    seed: int = 0
    period: tuple[str, str] = ("2022-01-01", "2024-01-01")
    channels: tuple[str, ...] = ("hour", "NO2", "PM2.5", "O3")
    stations: int = 96
    stretch: float = 0.15
    shift: float = 0.1

    def __post_init__(self) -> None:
        for name in ("period", "channels"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def __call__(self, number: int) -> StationBatch:
        record = _record(self.folder, self.region, self.period, self.channels)
        stream = random_stream("air", "train", self.seed, number, 7)
        chosen = np.sort(stream.permutation(len(record.places))[: self.stations])
        leads = stream.integers(1, LONGEST_LEAD + 1, self.size)
        alike = np.arange(self.size) % 2 == 1
        ends = np.stack([record.windows(stream, bool(kind)) for kind in alike])
        targets = ends + leads[:, None]
        x, x_seen, y, y_seen = (
            gather(torch.from_numpy(part), torch.from_numpy(rows))[..., torch.from_numpy(chosen), :]
            for gather, rows in ((gather_windows, ends), (gather_hours, targets))
            for part in (record.history.values, record.history.observed)
        )
        factor, summand = self._drift(stream, len(self.channels))
        return StationBatch(
            x * factor[:, None, None, None] + summand[:, None, None, None],
            x_seen,
            y * factor[:, None, None] + summand[:, None, None],
            y_seen,
            record.places[chosen],
            record.neighbours[chosen][:, chosen],
            visible_pairs(stream, np.zeros(self.size, dtype=bool)),
            self.region,
        )

    def _drift(self, stream: np.random.Generator, channels: int) -> tuple[Tensor, Tensor]:
        """A factor and a summand for each operator and channel ``(B, c)``; the hour keeps its meaning."""
        factor = np.exp(self.stretch * stream.standard_normal((self.size, channels)))
        summand = self.shift * stream.standard_normal((self.size, channels))
        factor[:, 0], summand[:, 0] = 1.0, 0.0
        return torch.from_numpy(factor).float(), torch.from_numpy(summand).float()


@dataclass(frozen=True, eq=False)
class _Record:
    """A region's history, where windows may end, and a short code of each of its hours ``(T, CODE)``."""

    history: air.History
    places: Tensor
    neighbours: Tensor
    ends: Array
    judged: Array
    """Ends of the weeks that are not trained on."""
    codes: Array

    def windows(self, stream: np.random.Generator, alike: bool) -> Array:
        """Ends ``(6,)``: at random, or the first one at random and others most like it."""
        if not alike:
            return np.asarray(stream.choice(self.ends, PAIRS, replace=False))
        found = [int(stream.choice(self.ends))]
        likeness = self._likeness(found[0])
        while len(found) < PAIRS:
            likeness[np.abs(self.ends - found[-1]) < APART] = -np.inf
            found.append(int(self.ends[np.argmax(likeness)]))
        return np.array(found)

    def _likeness(self, end: int) -> Array:
        """Cosine of every trainable window's code with that of one."""
        window = self.codes[end - 23 : end + 1]
        products = self.codes @ window.T
        total = sum(products[self.ends + back, 23 + back] for back in range(-23, 1))
        sizes = np.cumsum(np.square(self.codes, dtype=float).sum(axis=1))
        sizes = np.concatenate([[0.0], sizes])
        return np.asarray(total / np.sqrt(sizes[self.ends + 1] - sizes[self.ends - 23] + 1e-6))


@lru_cache(maxsize=4)
def _record(folder: str, region: str, period: tuple[str, str], channels: tuple[str, ...]) -> _Record:
    history = air.load_history(folder, region, channels, period)
    ends = air.eligible(history, period, LONGEST_LEAD)
    kept_back = _judged_weeks(history, ends)
    if (~kept_back).sum() < 10 * PAIRS:
        raise ChopError(f"{region} has only {int((~kept_back).sum())} windows to train on in {period}")
    lon, lat = history.region.lon, history.region.lat
    size = len(lon)
    neighbours = torch.zeros(size, size, dtype=torch.bool)
    neighbours[tuple(history.graph.graph.edges)] = True
    return _Record(
        history,
        torch.from_numpy(np.stack([lon, lat], axis=-1)).float(),
        neighbours,
        ends[~kept_back],
        ends[kept_back],
        _codes(history.values),
    )


def _judged_weeks(history: air.History, ends: Array) -> Array:
    """Whether any hour from a window to its latest target lies in the first week of Feb, May, Aug, Nov."""
    days = history.region.times.astype("datetime64[D]")
    day = (days - days.astype("datetime64[M]")).astype(int)
    month = days.astype("datetime64[M]").astype(int) % 12
    kept = np.isin(month, (1, 4, 7, 10)) & (day < 7) & (days >= np.datetime64("2023-01-01"))
    total = np.concatenate([[0], np.cumsum(kept)])
    return np.asarray(total[ends + LONGEST_LEAD + 1] - total[ends - 23] > 0)


def _codes(values: Array) -> Array:
    """The leading components of every hour's field: enough to tell which windows are alike."""
    flat = values.reshape(len(values), -1)
    every = flat[:: max(1, len(flat) // 2000)]
    _, _, axes = np.linalg.svd(every - every.mean(axis=0), full_matrices=False)
    return np.ascontiguousarray(flat @ axes[:CODE].T.astype(np.float32))


def station_loss(network: StationIcon, batch: StationBatch) -> Tensor:
    """Mean over predictions of the root mean square error at the stations observed, channel by channel."""
    kernels = network.kernels(batch.places, batch.neighbours)
    tokens = network.encode_windows(batch.x.flatten(0, 1), batch.x_seen.flatten(0, 1), kernels)
    tokens = tokens.reshape(*batch.x.shape[:2], *tokens.shape[1:])
    memory = network.encode_pairs(tokens, batch.x[:, :, -1], batch.y, batch.y_seen, kernels)
    answer = network.ask(memory, tokens, batch.x, batch.counts, kernels)
    error = channel_errors(answer, batch.y, batch.y_seen)
    weights = [WEIGHTS.get(name, WEIGHTS["hour"]) for name in network.config.channels]
    return (error * torch.tensor(weights, device=error.device)).mean()


def channel_errors(answer: Tensor, truth: Tensor, seen: Tensor) -> Tensor:
    """Root mean square over stations ``(..., S, c) -> (..., c)``; what was not observed does not count."""
    weight = seen.to(answer.dtype)
    square = ((answer - truth).square() * weight).sum(dim=-2) / weight.sum(dim=-2).clamp(min=1.0)
    return (square + 1e-4).sqrt()


def station_errors(network: StationIcon, batches: AirBatches, small: bool = False) -> dict[str, float]:
    """Mean RMSE in the region's units on the weeks not trained on, by pollutant and lead."""
    record = _record(batches.folder, batches.region, batches.period, batches.channels)
    if not record.judged.size:
        return {}
    found = {}
    stream = np.random.default_rng(VALIDATION_STREAM)
    for lead in (1, 6, 24):
        ends = stream.choice(record.judged, 4 if small else 24)
        examples = np.stack([stream.choice(record.ends, 5, replace=False) for _ in ends])
        case = air.case(record.history, ends, examples, lead)
        with torch.inference_mode():
            error = air.rmse(network(case.prompt), case).nanmean(dim=0)
        for name, value in zip(case.meta["scored"], error.tolist(), strict=True):
            found[f"{name} {lead} h"] = round(value, 4)
    return found
