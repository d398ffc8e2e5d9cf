"""A layout as a self-contained SVG text."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from chop.pictures.boxes import CAPTION_HEIGHT, LINE_HEIGHT, NAME_HEIGHT, PADDING, POINT, Box, Layout, Line
from chop.pictures.palette import style

MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
SANS = "system-ui, 'DejaVu Sans', Arial, sans-serif"
INK, LOOP_INK, PAPER = "#333333", "#a34700", "#ffffff"

# Presentation attributes are what counts for print and for other programs; a browser that is set to
# dark overrides them.
_DARK = (
    "@media screen and (prefers-color-scheme: dark) {"
    " .chop-paper { fill: #16191d } .chop-line { stroke: #c9ced6 } .chop-loop { stroke: #f0a35e }"
    " .chop-head { fill: #c9ced6 } .chop-loop-head { fill: #f0a35e }"
    " .chop-note { fill: #c9ced6 } }"
)


def as_svg(layout: Layout, title: str, css: str = "") -> str:
    """The picture; ``title`` is what it says to those who do not see it, ``css`` its place on a page."""
    width, height = _n(layout.width), _n(layout.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chop-drawing" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label={quoteattr(title)}'
        + (f" style={quoteattr(css)}>" if css else ">"),
        f"<title>{escape(title)}</title>",
        f"<style>{_DARK}</style>",
        f'<rect class="chop-paper" width="{width}" height="{height}" fill="{PAPER}"/>',
        *(_line(line) for line in layout.lines),
        *(_note(box) if box.kind == "note" else _box(box) for box in layout.boxes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _line(line: Line) -> str:
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in line.points)
    name, ink = ("chop-loop", LOOP_INK) if line.loop else ("chop-line", INK)
    dash = ' stroke-dasharray="5 4"' if line.loop else ""
    drawn = (
        f'<polyline class="{name}" points="{points}" fill="none" stroke="{ink}" stroke-width="1.4"'
        f' stroke-linejoin="round"{dash}/>'
    )
    return drawn + (_head(line) if line.arrow else "")


def _head(line: Line) -> str:
    (x0, y0), (x, y) = line.points[-2:]
    length = max(abs(x - x0), abs(y - y0)) or 1.0
    ux, uy = (x - x0) / length, (y - y0) / length
    corners = [(x, y), (x - 8 * ux - 4 * uy, y - 8 * uy + 4 * ux), (x - 8 * ux + 4 * uy, y - 8 * uy - 4 * ux)]
    points = " ".join(f"{_n(a)},{_n(b)}" for a, b in corners)
    name, ink = ("chop-loop-head", LOOP_INK) if line.loop else ("chop-head", INK)
    return f'<polygon class="{name}" points="{points}" fill="{ink}"/>'


def _note(box: Box) -> str:
    return (
        f'<text class="chop-note" x="{_n(box.x + box.width / 2)}" y="{_n(box.y + 10)}" text-anchor="middle" '
        f'font-family="{SANS}" font-size="10.5" fill="{INK}">{escape(box.title)}</text>'
    )


def _box(box: Box) -> str:
    look = style(box.kind)
    parts = [f'<g class="chop-box chop-{escape(box.kind)}">', _outline(box)]
    middle = _n(box.x + box.width / 2)
    y = box.y + PADDING
    if look.label:
        parts.append(_text(middle, y + 9, look.label, SANS, "10", ' fill-opacity="0.75"'))
        y += CAPTION_HEIGHT
    parts.append(_text(middle, y + 13, box.title, MONO, "13", ' font-weight="600"'))
    y += NAME_HEIGHT
    for line in box.lines:
        parts.append(_text(middle, y + 10, line, MONO, "11", ""))
        y += LINE_HEIGHT
    return "".join([*parts, "</g>"])


def _text(x: str, y: float, words: str, family: str, size: str, more: str) -> str:
    return (
        f'<text x="{x}" y="{_n(y)}" text-anchor="middle" font-family="{family}" font-size="{size}" '
        f'fill="#000000"{more}>{escape(words)}</text>'
    )


def _outline(box: Box) -> str:
    look = style(box.kind)
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
