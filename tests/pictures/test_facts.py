"""The picture of what inspection found: states in words, nothing outside the paper, every form of file."""

import json

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

import chop
from chop.core.errors import ChopError
from chop.operators.inspection.fact import joined
from chop.pictures.facts import CANNOT_TELL, NOT_SHOWN, SHOWN, facts_figure, states_of
from chop.testing import make_prompt


def half(prompt):
    return 0.5 * prompt.outputs.values.mean(dim=-3)


def lost(prompt):
    return torch.full_like(prompt.query.values, torch.nan)


def words_of(figure):
    axes = [text for part in figure.axes for text in (*part.texts, part.title)]
    return [text.get_text() for text in (*figure.texts, *axes) if text.get_text()]


FACTS = {
    "one prompt": lambda: chop.inspect(make_prompt(0)),
    "a batch": lambda: chop.inspect(make_prompt(0, batch=(2, 3)), half),
    "with a model": lambda: chop.inspect(make_prompt(0), half),
    "a model that answers nothing": lambda: chop.inspect(make_prompt(0, batch=(2,)), lost),
    "scattered points, gaps": lambda: chop.inspect(
        make_prompt(0, dimensions=3, channels=(2, 2), masked=True), half
    ),
    "one example": lambda: chop.inspect(make_prompt(0, examples=1), half),
    "large numbers": lambda: chop.inspect(_large(), half),
}


def _large():
    prompt = make_prompt(0, batch=(2,))
    parts = {name: getattr(prompt, name) for name in ("inputs", "outputs", "query")}
    return prompt.mapped(**{name: part.with_values(1e12 * part.values) for name, part in parts.items()})


@pytest.mark.parametrize("name", FACTS)
def test_everything_is_on_the_paper_and_nothing_covers_anything(name):
    facts = FACTS[name]()
    figure = facts_figure(facts)
    renderer = FigureCanvasAgg(figure).get_renderer()
    paper = figure.bbox
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in figure.texts]
    for words, box in boxes:
        inside = paper.x0 <= box.x0 and box.x1 <= paper.x1 and paper.y0 <= box.y0 and box.y1 <= paper.y1
        assert inside, words
    for i, (words, box) in enumerate(boxes):
        for others, other in boxes[i + 1 :]:
            assert not box.overlaps(other), (words, others)
    told = words_of(figure)
    for fact in facts:
        if not fact.name.startswith("better "):
            assert fact.name in told, fact.name


def test_states_have_words():
    facts = FACTS["one prompt"]()
    assert dict(states_of(facts["regular grid"])) == {SHOWN: 1, NOT_SHOWN: 0, CANNOT_TELL: 0}
    assert dict(states_of(facts["unit mass"])) == {SHOWN: 0, NOT_SHOWN: 1, CANNOT_TELL: 0}
    assert dict(states_of(facts["sign kept"])) == {SHOWN: 0, NOT_SHOWN: 0, CANNOT_TELL: 1}
    told = words_of(facts_figure(facts))
    assert {"shown", "not shown", "cannot tell", "deviation, in tolerances"} <= set(told)
    batch = words_of(facts_figure(FACTS["a batch"]()))
    assert "share of the 6 prompts" in batch
    assert any(words.startswith("least: ") for words in batch)
    assert "no finite answer" in words_of(facts_figure(FACTS["a model that answers nothing"]()))


def test_the_home_is_drawn():
    facts = FACTS["with a model"]()
    scales = next(axes for axes in facts_figure(facts).axes if "error by scale" in axes.get_title())
    line = scales.lines[0]
    assert line.get_xdata().tolist() == [0.25, 0.5, 1.0, 2.0, 4.0]
    error = float(facts["held-out error"].value)
    wanted = [error * float(facts[f"better at scale {t:g}"].value) for t in line.get_xdata()]
    assert line.get_ydata().tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("form", ["png", "pdf", "svg", "html", "json"])
def test_files(form, tmp_path):
    facts = joined([chop.inspect(make_prompt(seed, batch=(2,)), half) for seed in (0, 1)])
    path = facts.save(tmp_path / f"facts.{form}")
    first = path.read_bytes()
    assert first
    if form == "svg":
        assert facts.save(path).read_bytes() == first  # an existing file is replaced, by the same
    if form == "json":
        assert json.loads(first)["facts"][0]["name"] == "consecutive frames"
    if form == "html":
        page = first.decode()
        assert "<script" not in page
        assert "http" not in page.replace("http-equiv", "")
        assert page.count("<tr>") == len(facts) + 1


def test_a_figure_to_go_on_with(tmp_path):
    facts = FACTS["one prompt"]()
    figure = facts.plot(tmp_path / "facts.png")
    assert (tmp_path / "facts.png").read_bytes().startswith(b"\x89PNG")
    assert figure.axes
    with pytest.raises(ChopError, match=r"written to .png, .pdf, .svg, .html, .json files"):
        facts.save(tmp_path / "facts.txt")
