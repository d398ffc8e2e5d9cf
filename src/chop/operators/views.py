"""The same question from several sides: exact symmetries of its form, and the mean of what a program says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import ClassVar, final

import torch

from chop.core.counting import CallCount, Where
from chop.core.parameters import flag, integer, subprogram
from chop.core.program import Outcome, Program, Stack
from chop.core.prompt import Prompt
from chop.core.tasks import Answer, Steps
from chop.core.trace import StageKind
from chop.operators.affine import Flip
from chop.operators.domain import allows_turning
from chop.operators.frames import Reflect, Turn


@final
@dataclass(frozen=True)
class Views(Program):
    """The mean of a program's answers to one question turned, mirrored and with its sign changed.

    Where the circle begins, which way round it is read and what is called positive change the form of a
    question, not what is asked; a model that knows this only roughly errs differently in each view. Turns
    begin at a landmark of the examples (see ``turn``), so that a few do for the whole group. A prompt without
    one periodic axis, or with a graph, allows no turns and no mirror: these are left out there.
    """

    name: ClassVar[str] = "views"
    unit_free: ClassVar[bool] = True
    kind: ClassVar[StageKind] = "mixture"
    calls_at_most: ClassVar[bool] = True
    law: ClassVar[str] = (
        "With several anchored turns a prompt turned by cells gives the turned answer, with ``mirror`` a "
        "mirrored one the mirrored answer, with ``sign`` the opposite one the opposite answer, to rounding."
    )
    helps: ClassVar[str] = "when the model errs differently on the same question in another form"
    base: Program = subprogram("what is asked from each side")
    turns: int = integer(5, 1, 20, "how many turns of the periodic axis; 1: as it is")
    step: int = integer(2, 1, 100, "how many cells a turn is from the next")
    mirror: bool = flag(False, "each also mirrored")
    sign: bool = flag(False, "each also with the opposite sign")
    anchored: bool = flag(True, "turns begin at a landmark of the examples; else where the grid does")

    @property
    def reports_held_out(self) -> bool:
        return self.base.reports_held_out

    @cached_property
    def _members(self) -> tuple[Program, ...]:
        """The program seen from each side."""
        turns: list[tuple[Turn, ...]] = [
            # A turn by nothing from where the grid begins is the question as it is.
            (Turn(cells=self.step * i, anchored=self.anchored),) if self.anchored or i else ()
            for i in range(self.turns)
        ]
        mirrors = [(), (Reflect(),)] if self.mirror else [()]
        if self.turns == 1:
            turns = [()]
        routes = [Stack(mirror + turn) for mirror, turn in product(mirrors, turns)]
        return tuple(route | member for member in self._upright for route in routes)

    @cached_property
    def _upright(self) -> tuple[Program, ...]:
        """The program without turns and mirror."""
        return (self.base, Flip() | self.base) if self.sign else (self.base,)

    def plan(self, prompt: Prompt) -> Steps:
        members = self._members if allows_turning(prompt) else self._upright
        outcomes = yield [Answer(member, prompt) for member in members]
        values = torch.stack([outcome.values for outcome in outcomes])
        mean = values.mean(dim=0)
        held_out = None
        if self.reports_held_out:
            held_out = torch.stack([outcome.held_out for outcome in outcomes]).mean(dim=0)
        apart = (values - mean).abs().mean(dim=(0, -2, -1))
        return Outcome(mean, held_out, {"views": f"{len(members)}", "apart by (mean)": apart})

    def count(self, where: Where, calls: CallCount) -> None:
        for member in self._members:
            member.count(where, calls)
