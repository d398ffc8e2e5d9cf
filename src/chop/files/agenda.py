"""Which questions are asked next, and what is asked again in smaller parts because it failed."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

TRIALS = 64
"""Questions that are tried alone before all are held to be unanswerable."""
DEATH = 16
"""Trials that a question counts for which took its workers down: each costs seconds."""


@dataclass(frozen=True, order=True)
class Part:
    """Questions ``first`` to ``last`` (not included)."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def halves(self) -> tuple[Part, Part]:
        """Its two halves; it has two questions or more."""
        middle = (self.first + self.last) // 2
        return Part(self.first, middle), Part(middle, self.last)


def missing(total: int, size: int, done: Collection[Part]) -> Iterator[Part]:
    """What is left to ask of ``total`` questions in pieces of ``size``, of which some parts are done.

    Pieces, and parts of them, are always the same: what is asked together does not depend on what is done.
    """
    inside: dict[int, list[Part]] = {}
    for part in done:
        inside.setdefault(part.first // size, []).append(part)
    for first in range(0, total, size):
        yield from _open(Part(first, min(first + size, total)), inside.get(first // size, []))


def _open(part: Part, done: list[Part]) -> Iterator[Part]:
    within = [one for one in done if part.first <= one.first and one.last <= part.last]
    if not within:
        yield part
    elif part not in within:
        for half in part.halves():
            yield from _open(half, within)


class Agenda:
    """Parts to ask. One that fails is halved until the questions at fault are found; those are ``reject``-ed.

    Before anything was answered, nothing is halved: questions drawn from the whole file are tried alone
    first, so that a model which can answer none is found out soon.
    """

    def __init__(
        self, parts: Iterable[Part], total: int, hopeful: bool, reject: Callable[[Part, Exception], None]
    ) -> None:
        self._waiting = deque(parts)
        self._hopeful = hopeful
        self._reject = reject
        self._failed: list[tuple[Part, Exception]] = []
        self._trials = random.Random(0).sample(range(total), min(TRIALS, total))
        self._patience = TRIALS
        self._trying = False

    def take(self) -> tuple[tuple[Part, bool], Part] | None:
        """The next part, under itself and whether it is a trial."""
        if self._failed and self._trials and not self._trying:
            self._trying = True
            number = self._trials.pop()
            part = Part(number, number + 1)
            return (part, True), part
        if self._waiting:
            part = self._waiting.popleft()
            return (part, False), part
        return None

    def worked(self) -> None:
        """A part, or a trial, was answered: it is worth while to look for those that cannot be."""
        self._hopeful = True
        failed, self._failed = self._failed, []
        for part, error in reversed(failed):
            self.failed(part, error)

    def failed(self, part: Part, error: Exception) -> None:
        """A part was not answered."""
        if not self._hopeful:
            self._failed.append((part, error))
        elif len(part) > 1:
            self._waiting.extendleft(reversed(part.halves()))
        else:
            self._reject(part, error)

    def in_vain(self, died: bool) -> None:
        """A trial failed; raises the first error if that was the last one and nothing worked."""
        self._trying = False
        self._patience -= DEATH if died else 1
        if self._failed and (not self._trials or self._patience <= 0):
            raise min(self._failed, key=lambda one: one[0])[1]


__all__ = ["Agenda", "Part", "missing"]
