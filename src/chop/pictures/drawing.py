"""A program as a picture: a self-contained SVG text, or a Mermaid flowchart.

The flowchart has one node for each operator, and one more for each way back.
"""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from chop.core.errors import ChopError
from chop.core.parameters import Operator
from chop.core.program import Program, Projected, Validator, Wrapped
from chop.pictures.boxes import (
    CAPTION_HEIGHT,
    LINE_HEIGHT,
    LOOP_WORDS,
    NAME_HEIGHT,
    PADDING,
    POINT,
    STYLES,
    Box,
    Layout,
    Polyline,
    box_kind,
    box_style,
    branches,
    layout,
    words_of,
)

_MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_SANS = "system-ui, 'DejaVu Sans', Arial, sans-serif"
_LINE_COLOR, _LOOP_COLOR, _PAPER = "#333333", "#a34700", "#ffffff"

# Presentation attributes are what counts for print and for other programs; a browser that is set to
# dark overrides them.
_DARK = (
    "@media screen and (prefers-color-scheme: dark) {"
    " .chop-paper { fill: #16191d } .chop-line { stroke: #c9ced6 } .chop-loop { stroke: #f0a35e }"
    " .chop-head { fill: #c9ced6 } .chop-loop-head { fill: #f0a35e }"
    " .chop-note { fill: #c9ced6 } }"
)

_BRACKETS = {
    "plain": ("[", "]"),
    "pill": ("([", "])"),
    "forward": ("[/", "/]"),
    "backward": ("[\\", "\\]"),
    "bars": ("[[", "]]"),
    "hexagon": ("{{", "}}"),
    "octagon": ("(", ")"),
}
_CODES = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;"}


def draw_program(program: Program, form: str, interactive: bool = False) -> str:
    """The program as ``"svg"`` (a self-contained picture) or ``"mermaid"`` (flowchart text).

    In an interactive SVG the boxes of operators are buttons: each carries its path as ``data-path``, can be
    reached by keyboard and says what it is. What a click does is for the page to say.
    """
    if form == "svg":
        return as_svg(layout(program), str(program), interactive=interactive)
    if form == "mermaid" and interactive:
        raise ChopError('only a program drawn as "svg" can be interactive')
    if form == "mermaid":
        return _Chart().text(program)
    raise ChopError(f'a program is drawn as "svg" or "mermaid", not {form!r}')


def as_svg(layout: Layout, title: str, css: str = "", interactive: bool = False) -> str:
    """The picture; ``title`` is what it says to those who do not see it, ``css`` its place on a page."""
    width, height = _n(layout.width), _n(layout.height)
    role = "group" if interactive else "img"  # what is inside an image cannot be reached
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chop-drawing" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="{role}" aria-label={quoteattr(title)}'
        + (f" style={quoteattr(css)}>" if css else ">"),
        f"<title>{escape(title)}</title>",
        f"<style>{_DARK}</style>",
        f'<rect class="chop-paper" width="{width}" height="{height}" fill="{_PAPER}"/>',
        *(_line(line) for line in layout.lines),
        *(_note(box) if box.kind == "note" else _box(box, interactive) for box in layout.boxes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _line(line: Polyline) -> str:
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in line.points)
    name, ink = ("chop-loop", _LOOP_COLOR) if line.loop else ("chop-line", _LINE_COLOR)
    dash = ' stroke-dasharray="5 4"' if line.loop else ""
    drawn = (
        f'<polyline class="{name}" points="{points}" fill="none" stroke="{ink}" stroke-width="1.4"'
        f' stroke-linejoin="round"{dash}/>'
    )
    return drawn + (_head(line) if line.arrow else "")


def _head(line: Polyline) -> str:
    (x0, y0), (x, y) = line.points[-2:]
    length = max(abs(x - x0), abs(y - y0)) or 1.0
    ux, uy = (x - x0) / length, (y - y0) / length
    corners = [(x, y), (x - 8 * ux - 4 * uy, y - 8 * uy + 4 * ux), (x - 8 * ux + 4 * uy, y - 8 * uy - 4 * ux)]
    points = " ".join(f"{_n(a)},{_n(b)}" for a, b in corners)
    name, ink = ("chop-loop-head", _LOOP_COLOR) if line.loop else ("chop-head", _LINE_COLOR)
    return f'<polygon class="{name}" points="{points}" fill="{ink}"/>'


def _note(box: Box) -> str:
    return (
        f'<text class="chop-note" x="{_n(box.x + box.width / 2)}" y="{_n(box.y + 10)}" text-anchor="middle" '
        f'font-family="{_SANS}" font-size="10.5" fill="{_LINE_COLOR}">{escape(box.title)}</text>'
    )


def _box(box: Box, interactive: bool) -> str:
    look = box_style(box.kind)
    button = _button(box.path, f"{box.title}, {look.label}") if interactive and box.path is not None else ""
    parts = [f'<g class="chop-box chop-{escape(box.kind)}"{button}>', _outline(box)]
    middle = _n(box.x + box.width / 2)
    y = box.y + PADDING
    if look.label:
        parts.append(_text(middle, y + 9, look.label, _SANS, "10", ' fill-opacity="0.75"'))
        y += CAPTION_HEIGHT
    parts.append(_text(middle, y + 13, box.title, _MONO, "13", ' font-weight="600"'))
    y += NAME_HEIGHT
    for line in box.lines:
        parts.append(_text(middle, y + 10, line, _MONO, "11", ""))
        y += LINE_HEIGHT
    return "".join([*parts, "</g>"])


