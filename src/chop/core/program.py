"""Programs: explicit numerical operators composed around a frozen model, as immutable values.

A program says what it needs (answers of its parts, held-out answers, fitted frames, the model) and
turns that into an answer; `schedule` owns the order, the sharing and the model calls. There are four
kinds of operator: leaves and validators are programs; a transform left of a program wraps it; a
projection right of a program follows it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final, overload

from torch import Tensor

from chop.core.contracts import named_in_failures, require_type, require_values, require_values_and_notes
from chop.core.counting import CallCount, HeldOutStep, Where
from chop.core.errors import ProgramError
from chop.core.model import MAX_BYTES, FrozenModel
from chop.core.parameters import Operator, Role, subprogram
from chop.core.prompt import Prompt
from chop.core.running import BoundProgram, Result, RunOptions, run_program
from chop.core.spread import Spread
from chop.core.tasks import Answer, Call, Fit, HeldOut, HeldOutPrompts, Request, Steps
from chop.core.trace import Note, StageKind
from chop.core.words import outcome_facts, representation, short_text

Notes = Mapping[str, Note]
"""What the trace shows of a stage; tensors lead with the axes of the prompt's batch."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a program makes of a prompt.

    ``values`` is the answer ``(..., m, c)``; ``held_out`` the answers at the example inputs
    ``(..., D, m, c)``, where the program has its own way of making them.
    """

    values: Tensor
    held_out: Tensor | None = None
    notes: Notes = field(default_factory=dict)
    built: tuple[Program, ...] | None = None
    """Of a program that decides by itself: the fixed one that it came to for each query of the batch."""
    spread: Spread | None = None
    """Of a mixture with held-out answers: how far its candidates lie from it, here and at the examples."""

    def __repr__(self) -> str:
        return representation("Outcome", outcome_facts(self.values, self.held_out, self.notes))


@dataclass(frozen=True, eq=False)
class Frame:
    """A transform fitted to one prompt: the mapped prompt and the ways back.

    ``back`` maps the answer to the query; ``back_held_out`` maps ``(..., D, m, c)`` answers at the
    example inputs, each with its own time index and its own x_h.
    """

    prompt: Prompt
    back: Callable[[Tensor], Tensor]
    back_held_out: Callable[[Tensor], Tensor]
    notes: Notes = field(default_factory=dict)

    def __repr__(self) -> str:
        return representation("Frame", {"prompt": repr(self.prompt), "notes": ", ".join(self.notes)})


class _Pipes:
    """What stands beside ``|``. Pairs that mean nothing are errors that say what is right."""

    if not TYPE_CHECKING:  # checkers know only the pairs that mean something

        def __or__(self, other):
            return pipe(self, other)

        def __ror__(self, other):
            return pipe(other, self)


class _Route(_Pipes):
    """Transforms that wait for their program."""

    if TYPE_CHECKING:

        @overload
        def __or__(self, other: Program) -> Program: ...
        @overload
        def __or__(self, other: Transform | Stack) -> Stack: ...
        def __or__(self, other: Program | Transform | Stack) -> Program | Stack: ...


@dataclass(frozen=True)
class Transform(_Route, Operator):
    """Changes the question and knows the way back (F, G in the paper)."""

    role: ClassVar[Role] = "transform"
    carries_held_out: ClassVar[bool] = True
    """False where held-out answers of the mapped prompt cannot be mapped back to all D examples."""

    @abstractmethod
    def fit(self, prompt: Prompt) -> Frame:
        """The mapped prompt and its inverse, from what the prompt shows."""

    @final
    def fitted(self, prompt: Prompt) -> Frame:
        """`fit`, held to its promise."""
        with named_in_failures(self):
            frame = self.fit(prompt)
        require_type(self, "what fit returns", frame, Frame)
        require_type(self, "the mapped prompt", frame.prompt, Prompt)
        if (frame.prompt.batch, frame.prompt.dtype) != (prompt.batch, prompt.dtype):
            raise ProgramError(
                f"{self} mapped a {prompt.dtype} prompt of batch {tuple(prompt.batch)} to a "
                f"{frame.prompt.dtype} one of batch {tuple(frame.prompt.batch)}"
            )
        return frame

    def examples_after(self, examples: int) -> int:
        """How many examples the mapped prompt has."""
        return examples

    def hands_on(self, examples: int) -> bool:
        """Whether the very prompt is handed on, if it has so many examples: then its answers are shared."""
        return False

    @final
    def prompts_after(self, examples: int) -> int:
        """Into how many prompts it turns one (see `counting`)."""
        return 1


@dataclass(frozen=True)
class Projection(_Pipes, Operator):
    """Maps a prediction onto what physics or the examples demand."""

    role: ClassVar[Role] = "projection"

    @abstractmethod
    def project(self, prompt: Prompt, values: Tensor) -> tuple[Tensor, Notes]:
        """The projected answer to this prompt, and what was changed."""


@dataclass(frozen=True)
class Program(_Pipes, Operator):
    """Answers a prompt, with as many calls to the frozen model as it needs."""

    role: ClassVar[Role] = "program"
    kind: ClassVar[StageKind]
    calls_at_most: ClassVar[bool] = False
    """Whether it may need fewer model evaluations than `calls` says, where a prompt allows fewer."""

    @property
    def reports_held_out(self) -> bool:
        """Whether its outcome brings its own held-out answers."""
        return False

    @property
    def acting(self) -> Operator:
        """The operator that acts here: itself, or the transform or projection around a program."""
        return self

    def for_forecast(self, steps: int) -> Program:
        """What is run where so many steps follow each other: itself, unless it decides by itself."""
        return self

    @abstractmethod
    def plan(self, prompt: Prompt) -> Steps:
        """Yield lists of tasks, receive their results, return an `Outcome`."""

    @final
    def answered(self, prompt: Prompt) -> Steps:
        """`plan`, held to its promise."""
        operator = self.acting
        with named_in_failures(operator):
            outcome = yield from self.plan(prompt)
        require_type(operator, "its outcome", outcome, Outcome)
        require_values(operator, outcome.values, prompt.answer_shape, prompt)
        if self.reports_held_out:
            require_values(operator, outcome.held_out, prompt.outputs.values.shape, prompt)
        if outcome.spread is not None:
            require_values(operator, outcome.spread.values, prompt.answer_shape, prompt)
            require_values(operator, outcome.spread.held_out, prompt.outputs.values.shape, prompt)
        return outcome

    @abstractmethod
    def count(self, where: Where, calls: CallCount) -> None:
        """Note every prompt on which the model would be called, without running anything."""

    @final
    def plan_held_out(self, prompt: Prompt, pad: bool, gap: int) -> Steps:
        """The answers at the example inputs, ``(..., D, m, c)``: its own, or from held-out prompts."""
        if self.reports_held_out:
            (outcome,) = yield [Answer(self, prompt)]
            return outcome.held_out
        (held_out,) = yield [HeldOutPrompts(prompt, pad, gap)]
        (outcome,) = yield [Answer(self, held_out)]
        return outcome.values

    @final
    def count_held_out(self, where: Where, pad: bool, gap: int, calls: CallCount) -> None:
        """Like `count`, for the held-out answers."""
        self.count(where if self.reports_held_out else (*where, HeldOutStep(pad, gap)), calls)

    @final
    def calls(self, examples: int = 5, limit: int = 10**9) -> int:
        """Q, the model evaluations for each query, known before anything runs."""
        counted = CallCount(examples, limit)
        self.count((), counted)
        return counted.total

    @final
    def run(
        self,
        model: FrozenModel,
        prompt: Prompt,
        *,
        validate: bool = False,
        strict: bool = False,
        trace: bool = True,
        max_bytes: int = MAX_BYTES,
    ) -> Result:
        """Answer a prompt with a frozen model.

        ``validate`` also asks for the in-context error of programs that do not compute it anyway;
        ``strict`` raises if an answer is not finite; ``trace=False`` keeps no intermediate fields;
        ``max_bytes`` bounds the prompt data handed to the model in one call.
        """
        return run_program(self, model, prompt, validate, strict, trace, max_bytes)

    if TYPE_CHECKING:

        def __call__(self, model: FrozenModel, prompt: Prompt, **options: Unpack[RunOptions]) -> Result: ...

    else:

        def __call__(self, *asked, **options):
            """`run`; a leaf called with options only is that leaf with these options, as in program text."""
            leaf = self.name and not any(True for _ in self.parts())
            if leaf and not asked and "model" not in options:
                return self.with_options(**options)
            return self.run(*asked, **options)

    @final
    def bind(self, model: FrozenModel, **options: Unpack[RunOptions]) -> BoundProgram:
        """The program with its model, a callable of prompts; options as for `run`."""
        return BoundProgram(self, model, **options)

    @final
    def save(self, path: str | Path, *, note: str = "", date: str = "", overwrite: bool = False) -> Path:
        """The program's text in a file, which `load` reads and, named .txt, ``chop predict -p`` does too.

        ``note`` (where it comes from, what it is for; any number of lines) and ``date`` stand above the text
        as comments, with the version of this library. A file that exists is replaced only with ``overwrite``.
        """
        from chop.core.text import saved_text
        from chop.storage.atomic import write_text

        return write_text(Path(path), saved_text(self, note, date), ProgramError, overwrite)

    @staticmethod
    def load(path: str | Path) -> Program:
        """The program that a text file holds, with or without comments."""
        from chop.core.text import load_program

        return load_program(path)

    @final
    def draw(self, form: str = "svg", interactive: bool = False) -> str:
        """The program as a picture: ``"svg"`` or ``"mermaid"`` text; in an interactive SVG every operator's
        box can be clicked and carries its path (see `operators`) as ``data-path``."""
        from chop.pictures import draw_program

        return draw_program(self, form, interactive)

    @final
    def operators(self) -> list[tuple[str, Operator]]:
        """Every operator with the path that leads to it, such as ``branches.0/inner``, in order."""
        from chop.core.editing import named_operators, path_text

        return [(path_text(path), part) for path, part in named_operators(self)]

    @final
    def at(self, path: str) -> Operator:
        """The part at a path; an empty one leads to the whole."""
        from chop.core.editing import operator_at, path_of

        return operator_at(self, path_of(path))

    @final
    def inserted(self, path: str, name: str) -> Program:
        """The program with one operator more before, after, around or beside the part at a path."""
        from chop.core.editing import insert_at, path_of

        return insert_at(self, path_of(path), name)

    @final
    def replaced(self, path: str, name: str) -> Program:
        """The program with another operator, with its defaults, in the place of the one at a path."""
        from chop.core.editing import path_of, replace_operator_at

        return replace_operator_at(self, path_of(path), name)

    @final
    def removed(self, path: str) -> Program:
        """The program without the operator at a path."""
        from chop.core.editing import path_of, remove_at

        return remove_at(self, path_of(path))

    @final
    def changed(self, path: str, /, **options: Any) -> Program:
        """The program with other parameters of the operator at a path."""
        from chop.core.editing import path_of, set_options_at

        return set_options_at(self, path_of(path), options)

    @final
    def insertable(self, path: str) -> tuple[str, ...]:
        """The names that `inserted` takes at a path."""
        from chop.core.editing import insertable_at, path_of

        return insertable_at(self, path_of(path))

    @final
    def replaceable(self, path: str) -> tuple[str, ...]:
        """The names that `replaced` takes at a path, the present one left out."""
        from chop.core.editing import path_of, replaceable_at

        return replaceable_at(self, path_of(path))

    def _repr_html_(self) -> str:
        from chop.pictures.notebook import program_html

        return program_html(self)

    if TYPE_CHECKING:

        def __or__(self, other: Projection) -> Program: ...


@dataclass(frozen=True)
class Leaf(Program):
    """An answer from the prompt alone."""

    kind: ClassVar[StageKind] = "leaf"

    @abstractmethod
    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        """The answer ``(..., m, c)``."""

    def at_examples(self, prompt: Prompt) -> Tensor:
        """Its own held-out answers ``(..., D, m, c)``, of a leaf that reports some."""
        raise NotImplementedError

    @final
    def plan(self, prompt: Prompt) -> Steps:
        yield []
        values, notes = require_values_and_notes(self, self.answer(prompt))
        return Outcome(values, self.at_examples(prompt) if self.reports_held_out else None, notes)

    @final
    def count(self, where: Where, calls: CallCount) -> None:
        pass


@final
@dataclass(frozen=True)
class Icon(Program):
    """The frozen model itself: one evaluation on the prompt as it stands."""

    name: ClassVar[str] = "icon"
    unit_free: ClassVar[bool] = True
    kind: ClassVar[StageKind] = "leaf"
    law: ClassVar[str] = "Bit-equal to the bare model."
    helps: ClassVar[str] = (
        "when the question is like those the model was trained on; all other operators are built around it"
    )

    def plan(self, prompt: Prompt) -> Steps:
        (values,) = yield [Call(prompt)]
        return Outcome(values)

    def count(self, where: Where, calls: CallCount) -> None:
        calls.add(where)


@dataclass(frozen=True)
class Validator(Program):
    """Uses answers at the example inputs, where the truth is known, to correct, choose or mix.

    Each base is asked for its answer and its held-out answers; `decide` is a pure function of them.
    """

    kind: ClassVar[StageKind] = "validator"

    @property
    def reports_held_out(self) -> bool:
        return True

    @property
    @abstractmethod
    def bases(self) -> tuple[Program, ...]:
        """The programs that are asked."""

    @property
    @abstractmethod
    def held_out_rule(self) -> tuple[bool, int]:
        """(pad, gap) of the held-out prompts it asks for."""

    @abstractmethod
    def decide(self, prompt: Prompt, answers: list[Tensor], held_out: list[Tensor]) -> Outcome:
        """The outcome, with its own held-out answers, from those of the bases."""

    @final
    def plan(self, prompt: Prompt) -> Steps:
        pad, gap = self.held_out_rule
        if prompt.examples < 2 + gap:
            raise ProgramError(
                f"{self.name} holds out one example at a time{f' with gap {gap}' if gap else ''} and needs "
                f"at least {2 + gap}, but the prompt has {prompt.examples}"
            )
        asked: list[Request] = [Answer(base, prompt) for base in self.bases]
        asked += [HeldOut(base, prompt, pad, gap) for base in self.bases]
        results = yield asked
        k = len(self.bases)
        return self.decide(prompt, [outcome.values for outcome in results[:k]], results[k:])

    @final
    def count(self, where: Where, calls: CallCount) -> None:
        pad, gap = self.held_out_rule
        for base in self.bases:
            base.count(where, calls)
            base.count_held_out(where, pad, gap, calls)


@final
@dataclass(frozen=True)
class Wrapped(Program):
    """``transform | program``: the program answers the mapped prompt, the answer is mapped back."""

    transform: Transform
    inner: Program = subprogram("what answers the mapped prompt")
    kind: ClassVar[StageKind] = "transform"

    @property
    def reports_held_out(self) -> bool:
        return self.inner.reports_held_out and self.transform.carries_held_out

    @property
    def acting(self) -> Operator:
        return self.transform

    def plan(self, prompt: Prompt) -> Steps:
        (frame,) = yield [Fit(self.transform, prompt)]
        (outcome,) = yield [Answer(self.inner, frame.prompt)]
        held_out, spread = None, None
        if self.reports_held_out:
            held_out = frame.back_held_out(outcome.held_out)
            spread = outcome.spread and outcome.spread.mapped(
                frame.back, frame.back_held_out, outcome.values, outcome.held_out
            )
        built = outcome.built and tuple(Wrapped(self.transform, inner) for inner in outcome.built)
        return Outcome(frame.back(outcome.values), held_out, frame.notes, built, spread)

    def for_forecast(self, steps: int) -> Program:
        return replace(self, inner=self.inner.for_forecast(steps))

    def count(self, where: Where, calls: CallCount) -> None:
        same = self.transform.hands_on(calls.examples_at(where))
        self.inner.count(where if same else (*where, self.transform), calls)

    def __str__(self) -> str:
        # A projection binds to what stands left of it, so one inside needs its brackets.
        inner = f"({self.inner})" if isinstance(self.inner, Projected) else str(self.inner)
        return f"{self.transform} | {inner}"


@final
@dataclass(frozen=True)
class Projected(Program):
    """``program | projection``: the answer is projected, and so are held-out answers, each at its x_h."""

    inner: Program = subprogram("what is projected")
    projection: Projection = field(kw_only=True)
    kind: ClassVar[StageKind] = "projection"

    @property
    def reports_held_out(self) -> bool:
        return self.inner.reports_held_out

    @property
    def acting(self) -> Operator:
        return self.projection

    def plan(self, prompt: Prompt) -> Steps:
        (outcome,) = yield [Answer(self.inner, prompt)]
        values, notes = self._projected(prompt, outcome.values)
        held_out = None
        if self.reports_held_out:
            (held_out_prompt,) = yield [HeldOutPrompts(prompt, pad=False, gap=0)]
            held_out, _ = self._projected(held_out_prompt, outcome.held_out)
        built = outcome.built and tuple(
            Projected(inner, projection=self.projection) for inner in outcome.built
        )
        return Outcome(values, held_out, notes, built, outcome.spread if self.reports_held_out else None)

    def for_forecast(self, steps: int) -> Program:
        return replace(self, inner=self.inner.for_forecast(steps))

    def _projected(self, prompt: Prompt, values: Tensor) -> tuple[Tensor, Notes]:
        pair: tuple[Tensor, Notes] = require_values_and_notes(
            self.projection, self.projection.project(prompt, values)
        )
        return pair

    def count(self, where: Where, calls: CallCount) -> None:
        self.inner.count(where, calls)

    def __str__(self) -> str:
        return f"{self.inner} | {self.projection}"


@final
@dataclass(frozen=True)
class Stack(_Route):
    """``transform | transform``: a route that still waits for its program. Not a program itself."""

    transforms: tuple[Transform, ...]

    def __repr__(self) -> str:
        return f"<transforms: {short_text(self)}>"

    def __str__(self) -> str:
        return " | ".join(str(transform) for transform in self.transforms)


def pipe(left: object, right: object) -> Program | Stack:
    """What ``left | right`` means; a `ProgramError` says why where it means nothing."""
    route = left.transforms if isinstance(left, Stack) else (left,) if isinstance(left, Transform) else None
    if route is not None and isinstance(right, Transform | Stack):
        return Stack(route + (right.transforms if isinstance(right, Stack) else (right,)))
    if route is not None and isinstance(right, Program):
        for transform in reversed(route):
            right = Wrapped(transform, right)
        return right
    if isinstance(left, Program) and isinstance(right, Projection):
        return Projected(left, projection=right)
    if isinstance(left, Program) and isinstance(right, Transform | Stack):
        raise ProgramError(f"a transform stands left of a program: write {right} | {left}")
    if isinstance(left, Program) and isinstance(right, Program):
        raise ProgramError(
            f"two programs cannot be piped: {left} | {right}; mix them with select, combine or average"
        )
    if isinstance(left, Projection) or isinstance(right, Projection):
        raise ProgramError(f"a projection stands right of a program: {left} | {right} has none there")
    wrong = right if isinstance(left, Operator | Stack) else left
    if isinstance(wrong, type) and issubclass(wrong, Operator):
        raise ProgramError(
            f"{wrong.__name__} is a class of operators; write {wrong.__name__}(...) for one of them"
        )
    raise ProgramError(f"only operators can be piped, not {type(wrong).__name__}")


__all__ = [
    "Frame", "Icon", "Leaf", "Notes", "Outcome", "Program", "Projected", "Projection", "Result", "Stack",
    "Transform", "Validator", "Wrapped", "pipe",
]  # fmt: skip
