"""Pairs in memory: a few chunks that grow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from chop.bank.allowed import Allowed
from chop.bank.pairs import PairForm, Pairs, joined_fields, joined_pairs, take_rows
from chop.bank.sources import grouped
from chop.core.fields import Field
from chop.numerics import Array


class MemoryPairs:
    """Chunks of pairs; a chunk is joined to the one before as soon as it is as long.

    So pairs that come one at a time are copied a few times each, and there are never many chunks.
    """

    name = "the bank"

    def __init__(self, pairs: Pairs) -> None:
        self._chunks = [pairs.to("cpu")]
        self.form: PairForm | None = PairForm.of(self._chunks[0])

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    @property
    def asked(self) -> Tensor | None:
        return self._times([chunk.asked for chunk in self._chunks])

    @property
    def known(self) -> Tensor | None:
        return self._times([chunk.known for chunk in self._chunks])

    def _times(self, parts: list[Tensor | None]) -> Tensor | None:
        there = [part for part in parts if part is not None]
        return torch.cat(there) if there else None

    @property
    def _starts(self) -> Array:
        return np.cumsum([0, *map(len, self._chunks[:-1])])

    def take(self, rows: Tensor) -> Pairs:
        parts, back = grouped(self._starts, rows)
        return joined_pairs([self._chunks[chunk].take(inside) for chunk, inside in parts]).take(back)

    def take_inputs(self, rows: Tensor) -> Field:
        parts, back = grouped(self._starts, rows)
        found = joined_fields([take_rows(self._chunks[chunk].inputs, inside) for chunk, inside in parts])
        return take_rows(found, back)

    def blocks(self, rows: int) -> Iterator[tuple[int, Pairs]]:
        first = 0
        for chunk in list(self._chunks):
            for start in range(0, len(chunk), rows):
                yield first + start, chunk.cut(start, start + rows)
            first += len(chunk)

    def input_blocks(self, rows: int) -> Iterator[tuple[int, Field]]:
        for first, pairs in self.blocks(rows):
            yield first, pairs.inputs

    def similar(self, queries: Field, k: int, allowed: Allowed) -> Array | None:
        return None

    def add(self, pairs: Pairs, note: dict[str, object] | None = None) -> int:
        assert self.form is not None
        self.form.check(pairs, self.name)
        self._chunks.append(pairs.to("cpu"))
        while len(self._chunks) > 1 and len(self._chunks[-1]) >= len(self._chunks[-2]):
            last = self._chunks.pop()
            self._chunks[-1] = joined_pairs([self._chunks[-1], last])
        return len(self)

    def refresh(self) -> None:
        """All there is is seen."""

    def close(self) -> None:
        """Nothing is held."""
