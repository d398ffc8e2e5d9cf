"""The tests lie where one looks for them, and each file can be run by itself."""

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PARTS = sorted({path.parent.name for path in (ROOT / "src" / "chop").glob("*/*.py")})
OF_NO_PART = {"project", "oracles", "browser"}
"""Folders with tests that belong to no folder of the package."""


@pytest.mark.parametrize("part", PARTS)
def test_every_folder_of_the_package_has_its_tests(part):
    assert list((TESTS / part).rglob("test_*.py")), f"src/chop/{part} has no tests in tests/{part}"


def test_every_folder_of_tests_has_its_part():
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert folders == {*PARTS, *OF_NO_PART}


def test_names_on_the_search_path_are_unique():
    """Helpers of tests/support are imported by their bare name, so nothing else may have it."""
    files = [*(TESTS / "support").glob("*.py"), *(ROOT / "docs").glob("*.py")]
    packages = [*TESTS.glob("*/__init__.py"), *(ROOT / "docs").glob("*/__init__.py")]
    found = [path.stem for path in files] + [path.parent.name for path in packages]
    assert not [name for name, times in Counter(found).items() if times > 1]


def test_no_test_changes_the_search_path():
    """What pyproject.toml puts there is enough; a change would last until the worker ends."""
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert ast.unparse(node.func) not in ("sys.path.append", "sys.path.insert"), path
