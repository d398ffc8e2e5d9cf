"""The record of a run as the stages of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch

from chop.core.tasks import Answer, Call, Fit, HeldOut, Request, RunRecord
from chop.core.trace import Stage

if TYPE_CHECKING:
    from chop.core.editing import TreePath
    from chop.core.program import Outcome, Program


@final
@dataclass(frozen=True)
class _Place:
    """A part of the program that was run, and the path to it."""

    part: Program
    path: TreePath = ()

    def of(self, asked: Program) -> _Place:
        """The place of what was asked from here; this one still, if it is no part of what stands here.

        So what a program builds around its own part (a view of it) has no place, and the part has.
        """
        from chop.core.editing import direct_parts  # programs import this file

        found = (_Place(asked, (*self.path, step)) for step, part in direct_parts(self.part) if part == asked)
        return next(found, self)

    def path_to(self, asked: Program) -> str | None:
        """The path to the operator that acts in what was asked, if this is its place."""
        from chop.core.editing import direct_parts, path_text

        if asked != self.part:
            return None
        inside = ((*self.path, step) for step, part in direct_parts(asked) if part is asked.acting)
        return path_text(next(inside, self.path))


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

    def __call__(self, task: Answer) -> Stage:
        return self._stage(task, _Place(task.program))

    def _stage(self, task: Answer | HeldOut, place: _Place) -> Stage:
        if task not in self._made:
            self._made[task] = (
                self._answer(task, place) if isinstance(task, Answer) else self._held_out(task, place)
            )
        return self._made[task]

    def _children(self, task: Answer | HeldOut, place: _Place) -> tuple[Stage, ...]:
        # A program that reports its own held-out answers is already there as an answer.
        return tuple(
            self._stage(need, place.of(need.program))
            for need in dict.fromkeys(self._record.needs.get(task, []))
            if isinstance(need, Answer) or (isinstance(need, HeldOut) and not need.program.reports_held_out)
            if need.prompt.batch[: len(self._batch)] == self._batch
        )

    def _answer(self, task: Answer, place: _Place) -> Stage:
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
            children=self._children(task, place),
            round=self._round_of[calls[0]] if calls else None,
            path=place.path_to(task.program),
        )

    def _held_out(self, task: HeldOut, place: _Place) -> Stage:
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
            children=self._children(task, place),
        )
