"""Names of 0.1.0 mean what they meant, and say what to write."""

import importlib
import subprocess
import sys

import pytest

import chop
from chop.core import parameters
from chop.core.deprecated import MOVED


@pytest.fixture
def forgotten():
    """Modules under their old names are not there yet."""
    for name in MOVED:
        sys.modules.pop(name, None)
        package, _, child = name.rpartition(".")
        if child != "metrics":
            vars(sys.modules.get(package, sys)).pop(child, None)
    yield
    for name in MOVED:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("old", MOVED)
def test_a_moved_module_is_the_module_it_became(old, forgotten):
    with pytest.warns(DeprecationWarning, match=f"{old} goes with the next release") as told:
        module = importlib.import_module(old)
    assert module is importlib.import_module(MOVED[old])
    assert module.__spec__.name == MOVED[old]
    assert len(told) == 1


def test_the_attribute_of_the_package_works_too(forgotten):
    with pytest.warns(DeprecationWarning, match=r"write chop\.core\.prompt") as told:
        assert chop.prompt.Prompt is chop.Prompt
    assert told[0].filename == __file__
    with pytest.raises(AttributeError, match="nonsense"):
        chop.nonsense  # noqa: B018


DOCUMENTED = """
from chop.declare import choice, number, whole
from chop.problems.storage import CaseFile
from chop.program import Frame, Leaf, Notes, Outcome, Projection, Transform, Validator
from chop.prompt import Axis, Field, Graph, Prompt
from chop.text import parse, registry
from chop.catalog import FOUND, programs
from chop.model import Arrays
from chop.errors import ChopError
from chop.forecast import rollout
from chop.trace import Trace
import chop.metrics
"""


@pytest.mark.parametrize("line", DOCUMENTED.strip().splitlines())
def test_what_was_documented_can_be_imported_and_says_what_to_write(line):
    def run(*options):
        return subprocess.run([sys.executable, *options, "-c", line], capture_output=True, text=True)

    done = run("-W", "default")
    assert done.returncode == 0, done.stderr
    assert "<string>:1: DeprecationWarning: " in done.stderr


def test_the_public_way_to_metrics_does_not_warn():
    code = "import chop; chop.metrics.rel_l2; from chop import metrics"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "new"), [("whole", "integer"), ("program", "subprogram"), ("programs", "subprogram_list")]
)
def test_renamed_declarations(old, new):
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new} now") as told:
        assert getattr(parameters, old) is getattr(parameters, new)
    assert told[0].filename == __file__
