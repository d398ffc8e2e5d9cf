"""Prompts made from prompts: held-out ones, parts of a batch, batches of parts."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_parts import B, D, M, N, field, made

import chop
from chop import PromptError, stack
from chop.testing import make_prompt, prompts, toy_model

# Held-out prompts.


def literal_kept(d, pad, gap):
    """Which pairs remain, written out: the others in order, repeated from the first to fill up."""
    rows = []
    for h in range(d):
        rest = [j for j in range(d) if j < h or j > h + gap]
        row = list(rest)
        i = 0
        while len(row) < (d if pad else d - 1):
            row.append(rest[i % len(rest)])
            i += 1
        rows.append(row)
    return rows


def test_literal_indices_are_what_the_design_says():
    assert literal_kept(3, True, 0) == [[1, 2, 1], [0, 2, 0], [0, 1, 0]]
    assert literal_kept(3, False, 0) == [[1, 2], [0, 2], [0, 1]]
    assert literal_kept(4, False, 1) == [[2, 3, 2], [0, 3, 0], [0, 1, 0], [0, 1, 2]]


@pytest.mark.parametrize("pad", [True, False])
@pytest.mark.parametrize("gap", [0, 1, 2])
@pytest.mark.parametrize("d", [2, 3, 4, 7])
def test_held_out_indices(d, pad, gap):
    prompt = make_prompt(d, batch=(2,), examples=d)
    if d < gap + 2:
        with pytest.raises(PromptError, match=rf"one pair of {d} with gap {gap} .*at least {gap + 2} pairs"):
            prompt.held_out(pad, gap)
        return
    held_out = prompt.held_out(pad, gap)
    assert held_out.origin.parent is prompt
    assert held_out.origin.kept.tolist() == [literal_kept(d, pad, gap)] * 2
    assert held_out.batch == (2, d)
    assert held_out.examples == (d if pad else d - 1)


@pytest.mark.parametrize("pad", [True, False])
@given(prompt=prompts(), gap=st.integers(0, 1))
@settings(max_examples=40)
def test_held_out_is_its_parent_at_kept(pad, prompt, gap):
    d = prompt.examples
    gap = min(gap, d - 2)
    prompt = dataclasses.replace(prompt, times=torch.arange(d + 1).flip(0) * 2 - 3)
    held_out = prompt.held_out(pad, gap)
    kept = literal_kept(d, pad, gap)
    for h in range(d):
        one = held_out[..., h]
        for name in ("inputs", "outputs"):
            ours, theirs = getattr(one, name), getattr(prompt, name)
            assert torch.equal(ours.values, theirs.values[..., kept[h], :, :])
            assert torch.equal(ours.coords, theirs.coords[..., kept[h], :, :])
            assert (ours.mask is None) == (theirs.mask is None)
            if ours.mask is not None:
                assert torch.equal(ours.mask, theirs.mask[..., kept[h], :, :])
        assert torch.equal(one.query.values, prompt.inputs.values[..., h, :, :])
        assert torch.equal(one.query.coords, prompt.inputs.coords[..., h, :, :])
        assert torch.equal(one.at, prompt.outputs.coords[..., h, :, :])
        assert torch.equal(one.times, prompt.times[..., [*kept[h], h]])
    assert held_out.graph is prompt.graph
    assert held_out.axes is prompt.axes


def test_held_out_of_held_out():
    prompt = make_prompt(3, batch=(2,), examples=4)
    twice = prompt.held_out(pad=False).held_out(pad=False)
    assert twice.batch == (2, 4, 3)
    assert twice.examples == 2
    # Element (h, i) hides pair h and then the i-th of the rest.
    one = twice[1, 2, 0]
    assert torch.equal(one.query.values, prompt[1].inputs.values[0])
    assert torch.equal(one.inputs.values, prompt[1].inputs.values[[1, 3]])


def test_held_out_needs_a_remaining_pair():
    with pytest.raises(PromptError, match=r"one pair of 1 leaves no example; at least 2 pairs"):
        make_prompt(0, examples=1).held_out(pad=True)
    with pytest.raises(PromptError, match=r"gap must be 0 or more, not -1"):
        make_prompt(0).held_out(pad=True, gap=-1)


def test_held_out_of_a_prompt_that_is_asked_elsewhere():
    """The query may have other points than the inputs: held-out prompts ask at the outputs' points."""
    prompt = made(query=field(B, 7, 2), at=torch.zeros(9, 1))
    held_out = prompt.held_out(pad=False)
    assert held_out.answer_shape == (B, D, M, 1)
    assert held_out.query.points == N


