"""Where the rows of a bank come from: what memory, files and a record of stations have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from chop.bank.allowed import Allowed
from chop.bank.pairs import PairForm, Pairs
from chop.core.fields import Field
from chop.numerics import Array

BLOCK_BYTES = 4 * 2**20
"""Values of one block of rows, where nobody says how many rows."""


class PairSource(Protocol):
    """Numbered pairs of one form, read by their numbers or all in order."""

    @property
    def name(self) -> str:
        """What a sentence calls it."""

    @property
    def form(self) -> PairForm | None:
        """What all pairs share; None while there is none."""

    @property
    def asked(self) -> Tensor | None:
        """When each input was there ``(N,)``."""

    @property
    def known(self) -> Tensor | None:
        """When each output was there ``(N,)``."""

    def __len__(self) -> int: ...

    def take(self, rows: Tensor) -> Pairs:
        """These rows, in this order."""

    def take_inputs(self, rows: Tensor) -> Field:
        """The inputs of these rows alone."""

    def blocks(self, rows: int) -> Iterator[tuple[int, Pairs]]:
        """All pairs in order, so many at a time, each with the number of its first."""

    def input_blocks(self, rows: int) -> Iterator[tuple[int, Field]]:
        """The same of the inputs alone."""

    def similar(self, queries: Field, k: int, allowed: Allowed) -> Array | None:
        """The k most similar rows of each query by a likeness of the source's own; None: it has none."""

    def add(self, pairs: Pairs, note: dict[str, object] | None = None) -> int:
        """More pairs behind the others, kept when this returns; the new number of all."""

    def refresh(self) -> None:
        """See what was added by others."""

    def close(self) -> None:
        """Let go of files."""


def block_rows(row_bytes: int) -> int:
    """How many rows make a block."""
    return max(1, min(8192, BLOCK_BYTES // max(1, row_bytes)))


def grouped(starts: Array, rows: Tensor) -> tuple[list[tuple[int, Tensor]], Tensor]:
    """Rows by the chunk that holds them, with numbers inside it in rising order, and the way back.

    ``starts`` are the numbers of the first rows of all chunks. What is read chunk by chunk and joined
    becomes what was asked for by the index that comes second.
    """
    wanted = rows.cpu().numpy()
    unique, back = np.unique(wanted, return_inverse=True)
    chunk = np.searchsorted(starts, unique, side="right") - 1
    cuts = np.flatnonzero(np.diff(chunk)) + 1
    parts = [
        (int(chunk[part[0]]), torch.from_numpy(unique[part] - starts[chunk[part[0]]]))
        for part in np.split(np.arange(len(unique)), cuts)
    ]
    return parts, torch.from_numpy(back.reshape(-1))
