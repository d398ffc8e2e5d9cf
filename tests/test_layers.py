"""Imports go down one ladder, and importing the library costs nothing."""

import ast
import inspect
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import chop

HOME = Path(chop.__file__).parent

# From the ground up: a module may import those before it. Operators are one rung, with steps of their own.
LADDER = [
    "errors",
    "metrics",
    "fields",
    "prompt",
    "grids",
    "declare",
    "counting",
    "tasks",
    "model",
    "trace",
    "staging",
    "program",
    "operators",
    "text",
    "catalog",
    "forecast",
]
OPERATORS = [
    "statistics",
    "simplex",
    "affine",
    "examples",
    "frames",
    "leaves",
    "projections",
    "residuals",
    "mixtures",
    "__init__",
]
FILES = [
    *(HOME / f"{name}.py" for name in LADDER if name != "operators"),
    *(HOME / "operators" / f"{name}.py" for name in OPERATORS),
]
THIRD_PARTY = {"torch", "numpy"}
ABOVE = {"bench", "cli", "demo", "evolution", "icon", "lines", "pictures", "problems", "processes", "testing"}


def imports(path):
    """(module, whether it is imported when the file is) for every import in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []

    def walk(node, at_once):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend((alias.name, at_once) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path.name}: relative import"
                found.append((child.module, at_once))
                if child.module == "chop":
                    found.extend((f"chop.{alias.name}", at_once) for alias in child.names)
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            walk(child, at_once and not inside and not typing_only)

    walk(tree, True)
    return found


def at_once(path):
    return [module for module, now in imports(path) if now]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_the_core_needs_torch_numpy_and_the_standard_library(path):
    tops = {module.split(".")[0] for module in at_once(path)}
    assert tops <= THIRD_PARTY | {"chop"} | sys.stdlib_module_names


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_imports_go_down(path):
    in_operators = path.parent.name == "operators"
    rung = LADDER.index("operators" if in_operators else path.stem)
    for module in at_once(path):
        if not module.startswith("chop"):
            continue
        assert module != "chop", "the core names the module it means"
        name, *rest = module.removeprefix("chop.").split(".")
        assert name in LADDER, f"{path.stem} imports {module}, which is not of the core"
        if name == "operators" and in_operators:
            assert OPERATORS.index(rest[0]) < OPERATORS.index(path.stem)
        else:
            assert LADDER.index(name) < rung, f"{path.stem} imports {module}"


def test_the_ladder_is_complete():
    """A new file of the core must be given its place."""
    found = {module.name for module in pkgutil.iter_modules([str(HOME)])}
    assert set(LADDER) <= found
    unplaced = found - set(LADDER) - ABOVE
    assert not unplaced, f"add {unplaced} to LADDER if it is of the core, or to ABOVE if it stands on it"
    assert set(OPERATORS) == {path.stem for path in (HOME / "operators").glob("*.py")}


def loaded_after(code):
    """The names of all modules in a fresh interpreter after some code."""
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_library_imports_nothing_heavy():
    loaded = loaded_after("import chop; dir(chop); chop.__version__")
    heavy = {"torch", "numpy", "matplotlib", "numba", "h5py", "scipy", "jax", "typer", "rich"}
    assert not loaded & heavy


def test_running_a_program_imports_no_more_than_torch():
    loaded = loaded_after("import chop; chop.programs; chop.rollout; chop.Prompt; chop.metrics")
    assert "torch" in loaded
    assert not loaded & {"matplotlib", "numba", "h5py", "jax", "hypothesis", "pytest", "typer", "rich"}
    assert not {name for name in loaded if name.startswith(("chop.problems", "chop.pictures", "chop.icon"))}


def test_no_public_name_is_also_a_module():
    modules = {module.name for module in pkgutil.iter_modules([str(HOME)])}
    for name in chop.__all__:
        if name in modules:
            assert inspect.ismodule(getattr(chop, name)), f"{name} is a module and something else"


def test_every_public_name_exists():
    assert len(set(chop.__all__)) == len(chop.__all__)
    for name in chop.__all__:
        assert getattr(chop, name) is not None
    assert set(chop.__all__) <= set(dir(chop))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        chop.nonsense  # noqa: B018


def test_every_class_is_abstract_or_final():
    for operator in chop.registry().values():
        if operator.__module__.startswith("chop."):
            assert getattr(operator, "__final__", False), f"{operator.__name__} is neither"
            assert not inspect.isabstract(operator)
