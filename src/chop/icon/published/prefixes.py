"""What sequences of example pairs have in common: their beginnings.

In a published network an example sees those before it and never what comes after, so what it becomes depends
on the beginning of the sequence up to it alone. Held-out prompts of one parent are such sequences: 0 1 2 3 4,
then 1 2 3 4 1, 0 2 3 4 0, and so on. Every distinct beginning is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

Path = tuple[int, ...]
"""A beginning: which pairs, in which order. Its last pair is the one that is encoded."""


@dataclass(frozen=True)
class Prefixes:
    """Distinct beginnings, the shorter ones first: each after those it goes on from."""

    paths: tuple[Path, ...]

    @staticmethod
    def of(sequences: Iterable[Path]) -> Prefixes:
        """All beginnings of some sequences."""
        found = {sequence[:length] for sequence in sequences for length in range(1, len(sequence) + 1)}
        return Prefixes(tuple(sorted(found, key=lambda path: (len(path), path))))

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def _place(self) -> dict[Path, int]:
        return {path: place for place, path in enumerate(self.paths)}

    @property
    def pairs(self) -> list[int]:
        """The pair that each encodes."""
        return [path[-1] for path in self.paths]

    @property
    def positions(self) -> list[int]:
        """Where in the sequence that pair stands."""
        return [len(path) - 1 for path in self.paths]

    def levels(self) -> Iterator[tuple[slice, Tensor]]:
        """Those of one length after the other: their places, and `chains` of them."""
        first = 0
        while first < len(self):
            length = len(self.paths[first])
            last = first
            while last < len(self) and len(self.paths[last]) == length:
                last += 1
            yield slice(first, last), self.chains(self.paths[first:last])
            first = last

    def chains(self, sequences: Sequence[Path]) -> Tensor:
        """Places ``(sequences, length)`` of the beginnings of equally long sequences."""
        return torch.tensor([[self._place[s[: i + 1]] for i in range(len(s))] for s in sequences])


def along_chains(part: Tensor, chains: Tensor) -> Tensor:
    """Of ``(rows, prefixes, tokens, ...)`` those of each whole chain: ``(rows * chains, tokens, ...)``.

    A chain of all prefixes in order is no copy.
    """
    count, length = chains.shape
    if count == 1 and chains[0].tolist() == list(range(length)):
        return part[:, :length].flatten(1, 2)
    picked = part.index_select(1, chains.flatten().to(part.device))
    chained: Tensor = picked.unflatten(1, (count, length)).flatten(2, 3).flatten(0, 1)
    return chained
