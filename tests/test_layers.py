"""Imports go down one ladder, and importing the library costs nothing."""

import ast
import inspect
import json
import pkgutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import chop

HOME = Path(chop.__file__).parent

# From the ground up: a module may import those before it. Operators are one rung, with steps of their own.
LADDER = [
    "errors",
    "words",
    "named",
    "user_code",
    "units",
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
    "running",
    "promises",
    "program",
    "operators",
    "text",
    "catalog",
    "forecast",
]
OPERATORS = [
    "domain",
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
STOREYS = [
    set(LADDER),
    {"atomic", "exits", "fingerprint", "guards", "lines", "processes", "terminal", "wellformed"},
    {"pictures", "pool", "problems", "testing"},
    {"icon"},
    {"bench", "demo", "evolution", "files"},
    {"cli"},
    {"reference"},
]
"""The whole house, from the ground up: packages of one storey do not know one another."""
DOORS = {
    ("chop.program", "chop.pictures"),  # program.draw(), trace.plot() and notebooks open a picture when asked
    ("chop.trace", "chop.pictures"),
    ("chop.prompt", "chop.pictures"),
    ("chop.running", "chop.pictures"),
    ("chop.forecast", "chop.pictures"),
    ("chop.grids", "scipy"),  # a tree, where points are many
    ("chop.model", "jax"),  # from_jax
}
"""The only imports that go up, or out of the core's own needs; all inside functions."""
ALL_FILES = sorted(HOME.rglob("*.py"))


class Imports(ast.NodeVisitor):
    """Modules a file imports: when it is imported itself, and when a function of it runs."""

    def __init__(self, path):
        self.now, self.late = set(), set()
        self.into = self.now
        self.visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))

    def visit_Import(self, node):
        self.into |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node):
        assert node.level == 0, "imports name the module in full"
        inside = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
        self.into |= inside or {node.module}

    def visit_FunctionDef(self, node):
        outside, self.into = self.into, self.late
        self.generic_visit(node)
        self.into = outside

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_If(self, node):
        if "TYPE_CHECKING" not in ast.dump(node.test):  # what only a type checker reads is no import
            self.generic_visit(node)


def module_name(path):
    parts = path.relative_to(HOME.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in ALL_FILES}
IMPORTS = {name: Imports(path) for name, path in MODULES.items()}


def ours(modules):
    """Those of our modules that are more than the package itself, which holds the version."""
    return {module for module in modules if module.startswith("chop.")}


def part(module):
    """The file or folder of the package a module lies in."""
    return module.split(".")[1]


def storey(module):
    return next(level for level, names in enumerate(STOREYS) if part(module) in names)


def through_a_door(module, target):
    return any(module == a and (target == b or target.startswith(f"{b}.")) for a, b in DOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_the_core_needs_torch_numpy_and_the_standard_library(path):
    name = module_name(path)
    for module in IMPORTS[name].now | IMPORTS[name].late:
        top = module.split(".")[0]
        allowed = top in THIRD_PARTY | {"chop"} | sys.stdlib_module_names
        assert allowed or (module in IMPORTS[name].late and through_a_door(name, module)), module


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_imports_of_the_core_go_down(path):
    name = module_name(path)
    assert "chop" not in IMPORTS[name].now, "the core names the module it means"
    in_operators = path.parent.name == "operators"
    rung = LADDER.index("operators" if in_operators else path.stem)
    for module in ours(IMPORTS[name].now | IMPORTS[name].late):
        if through_a_door(name, module):
            assert module not in IMPORTS[name].now, f"{name} imports {module} before anybody asks for it"
            continue
        assert part(module) in LADDER, f"{name} imports {module}, which is not of the core"
        if in_operators and part(module) == "operators":
            assert OPERATORS.index(module.split(".")[2]) < OPERATORS.index(path.stem)
        else:
            assert LADDER.index(part(module)) < rung, f"{name} imports {module}"


@pytest.mark.parametrize("name", sorted(ours(MODULES)))
def test_imports_go_down_the_house(name):
    """Function by function: an import that waits is an import all the same."""
    for module in ours(IMPORTS[name].now | IMPORTS[name].late):
        if part(module) != part(name) and not (storey(name) == 0 == storey(module)):
            lower = storey(module) < storey(name)
            assert lower or through_a_door(name, module), f"{name} imports {module}"


def test_no_import_goes_round_in_a_circle():
    # A module of a package imports the package first; packages here are lists of names that wait.
    graph = {name: ours(found.now) & MODULES.keys() for name, found in IMPORTS.items() if name != "chop"}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)


def test_every_door_is_used():
    for module, target in DOORS:
        assert any(name == target or name.startswith(f"{target}.") for name in IMPORTS[module].late), target


def test_every_module_has_its_place():
    """A new file of the core must be given its rung, and a new package its storey."""
    found = {module.name for module in pkgutil.iter_modules([str(HOME)])}
    placed = set().union(*STOREYS)
    assert found <= placed, f"give {found - placed} a place in STOREYS (and in LADDER if it is of the core)"
    assert set(LADDER) <= found
    assert set(OPERATORS) == {path.stem for path in (HOME / "operators").glob("*.py")}


def test_an_import_inside_a_function_is_seen(tmp_path):
    file = tmp_path / "file.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nimport chop.prompt\nif TYPE_CHECKING:\n    import chop.cli\n"
        "class A:\n    def f(self):\n        from chop.evolution import elo\n        return lambda: elo\n"
    )
    assert Imports(file).now == {"typing", "chop.prompt"}
    assert Imports(file).late == {"chop.evolution.elo"}


def loaded_after(code):
    """The names of all modules in a fresh interpreter after some code."""
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY = {"torch", "numpy", "matplotlib", "numba", "h5py", "scipy", "jax", "xarray", "PIL", "safetensors"}


def test_importing_the_library_imports_nothing_heavy():
    assert not loaded_after("import chop; dir(chop); chop.__version__") & (HEAVY | {"typer", "rich"})


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["bench", "--help"], ["evolve", "--help"]])
def test_help_imports_nothing_heavy(words):
    code = (
        f"import contextlib, io; sys.argv = ['chop', *{words}]; from chop.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit): main()\n"
        "assert said.getvalue().strip()"
    )
    loaded = loaded_after(code)
    assert "typer" in loaded
    assert not loaded & HEAVY


def test_everything_can_be_imported_at_once():
    names = "{name for name in dir() if not name.startswith('_')}"
    wanted = "set(__import__('chop').__all__)"
    assert "torch" in loaded_after(f"from chop import *\nassert {names} >= {wanted}")


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