def test_choose():
    prompt = make_prompt(7, batch=(2,), masked=True)
    kept = torch.tensor([[0, 3], [4, 1]])
    chosen = prompt.choose(kept)
    for i in range(2):
        one, old = chosen[i], prompt[i]
        assert torch.equal(one.inputs.values, old.inputs.values[kept[i]])
        assert torch.equal(one.outputs.values, old.outputs.values[kept[i]])
        assert torch.equal(one.outputs.mask, old.outputs.mask[kept[i]])
        assert torch.equal(one.outputs.coords, old.outputs.coords[kept[i]])
        assert one.times.tolist() == [*kept[i].tolist(), 5]
        assert torch.equal(one.query.values, old.query.values)
    assert chosen.origin.parent is prompt
    assert chosen.origin.kept is kept


# Parts of a batch, and batches of parts.


def same(one, two):
    """Equal in every tensor."""
    for name in ("inputs", "outputs", "query"):
        a, b = getattr(one, name), getattr(two, name)
        assert torch.equal(a.values, b.values)
        assert torch.equal(a.coords, b.coords)
        assert (a.mask is None) == (b.mask is None)
        assert a.mask is None or torch.equal(a.mask, b.mask)
    assert torch.equal(one.at, two.at)
    assert torch.equal(one.times, two.times)
    assert one.graph is two.graph
    assert one.axes == two.axes
    return True


def test_indexing():
    prompt = make_prompt(1, batch=(3, 2), masked=True)
    assert prompt[1].batch == (2,)
    assert prompt[:2].batch == (2, 2)
    assert prompt[1, 0].batch == ()
    assert prompt[..., 0].batch == (3,)
    assert prompt[torch.tensor([0, 2])].batch == (2, 2)
    assert prompt[np.array([0, 2])].batch == (2, 2)
    assert prompt[[2, 0]].batch == (2, 2)
    assert prompt[torch.tensor([True, False, True])].batch == (2, 2)
    assert torch.equal(prompt[1, 0].query.values, prompt.query.values[1, 0])
    assert torch.equal(prompt[1, 0].outputs.mask, prompt.outputs.mask[1, 0])
    assert torch.equal(prompt[..., 1].inputs.values, prompt.inputs.values[:, 1])
    assert torch.equal(prompt[2].times, prompt.times[2])
    assert same(prompt[2, 1], prompt[2][1])


def test_bad_index():
    with pytest.raises(PromptError, match=r"no batch axes"):
        make_prompt(1)[0]
    with pytest.raises(PromptError, match=r"index \(0, 0\) does not fit batch \(3,\)"):
        make_prompt(1, batch=(3,))[0, 0]
    with pytest.raises(PromptError, match=r"index None does not fit batch \(3,\)"):
        make_prompt(1, batch=(3,))[None]


def test_iterating_visits_every_prompt():
    prompt = make_prompt(1, batch=(3,))
    assert [one.batch for one in prompt] == [(), (), ()]


def test_flat():
    prompt = make_prompt(1, batch=(3, 2), masked=True)
    flat = prompt.flat()
    assert flat.batch == (6,)
    assert all(same(flat[2 * i + j], prompt[i, j]) for i in range(3) for j in range(2))
    assert make_prompt(1).flat().batch == (1,)


