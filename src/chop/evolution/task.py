"""What is evolved for: a frozen model, questions with answers, how errors count, and what may be spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from chop.core.errors import EvolutionError
from chop.core.metrics import rel_l2
from chop.core.model import FrozenModel
from chop.core.text import parse, registry
from chop.core.user_code import describe_error
from chop.problems.case import Case

Metric = Callable[[Tensor, Case], Tensor]
"""(answers (n, m, c), the questions with their targets) -> one error a question, (n,)."""


def relative_error(answers: Tensor, cases: Case) -> Tensor:
    """The relative L2 error over what was observed: what counts unless a task says otherwise.

    Journals know it by its name and by that of this module.
    """
    return rel_l2(answers, cases.target, cases.mask)


@dataclass(frozen=True)
class Limits:
    """What one candidate may cost: checked before it runs, except time and memory, which stop it."""

    size: int = 16
    """operators"""
    depth: int = 9
    calls: int = 24
    """model evaluations a query"""
    seconds: float = 120.0
    memory: int = 4096
    """megabytes of one worker process"""

    def __post_init__(self) -> None:
        if min(self.size, self.depth, self.calls, self.seconds, self.memory) <= 0:
            raise EvolutionError(f"limits must be positive: {self}")


@dataclass(frozen=True, eq=False)
class Task:
    """A frozen model and the questions on which programs around it are judged.

    ``cases`` is the evolution set; ``validation`` is asked once, of the winner. ``known`` names programs
    that the report puts beside the winner; evolution never sees them. It begins from ``start``.
    """

    name: str
    model: FrozenModel
    cases: Case
    validation: Case | None = None
    metric: Metric = relative_error
    limits: Limits = field(default_factory=Limits)
    known: Mapping[str, str] = field(default_factory=dict)
    start: str = "icon"
    operators: tuple[str, ...] | None = None
    """names of the operators to search with; all that suit the prompts if None"""
    without: tuple[str, ...] = ()
    """names of operators that a new search leaves out, where it is not said which to search with"""

    def __post_init__(self) -> None:
        if not callable(self.model):
            raise EvolutionError(f"the model of task {self.name!r} must be callable with a prompt")
        for what, cases in (("cases", self.cases), ("validation", self.validation)):
            if cases is None:
                continue
            if len(cases.prompt.batch) != 1 or len(cases) < 2:
                raise EvolutionError(
                    f"the {what} of task {self.name!r} must be at least 2 questions on one batch axis, "
                    f"not a batch of {tuple(cases.prompt.batch)}"
                )
            seen = None if cases.mask is None else cases.mask.flatten(1).any(dim=1)
            if seen is not None and not bool(seen.all()):
                raise EvolutionError(
                    f"nothing was observed of the target of question {int(seen.long().argmin())} of the "
                    f"{what} of task {self.name!r}; leave it out"
                )
        for text in (self.start, *self.known.values()):
            parse(text)
        unknown = sorted({*(self.operators or ()), *self.without} - set(registry()))
        if unknown:
            raise EvolutionError(
                f"task {self.name!r} names operators that do not exist: {', '.join(unknown)}"
            )

    def errors(self, answers: Tensor, cases: Case) -> Tensor:
        """One error a question, checked."""
        try:
            found = self.metric(answers, cases)
        except Exception as error:
            raise EvolutionError(
                f"the metric of task {self.name!r} failed {describe_error(error)}"
            ) from error
        if not isinstance(found, Tensor) or found.shape != (len(cases),):
            raise EvolutionError(f"the metric of task {self.name!r} must give one error a question, (n,)")
        return found.double()


def errors_of(task: Task, text: str, cases: Case, chunk: int = 50) -> Tensor:
    """A program's error on each question of a set, ``(n,)``; raises what the program raises."""
    program = parse(text)
    found = []
    for low in range(0, len(cases), chunk):
        part = cases[low : low + chunk]
        found.append(task.errors(program.run(task.model, part.prompt, trace=False).values, part))
    return torch.cat(found)


def explain_program(task: Task, text: str) -> str:
    """What a program does on the first question of a task, in words."""
    trace = parse(text).run(task.model, task.cases.prompt[:1]).trace
    return trace.explain()
