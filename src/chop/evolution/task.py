"""What is evolved for: a frozen model, questions with answers, how errors count, and what may be spent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from chop.evolution.errors import EvolutionError
from chop.metrics import rel_l2
from chop.model import Caller, FrozenModel
from chop.problems.case import Case
from chop.prompt import Prompt
from chop.text import parse, registry

Metric = Callable[[Tensor, Case], Tensor]
"""(answers (n, m, c), the questions with their targets) -> one error a question, (n,)."""


def relative_error(answers: Tensor, cases: Case) -> Tensor:
    """The relative L2 error of each answer: what counts unless a task says otherwise."""
    return rel_l2(answers, cases.target)


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
        for text in (self.start, *self.known.values()):
            parse(text)
        unknown = sorted(set(self.operators or ()) - set(registry()))
        if unknown:
            raise EvolutionError(
                f"task {self.name!r} names operators that do not exist: {', '.join(unknown)}"
            )

    def errors(self, answers: Tensor, cases: Case) -> Tensor:
        """One error a question, checked."""
        found = self.metric(answers, cases)
        if not isinstance(found, Tensor) or found.shape != (len(cases),):
            raise EvolutionError(f"the metric of task {self.name!r} must give one error a question, (n,)")
        return found.double()

    def data_hash(self) -> str:
        """SHA-256 of all questions and answers."""
        digest = hashlib.sha256()
        for cases in (self.cases, self.validation):
            if cases is not None:
                _feed_prompt(digest, cases.prompt)
                _feed(digest, cases.target)
        return digest.hexdigest()

    def model_hash(self) -> str:
        """SHA-256 of a torch module's weights; of its answers to two questions for any other callable."""
        digest = hashlib.sha256()
        if isinstance(self.model, nn.Module):
            digest.update(type(self.model).__qualname__.encode())
            for name, value in sorted(self.model.state_dict().items()):
                digest.update(name.encode())
                _feed(digest, value)
        else:
            prompt = self.cases.prompt[:2]
            with torch.inference_mode():
                _feed(digest, Caller(self.model, prompt)([prompt])[0])
        return digest.hexdigest()


def _feed_prompt(digest: hashlib._Hash, prompt: Prompt) -> None:
    for part in (prompt.inputs, prompt.outputs, prompt.query):
        _feed(digest, part.coords)
        _feed(digest, part.values)
        if part.mask is not None:
            _feed(digest, part.mask)
    _feed(digest, prompt.at)
    if prompt.graph is not None:
        _feed(digest, prompt.graph.edges)


def _feed(digest: hashlib._Hash, tensor: Tensor) -> None:
    digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())


def errors_of(task: Task, text: str, cases: Case, chunk: int = 50) -> Tensor:
    """A program's error on each question of a set, ``(n,)``; raises what the program raises."""
    program = parse(text)
    found = []
    for low in range(0, len(cases), chunk):
        part = cases[low : low + chunk]
        found.append(task.errors(program.run(task.model, part.prompt, trace=False).values, part))
    return torch.cat(found)


__all__ = ["Limits", "Metric", "Task", "errors_of", "relative_error"]
