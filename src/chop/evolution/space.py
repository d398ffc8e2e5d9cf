"""The space that is searched: which operators suit a task's prompts, and which programs are small enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from chop.core.errors import ChopError
from chop.core.parameters import Operator, Param
from chop.core.program import Icon, Program, Projection, Transform, pipe
from chop.core.prompt import Prompt
from chop.core.text import MAX_CHARACTERS, registry
from chop.evolution.task import Limits, Task
from chop.evolution.trees import inner_programs

SLOTS = ("program", "programs")


@dataclass(frozen=True)
class Space:
    """Operators that can run on a task's prompts, by what they are, and the limits of a program.

    ``words`` holds the values of choices and flags that can run; what is not listed is free.
    """

    leaves: tuple[type[Operator], ...]
    transforms: tuple[type[Operator], ...]
    projections: tuple[type[Operator], ...]
    branching: tuple[type[Operator], ...]
    """programs around programs: validators and averages"""
    words: Mapping[tuple[str, str], tuple[Any, ...]]
    examples: int
    channels: int
    limits: Limits

    @classmethod
    def of(cls, task: Task) -> Space:
        """Try every registered operator on two prompts, with a model that always answers zero."""
        prompt = task.cases.prompt[:2]
        words: dict[tuple[str, str], tuple[Any, ...]] = {}
        wanted = [op for name, op in registry().items() if task.operators is None or name in task.operators]
        usable = [op for op in wanted if _try(op, prompt, words)]
        programs = [op for op in usable if issubclass(op, Program)]
        return cls(
            leaves=tuple(op for op in programs if not slots(op)) or (Icon,),
            transforms=tuple(op for op in usable if issubclass(op, Transform)),
            projections=tuple(op for op in usable if issubclass(op, Projection)),
            branching=tuple(op for op in programs if len(slots(op)) == 1),
            words=words,
            examples=prompt.examples,
            channels=prompt.outputs.channels,
            limits=task.limits,
        )

    @property
    def operators(self) -> tuple[type[Operator], ...]:
        return (*self.leaves, *self.transforms, *self.projections, *self.branching)

    def admits(self, program: Program) -> bool:
        """Whether a program keeps the limits, repeats no member and can be written down."""
        if program.size > self.limits.size or program.depth > self.limits.depth or _twins(program):
            return False
        try:
            program.calls(self.examples, limit=self.limits.calls)
        except ChopError:
            return False
        return len(str(program)) <= MAX_CHARACTERS


def slots(operator: type[Operator]) -> dict[str, Param]:
    """The parameters that take programs."""
    return {key: param for key, param in operator.params().items() if param.kind in SLOTS}


def options(operator: type[Operator]) -> dict[str, Param]:
    """The parameters that take values."""
    return {key: param for key, param in operator.params().items() if param.kind not in SLOTS}


def _twins(node: Operator) -> bool:
    """Whether some mixture lists a member twice: that is another weighting at best, and a trial lost."""
    inside = inner_programs(node)
    return len(set(inside)) < len(inside) or any(map(_twins, node.parts()))


def _try(operator: type[Operator], prompt: Prompt, words: dict[tuple[str, str], tuple[Any, ...]]) -> bool:
    """Whether an operator runs with some setting of its choices and flags; notes which of them do."""
    plain = _runs(operator, prompt, {})
    found = plain
    for key, param in options(operator).items():
        values: tuple[Any, ...] = (
            param.options if param.kind == "choice" else (False, True) if param.kind == "flag" else ()
        )
        if values:
            working = tuple(value for value in values if _runs(operator, prompt, {key: value}))
            found = found or bool(working)
            words[operator.name, key] = working or values
    return found


def _runs(operator: type[Operator], prompt: Prompt, given: Mapping[str, Any]) -> bool:
    try:
        _smallest(operator, given).run(_zero, prompt, trace=False)
    except ChopError:
        return False
    return True


def _smallest(operator: type[Operator], given: Mapping[str, Any]) -> Program:
    """The operator around the model, as small as it can be."""
    parts = {
        key: Icon() if param.kind == "program" else (Icon(),) * param.at_least
        for key, param in slots(operator).items()
    }
    made = operator(**parts, **given)
    program = made
    if isinstance(made, Transform):
        program = pipe(made, Icon())  # type: ignore[assignment]
    elif isinstance(made, Projection):
        program = pipe(Icon(), made)  # type: ignore[assignment]
    assert isinstance(program, Program)
    return program


def _zero(prompt: Prompt, /) -> Tensor:
    return torch.zeros(prompt.answer_shape, dtype=prompt.dtype, device=prompt.device)


__all__ = ["Space", "options", "slots"]
