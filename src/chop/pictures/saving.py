"""Runs, programs and figures as files, plain values or plain text.

The suffix of a file says what is written, and it is whole or not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args

import torch
from torch import Tensor

from chop.core.errors import ChopError, ProgramError
from chop.core.parameters import Operator
from chop.core.program import Program, Projected, Wrapped
from chop.core.trace import FoundFunction, Note, Step, Told, Trace
from chop.pictures.drawing import draw_program
from chop.pictures.figure import trace_figure
from chop.pictures.page import trace_page
from chop.pictures.rendering import Form, figure_bytes
from chop.storage.atomic import atomic_path
from chop.storage.json_text import json_text

_COSTS_SHOWN_FOR = (2, 3, 5, 10)
"""Numbers of examples for which the model evaluations are told."""

_Make = TypeVar("_Make", bound=Callable[..., bytes])

FIGURE_FORMS: Mapping[str, Callable[[Any], bytes]] = MappingProxyType(
    {f".{form}": partial(figure_bytes, form=form) for form in get_args(Form)}
)
"""A matplotlib figure as bytes, by suffix."""


def _figure(trace: Trace, query: int, more: Mapping[str, Any], suffix: str) -> bytes:
    return FIGURE_FORMS[suffix](trace_figure(trace, query))


TRACE_FORMS: Mapping[str, Callable[[Trace, int, Mapping[str, Any]], bytes]] = MappingProxyType(
    {
        ".html": lambda trace, query, more: trace_page(trace, query).encode(),
        **{suffix: partial(_figure, suffix=suffix) for suffix in FIGURE_FORMS},
        ".json": lambda trace, query, more: json_text({**trace_record(trace, query), **more}).encode(),
    }
)
"""One query of a run as bytes, by suffix; what else is to be told of it stands in the .json."""

PROGRAM_FORMS: Mapping[str, Callable[[Program], bytes]] = MappingProxyType(
    {
        ".svg": lambda program: draw_program(program, "svg").encode(),
        ".mmd": lambda program: draw_program(program, "mermaid").encode(),
        ".json": lambda program: json_text(program_record(program)).encode(),
    }
)
"""A program by itself as bytes, by suffix."""


def form_of(path: Path, forms: Mapping[str, _Make], error: type[ChopError] = ChopError) -> _Make:
    """How a file of this name is made; an error that names the suffixes there are."""
    make = forms.get(path.suffix.lower())
    if make is None:
        raise error(f"this is written to {', '.join(forms)} files, not to {path.name}")
    return make


def save_as(
    path: Path,
    forms: Mapping[str, _Make],
    *what: Any,
    error: type[ChopError] = ChopError,
    overwrite: bool = True,
) -> Path:
    """The file that ``path`` names, made of ``what``."""
    make = form_of(path, forms, error)
    with atomic_path(path, error, overwrite) as file:
        file.write_bytes(make(*what))
    return path


def trace_record(trace: Trace, query: int = 0) -> dict[str, Any]:
    """Everything `Trace.explain` says of one query, as plain values."""
    trace.check_query(query)
    answer = trace.at_query(trace.root.values, query)
    return {
        "program": trace.program,
        "query": query,
        "examples": trace.prompt.examples,
        "axes": [{"name": axis.name, "period": axis.period} for axis in trace.prompt.axes or ()],
        "assumed": trace.prompt.assumed,
        "calls": trace.calls,
        "rounds": trace.rounds,
        "error": None if trace.error is None else float(trace.at_query(trace.error, query)),
        "rejected": trace.rejected is not None and bool(trace.at_query(trace.rejected, query)),
        **_judgement(trace, query),
        "range": _range(answer),
        "stages": [_step(trace, step, query) for step in trace.stages()],
    }


def _judgement(trace: Trace, query: int) -> dict[str, Any]:
    """Band and trust; None where there is nothing to tell them by."""
    band, trust = trace.band(query), trace.trust(query)
    if band is None or trust is None:
        return {"band": None, "trust": None}
    half = band.half_width
    return {
        "band": {"level": band.level, "half_width": _range(half), "how": band.how},
        "trust": {
            "tolerance": trust.tolerance,
            "probability": float(trust.probability) if bool(trust.probability >= 0) else None,
            "reasons": list(trust.reasons[0]),
            "how": trust.how,
        },
    }


def _step(trace: Trace, step: Step, query: int) -> dict[str, Any]:
    stage = step.stage
    told: dict[str, Any] = {
        "number": step.number, "depth": step.depth, "moment": step.moment, "kind": stage.kind,
        "operator": stage.title,
    }  # fmt: skip
    if step.moment != "again":
        told["notes"] = {name: _note(trace, value, query) for name, value in stage.notes.items()}
        told["round"] = stage.round
    if step.moment in ("leave", "answer"):
        told["range"] = _range(trace.at_query(stage.values, query))
    return told


def _note(trace: Trace, value: Note, query: int) -> Any:
    """A note of one query as plain values."""
    if isinstance(value, Told):
        return value.at_query(query)
    if isinstance(value, FoundFunction):
        found = value.at_query(trace.prompt.batch, query)
        return {name: getattr(found, name).tolist() for name in ("argument", "values", "deviation")}
    return value if isinstance(value, str) else trace.at_query(value, query).tolist()


def _range(values: Tensor) -> list[float] | None:
    """Smallest and largest value, None if some are not finite."""
    if not bool(torch.isfinite(values).all()):
        return None
    return [float(values.min()), float(values.max())]


def program_record(program: Program) -> dict[str, Any]:
    """A program by itself: its operators, what holds for them, what it costs, and how it is drawn."""
    return {
        "program": str(program),
        "calls": {str(examples): _calls(program, examples) for examples in _COSTS_SHOWN_FOR},
        "operators": [
            {
                "depth": depth, "operator": text, "name": kind.name, "role": kind.role,
                "summary": kind.summary(), "law": kind.law,
            }
            for depth, text, kind in _walk(program, 0)
        ],
        "mermaid": program.draw("mermaid"),
    }  # fmt: skip


def program_text(program: Program) -> str:
    """The same to be read in a terminal."""
    told = program_record(program)
    costs = ", ".join(f"{calls} for {n} examples" for n, calls in told["calls"].items() if calls is not None)
    lines = [f"program  {told['program']}", f"cost     model evaluations: {costs or 'none possible'}", ""]
    for number, part in enumerate(told["operators"], 1):
        space = "  " * part["depth"]
        lines.append(f"{space}{number}. {part['operator']} ({part['role']}): {part['summary']}")
        lines.append(f"{space}   Law: {part['law']}")
    return "\n".join(lines)


def _walk(program: Program, depth: int) -> Iterator[tuple[int, str, type[Operator]]]:
    """Operators in the order in which they are written."""
    if isinstance(program, Wrapped):
        yield depth, str(program.transform), type(program.transform)
        yield from _walk(program.inner, depth)
    elif isinstance(program, Projected):
        yield from _walk(program.inner, depth)
        yield depth, str(program.projection), type(program.projection)
    else:
        yield depth, program.head(), type(program)
        for part in program.parts():
            assert isinstance(part, Program)
            yield from _walk(part, depth + 1)


def _calls(program: Program, examples: int) -> int | None:
    """Q, None where the program cannot run on so few examples."""
    try:
        return program.calls(examples)
    except ProgramError:
        return None
