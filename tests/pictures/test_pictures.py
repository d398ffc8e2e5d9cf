import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, replace
from html import escape
from html.parser import HTMLParser
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

from chop.core.errors import ChopError
from chop.core.program import Leaf, Wrapped
from chop.core.programs import programs
from chop.core.prompt import Axis, Field, Prompt
from chop.core.text import parse
from chop.pictures import draw_program, trace_figure, trace_page
from chop.pictures.boxes import STYLES, layout, words_of
from chop.pictures.drawing import mermaid_quoted
from chop.pictures.figure import PENS, panel_figure
from chop.pictures.panels import MAX_PANELS, heading_of, panels_of
from chop.pictures.views import curve_of, grid_matrix, image_view
from chop.testing import make_prompt, program_values, prompts, toy_model

NESTED = (
    'combine(select(correct(moving_frame(shift="spectral") | rescale(center="mean", target=2.0) | icon '
    '| conserve_mean, weights="uniform", magnitude=0.5, gate=False, pad=False, gap=2), '
    "average(flip | icon, reflect | icon)), nearest_examples(k=2) | (debias(minmax | icon | nonnegative, "
    'smooth="graph") | finite(fill=1.5)), ridge, channels=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)) '
    "| within_examples"
)
DEEP = "correct(" * 8 + "flip | reflect | icon" + ")" * 8
ROUTE = "flip | " * 15 + "icon | finite | nonnegative"
ALL = [*programs.values(), parse(NESTED), parse(DEEP), parse(ROUTE), parse("average(icon)")]


# Drawings.


def overlap(a, b):
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def crosses(line, box):
    """Whether a piece of a line passes through the inside of a box."""
    for (x0, y0), (x1, y1) in zip(line.points, line.points[1:], strict=False):
        assert x0 == x1 or y0 == y1, "lines run straight along one axis"
        (left, right), (top, bottom) = sorted((x0, x1)), sorted((y0, y1))
        beside = left >= box.x + box.width - 0.01 or right <= box.x + 0.01
        if not (beside or top >= box.y + box.height - 0.01 or bottom <= box.y + 0.01):
            return True
    return False


def check_layout(program):
    drawn = layout(program)
    for a, b in combinations(drawn.boxes, 2):
        assert not overlap(a, b), (a, b)
    for box in drawn.boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= drawn.width
        assert box.y + box.height <= drawn.height
        assert not any(crosses(line, box) for line in drawn.lines), box
    for x, y in (point for line in drawn.lines for point in line.points):
        assert 0 <= x <= drawn.width
        assert 0 <= y <= drawn.height
    return drawn


def undone(program):
    """How many ways back a drawing has."""
    return isinstance(program, Wrapped) + sum(undone(part) for part in program.parts())


@pytest.mark.parametrize("program", ALL, ids=lambda program: str(program)[:30])
def test_nothing_overlaps(program):
    drawn = check_layout(program)
    operators = [box for box in drawn.boxes if box.kind not in ("note", "end", "undo")]
    assert len(operators) == program.size
    assert sum(box.kind == "undo" for box in drawn.boxes) == undone(program)
    assert [box.title for box in drawn.boxes if box.kind == "end"] == ["prompt", "answer"]


@given(program_values(max_leaves=12))
@settings(max_examples=60)
def test_any_program_is_drawn(program):
    check_layout(program)
    ElementTree.fromstring(draw_program(program, "svg"))
    assert len(re.findall(r"^ +n\d+\W", draw_program(program, "mermaid"), re.M)) >= program.size


@pytest.mark.parametrize("program", ALL, ids=lambda program: str(program)[:30])
def test_every_operator_has_a_box_with_its_path(program):
    boxes = layout(program).boxes
    found = {box.path: box for box in boxes if box.path is not None and box.kind != "undo"}
    assert {path: box.title for path, box in found.items()} == {
        path: operator.name for path, operator in program.operators()
    }
    assert len(found) == program.size, "each its own"
    for box in boxes:
        assert (box.path is None) == (box.kind in ("note", "end"))
        if box.kind == "undo":
            assert (found[box.path].kind, found[box.path].title) == ("transform", box.title)


