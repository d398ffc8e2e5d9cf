"""A flux is typed as text; this reads it. Nothing is ever evaluated as Python.

The grammar is closed: numbers, ``u``, named parameters, ``+ - * / **`` (``^`` means ``**``), brackets,
and the functions and constants listed below. The reader is written out by hand (a tokenizer and
precedence climbing, with Python's precedences), so every text is either an expression or a `FluxError`
that points at a column, whatever the text is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from chop.core.errors import FluxError

FUNCTIONS = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "abs", "atan")
CONSTANTS = {"pi": math.pi, "e": math.e}
VARIABLE = "u"

MAX_LENGTH = 1000
MAX_DEPTH = 100  # of operations: a long sum leans to the left and is as deep as it is long

_BINARY = {"+": ("add", 1), "-": ("sub", 1), "*": ("mul", 2), "/": ("div", 2), "**": ("pow", 4)}
_UNARY_STRENGTH = 3  # -u**2 is -(u**2), and -u*v is (-u)*v
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<sign>\*\*|[-+*/^()]))",
    re.ASCII,
)


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One operation. ``op`` is "number", "name" or an operation; leaves carry ``value`` or ``name``.

    Nodes compare by identity: derivatives share sub-expressions, and comparing shared trees branch by
    branch would take exponential time.
    """

    op: str
    args: tuple[Node, ...] = ()
    value: float = 0.0
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


def read(text: str, parameters: Sequence[str] = ()) -> Node:
    """The expression a text stands for; `FluxError` says what is wrong with it and where."""
    if not isinstance(text, str):
        raise FluxError(f"a flux is a text such as 'u**2/2', not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise FluxError(f"a flux may have {MAX_LENGTH} characters, this one has {len(text)}")
    for name in parameters:
        if name == VARIABLE or name in FUNCTIONS or name in CONSTANTS or not name.isidentifier():
            raise FluxError(f"{name!r} cannot be the name of a parameter")
    node = _Reader(_tokens(text), text, tuple(parameters)).whole()
    if _depth(node) > MAX_DEPTH:
        raise _error(text, 1, f"more than {MAX_DEPTH} operations deep; bracket long sums into halves")
    return node


def _depth(root: Node) -> int:
    """How many operations lie above the deepest leaf, found without recursion."""
    deepest, stack = 0, [(root, 0)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        stack += [(arg, depth + 1) for arg in node.args]
    return deepest


def _tokens(text: str) -> list[_Token]:
    found, position, stripped = [], 0, text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            bad = re.compile(r"\s*").match(stripped, position)
            column = bad.end() if bad else position
            raise _error(text, column + 1, f"{stripped[column]!r} is not part of any flux")
        kind = match.lastgroup or ""
        found.append(_Token(kind, match[kind].replace("^", "**"), match.start(kind) + 1))
        position = match.end()
    found.append(_Token("end", "", len(stripped) + 1))
    return found


def _error(text: str, column: int, what: str) -> FluxError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return FluxError(f"flux {shown!r}, column {column}: {what}")


class _Reader:
    """Precedence climbing over a list of tokens."""

    def __init__(self, tokens: list[_Token], text: str, parameters: tuple[str, ...]) -> None:
        self.tokens = tokens
        self.text = text
        self.parameters = parameters
        self.position = 0

    def whole(self) -> Node:
        node = self.expression(0, 0)
        token = self.tokens[self.position]
        if token.kind != "end":
            hint = "; write multiplication as *" if token.kind != "sign" or token.text == "(" else ""
            raise self.error(token, f"{token.text!r} follows a complete expression{hint}")
        return node

    def error(self, token: _Token, what: str) -> FluxError:
        return _error(self.text, token.column, what)

    def next(self) -> _Token:
        token = self.tokens[self.position]
        self.position += token.kind != "end"
        return token

    def expression(self, strength: int, depth: int) -> Node:
        """Everything that binds at least as strongly as ``strength``."""
        left = self.operand(depth)
        while True:
            token = self.tokens[self.position]
            if token.kind != "sign" or token.text not in _BINARY:
                return left
            op, own = _BINARY[token.text]
            if own < strength:
                return left
            self.next()
            # ** leans to the right and lets a sign follow it: 2**-u**2 is 2**(-(u**2)).
            left = Node(op, (left, self.expression(own if op == "pow" else own + 1, depth + 1)))

    def operand(self, depth: int) -> Node:
        token = self.next()
        if depth > MAX_DEPTH:
            raise self.error(token, f"brackets nested deeper than {MAX_DEPTH}")
        if token.kind == "number":
            value = float(token.text)
            if not math.isfinite(value):
                raise self.error(token, f"{token.text} is too large a number")
            return Node("number", value=value)
        if token.kind == "name":
            return self.named(token, depth)
        if token.text in ("-", "+"):
            inner = self.expression(_UNARY_STRENGTH, depth + 1)
            return Node("neg", (inner,)) if token.text == "-" else inner
        if token.text == "(":
            return self.bracket(depth)
        found = repr(token.text) if token.text else "the end"
        raise self.error(token, f"a number, {VARIABLE}, a function or '(' is missing before {found}")

    def bracket(self, depth: int) -> Node:
        inner = self.expression(0, depth + 1)
        token = self.next()
        if token.text != ")":
            found = repr(token.text) if token.text else "the end"
            raise self.error(token, f"')' is missing before {found}")
        return inner

    def named(self, token: _Token, depth: int) -> Node:
        name = token.text
        if name in FUNCTIONS:
            if self.next().text != "(":
                raise self.error(token, f"{name} needs its argument in brackets")
            return Node(name, (self.bracket(depth),))
        if name in CONSTANTS:
            return Node("number", value=CONSTANTS[name])
        if name == VARIABLE or name in self.parameters:
            return Node("name", name=name)
        known = ", ".join((VARIABLE, *self.parameters, *CONSTANTS, *FUNCTIONS))
        raise self.error(token, f"unknown name {name!r}; known are {known}")


__all__ = ["CONSTANTS", "FUNCTIONS", "VARIABLE", "Node", "read"]
