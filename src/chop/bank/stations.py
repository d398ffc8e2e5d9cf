"""A record of stations as a bank: every usable window of a period is a pair, and none is written down."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from chop.bank.allowed import Allowed
from chop.bank.bank import Bank
from chop.bank.pairs import PairForm, Pairs
from chop.core.errors import BankError
from chop.core.fields import Field, unchecked
from chop.numerics import Array
from chop.problems.air.history import History, Period
from chop.problems.air.retrieval import similar_to_windows
from chop.problems.air.windows import (
    WINDOW,
    WINDOW_AXES,
    coordinates,
    eligible,
    epoch_hours,
    gather_hours,
    gather_windows,
)


def station_bank(history: History, lead: int, period: Period) -> Bank:
    """The windows of a period with what came ``lead`` hours after each, as a bank.

    Time is counted in hours since 1970: a pair is asked at the end of its window and known ``lead`` hours
    later. Two windows are as similar as `chop.problems.air` says: the cosine of all their normalised values.
    """
    return Bank.over(StationPairs(history, lead, period))


class StationPairs:
    """Windows of a record, gathered when they are asked for."""

    def __init__(self, history: History, lead: int, period: Period) -> None:
        self.history, self.lead = history, lead
        self.ends = eligible(history, period, lead)
        """The row of the last hour of each pair's window."""
        region = history.region
        self.name = f"the record of {region.name}"
        self._values, self._observed = torch.from_numpy(history.values), torch.from_numpy(history.observed)
        window, frame = coordinates(region.lon, region.lat)
        channels = len(region.channels)
        self.form: PairForm | None = PairForm(
            window, frame, channels, channels, WINDOW_AXES, history.graph.graph, timed=True
        )
        self._window, self._frame = window, frame
        self.asked: Tensor | None = torch.from_numpy(epoch_hours(history, self.ends))
        self.known: Tensor | None = torch.from_numpy(epoch_hours(history, self.ends) + lead)

    def __len__(self) -> int:
        return len(self.ends)

    def window(self, ends: Array) -> Field:
        """Windows that end at rows of the record ``(Q,)``, as queries."""
        at = torch.from_numpy(np.asarray(ends, dtype=np.int64))
        values, mask = (gather_windows(part, at).flatten(-3, -2) for part in (self._values, self._observed))
        return Field(self._window, values, mask)

    def take(self, rows: Tensor) -> Pairs:
        assert self.form is not None
        assert self.asked is not None
        assert self.known is not None
        ends = self.ends[rows.numpy()]
        later = torch.from_numpy(ends) + self.lead
        values, mask = (gather_hours(part, later) for part in (self._values, self._observed))
        return unchecked(
            Pairs,
            inputs=self.window(ends),
            outputs=Field(self._frame, values, mask),
            axes=self.form.axes,
            graph=self.form.graph,
            asked=self.asked[rows],
            known=self.known[rows],
        )

    def take_inputs(self, rows: Tensor) -> Field:
        return self.window(self.ends[rows.numpy()])

    def blocks(self, rows: int) -> Iterator[tuple[int, Pairs]]:
        for first in range(0, len(self), rows):
            yield first, self.take(torch.arange(first, min(first + rows, len(self))))

    def input_blocks(self, rows: int) -> Iterator[tuple[int, Field]]:
        for first in range(0, len(self), rows):
            yield first, self.take_inputs(torch.arange(first, min(first + rows, len(self))))

    def similar(self, queries: Field, k: int, allowed: Allowed) -> Array | None:
        """By the cosine of whole windows, from products of single frames."""
        stations, channels = self.history.values.shape[1:]
        if queries.points != WINDOW * stations:
            raise BankError(
                f"queries must be windows of {WINDOW} h at the {stations} stations of {self.name}"
            )
        windows = queries.values.reshape(-1, WINDOW, stations, channels).numpy()
        return similar_to_windows(
            self.history, windows, self.ends, k, lambda scores, some: allowed.hide(0, scores, some)
        )

    def add(self, pairs: Pairs, note: dict[str, object] | None = None) -> int:
        raise BankError(f"{self.name} is not added to: make the bank again from a longer record")

    def refresh(self) -> None:
        """A record does not change."""

    def close(self) -> None:
        """Nothing is held."""
