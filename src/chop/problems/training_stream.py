"""Cases without end, each a function of its number: training goes on where it stopped, storing no data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from chop.problems.case import Case


class Stream(ABC):
    """Batches 0, 1, 2, ... of a training, made while it runs."""

    @abstractmethod
    def case(self, number: int) -> Case:
        """Batch ``number``, in float32; always the same."""

    def __iter__(self) -> Iterator[Case]:
        return self.from_batch(0)

    def from_batch(self, number: int) -> Iterator[Case]:
        """All cases from one number on, to go on where a training stopped."""
        while True:
            yield self.case(number)
            number += 1


__all__ = ["Stream"]