@pytest.mark.parametrize("program", ALL, ids=lambda program: str(program)[:30])
def test_boxes_of_an_interactive_drawing_are_buttons(program):
    plain, text = program.draw(), program.draw(interactive=True)
    root = ElementTree.fromstring(text)
    buttons = root.findall(".//*[@data-path]")
    boxes = [box for box in layout(program).boxes if box.path is not None]
    assert [button.get("data-path") for button in buttons] == [box.path for box in boxes]
    for button, box in zip(buttons, boxes, strict=True):
        assert (button.get("role"), button.get("tabindex")) == ("button", "0")
        assert button.get("aria-label") == f"{box.title}, {STYLES[box.kind].label}"
    assert root.get("role") == "group"
    assert ElementTree.fromstring(plain).get("role") == "img"
    assert not re.search("data-path|tabindex|button|group", plain)
    bare = re.sub(r' data-path="[^"]*" tabindex="0" role="button" aria-label="[^"]*"', "", text)
    assert bare.replace('role="group"', 'role="img"') == plain, "nothing else differs"


def test_an_interactive_drawing_in_words():
    text = parse("rescale | icon").draw(interactive=True)
    assert '<g class="chop-box chop-end">' in text
    button = 'data-path="transform" tabindex="0" role="button" aria-label="rescale, '
    assert f'<g class="chop-box chop-transform" {button}transform">' in text
    assert f'<g class="chop-box chop-undo" {button}undo">' in text
    assert 'data-path="inner" tabindex="0" role="button" aria-label="icon, frozen model"' in text
    with pytest.raises(ChopError, match='only a program drawn as "svg" can be interactive'):
        parse("icon").draw("mermaid", interactive=True)


@pytest.mark.parametrize("program", ALL, ids=lambda program: str(program)[:30])
def test_svg(program):
    text = draw_program(program, "svg")
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root[0].text == str(program) == root.get("aria-label")
    assert text.count("http") == 1, "nothing is fetched"
    width, height = map(float, root.get("viewBox").split()[2:])
    for node in root.iter():
        if node.tag.endswith("text"):
            assert 0 < float(node.get("x")) < width
            assert 0 < float(node.get("y")) < height
    assert "each pair held out in turn" in text or program.calls() == 1 or "average" in str(program)


def test_text_fits_its_box():
    for box in layout(parse(NESTED)).boxes:
        if box.kind != "note":
            assert len(box.title) * 7.83 <= box.width - 12  # 13 px of a monospaced font
            assert all(len(line) * 6.63 <= box.width - 12 for line in box.lines)


