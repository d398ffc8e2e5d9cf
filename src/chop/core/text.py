"""Program text: what is written is parsed against a closed registry and never executed.

The grammar is Python's expression syntax cut down to names of the registry, calls whose arguments
are programs, signed numbers, strings, True, False or tuples of them, and ``|``. Size, depth and the
number of model evaluations are bounded before anything runs, so text from anywhere is safe to read.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any

from chop import __version__
from chop.core.catalog import NAMED
from chop.core.errors import FileError, ParseError, ProgramError
from chop.core.parameters import Operator
from chop.core.program import Program, Projection, Stack, Transform, pipe

FILE_VERSION = 1
"""Of the text files that `Program.save` writes."""
_HEADER = "chop program, format "
_COMMENT = re.compile(r"""#[^\n]*|"[^"\n]*"|'[^'\n]*'""")
"""A comment; or a string, in which # begins none."""

ENTRY_POINTS = "chop.operators"
"""The entry-point group through which other packages add operators."""

MAX_CHARACTERS = 4000
MAX_FILE_CHARACTERS = 20_000
"""With its comments."""
MAX_BRACKETS = 40
MAX_SIZE = 100
MAX_DEPTH = 20
MAX_CALLS = 2000
"""Model evaluations a query, at five examples."""


@cache
def registry() -> Mapping[str, type[Operator]]:
    """Every operator that text may name: the built-in ones and those other packages declare."""
    from chop.operators import BUILT_IN  # the library's own operators are looked up like anybody's

    known = {operator.name: operator for operator in BUILT_IN}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            operator = entry.load()
            _check_operator(operator, known)
        except Exception as error:  # a broken plug-in must not take the library down with it
            warnings.warn(f"operator {entry.name!r} of {entry.value} is left out: {error}", stacklevel=2)
        else:
            known[operator.name] = operator
    return MappingProxyType(known)


def _check_operator(operator: object, known: Mapping[str, type[Operator]]) -> None:
    if not (inspect.isclass(operator) and issubclass(operator, Program | Transform | Projection)):
        raise ProgramError(f"{operator!r} is not a class of programs, transforms or projections")
    if inspect.isabstract(operator):
        raise ProgramError(f"{operator.__name__} is abstract")
    if not (operator.name.isidentifier() and operator.name.isascii()):
        raise ProgramError(f"{operator.name!r} is not a name")
    if operator.name in known:
        raise ProgramError(f"the name {operator.name!r} is taken by {known[operator.name].__name__}")


def program_of(source: Program | str) -> Program:
    """A program as it is, or the one that a text or a name of the catalog means."""
    if isinstance(source, Program):
        return source
    return parse(source)


def parse(text: str, *, max_calls: int = MAX_CALLS) -> Program:
    """The program a text describes; ``parse(str(program)) == program``.

    A name of the catalog stands for its program, alone or inside a text: ``parse("mfc | nonnegative")``.
    Raises `ParseError`, which points at the column, if it describes none or one that is too large.
    """
    tree = _syntax(text)
    found = _Reader(text).read(tree)
    if not isinstance(found, Program):
        what = "a route without a program" if isinstance(found, Stack) else f"a {found.role}, not a program"
        raise ParseError(f"{found} is {what}; pipe it to one, such as icon", text, 1)
    if found.size > MAX_SIZE or found.depth > MAX_DEPTH:
        raise ParseError(
            f"the program has {found.size} operators nested {found.depth} deep; "
            f"at most {MAX_SIZE} and {MAX_DEPTH} are allowed",
            text,
            1,
        )
    try:
        found.calls(limit=max_calls)
    except ProgramError as error:
        raise ParseError(str(error), text, 1) from None
    return found


