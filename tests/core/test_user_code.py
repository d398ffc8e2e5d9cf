"""Users' Python files: run once, nothing written beside them, siblings at hand, mistakes with their line."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from chop.core import user_code
from chop.core.errors import ChopError, EvolutionError, ModelError
from chop.evolution.judging import Judge, Submission
from chop.evolution.search import evolve
from chop.evolution.tasks import load_task
from chop.files.choosing import choose_model

TOY = Path(__file__).parents[1] / "assets" / "toy_task.py"
TASK = f"""
import helpers_of_{{n}}
from pathlib import Path
exec(Path({str(TOY)!r}).read_text())
with open("runs.log", "a") as log:
    log.write(f"{{{{__import__('os').getpid()}}}}\\n")
"""

RUN = "with open('runs.log', 'a') as log:\n    log.write({0!r})\nmodel = len\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder on a machine where Python writes byte code, whatever this one does."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_nothing_is_written_beside_a_file_its_siblings_and_their_packages(folder):
    (folder / "near_one.py").write_text("SCALE = 2.0\n")
    (folder / "near_package").mkdir()
    (folder / "near_package" / "__init__.py").write_text("")
    (folder / "near_package" / "inner.py").write_text("SHIFT = 1.0\n")
    (folder / "late_one.py").write_text("from near_package.inner import SHIFT\n")
    (folder / "mine.py").write_text(
        "from near_one import SCALE\n"
        "def model(prompt):\n    import late_one\n    return SCALE * prompt + late_one.SHIFT\n"
    )
    before = names(folder)
    model = choose_model("mine.py")
    assert model(3.0) == 7.0, "siblings can be imported, also later, as in a script"
    assert names(folder) == before


def test_a_sibling_goes_before_what_is_installed_only_while_its_file_is_run(folder):
    (folder / "colorsys.py").write_text("HERE = True\n")
    (folder / "numpy").mkdir()  # such as a folder of arrays
    (folder / "parts_of_mine").mkdir()
    (folder / "parts_of_mine" / "one.py").write_text("HERE = True\n")
    (folder / "mine.py").write_text(
        "import colorsys, numpy, parts_of_mine.one\nmodel = lambda p: (colorsys.HERE, numpy.pi)\n"
    )
    for name in ("colorsys", "sched"):
        sys.modules.pop(name, None)
    try:
        assert choose_model("mine.py:model")(0)[0] is True
        (folder / "sched.py").write_text("HERE = True\n")
        import sched

        assert not hasattr(sched, "HERE"), "what a library imports later is not the user's file"
        with pytest.raises(ModuleNotFoundError):
            import one  # noqa: F401
    finally:
        sys.modules.pop("colorsys", None)


def test_a_file_is_run_once_until_it_changes(folder):
    (folder / "mine.py").write_text(RUN.format("x"))
    first = user_code.load_file("mine.py", ModelError)
    assert user_code.load_file(folder / "mine.py", ModelError) is first
    assert (folder / "runs.log").read_text() == "x"
    (folder / "mine.py").write_text(RUN.format("y"))
    assert user_code.load_file("mine.py", ModelError) is not first
    assert (folder / "runs.log").read_text() == "xy"


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_evolve_runs_a_task_file_once_in_each_process(folder, executor):
    (folder / "helpers_of_task.py").write_text("")
    (folder / "mine.py").write_text(TASK.format(n="task"))
    words = ["evolve", "--task", "mine.py", "--budget", "13", "--workers", "1", "--executor", executor]
    done = subprocess.run(
        [sys.executable, "-m", "chop.cli", *words, "--out", "out"],
        cwd=folder, capture_output=True, text=True, check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    runs = (folder / "runs.log").read_text().split()
    assert len(runs) == len(set(runs)) == (1 if executor == "inline" else 2)
    assert not list(folder.rglob("__pycache__"))


def test_what_a_file_defines_can_be_sent_to_whoever_ran_it(folder):
    (folder / "mine.py").write_text("class Model:\n    def __call__(self, prompt):\n        return prompt\n")
    module = user_code.load_file("mine.py", ModelError)
    sent = pickle.dumps(module.Model())
    code = (
        "import pickle, sys; from chop.core import user_code; from chop.core.errors import ModelError\n"
        "user_code.load_file('mine.py', ModelError); print(type(pickle.load(sys.stdin.buffer)).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert done.stdout.strip() == b"Model"


def test_two_files_of_one_name_are_two(folder):
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "mine.py").write_text(f"model = {name!r}.join\n")
    assert choose_model("one/mine.py")(["a", "b"]) == "aoneb"
    assert choose_model("two/mine.py")(["a", "b"]) == "atwob"


MISTAKES = {
    "an error": ("x = 1\n1 / 0\n", r"\(ZeroDivisionError: division by zero\) at mine\.py, line 2"),
    "no Python": ("def f(:\n    pass\n", r"\(SyntaxError: .+\) at mine\.py, line 1"),
    "an end": ("import sys\nsys.exit('bye')\n", r"\(SystemExit: bye\) at mine\.py, line 2"),
    "a quiet end": ("raise SystemExit\n", r"\(SystemExit\) at mine\.py, line 1"),
    "an error inside another library": (
        "import json\n\njson.loads('{')\n", r"\(JSONDecodeError: .+\) at mine\.py, line 3"
    ),
    "a mistake told by chop": (
        "import chop\nchop.parse('rescle | icon')\n", r"\(ParseError: .+\) at mine\.py, line 2"
    ),
    "a sibling that fails": ("import beside_it\n", r"\(KeyError: 'lost'\) at beside_it\.py, line 3"),
    "a sibling that is no Python": ("import no_python\n", r"\(SyntaxError: .+\) at no_python\.py, line 2"),
    "null bytes": ("x = 1\0\n", r"\((SyntaxError|ValueError): .+\)"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("load", [choose_model, load_task], ids=["model", "task"])
def test_mistakes_are_one_sentence_with_file_and_line(folder, mistake, load):
    text, words = MISTAKES[mistake]
    (folder / "mine.py").write_text(text)
    (folder / "beside_it.py").write_text("def f():\n    a = {}\n    return a['lost']\nf()\n")
    (folder / "no_python.py").write_text("x = 1\nx = = 2\n")
    with pytest.raises(ChopError, match=r"mine\.py failed when it was run " + words) as error:
        load("mine.py")
    assert isinstance(error.value, ModelError if load is choose_model else EvolutionError)
    with pytest.raises(ChopError):
        load("mine.py")


def test_ctrl_c_passes(folder):
    (folder / "mine.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        choose_model("mine.py")


def test_what_is_no_python_file_is_said(folder):
    (folder / "notes.txt").write_text("task\n")
    with pytest.raises(EvolutionError, match=r"notes\.txt is not a Python file"):
        load_task("notes.txt")
    with pytest.raises(ModelError, match=r"there is no file nowhere\.py"):
        choose_model("nowhere.py")
    (folder / "mine.py").write_text("x = 1\n")
    with pytest.raises(ModelError, match=r"defines no net; write mine\.py:NAME"):
        choose_model("mine.py:net")
    with pytest.raises(ModelError, match=r"x in mine\.py is no model"):
        choose_model("mine.py:x")


def test_a_metric_that_fails_names_its_line(folder):
    (folder / "helpers_of_metric.py").write_text("")
    (folder / "mine.py").write_text(
        TASK.format(n="metric")
        + "import dataclasses\ndef error(answers, cases):\n    return answers.nonsense\n"
        + "task = dataclasses.replace(task, metric=error)\n"
    )
    line = (folder / "mine.py").read_text().split("\n").index("    return answers.nonsense") + 1
    words = rf"the metric of task 'toy' failed \(AttributeError: .*nonsense.*\) at mine\.py, line {line}$"
    with pytest.raises(EvolutionError, match=words):
        evolve("mine.py", 13, out="out")


def test_the_place_is_the_users_innermost_line():
    def own():
        return sorted([1, "a"])

    with pytest.raises(TypeError) as error:
        own()
    line = own.__code__.co_firstlineno + 1
    assert user_code.error_location(error.value) == f"test_user_code.py, line {line}"
    assert user_code.describe_error(error.value).endswith(f") at test_user_code.py, line {line}")
    assert user_code.error_location(ValueError("never raised")) == ""
    verdict = Judge(load_task(str(TOY)))(Submission("nonsense("))
    assert "line" not in verdict.reason, "chop's own lines are not shown"
