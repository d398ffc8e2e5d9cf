"""Where everything in the drawing of a program goes: pure data, no pixels.

Data flows from left to right: prompt, transforms, model, the way back, projections, answer. A program
with branches stacks them as rows between a fork and its own box. Every block knows its size, so
nothing overlaps however deeply programs are nested.

The hues are those of Okabe and Ito, which colour-blind readers tell apart; fills are tinted so that black
text reads well on them. Colour never carries a meaning alone: every kind has its own shape and is named in
words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from chop.core.editing import TreePath, direct_parts, path_text
from chop.core.parameters import Operator
from chop.core.program import Icon, Program, Projected, Validator, Wrapped

MARGIN = 12.0
GAP = 26.0
ROW_GAP = 16.0
FORK = 34.0
"""From a fork's inlet to its rows."""
BUS = 12.0
"""From a fork's inlet to the line all rows start from."""
MERGE = 24.0
"""From the rows' end to the line that collects them."""
LOOP = 14.0
"""How far below the rows the held-out loop runs; its words need as much again."""
LOOP_WORDS = "each pair held out in turn"

CAPTION_HEIGHT, NAME_HEIGHT, LINE_HEIGHT = 13.0, 17.0, 14.0
CAPTION_CHAR, NAME_CHAR, LINE_CHAR = 6.2, 8.2, 6.9
"""Widths of a character, on the generous side of common fonts."""
PADDING = 8.0
POINT = 12.0
"""How far the pointed or rounded ends of a shape reach in."""
WRAP = 30


BoxShape = Literal["plain", "pill", "forward", "backward", "bars", "hexagon", "octagon"]


@dataclass(frozen=True)
class BoxStyle:
    """How boxes of one kind look, and what they are called."""

    label: str
    fill: str
    edge: str
    shape: BoxShape


STYLES: dict[str, BoxStyle] = {
    "end": BoxStyle("", "#f4f4f4", "#555555", "plain"),
    "model": BoxStyle("frozen model", "#a6d8f5", "#0072b2", "pill"),
    "leaf": BoxStyle("leaf", "#d3ecfa", "#0072b2", "pill"),
    "transform": BoxStyle("transform", "#f7cf80", "#a86f00", "forward"),
    "undo": BoxStyle("undo", "#f7cf80", "#a86f00", "backward"),
    "projection": BoxStyle("projection", "#74cbb3", "#00684c", "bars"),
    "validator": BoxStyle("validator", "#f8f2a6", "#857d00", "hexagon"),
    "mixture": BoxStyle("mixture", "#e3b5ce", "#8c3f6b", "octagon"),
}


def box_style(kind: str) -> BoxStyle:
    """The look of a kind; one nobody has heard of looks like a leaf."""
    return STYLES.get(kind, STYLES["leaf"])


@dataclass(frozen=True)
class Box:
    """A box or, with kind ``note``, a few words beside a line."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str
    lines: tuple[str, ...] = ()
    path: str | None = None
    """The path of its operator in the program (see `Program.operators`); None beside operators."""

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True)
class Polyline:
    """A line of straight pieces; ``loop`` marks the held-out loop, ``arrow`` a head at the end."""

    points: tuple[tuple[float, float], ...]
    arrow: bool = True
    loop: bool = False

    def moved(self, dx: float, dy: float) -> Polyline:
        """The same, elsewhere."""
        return replace(self, points=tuple((x + dx, y + dy) for x, y in self.points))


@dataclass(frozen=True)
class Layout:
    """Boxes and lines with the size of the whole; data enters left and leaves right at ``port``."""

    width: float
    height: float
    port: float
    boxes: tuple[Box, ...]
    lines: tuple[Polyline, ...] = ()
    forked: bool = False
    """Whether data meets a fork first, not a box."""

    def moved(self, dx: float, dy: float) -> Layout:
        """The same, elsewhere; the size stays what it was."""
        return Layout(
            self.width,
            self.height,
            self.port + dy,
            tuple(replace(box, x=box.x + dx, y=box.y + dy) for box in self.boxes),
            tuple(line.moved(dx, dy) for line in self.lines),
            self.forked,
        )


def layout(program: Program) -> Layout:
    """The whole drawing, from prompt to answer, with a margin all around."""
    row = _row([_single("end", "prompt"), _block(program), _single("end", "answer")])
    placed = row.moved(MARGIN, MARGIN)
    return replace(placed, width=row.width + 2 * MARGIN, height=row.height + 2 * MARGIN)


def box_kind(program: Program) -> str:
    """Which look a program's own box has."""
    return "model" if isinstance(program, Icon) else getattr(program, "kind", "leaf")


def branches(program: Program) -> tuple[Program, ...]:
    """The programs directly inside."""
    return tuple(part for part in program.parts() if isinstance(part, Program))


def words_of(operator: Operator) -> tuple[str, tuple[str, ...]]:
    """An operator's name, and its parameters one to a line (a long one wrapped)."""
    head = operator.head()
    start = len(operator.name) + 1
    wrapped = (textwrap.wrap(option, WRAP) or [""] for option in _split(head[start:-1]))
    return operator.name, tuple(line for lines in wrapped for line in lines)


