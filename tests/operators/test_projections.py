"""Projections: what they force, and that they force nothing else."""

import dataclasses

import pytest
import torch

from chop import Axis, Field, Prompt
from chop.core.errors import ProgramError
from chop.core.text import parse
from chop.operators import (
    BoundVariation,
    Finite,
    Icon,
    Nonnegative,
    UnitMass,
    WithinExamples,
)
from chop.testing import make_prompt, toy_model

icon = Icon()


def test_conserve_mean():
    prompt = make_prompt(1, batch=(2,), channels=(2, 2), answer_points=7)
    values = parse("icon | conserve_mean").run(toy_model, prompt).values
    torch.testing.assert_close(values.mean(dim=-2), prompt.query.values.mean(dim=-2), rtol=0, atol=1e-14)
    bare = toy_model(prompt)
    torch.testing.assert_close((values - bare).std(dim=-2), torch.zeros(2, 2).double(), rtol=0, atol=1e-14)


def test_nonnegative():
    prompt = make_prompt(1)
    values, found = Nonnegative().project(prompt, torch.tensor([[-1.0], [0.0], [2.0], [-0.5]]))
    assert values.flatten().tolist() == [0, 0, 2, 0]
    assert int(found["raised"]) == 2


def test_unit_mass_at_each_time():
    at = torch.tensor([[0.0, 0.1], [1.0, 0.2], [0.0, 0.7], [1.0, 0.8], [1.0, 0.9], [2.0, 0.5]]).double()
    grid = torch.rand(4, 2).double()
    prompt = Prompt(
        inputs=Field(grid, torch.ones(2, 2, 4, 1).double()),
        outputs=Field(at, torch.ones(2, 2, 6, 1).double()),
        query=Field(grid, torch.ones(2, 4, 1).double()),
        at=at,
        axes=(Axis("t"), Axis("x")),
    )
    values = torch.tensor([[1.0, 2, 3, 4, 6, -5], [0, 1, 0, 1, 1, 8]]).double().unsqueeze(-1)
    projected, _ = UnitMass().project(prompt, values)
    assert projected[0, :, 0].tolist() == pytest.approx([0.5, 0.5, 1.5, 1, 1.5, -5])
    assert projected[1, :, 0].tolist() == pytest.approx([0, 1, 0, 1, 1, 1])


def test_unit_mass_without_time():
    prompt = make_prompt(1, batch=(2,))
    projected, _ = UnitMass().project(prompt, toy_model(prompt).abs())
    assert projected.mean(dim=-2).flatten().tolist() == pytest.approx([1, 1])


def test_within_examples():
    prompt = make_prompt(1, channels=(2, 2), masked=True)
    values = 100 * toy_model(prompt)
    clipped, found = WithinExamples().project(prompt, values)
    count = 0
    for c in range(2):
        seen = prompt.outputs.values[..., c][prompt.outputs.mask[..., c]]
        expected = values[:, c].clamp(seen.min(), seen.max())
        assert torch.equal(clipped[:, c], expected)
        count += int((expected != values[:, c]).sum())
    assert int(found["clipped"]) == count > 0


def test_within_examples_where_a_channel_was_never_seen():
    prompt = make_prompt(1, channels=(2, 2), masked=True)
    mask = prompt.outputs.mask.clone()
    mask[..., 1] = False
    prompt = dataclasses.replace(prompt, outputs=dataclasses.replace(prompt.outputs, mask=mask))
    values = 100 * toy_model(prompt)
    clipped, _ = WithinExamples().project(prompt, values)
    assert torch.equal(clipped[:, 1], values[:, 1])
    assert not torch.equal(clipped[:, 0], values[:, 0])


def test_bound_variation():
    prompt = make_prompt(1, batch=(2,), points=12)

    def variation(values):
        return (values - values.roll(1, dims=-2)).abs().sum(dim=-2)

    allowed = variation(prompt.query.values)
    rough, found = BoundVariation().project(prompt, 3 * prompt.query.values + 1)
    torch.testing.assert_close(variation(rough), allowed)
    torch.testing.assert_close(rough.mean(dim=-2), 3 * prompt.query.values.mean(dim=-2) + 1)
    torch.testing.assert_close(found["kept"], torch.full((2, 1), 1 / 3).double())
    smooth = 0.5 * prompt.query.values
    assert torch.equal(BoundVariation().project(prompt, smooth)[0], smooth)
    flat = torch.full_like(smooth, 2.0)
    assert torch.equal(BoundVariation().project(prompt, flat)[0], flat)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dimensions": 2}, "one coordinate, not of t, x"),
        ({"channels": (2, 1)}, "2 channels; the answer has 1"),
    ],
)
def test_bound_variation_says_what_it_needs(options, said):
    with pytest.raises(ProgramError, match=said):
        parse("icon | bound_variation").run(toy_model, make_prompt(1, **options))


def test_finite():
    prompt = make_prompt(1)
    nan, inf = float("nan"), float("inf")
    values, found = Finite(fill=2.0).project(prompt, torch.tensor([[nan], [inf], [-inf], [5.0]]))
    assert values.flatten().tolist() == [2, 2, 2, 5]
    assert int(found["replaced"]) == 3
