"""A user's type checker accepts what the pages show, and knows what pipes and calls give."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SETTINGS = """
[mypy]
strict = True
[mypy-numpy.*,torch.*]
follow_imports = silent
"""
TYPES = """
from typing import assert_type

import numpy as np
import chop
from chop.core.program import Stack
from chop.operators import average, combine, conserve_mean, correct, flip, icon, last_frame
from chop.operators import rescale, ridge, select
from chop.operators import Correct, Rescale, Ridge

u = np.zeros((5, 8))
prompt = chop.Prompt.from_arrays(u, u, u[0], coords=(u[0],), axes=("x",), mask="nan")
assert_type(prompt, chop.Prompt)
assert_type(rescale | icon, chop.Program)
assert_type(rescale | flip, Stack)
assert_type(rescale | flip | icon, chop.Program)
assert_type(icon | conserve_mean, chop.Program)
assert_type(rescale | icon | conserve_mean, chop.Program)
assert_type(chop.parse("icon") | conserve_mean(), chop.Program)
assert_type(rescale(center="mean", target=0.5), Rescale)
assert_type(ridge(strength=0.5), Ridge)
assert_type(correct(icon, gap=1), Correct)
program = select(combine(correct(rescale | icon), average(icon, last_frame), channels=(0,)), icon, pad=False)
result = program.bind(lambda asked: asked.query.values, trace=False)(prompt)
assert_type(result, chop.Result)
assert_type(result.trace, chop.Trace)
assert_type(icon(lambda asked: asked.query.values, prompt, validate=True), chop.Result)
assert_type(chop.Program.load("p.txt"), chop.Program)
assert_type(chop.stack([prompt]).to("cpu", chop.Field(u, u).to().values.dtype), chop.Prompt)
"""
WRONG = {
    "icon | rescale": "operator",
    "conserve_mean | icon": "operator",
    "icon | icon": "operator",
    'rescale(centre="mean")': "call-arg",
    "rescale(center=3)": "arg-type",
    "correct()": "call-arg",
    "select(icon, rescale)": "arg-type",
    "icon(3)": "call-overload",
    "program(3)": "call-arg",
    "program.run(model, prompt, validates=True)": "call-arg",
    "program.bind(model, strikt=True)": "call-arg",
    "(rescale | flip).run(model, prompt)": "attr-defined",
}


def checked(folder, code):
    """What mypy says to a file of a user."""
    (folder / "user.py").write_text(code, encoding="utf-8")
    (folder / "mypy.ini").write_text(SETTINGS, encoding="utf-8")
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'user'}"
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", cache, "user.py"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout


def python_of(page):
    """The python blocks of a page, one after the other."""
    blocks = (ROOT / page).read_text(encoding="utf-8").split("```python\n")[1:]
    assert blocks
    return "\n".join(block.partition("```")[0] for block in blocks)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_code_of_a_page_passes_a_strict_check(page, tmp_path):
    assert checked(tmp_path, python_of(page)).startswith("Success"), checked(tmp_path, python_of(page))


def test_pipes_and_calls_have_their_types(tmp_path):
    assert checked(tmp_path, TYPES).startswith("Success"), checked(tmp_path, TYPES)


def test_what_means_nothing_is_found_before_it_runs(tmp_path):
    setting = (
        "import chop, torch\n"
        "from chop.operators import conserve_mean, correct, flip, icon, rescale, select\n"
        "def model(prompt: chop.Prompt) -> torch.Tensor: ...\n"
        "def check(program: chop.Program, prompt: chop.Prompt) -> None:\n"
    )
    said = checked(tmp_path, setting + "".join(f"    {line}\n" for line in WRONG))
    first = setting.count("\n") + 1
    for number, (line, code) in enumerate(WRONG.items(), start=first):
        assert any(
            told.startswith(f"user.py:{number}:") and f"[{code}]" in told for told in said.splitlines()
        ), f"{line}\n{said}"
