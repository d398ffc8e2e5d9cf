"""A public name means one thing: no class or function of the package is defined in two modules."""

import ast
from collections import defaultdict
from pathlib import Path

from typer.main import get_command

import chop
from chop.cli import app

HOME = Path(chop.__file__).parent
ON_PURPOSE = {
    "Icon": "the operator that stands for the model in a program, and the bundled network",
    "rmse": "that of any field, and the score of air quality: by pollutant, in µg/m³, where it was observed",
    "sample": "every problem is a namespace with the same door: conservation.sample, mfc.sample, air.sample",
}
"""Names that may stand in several modules, and why."""


def public_names(path):
    """Names of the public classes and functions at the top of a file."""
    for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        defines = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if defines and not node.name.startswith("_"):
            yield node.name


def module_name(path, home):
    return ".".join(path.relative_to(home.parent).with_suffix("").parts).removesuffix(".__init__")


def commands(command):
    """(module, name) of every function that is a command: its name is what a user types."""
    for child in getattr(command, "commands", {}).values():
        if child.callback is not None:
            yield child.callback.__module__, child.callback.__name__
        yield from commands(child)


def clashes(home=HOME, exempt=frozenset()):
    """Names that several modules define, with these modules."""
    found = defaultdict(set)
    for path in home.rglob("*.py"):
        for name in public_names(path):
            module = module_name(path, home)
            if (module, name) not in exempt:
                found[name].add(module)
    return {name: sorted(where) for name, where in found.items() if len(where) > 1}


def test_no_public_name_is_defined_twice():
    found = clashes(exempt=set(commands(get_command(app))))
    new = {name: where for name, where in found.items() if name not in ON_PURPOSE}
    assert not new, "rename one of each:\n" + "\n".join(f"{name}: {new[name]}" for name in sorted(new))
    settled = sorted(ON_PURPOSE.keys() - found.keys())
    assert not settled, f"these names are unique now, take them out of the list of this test: {settled}"


def test_a_clash_is_seen(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "__init__.py").write_text("def made(): ...\ndef _hidden(): ...\nX = 1\n")
    (tmp_path / "other.py").write_text("class made: ...\ndef _hidden(): ...\nX = 1\n")
    top = tmp_path.name
    assert clashes(tmp_path) == {"made": [f"{top}.other", f"{top}.part"]}
    assert clashes(tmp_path, {(f"{top}.part", "made")}) == {}
