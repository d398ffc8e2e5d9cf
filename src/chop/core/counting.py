"""Q without running: prompts are told apart by the steps that lead to them from the root prompt."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol, final

from chop.core.errors import ProgramError


class PromptChange(Hashable, Protocol):
    """One step on the way from the root prompt: a transform, or a pair held out."""

    def examples_after(self, examples: int) -> int:
        """How many examples the next prompt has."""
        ...

    def prompts_after(self, examples: int) -> int:
        """How many prompts one prompt becomes."""
        ...


@final
@dataclass(frozen=True)
class HeldOutStep:
    """Every pair hidden in turn."""

    pad: bool
    gap: int

    def examples_after(self, examples: int) -> int:
        return examples if self.pad else examples - 1

    def prompts_after(self, examples: int) -> int:
        return examples


Where = tuple[PromptChange, ...]


@final
class CallCount:
    """The distinct prompts on which the model is called; stops as soon as there are too many."""

    def __init__(self, examples: int, limit: int) -> None:
        self._examples = examples
        self._limit = limit
        self._seen: set[Where] = set()
        self.total = 0

    def add(self, where: Where) -> None:
        """Count a model call on the prompt reached by these steps, once."""
        if where in self._seen:
            return
        self._seen.add(where)
        self._spend(self._reached(where)[1])

    def at_most(self, where: Where, evaluations: int) -> None:
        """Count as many calls as a program that decides by itself may make on the prompt reached."""
        self._spend(evaluations * self._reached(where)[1])

    def _spend(self, evaluations: int) -> None:
        self.total += evaluations
        if self.total > self._limit:
            raise ProgramError(f"the program needs more than {self._limit} model evaluations a query")

    def examples_at(self, where: Where) -> int:
        """How many examples a prompt reached by these steps has."""
        return self._reached(where)[0]

    def _reached(self, where: Where) -> tuple[int, int]:
        """(examples of each prompt, how many prompts) at the end of these steps."""
        examples, evaluations = self._examples, 1
        for step in where:
            evaluations *= step.prompts_after(examples)
            examples = step.examples_after(examples)
        return examples, evaluations
