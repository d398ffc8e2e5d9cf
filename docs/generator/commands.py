"""The command-line reference: every command of the Typer application as a section of one page."""

from __future__ import annotations

import enum
import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.main import get_command

from generator.markdown import code, paragraphs, prose, table

INTRODUCTION = (
    "Made from the code by `make docs`; `chop COMMAND --help` says the same in a terminal. What a user can "
    "get wrong ends with one sentence and exit code 2."
)


def commands_page(app: typer.Typer) -> str:
    """The whole page."""
    root = get_command(app)
    first: dict[str, str] = {}
    sections = [_section(path, command, first) for path, command in _walk("chop", root)]
    return paragraphs("# Command line", INTRODUCTION, *sections) + "\n"


def _walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command below this one with its full name, in the order of registration."""
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield f"{path} {name}", child
            yield from _walk(f"{path} {name}", child)


def _section(path: str, command: Any, first: dict[str, str]) -> str:
    """One command. Options that an earlier one has too are listed with the first alone."""
    heading = "#" * min(4, path.count(" ") + 1)
    children = list(getattr(command, "commands", {}))
    runs = command.callback is not None and bool(_shown(command))
    below = "Commands: " + ", ".join(code(f"{path} {name}") for name in children) + "." if children else ""
    parts = [f"{heading} {path}", prose(inspect.cleandoc(command.help or "")), below]
    if runs or not children:
        options = _options(command)
        listed = first.setdefault(options, path)
        same = f"The options are those of {code(listed)}."
        parts += [f"```\n{_usage(path, command)}\n```", options if listed == path else same]
    return paragraphs(*parts)


def _usage(path: str, command: Any) -> str:
    words = [path]
    for param in _shown(command):
        if _is_argument(param):
            word = (param.metavar or param.name).upper()
            words.append(word if param.required else f"[{word}]")
        elif param.required:
            words.append(f"{param.opts[0]} ...")
    optional = [param for param in _shown(command) if not _is_argument(param) and not param.required]
    return " ".join([*words, *(["[OPTIONS]"] if optional else [])])


def _options(command: Any) -> str:
    hints = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
    rows = [_row(param, hints.get(param.name, str)) for param in _shown(command)]
    return table(("option", "value", "default", "meaning"), rows) if rows else ""


def _row(param: Any, hint: Any) -> tuple[str, str, str, str]:
    names = [*param.opts, *param.secondary_opts] if not _is_argument(param) else [param.name.upper()]
    default = "required" if param.required else _default(param.default)
    value, info = _value(hint)
    notes = [param.help or "", f"Also read from `{info.envvar}`." if getattr(info, "envvar", None) else ""]
    meaning = prose(" ".join(note for note in notes if note))
    return ", ".join(code(name) for name in names), value, default, meaning


def _default(value: object) -> str:
    if callable(value):
        value = value()
    if value is None or value is False or value in ("", [], ()):
        return ""
    if value is True:
        return "yes"
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return code(value.as_posix() if isinstance(value, Path) else str(value))


def _value(hint: Any) -> tuple[str, Any]:
    """What kind of value an option takes, in words, and its Typer declaration."""
    info = None
    if get_origin(hint) is Annotated:
        hint, info, *_ = get_args(hint)
    words = _words(hint)
    low, high = getattr(info, "min", None), getattr(info, "max", None)
    if low is not None and high is not None:
        words += f", {low:g} to {high:g}"
    elif low is not None:
        words += f", at least {low:g}"
    return words, info


def _words(hint: Any) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is list:
        return f"{_words(get_args(hint)[0])}, repeatable"
    if get_origin(hint) is tuple:
        first, *others = get_args(hint)
        return f"{_words(first)}, {1 + len(others)} of them"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return ", ".join(code(str(member.value)) for member in hint)
    return {bool: "flag", int: "whole number", float: "number", Path: "path"}.get(hint, "text")


def _shown(command: Any) -> list[Any]:
    return [param for param in command.params if param.name != "help" and not getattr(param, "hidden", False)]


def _is_argument(param: Any) -> bool:
    return not param.opts or not param.opts[0].startswith("-")