def test_colour_is_not_the_only_carrier():
    kinds = [look for name, look in STYLES.items() if name != "end"]
    assert len({look.label for look in kinds}) == len(kinds)
    shapes = {STYLES[kind].shape for kind in ("leaf", "transform", "projection", "validator", "mixture")}
    assert len(shapes) == 5
    for look in STYLES.values():
        light = [int(look.fill[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in light]
        assert (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05) / 0.05 >= 7


@pytest.mark.parametrize("program", ALL, ids=lambda program: str(program)[:30])
def test_mermaid_has_one_node_for_each_operator(program):
    text = draw_program(program, "mermaid")
    assert text.startswith("flowchart LR\n")
    nodes = re.findall(r"^  (\w+)[\[({\\/]+\"", text, re.M)
    assert len(nodes) == len(set(nodes))
    assert sum(bool(re.fullmatch(r"n\d+", node)) for node in nodes) == program.size
    assert sum(node.endswith("back") for node in nodes) == undone(program)
    used = {
        name for line in text.splitlines() if "-->" in line or ".->" in line for name in line.split()[::3]
    }
    assert {name for name in used if name in nodes} <= set(nodes)
    assert all(line.count('"') in (0, 2) for line in text.splitlines())


def test_odd_words_are_escaped():
    assert mermaid_quoted('a"<b>`#&') == "a#quot;#lt;b#gt;#96;#35;#amp;"

    @dataclass(frozen=True)
    class Odd(Leaf):
        name = "odd"

        def head(self):
            return 'odd(a="<&>", b=(1, "x, y"), c=2)'

        def __str__(self):
            return self.head()

        def answer(self, prompt):
            raise NotImplementedError

    assert words_of(Odd()) == ("odd", ('a="<&>"', 'b=(1, "x, y")', "c=2"))
    root = ElementTree.fromstring(draw_program(Odd(), "svg"))
    assert 'a="<&>"' in [node.text for node in root.iter()]
    assert 'a="<' not in draw_program(Odd(), "mermaid")


def test_unknown_form():
    with pytest.raises(ChopError, match='drawn as "svg" or "mermaid", not \'png\''):
        programs["raw"].draw("png")


# Runs.


def bump(batch=(), channels=1):
    """A bump that travels three points a step."""
    n, d = 40, 4
    x = torch.arange(n, dtype=torch.float64)[:, None] / n
    frames = torch.stack([torch.exp(-((((x - 0.3 - 3 * t / n) % 1 - 0.3) / 0.1) ** 2)) for t in range(d + 1)])
    frames = (1 + frames).expand(*batch, d + 1, n, 1) * torch.arange(1.0, channels + 1).double()
    return Prompt(
        inputs=Field(x, frames[..., :-1, :, :]),
        outputs=Field(x, frames[..., 1:, :, :]),
        query=Field(x, frames[..., -1, :, :]),
        at=x,
    )


def control():
    """From functions of x at t = 0 to functions of (t, x) on a grid."""
    x, t = torch.arange(12).double() / 12, torch.linspace(0, 1, 5).double()
    both = torch.cartesian_prod(t, x)
    size = torch.linspace(0.2, 0.8, 5).double()[:, None, None]
    inputs = 1 + size * torch.sin(2 * math.pi * x)[:, None]
    outputs = 1 + size * (torch.exp(-both[:, :1]) * torch.sin(2 * math.pi * (both[:, 1:] - both[:, :1])))
    start = torch.stack([torch.zeros(12).double(), x], dim=-1)
    return Prompt(
        inputs=Field(start, inputs[:-1]),
        outputs=Field(both, outputs[:-1]),
        query=Field(start, inputs[-1]),
        at=both,
        axes=(Axis("t"), Axis("x", 1.0)),
    )


def persistence(prompt):
    return 0.9 * prompt.query.values + 0.1 * prompt.outputs.values.mean(-3)


def mean_output(prompt):
    return 0.8 * prompt.outputs.values.mean(-3) + 0.1


def traced(text, prompt, model=persistence):
    return parse(text).run(model, prompt).trace


def shown(panels):
    return [panel.heading for panel in panels]


def data_axes(figure):
    return [axes for axes in figure.axes if axes.get_label() != "colours"]


def check_page(page, trace):
    """Nothing is fetched, everything is closed, all stages are told."""

    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.void, self.pictures = [], {"meta", "img", "br"}, 0

        def handle_starttag(self, tag, attributes):
            if tag not in self.void:
                self.open.append(tag)
            given = dict(attributes)
            if tag == "img":
                self.pictures += 1
                assert given["alt"]
                assert given["src"].startswith("data:image/png;base64,")
            assert tag not in ("script", "link", "iframe")
            assert "href" not in given
            assert not any(name.startswith("on") for name in given)

        def handle_startendtag(self, tag, attributes):
            pass

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert page.count("http") == page.count('xmlns="http://www.w3.org/2000/svg"') <= 1
    assert "url(" not in page
    assert "@import" not in page
    for step in trace.stages():
        assert escape(heading_of(step)) in page
    assert escape(trace.program) in page
    return reader.pictures


@pytest.fixture
def no_images(monkeypatch):
    """Pages without their images, which take the time."""
    monkeypatch.setattr("chop.pictures.page.small_png", lambda *how: b"")


def test_panels_follow_the_run():
    trace = traced('moving_frame | rescale(center="mean") | icon | conserve_mean', bump())
    panels, left_out = panels_of(trace, 0)
    assert shown(panels) == [
        "prompt: 4 examples, 40 points",
        "1. moving_frame",
        '2. rescale(center="mean")',
        "3. icon",
        '2. undo rescale(center="mean")',
        "1. undo moving_frame",
        "4. conserve_mean",
    ]
    assert left_out == 0
    assert panels[1].found == "shift 3"
    before, moved = panels[0].views[0].curves, panels[1].views[0].curves
    assert [c.pen for c in moved] == ["input"] * 4 + ["query"]
    assert not np.allclose(before[0].values, before[-1].values)
    np.testing.assert_allclose(moved[0].values, moved[-1].values, atol=1e-12)
    assert [c.pen for c in panels[-1].views[0].curves] == ["given", "before", "answer"]
    np.testing.assert_array_equal(panels[-1].views[0].curves[-1].values, trace.root.values[:, -1])


def test_figure():
    trace = traced('moving_frame | rescale(center="mean") | icon | conserve_mean', bump(batch=(3,)))
    figure = trace.plot(query=1)
    figure.canvas.draw()
    assert len(data_axes(figure)) == 3 * 2 + 4
    words = [text.get_text() for text in figure.texts]
    assert words[-2:] == [trace.program, "query 1 of 3"]
    assert '2. undo rescale(center="mean")' in words
    assert {axes.get_xlabel() for axes in figure.axes} == {"x"}
    assert len(figure.legends) == 1
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:2] == ["examples, first to last", "query"]
    assert len(labels) == len(set(labels))


def test_figure_needs_no_global_state():
    import matplotlib
    from matplotlib import _pylab_helpers

    before = dict(matplotlib.rcParams)
    trace_figure(traced("icon", bump()), 0)
    assert dict(matplotlib.rcParams) == before
    assert not _pylab_helpers.Gcf.figs


def test_validators_show_candidates_and_held_out_answers():
    trace = traced("select(correct(rescale | icon), icon)", bump())
    panels, _ = panels_of(trace, 0)
    pens = {panel.heading: [c.pen for view in panel.views for c in view.curves] for panel in panels}
    assert pens["1. select"] == ["given", "band", "candidate", "candidate", "answer"]
    held_out = next(panel for panel in panels if "held out" in panel.heading)
    assert pens[held_out.heading] == ["observed"] * 4 + ["held out"] * 4
    np.testing.assert_array_equal(
        held_out.views[0].curves[2].values, trace.prompt.outputs.values[2, :, -1].numpy()
    )
    inside = next(panel for panel in panels if panel.step and panel.step.stage.prompt.batch == (4,))
    assert "the prompt that hides the first pair" in inside.found


@pytest.mark.usefixtures("no_images")
def test_large_programs_stay_readable():
    branches = ["correct(flip | rescale | reflect | icon)", "debias(minmax | icon)", "debias(flip | icon)"]
    trace = traced(f"select({', '.join(branches)}, icon)", bump())
    panels, left_out = panels_of(trace, 0)
    assert len(panels) == MAX_PANELS
    assert left_out > 0
    assert shown(panels)[-1] == "1. select"
    trace = traced("flip | " * 16 + "icon", bump())
    panels, left_out = panels_of(trace, 0)
    assert len(panels) == MAX_PANELS
    assert left_out == 33 - (MAX_PANELS - 1)
    assert shown(panels)[-1] == "1. undo flip"
    figure = trace_figure(trace, 0)
    assert f"{left_out} more steps are not shown" in [text.get_text() for text in figure.texts]
    assert f"{left_out} more steps" in trace_page(trace, 0)


def test_what_was_shown_is_not_shown_again():
    trace = traced("combine(icon, debias(icon))", bump())
    steps = list(trace.stages())
    assert any(step.moment == "again" for step in steps)
    headings = shown(panels_of(trace, 0)[0])
    assert len(headings) == len(set(headings))


def test_functions_of_time_and_space_are_images():
    trace = traced("rescale | icon | unit_mass", control(), mean_output)
    panels, _ = panels_of(trace, 0)
    assert [view.form for view in panels[0].views] == ["lines", "image"]
    assert panels[0].views[1].labels == ("x", "t")
    assert [view.form for view in panels[-1].views] == ["image", "points"]
    figure = trace_figure(trace, 0)
    figure.canvas.draw()
    assert len(data_axes(figure)) == 2 + 2 + 1 + 1 + 2
    held_out = panels_of(traced("debias(icon)", control(), mean_output), 0)[0]
    assert "match" in [view.form for panel in held_out for view in panel.views]


@pytest.mark.usefixtures("no_images")
def test_stations_are_maps():
    prompt = make_prompt(3, dimensions=3, points=9, channels=(3, 3), batch=(2,), masked=True)
    trace = programs["air"].run(toy_model, prompt).trace
    panels, left_out = panels_of(trace, 1)
    assert left_out == 0
    assert panels[0].views[0].form == "scatter"
    assert panels[0].views[0].notes == ("last frame",)
    assert len(panels[0].views[0].curves[0].values) == 9
    assert panels[0].views[0].labels == ("lon", "lat")
    assert panels[0].found == "channel 3 of 3"
    page = trace_page(trace, 1)
    assert check_page(page, trace) == len(panels)
    assert "1 (of 0 to 1)" in page
    for panel in (panels[0], panels[1], panels[-1]):
        panel_figure(panel).canvas.draw()


def test_different_channels_in_and_out():
    prompt = make_prompt(0, channels=(2, 3), batch=(2, 2))
    trace = parse("icon").run(lambda p: p.outputs.values.mean(-3), prompt).trace
    panels, _ = panels_of(trace, 3)
    assert [panel.found.split("; ")[-1] for panel in panels] == ["outputs: channel 3 of 3", "channel 3 of 3"]
    np.testing.assert_array_equal(panels[1].views[0].curves[-1].values, trace.root.values[1, 1, :, 2].numpy())


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e300])
@pytest.mark.parametrize("prompt", [bump(batch=(2,)), control()], ids=["lines", "images"])
def test_answers_that_are_not_finite(bad, prompt):
    def model(asked):
        answer = asked.outputs.values.mean(-3)
        return torch.where(answer > answer.mean(), bad, answer)

    trace = parse("rescale | icon | finite").run(model, prompt).trace
    trace_figure(trace, 0).canvas.draw()
    trace = parse("select(debias(rescale | icon), icon)").run(lambda p: model(p) * bad, prompt).trace
    figure = trace_figure(trace, 0)
    figure.canvas.draw()
    words = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert any(text.startswith("not finite: ") for text in words)


