"""The space that is searched: which operators suit a task's prompts, and which programs are small enough.

Nothing here knows a particular operator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from chop.core.editing import inner_programs, named_operators, program_parameters, set_at, surround
from chop.core.errors import ChopError
from chop.core.parameters import Operator, Param
from chop.core.program import Icon, Program, Projection, Transform
from chop.core.prompt import Prompt
from chop.core.text import MAX_CHARACTERS, parse, registry
from chop.evolution.task import Limits, Task

# The parameters of operators.


def value_parameters(operator: type[Operator]) -> dict[str, Param]:
    """The parameters that other values are tried of; lists of numbers and names stay as they are."""
    fixed = ("program", "programs", "numbers", "names")
    return {
        key: param for key, param in operator.params().items() if param.searched and param.kind not in fixed
    }


def _all_choices(param: Param) -> tuple[Any, ...]:
    """The values of a choice or a flag; empty for numbers."""
    return (False, True) if param.kind == "flag" else param.options


@lru_cache(maxsize=8192)
def structure_of(text: str) -> str:
    """The text of a program with every number at its smallest: what programs share that are tuned apart."""
    root = parse(text)
    for path, node in named_operators(root):
        lowest = {
            key: param.low
            for key, param in node.params().items()
            if param.kind == "number" and getattr(node, key) is not None
        }
        root = set_at(root, path, **lowest) if lowest else root
    return str(root)


def _has_twins(node: Operator) -> bool:
    """Whether some mixture lists a member twice: that is another weighting at best, and a trial lost."""
    inside = inner_programs(node)
    return len(set(inside)) < len(inside) or any(map(_has_twins, node.parts()))


# The space.


@dataclass(frozen=True)
class Space:
    """Operators that can run on a task's prompts, by what they are, and the limits of a program.

    ``choices`` holds the values of choices and flags that can run; what is not listed is free.
    """

    leaves: tuple[type[Operator], ...]
    transforms: tuple[type[Operator], ...]
    projections: tuple[type[Operator], ...]
    branching: tuple[type[Operator], ...]
    """programs around programs: validators and averages"""
    choices: Mapping[tuple[str, str], tuple[Any, ...]]
    examples: int
    channels: int
    limits: Limits

    @classmethod
    def of(cls, task: Task, begun_with: Collection[str] | None = None) -> Space:
        """Try every registered operator on two prompts, with a model that always answers zero.

        Where a search has begun with some and the task does not say which, it goes on with these.
        """
        prompt = task.cases.prompt[:2]
        choices: dict[tuple[str, str], tuple[Any, ...]] = {}
        among = begun_with if task.operators is None else task.operators
        if among is None:
            among = registry().keys() - set(task.without)
        wanted = [op for name, op in registry().items() if name in among]
        usable = [op for op in wanted if _is_usable(op, prompt, choices)]
        programs = [op for op in usable if issubclass(op, Program)]
        return cls(
            leaves=tuple(op for op in programs if not program_parameters(op)) or (Icon,),
            transforms=tuple(op for op in usable if issubclass(op, Transform)),
            projections=tuple(op for op in usable if issubclass(op, Projection)),
            branching=tuple(op for op in programs if len(program_parameters(op)) == 1),
            choices=choices,
            examples=prompt.examples,
            channels=prompt.outputs.channels,
            limits=task.limits,
        )

    @property
    def operators(self) -> tuple[type[Operator], ...]:
        return (*self.leaves, *self.transforms, *self.projections, *self.branching)

    def choices_of(self, operator: type[Operator], key: str, param: Param) -> tuple[Any, ...]:
        """The values among which a choice or a flag is free; empty for numbers."""
        return self.choices.get((operator.name, key), _all_choices(param))

    def admits(self, program: Program) -> bool:
        """Whether a program keeps the limits, repeats no member and can be written down."""
        if program.size > self.limits.size or program.depth > self.limits.depth or _has_twins(program):
            return False
        try:
            program.calls(self.examples, limit=self.limits.calls)
        except ChopError:
            return False
        return len(str(program)) <= MAX_CHARACTERS


def _is_usable(
    operator: type[Operator], prompt: Prompt, choices: dict[tuple[str, str], tuple[Any, ...]]
) -> bool:
    """Whether an operator runs with some setting of its choices and flags; notes which of them do."""
    usable = _runs(operator, prompt, {})
    for key, param in value_parameters(operator).items():
        if values := _all_choices(param):
            working = tuple(value for value in values if _runs(operator, prompt, {key: value}))
            usable = usable or bool(working)
            choices[operator.name, key] = working or values
    return usable


def _runs(operator: type[Operator], prompt: Prompt, given: Mapping[str, Any]) -> bool:
    """Whether an operator runs around a model that answers zero, with as few programs inside as it takes."""
    inside = {
        key: Icon() if param.kind == "program" else (Icon(),) * param.at_least
        for key, param in program_parameters(operator).items()
    }
    try:
        made = operator(**inside, **given)
        program = made if isinstance(made, Program) else surround(made, Icon())
        program.run(_zero, prompt, trace=False)
    except ChopError:
        return False
    return True


def _zero(prompt: Prompt, /) -> Tensor:
    return torch.zeros(prompt.answer_shape, dtype=prompt.dtype, device=prompt.device)
