"""Imports go down one ladder, and importing the library costs nothing."""

import inspect
import json
import pkgutil
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from generator.house import (
    DOORS,
    HOME,
    IMPORTS,
    MODULES,
    Imports,
    drawing,
    folder_of,
    folders,
    ours,
    storeys,
    through_a_door,
)  # fmt: skip

import chop

ROOT = Path(__file__).parents[2]

THIRD_PARTY = {"torch", "numpy"}
UNKNOWN = {
    "problems": {"icon"},  # truth is independent of the model
    "bench": {"evolution", "files"},
    "evolution": {"bench", "files"},
    "files": {"bench", "evolution"},
}
"""Folders that a folder must not know."""
CORE = [name for name in sorted(ours(MODULES)) if folder_of(name) in ("core", "operators")]


@pytest.mark.parametrize("name", CORE)
def test_the_core_needs_torch_numpy_and_the_standard_library(name):
    for module in IMPORTS[name].now | IMPORTS[name].late:
        top = module.split(".")[0]
        allowed = top in THIRD_PARTY | {"chop"} | sys.stdlib_module_names
        assert allowed or (module in IMPORTS[name].late and through_a_door(name, module)), module


def test_folders_stand_on_each_other():
    """Imports between folders go down only, those inside functions too: the storeys come from the folders."""
    found = storeys(folders())
    assert found[0] == ["core"]
    assert found[-1] == ["cli"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE)
    height = {name: level for level, names in enumerate(found) for name in names}
    assert sorted(listed) == sorted(height), "docs/architecture.md lists the folders"
    assert [height[name] for name in listed] == sorted(height.values()), "from the ground up"


def test_files_that_the_architecture_names_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page))
    assert len(named) > 30
    missing = {name for name in named if not (HOME / name).exists() and not (ROOT / name).exists()}
    assert not missing


def test_the_picture_shows_the_house_as_it_is():
    """``cd docs && python -m generator.house figures/architecture.svg`` draws it again."""
    assert (ROOT / "docs" / "figures" / "architecture.svg").read_text(encoding="utf-8") == drawing()


def test_a_circle_of_folders_is_seen():
    with pytest.raises(CycleError):
        storeys({"core": {"files"}, "files": {"core"}})


@pytest.mark.parametrize("folder", UNKNOWN)
def test_strangers_do_not_know_each_other(folder):
    assert not folders()[folder] & UNKNOWN[folder]


def test_doors_open_late():
    for module, target in DOORS:
        assert not any(name == target or name.startswith(f"{target}.") for name in IMPORTS[module].now)


def test_no_import_goes_round_in_a_circle():
    # A module of a package imports the package first; packages here are lists of names that wait.
    graph = {name: ours(IMPORTS[name].now) & MODULES.keys() - {name} for name in MODULES if name != "chop"}
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    for name in packages - {"chop"}:
        graph[name] = {module for module in graph[name] if not module.startswith(f"{name}.")}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)


def test_every_door_is_used():
    for module, target in DOORS:
        assert any(name == target or name.startswith(f"{target}.") for name in IMPORTS[module].late), target


def test_an_import_inside_a_function_is_seen(tmp_path):
    file = tmp_path / "file.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nimport chop.core.prompt\nif TYPE_CHECKING:\n    import chop.cli\n"
        "class A:\n    def f(self):\n        from chop.evolution import chat\n        return lambda: chat\n"
    )
    assert Imports(file).now == {"typing", "chop.core.prompt"}
    assert Imports(file).late == {"chop.evolution.chat"}


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
