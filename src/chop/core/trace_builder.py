"""The record of a run as the stages of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import torch

from chop.core.tasks import Answer, Call, Fit, HeldOut, Request, RunRecord
from chop.core.trace import Stage

if TYPE_CHECKING:
    from chop.core.program import Outcome


@final
class Stages:
    """Tasks as stages of a trace; a task that was shared gives one shared stage.

    A class, not nested functions that call each other: those would be a cycle that keeps every tensor
    of the run until the garbage collector comes by. What was asked about some of the queries alone, by a
    program that decides query by query, has no place in the tree of all of them; run one query to see it.
    """

    def __init__(self, record: RunRecord, batch: torch.Size) -> None:
        self._record = record
        self._batch = batch
        self._round_of = {call: i + 1 for i, calls in enumerate(record.rounds) for call in calls}
        self._made: dict[Request, Stage] = {}

    def __call__(self, task: Request) -> Stage:
        if task not in self._made:
            self._made[task] = self._answer(task) if isinstance(task, Answer) else self._held_out(task)
        return self._made[task]

    def _children(self, task: Request) -> tuple[Stage, ...]:
        # A program that reports its own held-out answers is already there as an answer.
        return tuple(
            self(need)
            for need in dict.fromkeys(self._record.needs.get(task, []))
            if isinstance(need, Answer) or (isinstance(need, HeldOut) and not need.program.reports_held_out)
            if need.prompt.batch[: len(self._batch)] == self._batch
        )

    def _answer(self, task: Answer) -> Stage:
        outcome: Outcome = self._record.results[task]
        needs = self._record.needs.get(task, [])
        fits = [need for need in needs if isinstance(need, Fit)]
        calls = [need for need in needs if isinstance(need, Call)]
        return Stage(
            kind=task.program.kind,
            title=task.program.acting.head(),
            prompt=task.prompt,
            values=outcome.values,
            mapped=self._record.results[fits[0]].prompt if fits else None,
            held_out=outcome.held_out,
            notes=outcome.notes,
            children=self._children(task),
            round=self._round_of[calls[0]] if calls else None,
        )

    def _held_out(self, task: Request) -> Stage:
        assert isinstance(task, HeldOut)
        kept = task.prompt.examples - (0 if task.pad else 1)
        text = str(task.program)
        return Stage(
            kind="held_out",
            title=f"held out: {text if len(text) <= 48 else text[:45] + '...'}",
            prompt=task.prompt,
            values=self._record.results[task],
            notes={
                "asked": f"{task.prompt.examples} prompts of {kept} examples"
                f"{', padded' if task.pad else ''}{f', gap {task.gap}' if task.gap else ''}"
            },
            children=self._children(task),
        )