def test_rejected_answers_are_named_on_the_page():
    trace = traced("icon", bump(), lambda p: p.query.values * math.nan)
    page = trace_page(trace, 0)
    check_page(page, trace)
    assert "do not use it" in page
    assert "do not use it" not in trace_page(traced("icon", bump()), 0)


def test_page(tmp_path):
    trace = parse('correct(rescale(center="mean") | icon)').run(persistence, bump()).trace
    path = trace.save(tmp_path / "trace.html")
    page = path.read_text(encoding="utf-8")
    assert check_page(page, trace) == len(panels_of(trace, 0)[0])
    assert '<svg xmlns="http://www.w3.org/2000/svg" class="chop-drawing"' in page
    assert "<dt>model evaluations</dt><dd>5 a query</dd>" in page
    assert "<dt>in-context error</dt>" in page
    assert "prefers-color-scheme: dark" in page
    assert page == trace_page(trace, 0), "the same run gives the same page"


def test_page_without_a_drawing():
    """Operators that the text does not know are still told; their words cannot break the page."""
    trace = replace(traced("icon", bump()), program="<script>alert(1)</script> | $x_{$ \"'&")
    object.__setattr__(trace.root, "title", "</td><b>$\\frac$")
    page = trace_page(trace, 0)
    check_page(page, trace)
    assert "chop-drawing" not in page
    assert "<script" not in page
    trace_figure(trace, 0).canvas.draw()


