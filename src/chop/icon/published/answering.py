"""Answers of networks that read examples one after the other: in pieces, each beginning once, remembered.

How examples are encoded and asked is the network's own (`SequenceWork`); which beginnings are needed, which
rows of a batch are worked on together and what is kept for the next call is the same for all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from chop.core.prompt import Prompt
from chop.icon.published.prefixes import Prefixes
from chop.icon.sharing import InContextNetwork, Question, recall_examples, remember_examples

REMEMBERED_BYTES = 512 * 2**20
"""Of what one batch of examples became; that of further rows is worked out again."""


class SequenceMemory(Protocol):
    """What some rows of examples became."""

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, eq=False)
class SequenceWork:
    """The pairs of a prompt, ``(rows, D, ...)`` each, and what a network does with them.

    ``encode(*pairs, prefixes)`` is a `SequenceMemory` of some rows. ``asked(questions)`` are the tensors,
    ``(rows, queries, ...)`` each, of questions laid out alike, and ``ask(memory, sequences, *asked)`` answers
    them. ``rows`` says how many rows to work on at a time, if there are so many prefixes.
    """

    pairs: Sequence[Tensor]
    encode: Callable[..., SequenceMemory]
    asked: Callable[[Sequence[Question]], Sequence[Tensor]]
    ask: Callable[..., Tensor]
    rows: Callable[[int], int]


@dataclass(frozen=True, eq=False)
class RememberedBatch:
    """Memories of ``rows`` rows of a batch each; None where there was no room for one."""

    prefixes: Prefixes
    rows: int
    memories: tuple[SequenceMemory | None, ...]


def answer_sequences(
    network: InContextNetwork, root: Prompt, questions: Sequence[Question], share: bool, work: SequenceWork
) -> list[Tensor]:
    """Answers ``(B, Q, m, c)`` of all questions about one prompt's pairs."""
    needed = Prefixes.of(sequence for question in questions for sequence in question.sequences)
    known: RememberedBatch | None = recall_examples(network, root) if share else None
    if known is not None and known.prefixes != needed:
        known = None  # what was worked out beside other prefixes may differ in its last digits
    rows = known.rows if known else work.rows(len(needed))
    groups = _alike(questions)
    asked = [work.asked([questions[number] for number in group]) for group in groups]
    sequences = [[path for number in group for path in questions[number].sequences] for group in groups]
    memories: list[SequenceMemory | None] = []
    pieces: list[list[Tensor]] = []
    spent = 0
    for number, pairs in enumerate(zip(*(part.split(rows) for part in work.pairs), strict=True)):
        part = slice(number * rows, (number + 1) * rows)
        memory = (known.memories[number] if known else None) or work.encode(*pairs, needed)
        pieces.append(
            [
                work.ask(memory, paths, *(given[part] for given in some))
                for paths, some in zip(sequences, asked, strict=True)
            ]
        )
        spent += memory.nbytes
        memories.append(memory if spent <= REMEMBERED_BYTES else None)
    if share and known is None and memories[0] is not None:
        remember_examples(network, root, RememberedBatch(needed, rows, tuple(memories)))
    found: dict[int, Tensor] = {}
    for group, parts in zip(groups, zip(*pieces, strict=True), strict=True):
        sizes = [len(questions[number].sequences) for number in group]
        found.update(zip(group, torch.cat(parts).split(sizes, dim=1), strict=True))
    return [found[number] for number in range(len(questions))]


def _alike(questions: Sequence[Question]) -> list[list[int]]:
    """Which questions can be asked in one go: as many points given and asked, as many examples."""
    together: OrderedDict[object, list[int]] = OrderedDict()
    for number, question in enumerate(questions):
        prompt = question.prompt
        key = (prompt.query.points, prompt.at.shape[-2], prompt.examples)
        together.setdefault(key, []).append(number)
    return list(together.values())
