"""What an interpreter and a notebook show of a value: short, self-contained, and nothing loaded for it."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from html.parser import HTMLParser

import pytest
import torch

import chop
from chop.core.parameters import number
from chop.core.program import Leaf, Outcome
from chop.core.prompt import Axis, Field, Graph, Prompt
from chop.problems.case import Case
from chop.testing import make_prompt, toy_model

RESULT = chop.programs["mfc"].run(toy_model, make_prompt(3, batch=(4,)))
STATIONS = make_prompt(3, dimensions=3, points=9, channels=(3, 3), batch=(2,), masked=True)
VALUES = {
    "prompt": make_prompt(3, batch=(4,)),
    "masked prompt": STATIONS,
    "field": STATIONS.query,
    "graph": Graph(torch.tensor([[0, 1], [1, 2]]), 3),
    "origin": make_prompt(3).held_out(pad=True).origin,
    "program": chop.programs["mfc"],
    "long program": chop.programs["conservation_evolved"],
    "transform": chop.operators.Rescale(center="mean"),
    "route": chop.operators.Rescale() | chop.operators.Flip(),
    "projection": chop.operators.ConserveMean(),
    "frame": chop.operators.Rescale().fit(make_prompt(3)),
    "result": RESULT,
    "untraced result": chop.parse("icon").run(toy_model, make_prompt(3), trace=False),
    "trace": RESULT.trace,
    "stage": RESULT.trace.root,
    "step": next(RESULT.trace.stages()),
    "outcome": Outcome(RESULT.values, None, {"gate": RESULT.error}),
    "rollout": chop.rollout(chop.parse("icon"), toy_model, make_prompt(3, batch=(2,)), 4),
    "case": Case(make_prompt(3, batch=(4,)), RESULT.values),
    "empty field": Field(torch.zeros(0, 1), torch.zeros(0, 1)),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_representation_is_one_short_line(name):
    shown = repr(VALUES[name])
    assert "\n" not in shown
    assert len(shown) < 450
    assert "tensor(" not in shown


def test_a_program_is_shown_as_what_makes_it():
    program = chop.programs["mfc"]
    assert repr(program) == "parse('select(correct(rescale | icon), icon)')"
    assert eval(repr(program), {"parse": chop.parse}) == program
    assert repr([chop.operators.Rescale(target=2.0)]) == "[<transform: rescale(target=2.0)>]"
    long = repr(chop.programs["conservation_evolved"])
    assert long.startswith("<program: average(")
    assert " ... " in long


def test_operators_of_others_are_shown_alike():
    @dataclass(frozen=True)
    class Constant(Leaf):
        name = "constant"
        level: float = number(1.0, -9, 9, "the answer")

        def answer(self, prompt):
            raise NotImplementedError

    @dataclass(frozen=True)
    class Proud(Constant):
        def __repr__(self):
            return "me"

    assert repr(Constant(level=2.0)) == "parse('constant(level=2.0)')"
    assert repr(Proud()) == "me"


def test_a_prompt_tells_shapes_axes_and_ranges():
    prompt = replace(make_prompt(3, batch=(4,)), axes=(Axis("x", 1.0),))
    shown = repr(prompt)
    low, high = float(prompt.outputs.values.min()), float(prompt.outputs.values.max())
    assert "5 examples, 12 points x 1 ch -> 12 points x 1 ch; batch (4,)" in shown
    assert "dtype float64" in shown
    assert f"outputs {low:.4g} .. {high:.4g}" in shown
    assert "axes x (period 1);" in shown
    seen = float(STATIONS.query.mask.float().mean())
    assert f"observed {seen:.0%}" in repr(STATIONS.query)


def test_what_was_assumed_is_told():
    x = torch.arange(8.0)[:, None] / 8
    values = torch.sin(x + torch.arange(4.0)[:, None, None])
    fields = Field(x, values[:3]), Field(x, values[:3]), Field(x, values[3])
    told = "x (period 1), assumed: x with period 1, as the grid shows"
    prompt = Prompt(*fields, x)
    assert f"axes {told};" in repr(prompt)
    trace = chop.parse("icon").run(lambda p: p.query.values, prompt).trace
    assert trace.explain().splitlines()[2] == f"axes     {told}"
    stated = chop.parse("icon").run(lambda p: p.query.values, replace(prompt, axes=(Axis("x", 2.5),))).trace
    assert stated.explain().splitlines()[2] == "axes     x (period 2.5)"


def test_a_result_tells_error_rejections_and_cost():
    shown = repr(RESULT)
    error = RESULT.error
    assert f"in-context error {error.min():.4g} .. {error.max():.4g}, mean {error.mean():.4g}" in shown
    assert "rejected 0 of 4" in shown
    assert "cost 12 model evaluations a query in 1 round" in shown
    bad = chop.parse("icon").run(lambda p: toy_model(p).log(), make_prompt(3, batch=(2,)))
    assert "rejected 2 of 2" in repr(bad)
    assert "values are not finite" in repr(bad)


class Reader(HTMLParser):
    """Everything is closed, nothing is fetched, nothing runs."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.images = [], "", 0

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        assert tag not in ("script", "link", "iframe", "object")
        assert not any(name.startswith("on") or name in ("href", "id") for name in given)
        if tag == "img":
            self.images += 1
            assert given["alt"]
            assert given["src"].startswith("data:image/png;base64,")
        else:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(value):
    page = value._repr_html_()
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert len(page.encode()) < 100_000
    assert page.count("http") == page.count('xmlns="http://www.w3.org/2000/svg"')
    assert "url(" not in page
    return reader