def _button(path: str, words: str) -> str:
    return f' data-path={quoteattr(path)} tabindex="0" role="button" aria-label={quoteattr(words)}'


def _text(x: str, y: float, words: str, family: str, size: str, more: str) -> str:
    return (
        f'<text x="{x}" y="{_n(y)}" text-anchor="middle" font-family="{family}" font-size="{size}" '
        f'fill="#000000"{more}>{escape(words)}</text>'
    )


def _outline(box: Box) -> str:
    look = box_style(box.kind)
    paint = f'fill="{look.fill}" stroke="{look.edge}" stroke-width="1.4" stroke-linejoin="round"'
    x, y, right, bottom, middle = box.x, box.y, box.x + box.width, box.y + box.height, box.middle
    p = POINT
    corners = {
        "forward": [(x, y), (right - p, y), (right, middle), (right - p, bottom), (x, bottom)],
        "backward": [(x + p, y), (right, y), (right, bottom), (x + p, bottom), (x, middle)],
        "hexagon": [
            (x + p, y), (right - p, y), (right, middle), (right - p, bottom), (x + p, bottom), (x, middle)
        ],
        "octagon": [
            (x + p, y), (right - p, y), (right, y + p), (right, bottom - p),
            (right - p, bottom), (x + p, bottom), (x, bottom - p), (x, y + p),
        ],
    }  # fmt: skip
    if look.shape in corners:
        points = " ".join(f"{_n(a)},{_n(b)}" for a, b in corners[look.shape])
        return f'<polygon points="{points}" {paint}/>'
    radius = {"pill": 17.0, "plain": 3.0}.get(look.shape, 0.0)
    drawn = _rect(x, y, box.width, box.height, radius, paint)
    thin = f'fill="none" stroke="{look.edge}" stroke-width="1"'
    if look.shape == "bars":
        for bar in (x + 6, right - 6):
            drawn += f'<path d="M {_n(bar)} {_n(y)} V {_n(bottom)}" {thin}/>'
    if box.kind == "model":  # a double rim: nothing gets in
        drawn += _rect(x + 3.5, y + 3.5, box.width - 7, box.height - 7, radius - 3.5, thin)
    return drawn


def _rect(x: float, y: float, width: float, height: float, radius: float, paint: str) -> str:
    return (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}" {paint}/>'
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class _Chart:
    """The flowchart, from left to right; held-out loops are dotted."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._used: set[str] = {"end"}
        self._count = 0

    def text(self, program: Program) -> str:
        self._node("prompt", "end", "prompt", ())
        last = self._program(program, "prompt")
        self._node("answer", "end", "answer", ())
        self._edge(last, "answer")
        looks = [
            f"classDef {kind}Kind fill:{look.fill},stroke:{look.edge},color:#000"
            for kind, look in STYLES.items()
            if kind in self._used
        ]
        return "\n".join(["flowchart LR", *(f"  {line}" for line in [*self._lines, *looks])]) + "\n"

    def _program(self, program: Program, source: str) -> str:
        """Draws a program behind a node and returns the node its answer comes out of."""
        if isinstance(program, Wrapped):
            there = self._operator("transform", program.transform)
            self._edge(source, there)
            last = self._program(program.inner, there)
            back = f"{there}back"
            self._node(back, "undo", program.transform.name, ())
            self._edge(last, back)
            return back
        if isinstance(program, Projected):
            last = self._program(program.inner, source)
            node = self._operator("projection", program.projection)
            self._edge(last, node)
            return node
        inside = branches(program)
        node = self._operator(box_kind(program), program)
        if not inside:
            self._edge(source, node)
        for i, branch in enumerate(inside, start=1):
            number = str(i) if len(inside) > 1 else ""
            self._edge(self._program(branch, source), node, number)
        if inside and isinstance(program, Validator):
            self._lines.append(f'{node} -. "{LOOP_WORDS}" .-> {source}')
        return node

    def _operator(self, kind: str, operator: Operator) -> str:
        self._count += 1
        name = f"n{self._count}"
        self._node(name, kind, *words_of(operator))
        return name

    def _node(self, name: str, kind: str, title: str, lines: tuple[str, ...]) -> None:
        look = box_style(kind)
        known = kind if kind in STYLES else "leaf"
        self._used.add(known)
        left, right = _BRACKETS[look.shape]
        words = [part for part in (look.label, title, *lines) if part]
        inside = "<br/>".join(mermaid_quoted(part) for part in words)
        self._lines.append(f'{name}{left}"{inside}"{right}:::{known}Kind')

    def _edge(self, source: str, target: str, label: str = "") -> None:
        self._lines.append(f'{source} -- "{label}" --> {target}' if label else f"{source} --> {target}")


def mermaid_quoted(text: str) -> str:
    """Text that may stand between Mermaid's quotation marks."""
    return "".join(_CODES.get(character, character) for character in text)