def _syntax(text: str) -> ast.expr:
    """Python's own parser, on text that cannot hurt it."""
    if not isinstance(text, str):
        raise ProgramError(f"program text must be a string, not {type(text).__name__}")
    code = _without_comments(text)
    if len(code.strip()) > MAX_CHARACTERS:
        raise ParseError(f"the text is longer than {MAX_CHARACTERS} characters", text, MAX_CHARACTERS + 1)
    depth = 0
    for column, character in enumerate(code, start=1):
        if not (character.isascii() and (character.isprintable() or character in "\n\t")):
            raise ParseError(f"the character {character!r} is not plain ASCII text", text, column)
        depth += (character in "([{") - (character in ")]}")
        if depth > MAX_BRACKETS:
            raise ParseError(f"brackets are nested more than {MAX_BRACKETS} deep", text, column)
    flat = code.replace("\n", " ").replace("\t", " ")
    stripped = flat.lstrip()
    if not stripped:
        raise ParseError("the text is empty; a program is something like rescale | icon", text, 1)
    offset = len(flat) - len(stripped)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python comments on odd literals such as 1or 2
            tree = ast.parse(stripped, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        place = getattr(error, "offset", None)
        column = len(stripped) + 1 if place == 0 else place or 1  # 0: the text ends too early
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ParseError(f"this is not an expression ({reason})", text, column + offset) from None
    names = 0
    for node in ast.walk(tree):
        if hasattr(node, "col_offset"):
            node.col_offset += offset
        names += isinstance(node, ast.Name)
    if names > MAX_SIZE:  # before anything recurses into it
        raise ParseError(f"the text names more than {MAX_SIZE} operators", text, 1)
    return tree


def _without_comments(text: str) -> str:
    """The text with spaces in the place of comments, so that columns stay what they are."""
    return _COMMENT.sub(lambda found: found[0] if found[0][0] in "\"'" else " " * len(found[0]), text)


def saved_text(program: Program, note: str, date: str) -> str:
    """A program as `load_program` reads it, below comments that say what made it."""
    if unprintable := [c for c in note + date if not (c.isprintable() or c == "\n")]:
        raise ProgramError(f"a note is plain text; {unprintable[0]!r} cannot stand in it")
    said = [f"{_HEADER}{FILE_VERSION}", f"chop {__version__}", *([date] if date else []), *note.splitlines()]
    text = "".join(f"# {line}\n" for line in said) + f"{program}\n"
    if len(text) > MAX_FILE_CHARACTERS:
        raise ProgramError(f"a program file has at most {MAX_FILE_CHARACTERS} characters; shorten the note")
    return text


def load_program(path: str | Path) -> Program:
    """The program in a text file; comments, from ``#`` to the end of a line, say where it comes from."""
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            text = file.read(MAX_FILE_CHARACTERS + 1)
    except FileNotFoundError:
        raise FileError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} cannot be read as program text: {error}") from None
    first = text.partition("\n")[0]
    if first.startswith(f"# {_HEADER}") and first != f"# {_HEADER}{FILE_VERSION}":
        raise FileError(f"{path} says {first[2:60]!r}, this version reads {_HEADER}{FILE_VERSION}")
    return parse(text.strip())


class _Reader:
    """Turns syntax into operators, by name, one form at a time; any other form is an error."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _fail(self, message: str, node: ast.AST) -> ParseError:
        return ParseError(message, self._text, getattr(node, "col_offset", 0) + 1)

    def read(self, node: ast.expr) -> Operator | Stack:
        """An operator, a route of transforms, or an error."""
        match node:
            case ast.Name(id=name) if name in NAMED and name not in registry():
                return _Reader(NAMED[name]).read(_syntax(NAMED[name]))
            case ast.Name():
                return self._make(node, node, [], {})
            case ast.Call(func=ast.Name() as name):
                return self._make(name, node, [self.read(part) for part in node.args], self._options(node))
            case ast.BinOp(op=ast.BitOr()):
                left, right = self.read(node.left), self.read(node.right)
                try:
                    return pipe(left, right)
                except ProgramError as error:
                    raise self._fail(str(error), node.right) from None
        raise self._fail(
            f"{_named(node)} cannot stand here; allowed are operator names, calls of them and |", node
        )

    def _options(self, node: ast.Call) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in options:
                raise self._fail("each option is written once, as name=value", keyword.value)
            options[keyword.arg] = self._value(keyword.value)
        return options

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return value
            case ast.UnaryOp(
                op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=int() | float() as value)
            ):
                if isinstance(value, bool):
                    raise self._fail("only numbers carry a sign", node)
                return -value if isinstance(sign, ast.USub) else value
            case ast.Tuple(elts=parts):
                return tuple(self._value(part) for part in parts)
        raise self._fail(
            f"{_named(node)} is not a value; allowed are numbers, strings, True, False and tuples of them",
            node,
        )

    def _make(
        self, name: ast.Name, node: ast.expr, arguments: list[Operator | Stack], options: dict[str, Any]
    ) -> Operator:
        operator = registry().get(name.id)
        if operator is None:
            raise self._fail(_unknown(name.id), name)
        params = operator.params()
        slots = {key: param for key, param in params.items() if param.kind in ("program", "programs")}
        unknown = [key for key in options if key not in params or key in slots]
        if unknown:
            allowed = ", ".join(key for key in params if key not in slots) or "none"
            raise self._fail(f"{name.id} has no option {unknown[0]!r}; its options: {allowed}", node)
        given: dict[str, Any] = dict(options)
        rest: list[Operator | Stack] = list(arguments)
        for key, param in slots.items():
            if param.kind == "programs":
                given[key], rest = tuple(rest), []
            elif rest:
                given[key] = rest.pop(0)
            else:
                raise self._fail(f"{name.id} needs a program: {param.doc}", node)
        if rest:
            taken = {0: "no program", 1: "one program"}[len(arguments) - len(rest)]
            raise self._fail(
                f"{name.id} takes {taken}, not {len(arguments)}; options are written name=value", node
            )
        try:
            return operator(**given)
        except ProgramError as error:
            raise self._fail(str(error), node) from None


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, [*registry(), *NAMED], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"there is no operator {name[:40]!r}{hint} Known: {', '.join(sorted(registry()))}"


def _named(node: ast.AST) -> str:
    """A piece of syntax in words."""
    words = {
        ast.Constant: "a bare value",
        ast.Attribute: "a dotted name",
        ast.Lambda: "a lambda",
        ast.Subscript: "an index",
        ast.BinOp: "an operator other than |",
        ast.Call: "a call of something that is not a name",
        ast.Tuple: "a tuple",
    }
    return words.get(type(node), f"{type(node).__name__} syntax")