@pytest.mark.parametrize(
    ("name", "images", "words"),
    [
        ("prompt", 1, "query 0 of 0 to 3"),
        ("masked prompt", 1, "channel 3 of 3"),
        ("program", 0, "select(correct(rescale | icon), icon)"),
        ("long program", 0, "each pair held out in turn"),
        ("result", 1, "in-context error"),
        ("untraced result", 0, "1 model evaluation a query in 1 round"),
        ("trace", 0, "1. select: chose branch"),
        ("rollout", 1, "steps"),
    ],
)
def test_a_notebook_shows_a_small_picture(name, images, words):
    reader = read(VALUES[name])
    assert reader.images == images
    assert words in reader.text


def test_words_of_others_cannot_break_a_notebook():
    odd = "</div><script>alert(1)</script>$x_{"
    x = torch.arange(8.0)[:, None] / 8
    values = torch.sin(x + torch.arange(4.0)[:, None, None])
    prompt = Prompt(Field(x, values[:3]), Field(x, values[:3]), Field(x, values[3]), x, axes=(Axis(odd),))
    assert odd in read(prompt).text
    result = chop.parse('rescale(center="mean") | icon').run(lambda p: p.query.values, prompt)
    assert 'rescale(center="mean") | icon' in read(result).text
    assert odd in read(result.trace).text


def test_answers_that_are_no_numbers_can_be_looked_at():
    prompt = make_prompt(3, batch=(2,))
    bad = chop.parse("icon").run(lambda p: toy_model(p) * torch.nan, prompt)
    assert "2 of 2" in read(bad).text
    gone = chop.rollout(chop.parse("icon"), lambda p: toy_model(p) * torch.nan, prompt, 3)
    assert "rejected 2 of 2" in repr(gone)
    assert read(gone).images == 1


def test_large_things_stay_small():
    wide = chop.parse("average(" + ", ".join(["flip | reflect | rescale | icon"] * 24) + ")")
    assert "average(" in read(wide).text
    noise = torch.randn(8, 3000, 1, generator=torch.Generator().manual_seed(0))
    points = torch.rand(3000, 2, generator=torch.Generator().manual_seed(1))
    fields = Field(points, noise[:7]), Field(points, noise[:7]), Field(points, noise[7])
    assert read(Prompt(*fields, points, axes=(Axis("a"), Axis("b")))).images == 1


def test_nothing_is_loaded_for_a_representation():
    code = (
        "import sys, json, chop; from chop.testing.data import make_prompt, toy_model\n"
        "result = chop.parse('icon').run(toy_model, make_prompt(1))\n"
        "repr(result), repr(result.trace), repr(make_prompt(1)), chop.parse('icon')._repr_html_()\n"
        "result.trace._repr_html_()\n"
        "print(json.dumps([name for name in ('matplotlib', 'PIL') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
