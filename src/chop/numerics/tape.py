"""An expression as a tape: a short list of vector instructions on numbered registers.

Why a tape and not generated code: one compiled interpreter serves every flux anybody types, is cached
on disk once, and needs no `exec`. Each instruction works on a whole grid of points, so that reading the
instruction costs nothing beside doing it. Equal sub-expressions are computed once and registers are used
again, so a tape stays within the first cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chop.core.errors import FluxError
from chop.numerics import Array
from chop.numerics.formulas import VARIABLE, Node

# The numbers are the compiled interpreter's (kernels.py).
_ARITHMETIC = ("add", "sub", "mul", "div", "pow", "neg")
_FUNCTIONS = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "abs", "atan", "sign")
OPCODES = {name: code for code, name in enumerate((*_ARITHMETIC, *_FUNCTIONS))}
MAX_INSTRUCTIONS = 4000
_MAX_UNROLLED_POWER = 16  # u**n as multiplications: faster and, for negative u, exact in sign

_NUMPY: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "neg": np.negative,
    "abs": np.abs,
    "atan": np.arctan,
    "sign": np.sign,
    **{
        name: getattr(np, name)
        for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "sqrt")
    },
}
_BY_CODE = [_NUMPY[name] for name in OPCODES]


@dataclass(frozen=True, eq=False)
class Tape:
    """Registers: 0 is u, then the parameters, then ``numbers``, then scratch.

    ``code`` is ``(instructions, 4)``: operation, destination, and two sources (equal for functions of
    one argument). The answer is register ``result``.
    """

    code: NDArray[np.int64]
    numbers: Array
    parameters: int
    registers: int
    result: int

    def evaluate(self, u: Any, parameters: Sequence[Any] | Array = ()) -> Any:
        """The expression with numpy, for any u (complex too); parameters broadcast against it."""
        if len(parameters) != self.parameters:
            raise FluxError(f"this flux has {self.parameters} parameters, {len(parameters)} were given")
        u = np.asarray(u)
        held: list[Any] = [u, *map(np.asarray, parameters), *self.numbers]
        held += [None] * (self.registers - len(held))
        with np.errstate(all="ignore"):
            for op, to, a, b in self.code.tolist():
                function = _BY_CODE[op]
                held[to] = function(held[a], held[b]) if function.nin == 2 else function(held[a])
            shape = np.broadcast_shapes(u.shape, *(np.shape(parameter) for parameter in parameters))
            return np.broadcast_to(held[self.result], shape).copy()


def compile_tape(root: Node, parameters: Sequence[str] = ()) -> Tape:
    """Number the values, drop repeated ones, and give them registers."""
    builder = _Builder({name: i for i, name in enumerate((VARIABLE, *parameters))})
    result = builder.visit(root)
    return _allocate(builder, result, len(parameters))


class _Builder:
    """Values by number: negative numbers are constants, 0.. the names, then one per instruction."""

    def __init__(self, names: Mapping[str, int]) -> None:
        self.names = names
        self.numbers: dict[str, int] = {}
        self.values: list[float] = []
        self.instructions: list[tuple[int, int, int]] = []
        self.known: dict[tuple[int, int, int], int] = {}
        self.visited: dict[int, int] = {}
        self.alive: list[Node] = []  # ids are only good while their nodes live

    def visit(self, node: Node) -> int:
        if id(node) not in self.visited:
            self.alive.append(node)
            self.visited[id(node)] = self.make(node)
        return self.visited[id(node)]

    def make(self, node: Node) -> int:
        if node.op == "number":
            return self.number(node.value)
        if node.op == "name":
            return self.names[node.name]
        if node.op == "pow" and node.args[1].op == "number":
            exponent = node.args[1].value
            if exponent == int(exponent) and abs(exponent) <= _MAX_UNROLLED_POWER:
                return self.integer_power(self.visit(node.args[0]), int(exponent))
        a = self.visit(node.args[0])
        return self.emit(node.op, a, self.visit(node.args[1]) if len(node.args) == 2 else a)

    def number(self, value: float) -> int:
        key = value.hex()  # 0.0 and -0.0 differ
        if key not in self.numbers:
            self.values.append(value)
            self.numbers[key] = -len(self.values)
        return self.numbers[key]

    def integer_power(self, base: int, exponent: int) -> int:
        if exponent < 0:
            return self.emit("div", self.number(1.0), self.integer_power(base, -exponent))
        if exponent == 0:
            return self.number(1.0)
        if exponent % 2:
            return base if exponent == 1 else self.emit("mul", self.integer_power(base, exponent - 1), base)
        half = self.integer_power(base, exponent // 2)
        return self.emit("mul", half, half)

    def emit(self, op: str, a: int, b: int) -> int:
        key = (OPCODES[op], a, b)
        if key not in self.known:
            if len(self.instructions) >= MAX_INSTRUCTIONS:
                raise FluxError(f"this flux or its derivative needs more than {MAX_INSTRUCTIONS} operations")
            self.instructions.append(key)
            self.known[key] = len(self.names) + len(self.instructions) - 1
        return self.known[key]


def _allocate(builder: _Builder, result: int, parameters: int) -> Tape:
    names, fixed = len(builder.names), len(builder.names) + len(builder.values)
    last = {result: len(builder.instructions)}
    for step in reversed(range(len(builder.instructions))):
        for source in builder.instructions[step][1:]:
            last.setdefault(source, step)
    place = {i: i for i in range(names)} | {-1 - i: names + i for i in range(len(builder.values))}
    free: list[int] = []
    registers, code = fixed, []
    for step, (op, a, b) in enumerate(builder.instructions):
        value = names + step
        if not free:
            free.append(registers)
            registers += 1
        # Taken before the sources are given back: a loop that writes what it reads is not vectorised.
        place[value] = free.pop()
        code.append((op, place[value], place[a], place[b]))
        for source in {a, b}:
            if source >= names and last[source] == step:
                free.append(place[source])
    return Tape(
        code=np.array(code, dtype=np.int64).reshape(-1, 4),
        numbers=np.array(builder.values, dtype=np.float64),
        parameters=parameters,
        registers=registers,
        result=place[result],
    )
