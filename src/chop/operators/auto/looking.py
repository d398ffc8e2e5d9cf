"""What a prompt shows before the model is asked: which transforms, leaves and projections make sense."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from chop.core.errors import ProgramError
from chop.core.program import Leaf, Projection, Transform
from chop.core.prompt import Prompt
from chop.operators.auto.routes import CHANNEL_SCALES, FRAME, SCALES
from chop.operators.domain import allows_turning, suits
from chop.operators.inspection.fact import Facts
from chop.operators.inspection.inspecting import inspect
from chop.operators.laws import Law, need_frames
from chop.operators.leaves import FirstFrame, LastFrame, MeanOutput, NearestOutput, QueryMean
from chop.operators.projections import BoundVariation, ConserveMean, Nonnegative, UnitMass

_NORMALISED = 0.05
"""Distance of all means from 1 up to which a quantity is taken for one whose size has a meaning."""
_STILL = 0.25
"""Cells a step: what moves less needs no frame that moves along."""


@dataclass(frozen=True)
class Possible:
    """What makes sense for one question."""

    frame: bool
    """Whether the profile travels."""
    scales: tuple[Transform, ...]
    views: int
    """Up to which level of views."""
    leaves: tuple[Leaf, ...]
    projections: tuple[Projection, ...]
    consecutive: bool
    """Whether the examples are frames of one trajectory that ends in the query."""
    seen: tuple[str, ...]
    """The facts that decided, in words."""


def look(prompt: Prompt, left_out: frozenset[str], leaves: bool, forecast: bool) -> list[Possible]:
    """What makes sense for each query of a batch; a forecast of many steps must not grow rougher."""
    facts = inspect(prompt)

    def claims(name: str) -> list[bool]:
        found: list[bool] = facts[name].claim.flatten().tolist()
        return found

    count = prompt.batch.numel()
    channels = prompt.outputs.channels
    means = [claims(fact.name) for fact in facts if fact.name.startswith("mean kept")]
    kept = [all(each) for each in zip(*means, strict=True)]
    masses, consecutive = claims("unit mass"), claims("consecutive frames")
    calm = claims("variation not growing")
    normalised = (facts["unit mass"].value.nan_to_num(torch.inf) < _NORMALISED).flatten().tolist()
    outputs = prompt.outputs
    lowest = torch.where(outputs.observed, outputs.values, torch.inf).amin(dim=(-1, -2, -3))
    shown = torch.where(prompt.inputs.observed, prompt.inputs.values, torch.inf).amin(dim=(-1, -2, -3))
    positive = (lowest >= 0).flatten().tolist()
    signed = ((lowest < 0) & (shown < 0)).flatten().tolist()
    speeds = facts["speed"].value.abs().nan_to_num(0).flatten().tolist()
    framed = "moving_frame" not in left_out and suits(FRAME, prompt)
    same = prompt.inputs.channels == channels
    scales = tuple(
        scale
        for scale in (CHANNEL_SCALES if channels > 1 else SCALES)
        if same and scale.name not in left_out and suits(scale, prompt)
    )
    turning = allows_turning(prompt) and "views" not in left_out
    free = tuple(leaf for leaf in _free_leaves(prompt) if leaves and leaf.name not in left_out)
    lawful = leaves and "law" not in left_out and _lawful(prompt)
    timed = prompt.axis("t") is not None
    found = []
    for i in range(count):
        projections: list[Projection] = []
        if forecast and calm[i]:
            projections.append(BoundVariation())
        if kept[i] and not timed:
            projections.append(ConserveMean())
        if positive[i] and prompt.examples >= 3:
            projections.append(Nonnegative())
        if masses[i]:
            projections.append(UnitMass())
        flat: tuple[Leaf, ...] = (QueryMean(),) if kept[i] and not timed else ()
        found.append(
            Possible(
                frame=framed and speeds[i] > _STILL,
                scales=() if normalised[i] else scales,
                views=(3 if signed[i] else 2) if turning else 0,
                leaves=(*free, *(leaf for leaf in flat if leaves and leaf.name not in left_out))
                + ((Law(),) if lawful and kept[i] else ()),
                projections=tuple(one for one in projections if one.name not in left_out),
                consecutive=consecutive[i],
                seen=_words(facts, i, kept[i], consecutive[i], normalised[i], positive[i]),
            )
        )
    return found


def _lawful(prompt: Prompt) -> bool:
    try:
        need_frames(prompt, "law")
    except ProgramError:
        return False
    return prompt.examples >= 2


def _free_leaves(prompt: Prompt) -> list[Leaf]:
    timed = prompt.axes_stated and prompt.axis("t") is not None
    candidates: list[Leaf] = [MeanOutput(), NearestOutput(), LastFrame(), *([FirstFrame()] if timed else [])]
    found = []
    for leaf in candidates:
        try:
            leaf.answer(prompt)
        except ProgramError:
            continue
        found.append(leaf)
    return found


def _words(
    facts: Facts, query: int, kept: bool, consecutive: bool, normalised: bool, positive: bool
) -> tuple[str, ...]:
    """What is worth telling of one query."""

    def value(name: str) -> float:
        return float(facts[name].value.flatten()[query])

    said = []
    if consecutive:
        said.append("consecutive frames")
    speed, share = value("speed"), value("travels")
    if speed == speed:
        said.append(f"moves {speed:.3g} cells a step (that explains {100 * share:.0f} % of the change)")
    if kept:
        said.append("the mean is kept")
    if normalised:
        said.append("outputs have mean 1: their size has a meaning, no scaling is tried")
    if positive:
        said.append("no output is negative")
    return tuple(said)
