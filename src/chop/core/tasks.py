"""Work as values: what a program needs is named, done once, and model calls go out in rounds.

A request is a hashable value that says how it is done: its ``steps`` yield the tasks it needs and
receive their results. `schedule` runs the steps of everything that can go on, and only when nothing
can, hands all waiting model calls over together: that is a round. A task that two others need is
done once, because equal tasks are one key. So no operator has to know about batching or sharing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from chop.core.deprecated import renamed
from chop.core.errors import ProgramError
from chop.core.prompt import Prompt

if TYPE_CHECKING:
    from chop.core.program import Program, Transform

__getattr__ = renamed(__name__, {"Task": "Request", "Split": "HeldOutPrompts", "Record": "RunRecord"})

Steps = Generator[Sequence["Request"], list[Any], Any]


class Request(ABC):
    """Something to be done once in a run. Concrete tasks are frozen dataclasses."""

    @abstractmethod
    def steps(self) -> Steps:
        """Yield lists of tasks (empty where nothing is needed), receive their results, return the own one."""


@dataclass(frozen=True)
class Call(Request):
    """The frozen model's answer to a prompt: a Tensor ``(..., m, c)``. The runtime's to do."""

    prompt: Prompt

    def steps(self) -> Steps:
        raise AssertionError("model calls are answered by the runtime")


@dataclass(frozen=True)
class HeldOutPrompts(Request):
    """The held-out prompts of a prompt, one object however many validators ask."""

    prompt: Prompt
    pad: bool
    gap: int

    def steps(self) -> Steps:
        yield []
        return self.prompt.held_out(self.pad, self.gap)


@dataclass(frozen=True)
class Answer(Request):
    """A program's `Outcome` on a prompt."""

    program: Program
    prompt: Prompt

    def steps(self) -> Steps:
        return self.program.answered(self.prompt)


@dataclass(frozen=True)
class HeldOut(Request):
    """A program's answers at the example inputs: a Tensor ``(..., D, m, c)``."""

    program: Program
    prompt: Prompt
    pad: bool
    gap: int

    def steps(self) -> Steps:
        return self.program.plan_held_out(self.prompt, self.pad, self.gap)


@dataclass(frozen=True)
class Fit(Request):
    """A transform's `Frame` on a prompt."""

    transform: Transform
    prompt: Prompt

    def steps(self) -> Steps:
        yield []
        return self.transform.fitted(self.prompt)


@dataclass
class RunRecord:
    """What was done: results, who needed what, and the model calls of each round."""

    results: dict[Request, Any] = field(default_factory=dict)
    needs: dict[Request, list[Request]] = field(default_factory=lambda: defaultdict(list))
    rounds: list[list[Call]] = field(default_factory=list)


def schedule(goals: Sequence[Request], answer: Callable[[list[Prompt]], list[Tensor]]) -> RunRecord:
    """Do the goals and all they need; ``answer`` is called once a round with the waiting prompts."""
    record = RunRecord()
    results = record.results
    running: dict[Request, Steps] = {}
    asked: dict[Request, Sequence[Request]] = {}
    waiters: dict[Request, list[Request]] = defaultdict(list)
    ready: deque[Request] = deque()
    calls: dict[Call, None] = {}

    def begin(task: Request) -> None:
        if task in results or task in running or task in calls:
            return
        if isinstance(task, Call):
            calls[task] = None
        else:
            running[task] = task.steps()
            ready.append(task)

    def finish(task: Request, result: Any) -> None:
        results[task] = result
        for waiter in waiters.pop(task, ()):
            if all(need in results for need in asked[waiter]):
                ready.append(waiter)

    def resume(task: Request) -> None:
        steps = running[task]
        try:
            if task in asked:
                wanted = steps.send([results[need] for need in asked.pop(task)])
            else:
                wanted = next(steps)
        except StopIteration as stop:
            del running[task]
            finish(task, stop.value)
            return
        asked[task] = wanted
        record.needs[task].extend(wanted)
        for need in wanted:
            begin(need)
        missing = {need: None for need in wanted if need not in results}
        for need in missing:
            waiters[need].append(task)
        if not missing:
            ready.append(task)

    for goal in goals:
        begin(goal)
    while ready or calls:
        while ready:
            resume(ready.popleft())
        if calls:
            this_round = list(calls)
            calls.clear()
            record.rounds.append(this_round)
            answers = answer([call.prompt for call in this_round])
            for call, values in zip(this_round, answers, strict=True):
                finish(call, values)
    if running:
        raise ProgramError(f"{len(running)} parts of the program wait for each other and can never be done")
    return record
