"""24 h windows: which were observed well enough, and prompts of them.

Each input is a function over (t, lon, lat), each output the stations at one hour.

An *end* is the row of a window's last hour: the window is hours end-23 .. end and its target hour is
end + lead. Points are time-major, oldest frame first. Time is counted in days from the window's end, and
the time of an output is one constant: the examples show the lead, the coordinates do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import DataError, ProblemError
from chop.core.metrics import rmse as root_mean_square
from chop.core.prompt import Axis, Field, Graph, Prompt
from chop.numerics import Array
from chop.problems.air.history import History, Period
from chop.problems.air.region import POLLUTANTS, StationGraph
from chop.problems.case import Case, check_counts

WINDOW = 24  # hours
OUTPUT_TIME = 1.0 / 24  # days after the window's end, whatever the lead
WINDOW_AXES = (Axis("t"), Axis("lon"), Axis("lat"))
LEAST_SHARE = 0.5  # of the values of a window, and of its target hour, that must have been observed


def eligible(
    history: History, period: Period, lead: int, every: int = 1, share: float = LEAST_SHARE
) -> Array:
    """Ends in rising order whose window and target hour lie inside a half-open period and are usable.

    Usable: of every measured channel (all but the hour) at least ``share`` of the values of the window,
    and as many of the target hour, were observed; with share 0 at least one. ``every=6`` keeps the ends
    whose hour of day is 0, 6, 12 or 18 (in general those that ``every`` divides, counted from 1970).
    """
    if not 0 <= share <= 1:
        raise ProblemError(f"share must lie in 0 .. 1, not {share}")
    ends = usable_ends(history, period, lead, every, share)
    ends = ends[_enough(history.observed_share[ends + lead], share)]
    if not ends.size:
        raise DataError(
            f"no window of {history.region.name} between {period[0]} and {period[1]} is usable at "
            f"lead {lead} h: of every channel {share:.0%} must be observed in its 24 h and in the target hour"
        )
    return ends


def usable_ends(
    history: History, period: Period, lead: int, every: int = 1, share: float = LEAST_SHARE
) -> Array:
    """As `eligible`, but whatever was observed in the target hour; there may be none."""
    check_counts(lead=lead, every=every)
    rows = history.range(*period)
    ends = np.arange(rows.start + WINDOW - 1, rows.stop - lead)
    ends = ends[epoch_hours(history, ends) % every == 0]
    return np.asarray(ends[usable_windows(history, share)[ends]])


def usable_windows(history: History, share: float = LEAST_SHARE) -> Array:
    """``(T,)`` bool: whether enough was observed in the 24 h up to each hour."""
    return _enough(window_share(history.observed_share), share)


def window_share(frames: Array) -> Array:
    """The mean of the 24 rows that end at each row; 0 where there are not as many."""
    total = np.cumsum(frames, axis=0)
    windows = np.zeros_like(frames)
    windows[WINDOW - 1 :] = total[WINDOW - 1 :]
    windows[WINDOW:] -= total[:-WINDOW]
    return windows / WINDOW


def _enough(shares: Array, least: float) -> Array:
    # Cumulative sums leave dust of 1e-13: what is that close to the limit, or to nothing, is on it.
    return np.asarray(((shares >= least - 1e-9) & (shares > 1e-9)).all(axis=-1))


def epoch_hours(history: History, rows: Array) -> Array:
    """Hours since 1970: a name for an hour that does not depend on where the record begins."""
    return np.asarray(history.region.times[rows].astype("datetime64[h]").astype(np.int64))


def case(
    history: History,
    ends: Any,
    examples: Any,
    lead: int,
    graph: StationGraph | Graph | None = None,
    scored: Sequence[str] = POLLUTANTS,
) -> Case:
    """n questions at one lead: windows that end at ``ends`` ``(n,)``, each with example windows ``(n, D)``.

    The target is normalised, filled where it was not observed, and ``mask`` says where it was: `rmse`
    counts nothing else. Without ``graph`` the history's own (3 degrees) is taken.
    """
    ends, examples = _checked(history, ends, examples, lead)
    region = history.region
    for name in scored:
        region.channel(name)
    window, frame = coordinates(region.lon, region.lat)
    values, observed = torch.from_numpy(history.values), torch.from_numpy(history.observed)
    at, shown = torch.from_numpy(ends), torch.from_numpy(examples)
    own = history.graph if graph is None else graph
    prompt = Prompt(
        inputs=Field(window, *(gather_windows(part, shown).flatten(-3, -2) for part in (values, observed))),
        outputs=Field(frame, *(gather_hours(part, shown + lead) for part in (values, observed))),
        query=Field(window, *(gather_windows(part, at).flatten(-3, -2) for part in (values, observed))),
        at=frame,
        graph=own.graph if isinstance(own, StationGraph) else own,
        axes=WINDOW_AXES,
        times=_ranks(torch.cat([shown, at[:, None]], dim=1)),
    )
    meta = {
        "problem": "air", "region": region.name, "lead": int(lead), "n": len(ends),
        "channels": list(region.channels), "scored": list(scored), "period": list(history.period),
        "mean": history.scaling.mean.tolist(), "std": history.scaling.std.tolist(),
    }  # fmt: skip
    return Case(
        prompt=prompt,
        target=gather_hours(values, at + lead),
        mask=gather_hours(observed, at + lead),
        meta=meta,
        rows={"end": ends, "examples": examples},
    )


def coordinates(lon: Array, lat: Array) -> tuple[Tensor, Tensor]:
    """The points of a window ``(24 S, 3)`` and of one frame ``(S, 3)``: (t in days, lon, lat)."""
    days = torch.arange(1 - WINDOW, 1, dtype=torch.float64) / 24
    places = torch.from_numpy(np.stack([lon, lat], axis=-1))
    stations = len(places)
    window = torch.cat([days.repeat_interleave(stations)[:, None], places.repeat(WINDOW, 1)], dim=-1)
    frame = torch.cat([torch.full((stations, 1), OUTPUT_TIME, dtype=torch.float64), places], dim=-1)
    return window.float(), frame.float()


def rmse(values: Tensor | Array, case: Case) -> Tensor:
    """Root mean squared error in µg/m³ over the stations observed: ``(n, S, C) -> (n, scored)`` float64.

    NaN where no station was observed, or where an answer is itself not a number.
    """
    if case.mask is None:
        raise ProblemError("this case does not say where its target was observed")
    channels = [case.meta["channels"].index(name) for name in case.meta["scored"]]
    answer = torch.as_tensor(values).double()
    std = torch.tensor(case.meta["std"], dtype=torch.float64)
    error = root_mean_square(answer, case.target.double(), case.mask) * std
    return error[..., channels]


def gather_windows(record: Tensor, ends: Tensor) -> Tensor:
    """Windows ``(*ends, 24, S, C)`` of a record ``(T, S, C)``: consecutive rows, so each is one copy."""
    hours, stations, channels = record.shape
    row = stations * channels
    every = record.reshape(-1).as_strided((hours - WINDOW + 1, WINDOW * row), (row, 1))
    chosen = every.index_select(0, ends.reshape(-1) - (WINDOW - 1))
    return chosen.reshape(*ends.shape, WINDOW, stations, channels)


def gather_hours(record: Tensor, rows: Tensor) -> Tensor:
    """Single hours ``(*rows, S, C)`` of a record ``(T, S, C)``."""
    return record.index_select(0, rows.reshape(-1)).reshape(*rows.shape, *record.shape[1:])


def _ranks(ends: Tensor) -> Tensor:
    """The order in time of each prompt's windows: 0 is the earliest."""
    return ends.argsort(dim=-1, stable=True).argsort(dim=-1)


def _checked(history: History, ends: Any, examples: Any, lead: int) -> tuple[Array, Array]:
    ends, examples = np.asarray(ends), np.asarray(examples)
    if ends.ndim != 1 or examples.ndim != 2 or len(ends) != len(examples) or not examples.size:
        raise ProblemError(
            f"a case needs ends (n,) and examples (n, D), n and D from 1, "
            f"not {ends.shape} and {examples.shape}"
        )
    if ends.dtype.kind not in "iu" or examples.dtype.kind not in "iu":
        raise ProblemError("ends and examples are rows of the record: whole numbers")
    if not isinstance(lead, (int, np.integer)) or lead < 1:
        raise ProblemError(f"lead must be a whole number of hours, 1 or more, not {lead!r}")
    hours = len(history.values)
    for name, rows in (("ends", ends), ("examples", examples)):
        if rows.min() < WINDOW - 1 or rows.max() + lead >= hours:
            raise ProblemError(
                f"{name} must lie in {WINDOW - 1} .. {hours - lead - 1}, so that window and target are in "
                f"the record of {hours} hours, but they reach from {rows.min()} to {rows.max()}"
            )
    return ends.astype(np.int64), examples.astype(np.int64)
