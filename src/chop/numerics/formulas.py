"""Formulas in u: read from text, simplified, differentiated. Nothing is ever evaluated as Python.

The grammar is closed: numbers, ``u``, named parameters, ``+ - * / **`` (``^`` means ``**``), brackets,
and the functions and constants listed below. The reader is written out by hand (a tokenizer and
precedence climbing, with Python's precedences), so every text is either an expression or a `FluxError`
that points at a column, whatever the text is.

Derivatives are found symbolically, so that nobody writes a wrong one. Sub-expressions are shared, not
copied, and every node is visited once: the derivative of a text with n operations has O(n) of them, however
deeply it is nested.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chop.core.errors import FluxError

FORMULA_FUNCTIONS = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "abs", "atan")
CONSTANTS = {"pi": math.pi, "e": math.e}
VARIABLE = "u"

MAX_FORMULA_LENGTH = 1000
MAX_FORMULA_DEPTH = 100  # of operations: a long sum leans to the left and is as deep as it is long

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
    branch would take exponential time. ``a + b`` is the simplified sum, and so on.
    """

    op: str
    args: tuple[Node, ...] = ()
    value: float = 0.0
    name: str = ""

    def __add__(self, other: Node) -> Node:
        return _binary("add", self, other)

    def __sub__(self, other: Node) -> Node:
        return _binary("sub", self, other)

    def __mul__(self, other: Node) -> Node:
        return _binary("mul", self, other)

    def __truediv__(self, other: Node) -> Node:
        return _binary("div", self, other)

    def __pow__(self, other: Node) -> Node:
        return _binary("pow", self, other)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


def parse_formula(text: str, parameters: Sequence[str] = ()) -> Node:
    """The expression a text stands for; `FluxError` says what is wrong with it and where."""
    if not isinstance(text, str):
        raise FluxError(f"a flux is a text such as 'u**2/2', not {type(text).__name__}")
    if len(text) > MAX_FORMULA_LENGTH:
        raise FluxError(f"a flux may have {MAX_FORMULA_LENGTH} characters, this one has {len(text)}")
    for name in parameters:
        if name == VARIABLE or name in FORMULA_FUNCTIONS or name in CONSTANTS or not name.isidentifier():
            raise FluxError(f"{name!r} cannot be the name of a parameter")
    node = _Reader(_tokens(text), text, tuple(parameters)).whole()
    if _depth(node) > MAX_FORMULA_DEPTH:
        raise _error(text, 1, f"more than {MAX_FORMULA_DEPTH} operations deep; bracket long sums into halves")
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
        if depth > MAX_FORMULA_DEPTH:
            raise self.error(token, f"brackets nested deeper than {MAX_FORMULA_DEPTH}")
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
        if name in FORMULA_FUNCTIONS:
            if self.next().text != "(":
                raise self.error(token, f"{name} needs its argument in brackets")
            return Node(name, (self.bracket(depth),))
        if name in CONSTANTS:
            return Node("number", value=CONSTANTS[name])
        if name == VARIABLE or name in self.parameters:
            return Node("name", name=name)
        known = ", ".join((VARIABLE, *self.parameters, *CONSTANTS, *FORMULA_FUNCTIONS))
        raise self.error(token, f"unknown name {name!r}; known are {known}")


def _number(value: float) -> Node:
    return Node("number", value=value)


_ZERO, _ONE, _TWO = _number(0.0), _number(1.0), _number(2.0)


def _is(node: Node, value: float) -> bool:
    return node.op == "number" and node.value == value


def _negate(a: Node) -> Node:
    return _number(-a.value) if a.op == "number" else Node("neg", (a,))


def _call(name: str, a: Node) -> Node:
    return Node(name, (a,))


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "pow": operator.pow,
}  # fmt: skip


def _binary(op: str, a: Node, b: Node) -> Node:
    """The operation without neutral elements, done now if both sides are numbers and the result is one."""
    if op == "add" and _is(a, 0):
        return b
    if op in ("add", "sub") and _is(b, 0):
        return a
    if op == "sub" and _is(a, 0):
        return _negate(b)
    if op in ("mul", "div") and _is(a, 0) and not (op == "div" and _is(b, 0)):
        return _ZERO
    if op == "mul" and _is(b, 0):
        return _ZERO
    if op == "mul" and _is(a, 1):
        return b
    if op == "pow" and _is(b, 0):
        return _ONE
    if op in ("mul", "div", "pow") and _is(b, 1):
        return a
    if a.op == b.op == "number":
        try:
            value = _ARITHMETIC[op](a.value, b.value)
        except (ArithmeticError, ValueError):
            return Node(op, (a, b))
        if not isinstance(value, complex) and math.isfinite(value):
            return _number(value)
    return Node(op, (a, b))


def simplify_formula(root: Node) -> Node:
    """The same expression with arithmetic on numbers done and neutral elements gone."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if not node.args:
            return node
        if id(node) not in done:
            args = tuple(map(visit, node.args))
            if node.op == "neg":
                done[id(node)] = _negate(*args)
            else:
                done[id(node)] = _binary(node.op, *args) if len(args) == 2 else Node(node.op, args)
        return done[id(node)]

    return visit(root)


# d/dx of each function of one argument, as an expression in that argument.
_OUTER: dict[str, Callable[[Node], Node]] = {
    "sin": lambda x: _call("cos", x),
    "cos": lambda x: _negate(_call("sin", x)),
    "tan": lambda x: _ONE / _call("cos", x) ** _TWO,
    "sinh": lambda x: _call("cosh", x),
    "cosh": lambda x: _call("sinh", x),
    "tanh": lambda x: _ONE - _call("tanh", x) ** _TWO,
    "exp": lambda x: _call("exp", x),
    "log": lambda x: _ONE / x,
    "sqrt": lambda x: _number(0.5) / _call("sqrt", x),
    "abs": lambda x: _call("sign", x),
    "atan": lambda x: _ONE / (_ONE + x**_TWO),
    "sign": lambda x: _ZERO,
}


def differentiate(root: Node, variable: str = VARIABLE) -> Node:
    """The derivative with respect to one name; every other name is a constant."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if node.op == "number":
            return _ZERO
        if node.op == "name":
            return _ONE if node.name == variable else _ZERO
        if id(node) not in done:
            done[id(node)] = _chain(node, tuple(map(visit, node.args)))
        return done[id(node)]

    return visit(root)


def _chain(node: Node, slopes: tuple[Node, ...]) -> Node:
    """The chain rule at one node, given the derivatives of its arguments."""
    if len(node.args) == 1:
        (x,), (dx,) = node.args, slopes
        if node.op == "neg":
            return _negate(dx)
        return _ZERO if _is(dx, 0) else _OUTER[node.op](x) * dx
    (a, b), (da, db) = node.args, slopes
    if node.op == "add":
        return da + db
    if node.op == "sub":
        return da - db
    if node.op == "mul":
        return da * b + a * db
    if node.op == "div":
        return (da - node * db) / b
    assert node.op == "pow", node.op
    if _is(db, 0):  # a constant exponent: right for negative bases too
        return b * a ** (b - _ONE) * da
    grow = db * _call("log", a)
    return node * (grow if _is(da, 0) else grow + b * da / a)
