"""The derivative of a flux, found symbolically, so that nobody writes a wrong one.

Sub-expressions are shared, not copied, and every node is visited once: the derivative of a text with n
operations has O(n) of them, however deeply it is nested.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from chop.numerics.expression import VARIABLE, Node


def number(value: float) -> Node:
    return Node("number", value=value)


ZERO, ONE = number(0.0), number(1.0)


def _is(node: Node, value: float) -> bool:
    return node.op == "number" and node.value == value


def _fold(op: str, a: Node, b: Node, compute: Callable[[float, float], float]) -> Node:
    """The operation, done now if both sides are numbers and the result is one too."""
    if a.op == b.op == "number":
        try:
            value = compute(a.value, b.value)
        except (ArithmeticError, ValueError):
            return Node(op, (a, b))
        if not isinstance(value, complex) and math.isfinite(value):
            return number(value)
    return Node(op, (a, b))


def add(a: Node, b: Node) -> Node:
    if _is(a, 0):
        return b
    return a if _is(b, 0) else _fold("add", a, b, lambda x, y: x + y)


def subtract(a: Node, b: Node) -> Node:
    if _is(b, 0):
        return a
    return negate(b) if _is(a, 0) else _fold("sub", a, b, lambda x, y: x - y)


def multiply(a: Node, b: Node) -> Node:
    if _is(a, 0) or _is(b, 0):
        return ZERO
    if _is(a, 1):
        return b
    return a if _is(b, 1) else _fold("mul", a, b, lambda x, y: x * y)


def divide(a: Node, b: Node) -> Node:
    if _is(a, 0) and not _is(b, 0):
        return ZERO
    return a if _is(b, 1) else _fold("div", a, b, lambda x, y: x / y)


def power(a: Node, b: Node) -> Node:
    if _is(b, 0):
        return ONE
    return a if _is(b, 1) else _fold("pow", a, b, lambda x, y: x**y)


def negate(a: Node) -> Node:
    return number(-a.value) if a.op == "number" else Node("neg", (a,))


def call(name: str, a: Node) -> Node:
    return Node(name, (a,))


def simplify(root: Node) -> Node:
    """The same expression with arithmetic on numbers done and neutral elements gone."""
    rules: dict[str, Callable[..., Node]] = {
        "add": add,
        "sub": subtract,
        "mul": multiply,
        "div": divide,
        "pow": power,
        "neg": negate,
    }
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if not node.args:
            return node
        if id(node) not in done:
            args = list(map(visit, node.args))
            rule = rules.get(node.op)
            done[id(node)] = rule(*args) if rule else Node(node.op, tuple(args))
        return done[id(node)]

    return visit(root)


# d/dx of each function of one argument, as an expression in that argument.
_OUTER: dict[str, Callable[[Node], Node]] = {
    "sin": lambda x: call("cos", x),
    "cos": lambda x: negate(call("sin", x)),
    "tan": lambda x: divide(ONE, power(call("cos", x), number(2.0))),
    "sinh": lambda x: call("cosh", x),
    "cosh": lambda x: call("sinh", x),
    "tanh": lambda x: subtract(ONE, power(call("tanh", x), number(2.0))),
    "exp": lambda x: call("exp", x),
    "log": lambda x: divide(ONE, x),
    "sqrt": lambda x: divide(number(0.5), call("sqrt", x)),
    "abs": lambda x: call("sign", x),
    "atan": lambda x: divide(ONE, add(ONE, power(x, number(2.0)))),
    "sign": lambda x: ZERO,
}


def differentiate(root: Node, variable: str = VARIABLE) -> Node:
    """The derivative with respect to one name; every other name is a constant."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if node.op == "number":
            return ZERO
        if node.op == "name":
            return ONE if node.name == variable else ZERO
        if id(node) not in done:
            done[id(node)] = _chain(node, tuple(map(visit, node.args)))
        return done[id(node)]

    return visit(root)


def _chain(node: Node, slopes: tuple[Node, ...]) -> Node:
    """The chain rule at one node, given the derivatives of its arguments."""
    if len(node.args) == 1:
        (x,), (dx,) = node.args, slopes
        if node.op == "neg":
            return negate(dx)
        return ZERO if _is(dx, 0) else multiply(_OUTER[node.op](x), dx)
    (a, b), (da, db) = node.args, slopes
    if node.op == "add":
        return add(da, db)
    if node.op == "sub":
        return subtract(da, db)
    if node.op == "mul":
        return add(multiply(da, b), multiply(a, db))
    if node.op == "div":
        return divide(subtract(da, multiply(node, db)), b)
    assert node.op == "pow", node.op
    if _is(db, 0):  # a constant exponent: right for negative bases too
        return multiply(multiply(b, power(a, subtract(b, ONE))), da)
    grow = multiply(db, call("log", a))
    return multiply(node, grow if _is(da, 0) else add(grow, divide(multiply(b, da), a)))


__all__ = ["differentiate", "simplify"]
