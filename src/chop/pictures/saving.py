"""Runs, programs and figures as files: the suffix says what is written, and it is whole or not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from chop.core.errors import ChopError
from chop.core.program import Program
from chop.core.trace import Trace
from chop.pictures.account import program_account, trace_account
from chop.pictures.drawing import draw_program
from chop.pictures.figure import trace_figure
from chop.pictures.page import trace_page
from chop.pictures.rendering import Form, figure_bytes
from chop.storage.atomic import atomic_path
from chop.storage.json_text import json_text

_Make = TypeVar("_Make", bound=Callable[..., bytes])

FIGURE_FORMS: Mapping[str, Callable[[Any], bytes]] = MappingProxyType(
    {f".{form}": partial(figure_bytes, form=form) for form in get_args(Form)}
)
"""A matplotlib figure as bytes, by suffix."""


def _figure(trace: Trace, query: int, told: Mapping[str, Any], suffix: str) -> bytes:
    return FIGURE_FORMS[suffix](trace_figure(trace, query))


TRACE_FORMS: Mapping[str, Callable[[Trace, int, Mapping[str, Any]], bytes]] = MappingProxyType(
    {
        ".html": lambda trace, query, told: trace_page(trace, query).encode(),
        **{suffix: partial(_figure, suffix=suffix) for suffix in FIGURE_FORMS},
        ".json": lambda trace, query, told: json_text({**trace_account(trace, query), **told}).encode(),
    }
)
"""One query of a run as bytes, by suffix; what else is to be told of it stands in the .json."""

PROGRAM_FORMS: Mapping[str, Callable[[Program], bytes]] = MappingProxyType(
    {
        ".svg": lambda program: draw_program(program, "svg").encode(),
        ".mmd": lambda program: draw_program(program, "mermaid").encode(),
        ".json": lambda program: json_text(program_account(program)).encode(),
    }
)
"""A program by itself as bytes, by suffix."""


def form_of(path: Path, forms: Mapping[str, _Make], error: type[ChopError] = ChopError) -> _Make:
    """How a file of this name is made; an error that names the suffixes there are."""
    make = forms.get(path.suffix.lower())
    if make is None:
        raise error(f"this is written to {', '.join(forms)} files, not to {path.name}")
    return make


def write(
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


__all__ = ["FIGURE_FORMS", "PROGRAM_FORMS", "TRACE_FORMS", "form_of", "write"]
