"""The operator reference: every operator of the package as a section of one page."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence

from chop.core.parameters import Operator, Param
from chop.core.program import Leaf, Program, Validator
from chop.core.text import parse
from generator.examples import EXAMPLES, SCENES, Example
from generator.markdown import code, paragraphs, prose, table

PICTURES = "operators"
"""The folder of the pictures, beside the page."""

INTRODUCTION = (
    "Made from the declarations in the code by `make docs`; `chop operators NAME` says the same in a "
    "terminal. Each picture is `trace.plot()` of the program above it: first the prompt, then every stage. "
    "How to add an operator of your own: [tutorial](../tutorials/own_operator.md)."
)

KINDS: tuple[tuple[str, str], ...] = (
    ("leaf", "Leaves: an answer from the prompt"),
    ("transform", "Transforms: left of a program, undone on the way back"),
    ("projection", "Projections: right of a program"),
    ("validator", "Validators: around programs, judged at the examples"),
    ("mixture", "Mixtures: around programs, without judging"),
)


def operators_page(operators: Sequence[type[Operator]]) -> str:
    """The whole page."""
    parts = ["# Operators", INTRODUCTION, _overview(operators)]
    for kind, title in KINDS:
        members = [operator for operator in operators if _kind(operator) == kind]
        if members:
            parts += [f"## {title}", *(_section(operator) for operator in members)]
    return paragraphs(*parts) + "\n"


def _kind(operator: type[Operator]) -> str:
    """Which of the kinds of the reference an operator belongs to."""
    if not issubclass(operator, Program):
        return operator.role
    if issubclass(operator, Validator):
        return "validator"
    takes_programs = any(param.kind in ("program", "programs") for param in operator.params().values())
    return "mixture" if takes_programs and not issubclass(operator, Leaf) else "leaf"


def _section(operator: type[Operator]) -> str:
    """What it does, its law, when it helps, its parameters, an example with its picture."""
    summary, _, more = (inspect.getdoc(operator) or "").partition("\n\n")
    return paragraphs(
        f"### {operator.name}",
        prose(summary),
        prose(more),
        f"*Helps* {operator.helps}." if operator.helps else "",
        f"*Law*: {operator.law}" if operator.law else "",
        _parameters(operator),
        _example(operator.name, EXAMPLES.get(operator.name)),
    )


def _overview(operators: Sequence[type[Operator]]) -> str:
    rows = [(f"[{op.name}](#{op.name})", _kind(op), prose(op.summary())) for op in operators]
    return table(("operator", "kind", "what it does"), rows)


def _parameters(operator: type[Operator]) -> str:
    defaults = {field.name: field.default for field in dataclasses.fields(operator)}
    rows = [
        (code(name), prose(param.doc), prose(param.allowed), _default(param, defaults[name]))
        for name, param in operator.params().items()
    ]
    return table(("parameter", "meaning", "values", "default"), rows) if rows else "No parameters."


def _default(param: Param, value: object) -> str:
    if param.kind in ("program", "programs"):
        return "given first"
    if value is None:
        return "left out"
    return code(f'"{value}"' if isinstance(value, str) else repr(value))


def _example(name: str, example: Example | None) -> str:
    if example is None:
        return ""
    calls = parse(example.text).calls()
    cost = f"{calls} model evaluation{'s' * (calls != 1)} with five examples" if calls else "no model needed"
    return (
        f"Example: {code(example.text)} ({cost}); {SCENES[example.scene]}.\n\n"
        f"[![Trace of {example.text}]({PICTURES}/{name}.png)]({PICTURES}/{name}.png)"
    )