def test_to():
    prompt = make_prompt(1, batch=(2,), dimensions=3, channels=(3, 3), masked=True)
    single = prompt.to(torch.float32)
    assert single.dtype == torch.float32
    assert {single.at.dtype, single.inputs.coords.dtype, single.outputs.values.dtype} == {torch.float32}
    assert single.times.dtype == torch.int64
    assert single.outputs.mask.dtype == torch.bool
    assert single.graph is prompt.graph
    assert torch.equal(single.query.values, prompt.query.values.float())
    assert same(prompt.to("cpu"), prompt)


def test_stack():
    one, two = make_prompt(1, batch=(2, 2)), make_prompt(2)
    both = stack([one, two])
    assert both.batch == (5,)
    assert same(both[3], one[1, 1])
    assert same(both[4], two)
    assert same(stack([one]), one.flat())


def test_stack_of_observed_and_masked():
    one, two = make_prompt(1, masked=True), make_prompt(2)
    both = stack([one, two])
    assert torch.equal(both[0].outputs.mask, one.outputs.mask)
    assert bool(both[1].outputs.mask.all())


def test_mapped_forgets_the_origin_with_the_examples():
    held_out = make_prompt(1).held_out(pad=True)
    assert held_out.mapped(query=held_out.query).origin is held_out.origin
    assert held_out.mapped(outputs=held_out.outputs).origin is None
    assert held_out[0].origin is None


# Several prompts as one, and elsewhere.


def test_stacked_prompts_are_asked_together():
    shapes = enumerate([(), (3,), (2, 2)])
    apart = [make_prompt(seed, batch=batch, masked=seed == 1) for seed, batch in shapes]
    made = stack(iter(apart))
    assert made.batch == (8,)
    program = chop.programs["mfc"]
    alone = [program.run(toy_model, prompt).values.reshape(-1, 12, 1) for prompt in apart]
    torch.testing.assert_close(program.run(toy_model, made).values, torch.cat(alone))
    assert torch.equal(made.query.mask[1:4], apart[1].query.mask)
    assert bool(made.query.mask[0].all())


def changed(**changes):
    return dataclasses.replace(make_prompt(1), **changes)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (make_prompt(1, points=9), r"same shapes .* number 1 has \(5, 9, 1\)"),
        (make_prompt(1, examples=4), r"same shapes"),
        (make_prompt(1, dtype=torch.float32), r"same dtype.* torch\.float32"),
        (changed(axes=(chop.Axis("x"),)), r"same axes.* x \(period 1\), number 1 has x"),
        (changed(graph=chop.Graph([[0], [1]], 12)), r"same graph"),
        ("prompt", r"number 1 is a str"),
    ],
)
def test_prompts_that_do_not_fit_are_not_stacked(other, words):
    with pytest.raises(PromptError, match=words):
        stack([make_prompt(1), other])


def test_nothing_is_not_stacked_and_equal_graphs_are():
    with pytest.raises(PromptError, match="no prompts"):
        stack([])
    two = [changed(graph=chop.Graph([[0], [1]], 12)) for _ in range(2)]
    assert stack(two).graph is two[0].graph


def test_everything_goes_to_another_dtype_and_device():
    prompt = make_prompt(3, dimensions=3, channels=(2, 2), masked=True)
    moved = prompt.to(device="meta", dtype=torch.float32)
    assert {part.device.type for part in moved.tensors()} == {"meta"}
    assert {part.dtype for part in moved.tensors()} == {torch.float32, torch.bool}
    assert moved.times.device.type == moved.graph.edges.device.type == "meta"
    assert prompt.to("cpu").graph is prompt.graph
    half = prompt.query.to(dtype=torch.float16)
    kinds = [part.dtype for part in (half.values, half.coords, half.mask)]
    assert kinds == [torch.float16, torch.float16, torch.bool]
    for part in (prompt, prompt.query):
        with pytest.raises(PromptError, match="floating point"):
            part.to(torch.int64)