def test_axis_names_are_taken_as_they_are():
    prompt = bump()
    prompt = Prompt(
        inputs=prompt.inputs,
        outputs=prompt.outputs,
        query=prompt.query,
        at=prompt.at,
        axes=(Axis("$\\frac{", 1.0),),
    )
    figure = trace_figure(traced("icon", prompt), 0)
    figure.canvas.draw()
    assert figure.axes[0].get_xlabel() == "$\\frac{"


def test_wrong_query():
    trace = traced("icon", bump(batch=(2,)))
    for look in (trace_figure, trace_page):
        with pytest.raises(ChopError, match="queries 0 to 1"):
            look(trace, 2)


def test_grids_are_recognised():
    coords = torch.cartesian_prod(torch.tensor([0.0, 0.1, 0.2]), torch.tensor([0.0, 0.5])).double()
    values = torch.arange(6.0).double()[:, None]
    shuffled = torch.tensor([3, 1, 5, 0, 2, 4])
    across, up, matrix = grid_matrix(curve_of("query", coords[shuffled] + 1e-12 * values, values[shuffled]))
    np.testing.assert_allclose(across, [0, 0.1, 0.2], atol=1e-9)
    np.testing.assert_allclose(up, [0, 0.5], atol=1e-9)
    np.testing.assert_array_equal(matrix, [[0, 2, 4], [1, 3, 5]])
    assert grid_matrix(curve_of("query", coords[[0, 0, 2, 3, 4, 5]], values)) is None
    assert grid_matrix(curve_of("query", torch.rand(6, 2), values)) is None
    assert image_view(curve_of("query", coords, values), ["t", "x"]).labels == ("x", "t")


@given(prompts(), program_values(max_leaves=4))
@settings(max_examples=60)
def test_any_run_can_be_looked_at(prompt, program):
    try:
        trace = program.run(toy_model, prompt).trace
    except ChopError:
        assume(False)
    query = trace.queries - 1
    panels, left_out = panels_of(trace, query)
    assert 1 <= len(panels) <= MAX_PANELS
    assert left_out == 0 or len(panels) == MAX_PANELS
    assert all(panel.views for panel in panels)
    assert {c.pen for panel in panels for view in panel.views for c in view.curves} <= PENS.keys()
    panel_figure(panels[-1])
