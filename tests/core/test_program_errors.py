"""What cannot be run is told in one sentence."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import chop
from chop import Field, Graph, ModelError, ProgramError, Prompt
from chop.core.errors import ChopError
from chop.core.program import Frame, Leaf, Projection, Transform
from chop.core.text import parse
from chop.operators import Average, Correct, Icon, Rescale
from chop.testing import make_prompt, toy_model

icon = Icon()


def scattered():
    return make_prompt(1, dimensions=2)


def irregular():
    prompt = make_prompt(1)
    grid = prompt.at.clone()
    grid[3] += 0.02
    parts = {name: Field(grid, getattr(prompt, name).values) for name in ("inputs", "outputs", "query")}
    return Prompt(**parts, at=grid, axes=prompt.axes)


IMPOSSIBLE = {
    "correct at D = 1": (
        "correct(icon)",
        lambda: make_prompt(1, examples=1),
        r"correct holds out .*at least 2, .*has 1",
    ),
    "debias at D = 1": ("debias(icon)", lambda: make_prompt(1, examples=1), r"debias holds out .*at least 2"),
    "select at D = 1": ("select(ridge, icon)", lambda: make_prompt(1, examples=1), r"select holds out"),
    "combine at D = 1": ("combine(icon)", lambda: make_prompt(1, examples=1), r"combine holds out"),
    "gap": (
        "correct(icon, gap=3)",
        lambda: make_prompt(1, examples=4),
        r"with gap 3 and needs at least 5, .*has 4",
    ),
    "one example left": (
        "nearest_examples(k=1) | debias(icon)",
        lambda: make_prompt(1),
        r"debias .*at least 2, but the prompt has 1",
    ),
    "shift of scattered points": (
        "moving_frame | icon",
        scattered,
        r"moving_frame .*one periodic coordinate",
    ),
    "shift of an irregular grid": (
        "moving_frame | icon",
        irregular,
        r"moving_frame .*regular grid of spacing 0\.083",
    ),
    "shift of several grids": (
        "moving_frame | icon",
        lambda: make_prompt(1, own_grids=True),
        r"moving_frame .*on one grid",
    ),
    "shift to another grid": (
        "moving_frame | icon",
        lambda: make_prompt(1, answer_points=8),
        r"moving_frame .*on one grid",
    ),
    "shift without a period": (
        "moving_frame | icon",
        lambda: dataclasses.replace(make_prompt(1), axes=(chop.Axis("x"),)),
        r"moving_frame .*one periodic coordinate",
    ),
    "shift of another period": (
        "moving_frame | icon",
        lambda: dataclasses.replace(make_prompt(1), axes=(chop.Axis("x", 2.0),)),
        r"moving_frame .*regular grid of spacing 0\.1666",
    ),
    "shift of other channels": (
        "moving_frame | icon",
        lambda: make_prompt(1, channels=(2, 1)),
        r"moving_frame .*2 and 1 channels",
    ),
    "shift of three points": (
        "moving_frame | icon",
        lambda: make_prompt(1, points=3),
        r"at least 4 grid points, not 3",
    ),
    "mirror without a period": (
        "reflect | icon",
        lambda: make_prompt(1, dimensions=3),
        r"reflect .*one periodic axis",
    ),
    "mirror of a graph": (
        "reflect | icon",
        lambda: dataclasses.replace(make_prompt(1), graph=Graph([[0], [1]], 12)),
        r"reflect would reorder the points of a graph",
    ),
    "no graph": ('debias(icon, smooth="graph")', lambda: make_prompt(1), r"needs a prompt with a graph"),
    "channel too high": (
        "combine(icon, channels=(1,))",
        lambda: make_prompt(1),
        r"channel 1 does not exist; outputs have 1",
    ),
    "channel too low": (
        "combine(icon, channels=(-2,))",
        lambda: make_prompt(1),
        r"channel -2 does not exist",
    ),
    "channel twice": (
        "combine(icon, channels=(0, -2))",
        lambda: make_prompt(1, channels=(2, 2)),
        r"\(0, -2\) name a channel twice",
    ),
    "increment of other channels": (
        "increment | icon",
        lambda: make_prompt(1, channels=(2, 1)),
        r"2 and 1 channels",
    ),
    "increment on other points": (
        "increment | icon",
        lambda: make_prompt(1, answer_points=7),
        r"on one grid",
    ),
    "normalize of other channels": (
        "normalize | icon",
        lambda: make_prompt(1, channels=(2, 1)),
        r"2 input .*and 1 output channels .*normalize\(separate=True\)",
    ),
    "mean of other channels": (
        "icon | conserve_mean",
        lambda: make_prompt(1, channels=(2, 1)),
        r"conserve_mean .*2 channels",
    ),
    "copy of other channels": ("copy_query", lambda: make_prompt(1, channels=(2, 1)), r"copy_query .*2 .*1"),
    "frame of other channels": ("last_frame", lambda: make_prompt(1, channels=(2, 1)), r"last_frame .*2 .*1"),
    "frames of unequal size": (
        "last_frame",
        lambda: _uneven_frames(),
        r"last_frame needs equally many points",
    ),
}


def _uneven_frames():
    prompt = make_prompt(1, batch=(2,), dimensions=3)
    coords = prompt.query.coords.clone()
    coords[1, -1, 0] = 0.0
    return dataclasses.replace(prompt, query=Field(coords, prompt.query.values))


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_run(case):
    text, make, sentence = IMPOSSIBLE[case]
    with pytest.raises(ProgramError, match=sentence) as caught:
        parse(text).run(toy_model, make())
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_validating_one_example_is_a_clear_error():
    with pytest.raises(ChopError, match=r"at least 2 pairs are needed"):
        icon.run(toy_model, make_prompt(1, examples=1), validate=True)


def test_programs_without_validators_run_on_one_example():
    for text in ("icon", "moving_frame | rescale | icon | conserve_mean", "ridge", "mean_output"):
        assert parse(text).run(toy_model, make_prompt(1, examples=1)).values.isfinite().all()


def test_no_prompts_are_answered_too():
    """An empty batch is a batch."""
    for name in ("raw", "conservation", "mfc", "corr"):
        prompt = make_prompt(1, batch=(3,), channels=(2, 2))[:0]
        result = chop.programs[name].run(toy_model, prompt)
        assert result.values.shape == prompt.answer_shape
        assert result.rejected.shape == (0,)


def test_arguments_the_wrong_way_round():
    with pytest.raises(ModelError, match=r"must be callable with a prompt; Prompt is not"):
        icon.run(make_prompt(1), toy_model)


@dataclass(frozen=True)
class FirstPoint(Leaf):
    """One point only: a wrong answer."""

    name: ClassVar[str] = "first_point"
    law: ClassVar[str] = "Wrong."

    def answer(self, prompt):
        return prompt.query.values[..., :1, :], {}


def test_a_program_that_answers_with_a_wrong_shape():
    with pytest.raises(ProgramError, match=r"first_point answered with shape \(1, 1\), .*asks for \(12, 1\)"):
        FirstPoint().run(toy_model, make_prompt(1))


# An operator that breaks its promise is named, in the middle of a program of others.


def leaf(answers):
    """A leaf of a third party that returns what it is told to."""

    @dataclass(frozen=True)
    class Odd(Leaf):
        name: ClassVar[str] = "odd"

        def answer(self, prompt):
            return answers(prompt)

    return Odd()


def projection(projects):
    @dataclass(frozen=True)
    class Bent(Projection):
        name: ClassVar[str] = "bent"

        def project(self, prompt, values):
            return projects(values)

    return Bent()


def transform(fits):
    @dataclass(frozen=True)
    class Crooked(Transform):
        name: ClassVar[str] = "crooked"

        def fit(self, prompt):
            return fits(prompt)

    return Crooked()


def same(values):
    return values


def wrong(prompt):
    return [][1]


PROMISES = {
    "a leaf without notes": (leaf(toy_model), r"odd must return \(values, notes\), not Tensor"),
    "a leaf without values": (leaf(lambda p: (None, {})), r"odd: its answer must be a Tensor, not NoneType"),
    "a leaf of another shape": (
        leaf(lambda p: (toy_model(p)[..., :1, :], {})),
        r"odd answered with shape \(2, 1, 1\), the prompt asks for \(2, 12, 1\)",
    ),
    "a leaf of another dtype": (
        leaf(lambda p: (toy_model(p).float(), {})),
        r"odd answered in torch\.float32 on cpu, the prompt is torch\.float64",
    ),
    "a leaf that fails": (leaf(wrong), r"odd failed \(IndexError: .*\) at test_program_errors\.py, line \d+"),
    "a projection without notes": (icon | projection(same), r"bent must return \(values, notes\)"),
    "a projection that loses points": (
        icon | projection(lambda values: (values[..., 1:, :], {})),
        r"bent answered with shape \(2, 11, 1\)",
    ),
    "a projection that fails": (
        icon | projection(wrong), r"bent failed \(IndexError: .*\) at test_program_errors\.py"
    ),
    "a transform without a frame": (
        transform(lambda p: p) | icon, r"crooked: what fit returns must be a Frame, not Prompt"
    ),
    "a transform without a prompt": (
        transform(lambda p: Frame(None, same, same)) | icon, r"crooked: the mapped prompt must be a Prompt"
    ),
    "a transform to another dtype": (
        transform(lambda p: Frame(p.to(torch.float32), same, same)) | icon,
        r"crooked mapped a torch\.float64 prompt of batch \(2,\) to a torch\.float32 one",
    ),
    "a transform to another batch": (
        transform(lambda p: Frame(p[:1], same, same)) | icon, r"crooked mapped .* to a .* one of batch \(1,\)"
    ),
    "a way back that loses points": (
        transform(lambda p: Frame(p, lambda values: values[..., 1:, :], same)) | icon,
        r"crooked answered with shape \(2, 11, 1\)",
    ),
    "a way back of held-out answers that loses points": (
        transform(lambda p: Frame(p, same, lambda values: values[..., 1:, :])) | Correct(icon),
        r"crooked answered with shape \(2, 5, 11, 1\), the prompt asks for \(2, 5, 12, 1\)",
    ),
    "a way back that fails": (
        transform(lambda p: Frame(p, wrong, same)) | icon, r"crooked failed \(IndexError"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PROMISES)
def test_an_operator_that_breaks_its_promise_is_named(case):
    part, sentence = PROMISES[case]
    for program in (part, Average((icon, Rescale() | part))):
        with pytest.raises(ProgramError, match=sentence) as caught:
            program.run(toy_model, make_prompt(1, batch=(2,)))
        assert "\n" not in str(caught.value)


def test_a_bug_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(Rescale, "fit", lambda self, prompt: wrong(prompt))
    with pytest.raises(IndexError):
        (Rescale() | icon).run(toy_model, make_prompt(1))


def test_a_model_that_fails_is_told_with_its_place():
    with pytest.raises(ModelError, match=r"\(IndexError: .*\) at test_program_errors\.py, line \d+"):
        icon.run(wrong, make_prompt(1))
