"""A program as Mermaid flowchart text: one node for each operator, one more for each way back."""

from __future__ import annotations

from chop.core.parameters import Operator
from chop.core.program import Program, Projected, Validator, Wrapped
from chop.pictures.boxes import LOOP_WORDS, box_kind, branches, words_of
from chop.pictures.palette import STYLES, style

_SHAPES = {
    "plain": ("[", "]"),
    "pill": ("([", "])"),
    "forward": ("[/", "/]"),
    "backward": ("[\\", "\\]"),
    "bars": ("[[", "]]"),
    "hexagon": ("{{", "}}"),
    "octagon": ("(", ")"),
}
_CODES = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;"}


def as_mermaid(program: Program) -> str:
    """The flowchart, from left to right; held-out loops are dotted."""
    return _Chart().text(program)


class _Chart:
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
        look = style(kind)
        known = kind if kind in STYLES else "leaf"
        self._used.add(known)
        left, right = _SHAPES[look.shape]
        words = [part for part in (look.label, title, *lines) if part]
        inside = "<br/>".join(quoted(part) for part in words)
        self._lines.append(f'{name}{left}"{inside}"{right}:::{known}Kind')

    def _edge(self, source: str, target: str, label: str = "") -> None:
        self._lines.append(f'{source} -- "{label}" --> {target}' if label else f"{source} --> {target}")


def quoted(text: str) -> str:
    """Text that may stand between Mermaid's quotation marks."""
    return "".join(_CODES.get(character, character) for character in text)
