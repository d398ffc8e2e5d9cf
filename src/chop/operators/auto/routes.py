"""What can be proposed: routes to the model, views of them, corrections inside; and each as a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from chop.core.parameters import subprogram
from chop.core.program import Icon, Outcome, Program, Stack, Transform
from chop.core.prompt import Prompt
from chop.operators.affine import Flip, Normalize, Rescale
from chop.operators.frames import MovingFrame, Reflect, Turn
from chop.operators.kriging import Krige
from chop.operators.residuals import HeldOutValidator, gap_number, pad_flag
from chop.operators.views import Views

FRAME = MovingFrame(shift="spectral")
SCALES = (Rescale(), Rescale(target=0.7), Rescale(target=1.4))
"""For one quantity: to the size that networks are trained on, then a little to either side."""
CHANNEL_SCALES = (Normalize(), Rescale(center="mean"), Rescale(center="mean", target=1.4))
"""For several, which may have different units."""
TURN = 5
"""Cells of the one turn: no multiple of the blocks of 2, 4, 8, 10 or 16 cells that networks read."""

_TURNED = Turn(cells=TURN, anchored=False)
VIEW_LEVELS: tuple[tuple[tuple[Transform, ...], ...], ...] = (
    ((),),
    ((Reflect(),),),
    ((_TURNED,), (Reflect(), _TURNED)),
    ((Flip(),), (Flip(), Reflect()), (Flip(), _TURNED), (Flip(), Reflect(), _TURNED)),
)
"""The question as it is, then its mirror image, both turned, and all four with the opposite sign."""

Route = tuple[Transform, ...]


@final
@dataclass(frozen=True)
class Probe(HeldOutValidator):
    """A program as it is, and what it answers at the examples; no text has it."""

    name: ClassVar[str] = "probe"
    base: Program = subprogram("what is asked")
    pad: bool = pad_flag(True)
    gap: int = gap_number()

    def decide(self, prompt: Prompt, answers: list[Tensor], held_out: list[Tensor]) -> Outcome:
        return Outcome(answers[0], held_out[0])


BARE, CORRECTED = Icon(), Krige(Icon())
PROBES: dict[Program, Program] = {BARE: Probe(BARE), CORRECTED: CORRECTED}
"""What is asked for a program of one model: the same, with its held-out answers."""


def through(route: Route, program: Program) -> Program:
    """A program behind some transforms."""
    return Stack(route) | program if route else program


def seen_from(level: int, program: Program) -> Program:
    """The mean over all views up to a level, as a program."""
    if level == 0:
        return program
    return Views(program, turns=2 if level > 1 else 1, step=TURN, mirror=True, sign=level > 2, anchored=False)
