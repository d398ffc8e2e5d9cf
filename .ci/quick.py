"""The daily check: ruff on what changed, then the tests of the core and of every part that changed.

    python .ci/quick.py            what changed since the branch left main, committed or not
    python .ci/quick.py --list     only say what would be run

Slow tests are left out; `make test` runs everything.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALWAYS = ("tests/core", "tests/operators")
PYTEST = ("-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", "not slow")


def git(*words: str) -> list[str]:
    """Lines that git prints; none where there is no such branch, or no repository."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed() -> list[str]:
    """Files that differ from where this branch left main, with those that git does not know yet."""
    bases = (git("merge-base", "HEAD", branch) for branch in ("main", "origin/main"))
    (base,) = next((found for found in bases if found), ["HEAD"])
    files = {*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")}
    return sorted(file for file in files if (ROOT / file).is_file())


def tests_of(file: str) -> str | None:
    """The tests that a file belongs to, if any: a folder, or the file itself if it is one."""
    match Path(file).parts:
        case "src", "chop", folder, _, *_:
            return f"tests/{folder}"
        case "tests", _, *_, name if name.startswith("test_"):
            return file
        case "tests", *_:  # helpers and data of tests all over
            return None
    return "tests/project"


def chosen(files: Iterable[str]) -> list[str]:
    """What pytest is given: the core always, and the tests of these files."""
    found = {*ALWAYS, *(tests for file in files if (tests := tests_of(file)))}
    return sorted(name for name in found if not {str(parent) for parent in Path(name).parents} & found)


def main(asked: list[str]) -> int:
    """Run the checks, one after the other, up to the first that fails."""
    files = changed()
    tests = chosen(files)
    if asked == ["--list"]:
        print(*tests, sep="\n")
        return 0
    steps = [[sys.executable, *PYTEST, *tests]]
    if sources := [file for file in files if file.endswith(".py")]:
        ruff = str(Path(sys.executable).with_name("ruff"))
        steps = [[ruff, "check", *sources], [ruff, "format", "--check", *sources], *steps]
    ended = (subprocess.run(step, cwd=ROOT, check=False).returncode for step in steps)
    return next((code for code in ended if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