def _split(text: str) -> Iterable[str]:
    """``a=1, b=(2, 3)`` at the commas that stand outside brackets and quotes."""
    depth, quoted, start = 0, False, 0
    for i, character in enumerate(text):
        quoted ^= character == '"'
        depth += 0 if quoted else (character in "([{") - (character in ")]}")
        if character == "," and not quoted and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


def _block(program: Program, path: TreePath = ()) -> Layout:
    # By step, not by value: equal parts have boxes of their own.
    inside = [
        _block(part, (*path, step)) for step, part in direct_parts(program) if isinstance(part, Program)
    ]
    if isinstance(program, Wrapped):
        there = (*path, ("transform", None))
        way_back = _single("undo", program.transform.name, path=path_text(there))
        return _row([_operator("transform", program.transform, there), *inside, way_back])
    if isinstance(program, Projected):
        return _row([*inside, _operator("projection", program.projection, (*path, ("projection", None)))])
    own = _operator(box_kind(program), program, path)
    return _fork(inside, own, isinstance(program, Validator)) if inside else own


def _operator(kind: str, operator: Operator, path: TreePath) -> Layout:
    return _single(kind, *words_of(operator), path_text(path))


def _single(kind: str, title: str, lines: tuple[str, ...] = (), path: str | None = None) -> Layout:
    """One box as wide and high as its words."""
    caption = box_style(kind).label
    words = max(
        [len(title) * NAME_CHAR, len(caption) * CAPTION_CHAR, *(len(line) * LINE_CHAR for line in lines)]
    )
    width = words + 2 * (PADDING + POINT)
    height = NAME_HEIGHT + len(lines) * LINE_HEIGHT + 2 * PADDING + (CAPTION_HEIGHT if caption else 0)
    return Layout(width, height, height / 2, (Box(kind, 0, 0, width, height, title, lines, path),))


def _row(blocks: list[Layout]) -> Layout:
    """Blocks side by side on one axis, joined by arrows."""
    port = max(block.port for block in blocks)
    height = port + max(block.height - block.port for block in blocks)
    boxes: list[Box] = []
    lines: list[Polyline] = []
    x = 0.0
    for i, block in enumerate(blocks):
        placed = block.moved(x, port - block.port)
        boxes += placed.boxes
        lines += placed.lines
        x += block.width
        if i + 1 < len(blocks):
            lines.append(Polyline(((x, port), (x + GAP, port)), arrow=not blocks[i + 1].forked))
            x += GAP
    return Layout(x, height, port, tuple(boxes), tuple(lines), blocks[0].forked)


def _fork(rows: list[Layout], own: Layout, looped: bool) -> Layout:
    """Rows one below the other between a fork and the box that makes one answer of theirs."""
    widest = max(row.width for row in rows)
    collect = FORK + widest + MERGE
    placed: list[Layout] = []
    y = 0.0
    for row in rows:
        placed.append(row.moved(FORK, y))
        y += row.height + ROW_GAP
    bottom = y - ROW_GAP
    port = (placed[0].port + placed[-1].port) / 2
    lift = max(0.0, own.port - port)  # the box may be higher than its rows
    placed = [row.moved(0, lift) for row in placed]
    port, bottom = port + lift, bottom + lift
    decision = own.moved(collect + GAP, port - own.port)
    bottom = max(bottom, decision.boxes[0].y + own.height)
    boxes = [*(box for row in placed for box in row.boxes), *decision.boxes]
    lines = [line for row in placed for line in row.lines]
    first, last = placed[0].port, placed[-1].port
    if len(rows) > 1:
        lines += [
            Polyline(((0, port), (BUS, port)), arrow=False),
            Polyline(((BUS, first), (BUS, last)), arrow=False),
            Polyline(((collect, first), (collect, last)), arrow=False),
        ]
    for i, row in enumerate(placed, start=1):
        lines.append(
            Polyline(((BUS if len(rows) > 1 else 0, row.port), (FORK, row.port)), arrow=not row.forked)
        )
        lines.append(Polyline(((FORK + row.width, row.port), (collect, row.port)), arrow=False))
        if len(rows) > 1:
            number, width = str(i), len(str(i)) * CAPTION_CHAR
            boxes.append(Box("note", collect - 3 - width, row.port - 15, width, 13, number))
    lines.append(Polyline(((collect, port), (collect + GAP, port))))
    width = collect + GAP + own.width
    if looped:
        own_middle, below = collect + GAP + own.width / 2, bottom + LOOP
        start = (own_middle, decision.boxes[0].y + own.height)
        lines.append(Polyline((start, (own_middle, below), (BUS, below), (BUS, last)), loop=True))
        loop_words = len(LOOP_WORDS) * CAPTION_CHAR
        left = BUS + (own_middle - BUS - loop_words) / 2
        boxes.append(Box("note", left, below + 2, loop_words, 13, LOOP_WORDS))
        bottom = below + 2 + 13
    return Layout(width, bottom, port, tuple(boxes), tuple(lines), forked=True)
