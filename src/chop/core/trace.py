"""What happened in a run, stage by stage: to be read in a terminal, looked at, or kept as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from chop.core.bands import Band, band_of, can_be_told, half_width_text
from chop.core.conformal import ConformalScores
from chop.core.error_scale import AnsweredPrompt
from chop.core.errors import ChopError
from chop.core.prompt import Prompt
from chop.core.trust import Trust, trust_in
from chop.core.words import (
    axes_text,
    cost,
    cost_facts,
    number_text,
    outcome_facts,
    representation,
    short_text,
    sizes_text,
    span,
)

SHOWN_LEVEL, SHOWN_TOLERANCE = 0.9, 0.1
"""Of the band and the trust that are told of a run."""

StageKind = Literal["leaf", "transform", "projection", "validator", "mixture", "held_out"]
Moment = Literal["enter", "leave", "answer", "again"]


def of_query(tensor: Tensor, batch: torch.Size, query: int) -> Tensor:
    """The part of a tensor ``(*batch, ...)`` that belongs to one of the queries."""
    return tensor.reshape(batch.numel(), *tensor.shape[len(batch) :])[query]


@dataclass(frozen=True, eq=False)
class FoundFunction:
    """A function of one number that a stage found: a note that is drawn as a curve.

    All three are ``(*batch, k)``: where it is told, what it is there, and the standard deviation of that.
    """

    argument: Tensor
    values: Tensor
    deviation: Tensor
    labels: tuple[str, str] = ("", "")
    """What stands beside the two axes of its picture."""

    def at_query(self, batch: torch.Size, query: int) -> FoundFunction:
        """That of one query."""
        argument, values, deviation = (
            of_query(part, batch, query) for part in (self.argument, self.values, self.deviation)
        )
        return FoundFunction(argument, values, deviation, self.labels)


@dataclass(frozen=True, eq=False)
class Told:
    """What a stage has to say of each query, in words: a note of one text for each, of one line or more."""

    each: tuple[str, ...]

    def at_query(self, query: int) -> str:
        """That of one query."""
        return self.each[query]


Note = Tensor | str | FoundFunction | Told
"""What the trace may show of a stage; tensors lead with the axes of the prompt's batch."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of a program on one prompt. A stage that two others share is one object.

    Tensors carry the leading axes of ``prompt.batch``: those of the root prompt, then one axis of
    length D for each time a pair was held out on the way here.
    """

    kind: StageKind
    title: str
    """The operator at this stage, with its parameters and without its sub-programs."""
    prompt: Prompt
    """What was asked here."""
    values: Tensor
    """What was answered, ``(*prompt.batch, m, c)``; for held-out stages ``(*batch, D, m, c)``."""
    mapped: Prompt | None = None
    """Transforms: the prompt that was handed on."""
    held_out: Tensor | None = None
    """The answers at the example inputs, ``(*batch, D, m, c)``, where the stage reports them."""
    notes: Mapping[str, Note] = field(default_factory=dict)
    children: tuple[Stage, ...] = ()
    round: int | None = None
    """The round (from 1) in which the model was called here."""
    path: str | None = None
    """The path of its operator in the program that was run (see `Program.operators`), if it is a part."""

    def __repr__(self) -> str:
        return representation(
            f"Stage {self.kind} {self.title}", outcome_facts(self.values, self.held_out, self.notes)
        )


@dataclass(frozen=True, eq=False)
class Step:
    """One moment of a trace: a stage is entered, left again, or gives its answer."""

    stage: Stage
    number: int
    """The stage's number, from 1, in the order in which stages are first told of."""
    depth: int
    moment: Moment


