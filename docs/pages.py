"""Runs what stands on a page as a reader would: from an empty folder, from top to bottom.

- ``python`` blocks share one namespace; classes named ``Test...`` are run like pytest would.
- A block whose first line is a comment with a file name, ``# decay.py``, is saved under that name instead.
- Lines of ``sh`` blocks that begin with ``chop`` or ``python`` are run.
- A ``text`` block right after a block that is run shows what it prints. Words must agree; numbers may differ
  by rounding, which depends on the processor.
- ``<!-- not run: why -->`` above a block leaves it out.

``python docs/pages.py docs/tutorials/*.md`` runs pages and keeps the pictures that they show.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^( *)```([a-z]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_SKIPPED = re.compile(r"<!-- not run: [^>]+ -->\s*$")
_FILE = re.compile(r"# ([\w.-]+\.\w+)\n")
_PICTURE = re.compile(r"!\[[^]]*\]\((figures/[^)]+)\)")
_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
TOLERANCE = 0.02


@dataclass(frozen=True)
class Block:
    """A block that is run or saved."""

    kind: str
    text: str
    line: int
    shown: str | None = None
    """What the page says it prints."""

    @property
    def file(self) -> str | None:
        """Under which name it is saved, if it is."""
        named = _FILE.match(self.text)
        return named.group(1) if named else None


def blocks(page: str) -> list[Block]:
    """The blocks of a page's text that are run or saved, in order."""
    found: list[Block] = []
    end = 0
    for match in _BLOCK.finditer(page):
        indent, kind, text = match.groups()
        text = re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)
        before = page[end : match.start()]
        follows = found and end and not before.strip()
        end = match.end()
        if kind == "text" and follows:
            found[-1] = Block(found[-1].kind, found[-1].text, found[-1].line, text)
        if kind not in ("python", "sh", "toml") or _SKIPPED.search(before):
            end = 0  # what follows is not the output of something that was run
            continue
        found.append(Block(kind, text, page.count("\n", 0, match.start()) + 2))
    return [block for block in found if block.kind in ("python", "sh") or block.file]


def run(page: Path, folder: Path) -> None:
    """Run a page in a folder; AssertionError says where the page and its output part."""
    names: dict[str, Any] = {"__name__": "page"}
    with contextlib.chdir(folder), _importable(folder):
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.file is not None:
                Path(block.file).write_text(block.text, encoding="utf-8")
                if block.file == "pyproject.toml":
                    install(folder, block.text)
                continue
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                if block.kind == "python":
                    _python(block, page, names)
                else:
                    _shell(block)
            if block.shown is not None:
                compare(said.getvalue(), block.shown, f"{page.name}, line {block.line}")
        _suites(names)


def install(folder: Path, project: str) -> None:
    """What ``pip install -e .`` leaves behind for entry points, without touching the environment."""
    import tomllib

    from chop.core.text import registry

    declared = tomllib.loads(project)["project"]
    about = folder / f"{declared['name'].replace('-', '_')}-{declared['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: {declared['name']}\nVersion: {declared['version']}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in declared.get("entry-points", {}).items()
    )
    (about / "entry_points.txt").write_text("\n".join(groups))
    registry.cache_clear()


def compare(said: str, shown: str, where: str) -> None:
    """Words alike, numbers to rounding; spaces do not count."""
    ours, theirs = _words(said), _words(shown)
    for one, other in zip(ours, theirs, strict=False):
        assert _alike(one, other), f"{where}: the page shows {other!r}, the run says {one!r}\n\n{said}"
    assert len(ours) == len(theirs), f"{where}: the page does not show all of this, or more:\n\n{said}"


def _words(text: str) -> list[str]:
    return re.findall(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?|[^\s\d]+", text)


def _alike(one: str, other: str) -> bool:
    if _NUMBER.fullmatch(one) and _NUMBER.fullmatch(other):
        return math.isclose(float(one), float(other), rel_tol=TOLERANCE, abs_tol=1e-6)
    return one == other


def _python(block: Block, page: Path, names: dict[str, Any]) -> None:
    padded = "\n" * (block.line - 1) + block.text  # so that a traceback names the line of the page
    exec(compile(padded, str(page), "exec", dont_inherit=True), names)


def _shell(block: Block) -> None:
    joined = block.text.replace("\\\n", " ")
    for line in joined.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "chop":
            _chop(words)
        elif words and words[0] == "python":
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            done = subprocess.run(
                [sys.executable, *words[1:]], capture_output=True, text=True, env=environment
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            print(done.stdout, end="")


def _chop(words: list[str]) -> None:
    """The command in this process: torch need not be loaded again for each."""
    from chop.cli import main

    before = sys.argv
    sys.argv = words
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv = before
    assert code == 0, f"{shlex.join(words)} ended with {code}"


def _suites(names: dict[str, Any]) -> None:
    for suite in [value for name, value in names.items() if name.startswith("Test")]:
        for test in [name for name in dir(suite) if name.startswith("test_")]:
            getattr(suite(), test)()


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Modules and entry points of the folder are found, and forgotten afterwards."""
    from chop.core.text import registry

    loaded = set(sys.modules)
    sys.path.insert(0, str(folder))
    registry.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        registry.cache_clear()
        for name in set(sys.modules) - loaded:
            home = getattr(sys.modules[name], "__file__", None) or ""
            if home.startswith(str(folder)):
                del sys.modules[name]


def keep_pictures(page: Path, folder: Path) -> list[Path]:
    """The pictures a page shows, packed with a palette and put where it shows them."""
    from PIL import Image

    kept = []
    for shown in _PICTURE.findall(page.read_text(encoding="utf-8")):
        target = page.parent / shown
        target.parent.mkdir(exist_ok=True)
        made = Image.open(folder / target.name).convert("RGB").quantize(96, dither=Image.Dither.NONE)
        made.save(target, "PNG", optimize=True)
        kept.append(target)
    return kept


if __name__ == "__main__":
    from matplotlib import style

    style.use("default")  # whatever the reader's own matplotlibrc says
    for argument in sys.argv[1:]:
        path = Path(argument).resolve()
        with tempfile.TemporaryDirectory() as empty:
            run(path, Path(empty).resolve())
            for picture in keep_pictures(path, Path(empty)):
                print(f"{path.name}: {picture.name}, {picture.stat().st_size / 1000:.0f} kB")
