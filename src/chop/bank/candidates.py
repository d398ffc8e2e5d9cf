"""Which candidates a program brings to be weighed on past questions; the bare model comes first."""

from __future__ import annotations

from collections import defaultdict

from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.model import FrozenModel
from chop.core.program import Icon, Program, Projected, Projection
from chop.core.prompt import Prompt
from chop.core.text import parse
from chop.operators.auto.program import Auto
from chop.operators.mixtures import Average, Combine, Select
from chop.operators.weighing import Weigh

BARE = Icon()
FREE = (
    "last_frame", "first_frame", "mean_frame", "query_mean", "mean_output", "nearest_output", "ridge",
    "increment | mean_output", "increment | ridge",
)  # fmt: skip
"""Answers without the model, which cost nothing to try."""
MOST = 8
"""Candidates of `auto` that are kept, beside those that cost nothing."""


def candidates_of(program: Program, model: FrozenModel, prompt: Prompt) -> tuple[Program, ...]:
    """What is weighed: the parts of a mixture, what `auto` makes use of in some prompts, or the program.

    Projections behind a mixture go behind each of its parts: all that they demand also holds for mixtures.
    """
    inner, projections = _without_projections(program)
    if isinstance(inner, Auto):
        return _used_by(inner, model, prompt, projections)
    parts: tuple[Program, ...] = (inner,)
    if isinstance(inner, Average):
        parts = inner.members
    elif isinstance(inner, Weigh | Combine):
        parts = inner.candidates
    elif isinstance(inner, Select):
        parts = inner.branches
    return _bare_first([_with(part, projections) for part in parts])


def _used_by(
    auto: Auto, model: FrozenModel, prompt: Prompt, outer: tuple[Projection, ...]
) -> tuple[Program, ...]:
    """What `auto` mixed its answers of, the most used first, and every answer that costs nothing."""
    built = auto.run(model, prompt, trace=False).programs
    used: dict[Program, float] = defaultdict(float)
    obeyed: dict[Projection, int] = defaultdict(int)
    for one in built:
        inner, projections = _without_projections(one)
        members = inner.members if isinstance(inner, Average) else (inner,)
        weights = inner.weights if isinstance(inner, Average) else (1.0,)
        channels = max(1, len(weights) // len(members))
        for place, member in enumerate(members):
            used[member] += sum(weights[place * channels : (place + 1) * channels]) / channels
        for projection in projections:
            obeyed[projection] += 1
    everywhere = tuple(projection for projection, times in obeyed.items() if times == len(built))
    best = sorted(used, key=lambda one: -used[one])[:MOST]
    free = [parse(text) for text in FREE if auto.leaves and not set(text.split(" | ")) & set(auto.without)]
    found = [
        _with(part, (*everywhere, *outer)) for part in (*best, *(p for p in free if _answers(p, prompt)))
    ]
    return _bare_first(found)


def _answers(program: Program, prompt: Prompt) -> bool:
    """Whether a program without a model accepts a prompt."""
    try:
        program.run(_no_model, prompt, trace=False)
    except ProgramError:
        return False
    return True


def _no_model(prompt: Prompt) -> Tensor:
    raise AssertionError("this program was to need no model")


def _without_projections(program: Program) -> tuple[Program, tuple[Projection, ...]]:
    behind: list[Projection] = []
    while isinstance(program, Projected):
        behind.insert(0, program.projection)
        program = program.inner
    return program, tuple(behind)


def _with(program: Program, projections: tuple[Projection, ...]) -> Program:
    for projection in projections:
        program = Projected(program, projection=projection)
    return program


def _bare_first(found: list[Program]) -> tuple[Program, ...]:
    return tuple(dict.fromkeys((BARE, *found)))
