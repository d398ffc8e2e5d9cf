"""Which folder of the package stands on which, from its imports; ``python -m generator.house FILE.svg``.

Imports inside functions count. What only a type checker reads does not.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

import chop
from chop.core.errors import ChopError
from chop.storage.atomic import write_text

HOME = Path(chop.__file__).parent
DOORS = {
    ("chop.core.program", "chop.pictures"),  # program.draw(), trace.plot() and notebooks: when asked
    ("chop.core.trace", "chop.pictures"),
    ("chop.core.prompt", "chop.pictures"),
    ("chop.core.running", "chop.pictures"),
    ("chop.core.forecast", "chop.pictures"),
    ("chop.operators.inspection.fact", "chop.pictures"),  # facts.plot() and facts.save()
    ("chop.core.text", "chop.operators"),  # the registry looks operators up, ours like anybody's
    ("chop.core.grids", "scipy"),  # a tree, where points are many
    ("chop.core.next_error", "scipy"),  # Student's t, when a band or trust is asked for
    ("chop.core.model", "jax"),  # from_jax
    ("chop.core.labelled", "xarray"),  # Result.to_xarray
    ("chop.core.program", "chop.storage"),  # program.save() writes a file that is whole or not there
}
"""The only imports that go up, or out of the core's own needs; all inside functions."""


class Imports(ast.NodeVisitor):
    """Modules a file imports: when it is imported itself, and when a function of it runs."""

    def __init__(self, path: Path) -> None:
        self.now: set[str] = set()
        self.late: set[str] = set()
        self._into = self.now
        self.visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))

    def visit_Import(self, node: ast.Import) -> None:
        self._into |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.level == 0, "imports name the module in full"
        assert node.module is not None
        inside = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
        self._into |= inside or {node.module}

    def visit_FunctionDef(self, node: ast.AST) -> None:
        outside, self._into = self._into, self.late
        self.generic_visit(node)
        self._into = outside

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef  # noqa: N815

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.dump(node.test):
            self.generic_visit(node)


def _module_name(path: Path) -> str:
    parts = path.relative_to(HOME.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module_name(path): path for path in sorted(HOME.rglob("*.py"))}
IMPORTS = {name: Imports(path) for name, path in MODULES.items()}


def ours(modules: Iterable[str]) -> set[str]:
    """Those of our modules that are more than the package itself, which holds the version."""
    return {module for module in modules if module.startswith("chop.")}


def folder_of(module: str) -> str:
    """The folder of the package a module lies in."""
    return module.split(".")[1]


def through_a_door(module: str, target: str) -> bool:
    """Whether an import is one of those that may go up."""
    return any(module == a and (target == b or target.startswith(f"{b}.")) for a, b in DOORS)


def folders() -> dict[str, set[str]]:
    """Which folder needs which."""
    graph: dict[str, set[str]] = {folder_of(name): set() for name in ours(MODULES)}
    for name in ours(MODULES):
        found = ours(IMPORTS[name].now | IMPORTS[name].late)
        needed = {folder_of(module) for module in found if not through_a_door(name, module)}
        graph[folder_of(name)] |= needed - {folder_of(name)}
    return graph


def storeys(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The folders from the ground up; raises `graphlib.CycleError` where they cannot be built."""
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    found: list[list[str]] = []
    while sorter.is_active():
        found.append(sorted(sorter.get_ready()))
        sorter.done(*found[-1])
    return found


WIDTH, GAP, LINE = 980, 10, 15
MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
COLORS = ("#fff6e0", "#f4f4f4", "#c9eadf", "#a6d8f5", "#d3ecfa", "#eeeeee")


def drawing() -> str:
    """The storeys as a picture, each folder with its modules."""
    parts: list[str] = []
    top = GAP
    for height, names in reversed(list(enumerate(storeys(folders())))):
        wide = (WIDTH - GAP) / len(names) - GAP
        boxes = [textwrap.wrap("  ".join(_modules_in(name)), int(wide / 6.4) - 2) for name in names]
        tall = 30 + LINE * max(map(len, boxes)) + 6
        for place, (name, lines) in enumerate(zip(names, boxes, strict=True)):
            left = GAP + place * (wide + GAP)
            fill = COLORS[min(height, len(COLORS) - 1)]
            parts.append(
                f'<rect x="{left:g}" y="{top}" width="{wide:g}" height="{tall}" rx="6" fill="{fill}" '
                'stroke="#777777"/>'
            )
            parts.append(_text(left + 10, top + 20, 14, 700, f"{name}/"))
            for number, line in enumerate(lines):
                parts.append(_text(left + 10, top + 38 + LINE * number, 10.5, 400, line))
        top += tall + GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
            f'height="{top}" role="img" aria-labelledby="t d">',
            '<title id="t">Storeys of the package</title>',
            '<desc id="d">Folders from the ground up with their modules; imports go down only.</desc>',
            f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, size: float, weight: int, words: str) -> str:
    words = escape(words).replace("  ", " &#160;")
    return (
        f'<text x="{x:g}" y="{y:g}" font-family="{MONO}" font-size="{size}" font-weight="{weight}" '
        f'fill="#222222">{words}</text>'
    )


def _modules_in(folder: str) -> list[str]:
    """Names of its modules; a folder inside it by its own name."""
    inside = {name.split(".")[2] for name in MODULES if name.startswith(f"chop.{folder}.")}
    packages = {
        name.split(".")[2] for name in MODULES if name.startswith(f"chop.{folder}.") and name.count(".") > 2
    }
    return sorted(f"{name}/" if name in packages else name for name in inside - {"__main__"})


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), drawing(), ChopError, overwrite=True)