@dataclass(frozen=True, eq=False)
class Trace:
    """A run as a tree of stages, with its accounting."""

    program: str
    root: Stage
    calls: int
    rounds: int
    error: Tensor | None = None
    rejected: Tensor | None = None
    answered: AnsweredPrompt | None = None
    """What its band and trust are told by."""
    scores: ConformalScores | None = None
    """What calibration questions say of the program's errors, where it was calibrated."""

    def __repr__(self) -> str:
        return representation(
            "Trace", {"program": short_text(self.program), "queries": str(self.queries), **cost_facts(self)}
        )

    def _repr_html_(self) -> str:
        from chop.pictures.notebook import trace_html

        return trace_html(self)

    @property
    def prompt(self) -> Prompt:
        return self.root.prompt

    @property
    def queries(self) -> int:
        return self.prompt.batch.numel()

    def stages(self) -> Iterator[Step]:
        """Everything that happened, in the order in which it happened.

        A stage that several others share is told once; after that it is marked ``again``.
        """
        numbers: dict[int, int] = {}

        def step(stage: Stage, depth: int, moment: Moment) -> Step:
            return Step(stage, numbers.setdefault(id(stage), len(numbers) + 1), depth, moment)

        def walk(stage: Stage, depth: int) -> Iterator[Step]:
            if id(stage) in numbers:
                yield step(stage, depth, "again")
            elif stage.kind == "transform":
                yield step(stage, depth, "enter")
                yield from walk(stage.children[0], depth)
                yield step(stage, depth, "leave")
            elif stage.kind == "projection":
                yield from walk(stage.children[0], depth)
                yield step(stage, depth, "answer")
            else:
                if stage.children:
                    yield step(stage, depth, "enter")
                for child in stage.children:
                    yield from walk(child, depth + 1)
                yield step(stage, depth, "answer")

        yield from walk(self.root, 0)

    def at_query(self, tensor: Tensor, query: int) -> Tensor:
        """The part of a stage's tensor that belongs to one query of the root batch."""
        return of_query(tensor, self.prompt.batch, query)

    def check_query(self, query: int) -> int:
        """The query's index, or a clear error."""
        if not 0 <= query < self.queries:
            raise ChopError(f"query {query} does not exist; this run has queries 0 to {self.queries - 1}")
        return query

    def explain(self, query: int = 0) -> str:
        """Every stage, what it fitted and decided for one query, rounds and calls; plain text."""
        self.check_query(query)
        which = f"; query {query} of 0 to {self.queries - 1}" if self.queries > 1 else ""
        lines = [
            f"program  {self.program}",
            f"prompt   {sizes_text(self.prompt)}{which}",
            f"axes     {axes_text(self.prompt)}",
            "",
        ]
        lines += ["  " * step.depth + self.describe(step, query) for step in self.stages()]
        lines.append("")
        lines.append(f"answer   {span(self.at_query(self.root.values, query), 'values ')}")
        if self.error is not None:
            lines.append(
                f"error    {number_text(self.at_query(self.error, query))} (in-context, mean squared)"
            )
        lines += [f"{name:8s} {said}" for name, said in self.judgement(query).items()]
        if self.rejected is not None and bool(self.at_query(self.rejected, query)):
            lines.append("rejected the answer is not finite: do not use it")
        lines.append(f"cost     {cost(self.calls, self.rounds)}")
        return "\n".join(lines)

    def band(self, query: int = 0, level: float = SHOWN_LEVEL) -> Band | None:
        """The band around the answer to one query; None where there is nothing to tell it by."""
        asked = self._judged(query)
        return None if asked is None else band_of(asked, level, False, self.scores)

    def trust(self, query: int = 0, tolerance: float = SHOWN_TOLERANCE) -> Trust | None:
        """How far one answer can be trusted; None where there is nothing to tell it by."""
        asked = self._judged(query)
        return None if asked is None else trust_in(asked, tolerance, self.scores)

    def _judged(self, query: int) -> AnsweredPrompt | None:
        """One answer, if something is known of its error."""
        self.check_query(query)
        if self.answered is None:
            return None
        asked = self.answered.at_query(query)
        return asked if can_be_told(asked, self.scores, SHOWN_LEVEL) else None

    def judgement(self, query: int = 0) -> dict[str, str]:
        """Band and trust of one answer, in words."""
        band, trust = self.band(query), self.trust(query)
        if band is None or trust is None:
            return {}
        words = str(trust).replace("\n", "\n" + " " * 7)
        return {"band": f"{half_width_text(band)} ({band.how})", "trust": words}

    def describe(self, step: Step, query: int) -> str:
        """One step in one line: the operator, and what it found for this query."""
        stage = step.stage
        if step.moment == "again":
            return f"{step.number}. {stage.title}, as above"
        words = [f"{name} {self.note(value, query)}" for name, value in stage.notes.items()]
        if stage.round is not None:
            words.append(f"round {stage.round}")
        answer = span(self.at_query(stage.values, query), "values ")
        if stage.kind == "transform":
            words = words if step.moment == "enter" else [answer]
        elif stage.kind == "held_out":
            words = [*words, self._visibility(stage, query)] if step.moment == "enter" else [answer]
        elif step.moment == "enter":
            words = []
        else:
            words.append(answer)
        title = f"undo {stage.title}" if step.moment == "leave" else stage.title
        found = "; ".join(word for word in words if word)
        return f"{step.number}. {title}" + (f": {found}" if found else "")

    def note(self, value: Note, query: int) -> str:
        """A note in words, for one query."""
        if isinstance(value, Told):
            return value.at_query(query)
        if isinstance(value, FoundFunction):
            found = value.at_query(self.prompt.batch, query)
            return f"{number_text(found.values)} ± {float(found.deviation.max()):.2g}"
        return value if isinstance(value, str) else number_text(self.at_query(value, query))

    def _visibility(self, stage: Stage, query: int) -> str:
        """Says when a held-out output still stands in the prompt as another example's input.

        In a window of consecutive frames y_h is x_{h+1}. The paper keeps it so; who reads the
        in-context error should know.
        """
        outputs = self.at_query(stage.prompt.outputs.values, query)
        # What element h really showed: a gap hides the neighbour too.
        inputs = self.at_query(stage.children[0].prompt.inputs.values, query)
        if outputs.ndim != 3 or outputs.shape[-2:] != inputs.shape[-2:]:
            return ""
        same = (outputs[:, None] == inputs).flatten(-2).all(-1).any(-1)
        seen = int(same.sum())
        return f"{seen} of {len(same)} hidden outputs still stand there as an input" if seen else ""

    def plot(self, path: str | Path | None = None, query: int = 0) -> Any:
        """The fields at every stage for one query, as a matplotlib figure.

        Given a path it is also saved, as .png, .pdf or .svg.
        """
        from chop.pictures import trace_figure
        from chop.pictures.saving import FIGURE_FORMS, save_as

        figure = trace_figure(self, query)
        if path is not None:
            save_as(Path(path), FIGURE_FORMS, figure)
        return figure

    def save(self, path: str | Path, query: int = 0) -> Path:
        """One query of the run as a file of the kind that its suffix says.

        .html is a page that needs nothing else (program, drawing, stages, fields, accounting); .png, .pdf
        and .svg are the figure of `plot`; .json is what `explain` says, as plain values. A file that exists
        is replaced.
        """
        from chop.pictures.saving import TRACE_FORMS, save_as

        return save_as(Path(path), TRACE_FORMS, self, self.check_query(query), {})
