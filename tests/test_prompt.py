"""Prompts: what they accept, what they refuse and how, and the prompts made from them."""

import dataclasses
import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop import Axis, Field, Graph, Prompt, PromptError
from chop.prompt import default_axes, lean, stack
from chop.testing import make_prompt, prompts, toy_model

B, D, N, M = 2, 3, 4, 5  # batch, examples, input points, output points


def field(*shape, k=1, dtype=torch.float64, mask=None):
    """A field with `shape` = (..., n, c) and one grid for all."""
    coords = torch.linspace(0, 1, shape[-2] + 1, dtype=dtype)[:-1, None].expand(shape[-2], k)
    count = int(np.prod(shape))
    return Field(coords, torch.arange(count, dtype=dtype).reshape(shape) / count, mask)


def made(**changes):
    """A good prompt, apart from the changes."""
    parts = {
        "inputs": field(B, D, N, 2),
        "outputs": field(B, D, M, 1),
        "query": field(B, N, 2),
        "at": torch.linspace(0, 1, M, dtype=torch.float64)[:, None],
    }
    return Prompt(**{**parts, **changes})


def spoiled(part, what, value):
    """A field with one bad entry."""
    values, coords = part.values.clone(), part.coords.clone()
    (values if what == "values" else coords).view(-1)[3] = value
    return Field(coords, values)


# Bad input: one sentence that names what is wrong.

BAD = {
    "values as text": (lambda: Field(np.zeros((4, 1)), np.array([["a"]] * 4)), r"values cannot be read"),
    "values None": (lambda: Field(np.zeros((4, 1)), None), r"values cannot be read"),
    "integer values": (lambda: Field(np.zeros((4, 1)), np.zeros((4, 1), int)), r"Field\.values .*int64"),
    "complex values": (
        lambda: Field(np.zeros((4, 1)), np.zeros((4, 1), complex)),
        r"Field\.values .*complex",
    ),
    "values without channels": (lambda: Field(np.zeros((4, 1)), np.zeros(4)), r"values .* and \(4,\)"),
    "coords without dimensions": (lambda: Field(np.zeros(4), np.zeros((4, 1))), r"coords .* not \(4,\)"),
    "coords of no dimension": (
        lambda: Field(np.zeros((4, 0)), np.zeros((4, 1))),
        r"Field\.coords \(4, 0\) .*at least one coordinate",
    ),
    "boolean coords": (lambda: Field(np.zeros((4, 1), bool), np.zeros((4, 1))), r"Field\.coords .*bool"),
    "complex coords": (
        lambda: Field(np.zeros((4, 1), complex), np.zeros((4, 1))),
        r"Field\.coords .*complex",
    ),
    "other points": (lambda: Field(np.zeros((5, 1)), np.zeros((4, 1))), r"coords \(5, 1\) .*values \(4, 1\)"),
    "other batch": (
        lambda: Field(np.zeros((3, 4, 1)), np.zeros((2, 4, 1))),
        r"coords \(3, 4, 1\) .*values \(2, 4, 1\)",
    ),
    "coords with more axes": (
        lambda: Field(np.zeros((2, 4, 1)), np.zeros((4, 1))),
        r"coords \(2, 4, 1\) .*values \(4, 1\)",
    ),
    "mask of numbers": (
        lambda: Field(np.zeros((4, 1)), np.zeros((4, 1)), np.ones((4, 1))),
        r"Field\.mask must be bool .*float64",
    ),
    "mask of another shape": (
        lambda: Field(np.zeros((4, 1)), np.zeros((4, 1)), np.ones((3, 1), bool)),
        r"Field\.mask .*\(4, 1\).*\(3, 1\)",
    ),
    "mask with more axes": (
        lambda: Field(np.zeros((4, 1)), np.zeros((4, 1)), np.ones((2, 4, 1), bool)),
        r"Field\.mask .*\(4, 1\).*\(2, 4, 1\)",
    ),
    "axis with period 0": (lambda: Axis("x", 0.0), r"'x' needs a positive finite period, not 0"),
    "axis with period NaN": (lambda: Axis("x", float("nan")), r"'x' .*not nan"),
    "axis with period inf": (lambda: Axis("x", float("inf")), r"'x' .*not inf"),
    "axis with period text": (lambda: Axis("x", "one"), r"'x' .*period, not 'one'"),
    "edges of one row": (lambda: Graph([[0, 1]], 2), r"Graph\.edges .*\(1, 2\)"),
    "edges flat": (lambda: Graph([0, 1], 2), r"Graph\.edges .*\(2,\)"),
    "edges of floats": (lambda: Graph([[0.0], [1.0]], 2), r"Graph\.edges .*float32 \(2, 1\)"),
    "edges of booleans": (lambda: Graph([[True], [False]], 2), r"Graph\.edges .*bool \(2, 1\)"),
    "edge too high": (lambda: Graph([[0], [2]], 2), r"Graph\.edges .*0\.\.1.*from 0 to 2"),
    "edge negative": (lambda: Graph([[0], [-1]], 2), r"Graph\.edges .*0\.\.1.*from -1 to 0"),
    "graph of fractional size": (lambda: Graph([[0], [1]], 2.5), r"Graph\.size .*not 2\.5"),
    "graph of no points": (lambda: Graph(np.zeros((2, 0), int), 0), r"Graph\.size .*not 0"),
    "inputs no field": (
        lambda: made(inputs=torch.zeros(B, D, N, 2)),
        r"Prompt\.inputs must be a Field, not T",
    ),
    "query no field": (lambda: made(query=None), r"Prompt\.query must be a Field, not NoneType"),
    "no points": (lambda: made(query=field(B, 0, 2)), r"Prompt\.query .*one point.*\(2, 0, 2\)"),
    "no channels": (lambda: made(outputs=field(B, D, M, 0)), r"Prompt\.outputs .*channel.*\(2, 3, 5, 0\)"),
    "inputs without examples axis": (
        lambda: made(inputs=field(B, N, 2)),
        r"Prompt\.inputs values \(2, 4, 2\) need one axis of examples more than query values \(2, 4, 2\)",
    ),
    "outputs without examples axis": (lambda: made(outputs=field(D, M, 1)), r"Prompt\.outputs .*\(3, 5, 1\)"),
    "query with examples axis": (lambda: made(query=field(B, D, N, 2)), r"Prompt\.inputs .*\(2, 3, 4, 2\)"),
    "inputs of another batch": (lambda: made(inputs=field(4, D, N, 2)), r"Prompt\.inputs .*\(4, 3, 4, 2\)"),
    "D = 0": (
        lambda: made(inputs=field(B, 0, N, 2), outputs=field(B, 0, M, 1)),
        r"at least one example pair",
    ),
    "more inputs than outputs": (
        lambda: made(inputs=field(B, D + 1, N, 2)),
        r"4 example inputs but 3 example outputs",
    ),
    "other channels": (lambda: made(query=field(B, N, 1)), r"inputs have 2 channels but the query has 1"),
    "dtypes mixed": (
        lambda: made(outputs=field(B, D, M, 1, dtype=torch.float32)),
        r"Prompt\.outputs is torch\.float32 .*query is torch\.float64",
    ),
    "dimensions mixed": (lambda: made(outputs=field(B, D, M, 1, k=2)), r"coordinates, not 1, 2 and 1"),
    "at missing": (lambda: made(at=None), r"at cannot be read"),
    "at without dimensions": (
        lambda: made(at=torch.zeros(M)),
        r"Prompt\.at must be \(\.\.\., m, 1\).*\(5,\)",
    ),
    "at of other dimensions": (lambda: made(at=torch.zeros(M, 2)), r"Prompt\.at .*\(5, 2\)"),
    "at without points": (lambda: made(at=torch.zeros(0, 1)), r"Prompt\.at .*\(0, 1\)"),
    "at of another batch": (lambda: made(at=torch.zeros(3, M, 1)), r"Prompt\.at .*\(2,\).*\(3, 5, 1\)"),
    "boolean at": (lambda: made(at=torch.ones(M, 1, dtype=torch.bool)), r"Prompt\.at .*bool"),
    "complex at": (lambda: made(at=torch.ones(M, 1, dtype=torch.complex64)), r"Prompt\.at .*complex64"),
    "no graph": (lambda: made(graph=[[0], [1]]), r"Prompt\.graph must be a Graph, not list"),
    "graph of another size": (
        lambda: made(graph=Graph([[0], [1]], 4)),
        r"graph has 4 points, but outputs have 5 and at has 5",
    ),
    "graph and other at": (
        lambda: made(graph=Graph([[0], [1]], M), at=torch.zeros(6, 1)),
        r"graph has 5 points, but outputs have 5 and at has 6",
    ),
    "too many axes": (lambda: made(axes=(Axis("t"), Axis("x"))), r"axes must give 1 .*\['t', 'x'\]"),
    "no axes": (lambda: made(axes=()), r"axes must give 1 .*\[\]"),
    "axes alike": (
        lambda: made(
            inputs=field(B, D, N, 2, k=2),
            outputs=field(B, D, M, 1, k=2),
            query=field(B, N, 2, k=2),
            at=torch.zeros(M, 2),
            axes=(Axis("x"), Axis("x")),
        ),
        r"axes must give 2 different names.*\['x', 'x'\]",
    ),
    "axes as words": (lambda: made(axes=("x",)), r"axes must be .*Axis.*'x'"),
    "axes no sequence": (lambda: made(axes=7), r"axes must be .*Axis.*7"),
    "times of floats": (
        lambda: made(times=torch.arange(4.0)),
        r"Prompt\.times must be integers, not torch\.float",
    ),
    "times of booleans": (
        lambda: made(times=np.ones(4, bool)),
        r"Prompt\.times must be integers, not torch\.bool",
    ),
    "times too few": (lambda: made(times=[0, 1, 2]), r"Prompt\.times must be \(\.\.\., 4\).*\(3,\)"),
    "times of another batch": (lambda: made(times=np.zeros((3, 4), int)), r"Prompt\.times .*\(3, 4\)"),
    "times a number": (lambda: made(times=3), r"Prompt\.times .*\(\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_in_one_sentence(case):
    make, pattern = BAD[case]
    with pytest.raises(PromptError, match=pattern) as caught:
        make()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 250


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("what", ["values", "coords"])
@pytest.mark.parametrize("name", ["inputs", "outputs", "query"])
def test_not_finite(name, what, value):
    good = made()
    with pytest.raises(PromptError, match=rf"Prompt\.{name}\.{what} \(.*\) has 1 non-finite"):
        made(**{name: spoiled(getattr(good, name), what, value)})


def test_not_finite_where_asked():
    at = torch.zeros(M, 1)
    at[2] = float("nan")
    with pytest.raises(PromptError, match=r"Prompt\.at \(.*5, 1\) has 1 non-finite"):
        made(at=at)


def test_not_finite_where_unobserved_is_refused_too():
    mask = torch.ones(B, D, M, 1, dtype=torch.bool)
    mask[0, 0, 3] = False
    bad = spoiled(field(B, D, M, 1), "values", float("nan"))
    with pytest.raises(PromptError, match=r"fill them in and mark them False"):
        made(outputs=Field(bad.coords, bad.values, mask))


# Good input.


def test_what_a_prompt_says_of_itself():
    prompt = made()
    assert prompt.batch == (B,)
    assert (prompt.examples, prompt.dimensions) == (D, 1)
    assert prompt.answer_shape == (B, M, 1)
    assert prompt.dtype == torch.float64
    assert prompt.axes == (Axis("x", 1.0),)
    assert prompt.axis("x") == 0
    assert prompt.axis("t") is None
    assert prompt.times.tolist() == [[0, 1, 2, 3]] * B
    assert (prompt.inputs.points, prompt.inputs.channels) == (N, 2)
    assert bool(prompt.outputs.observed.all())
    assert prompt.outputs.observed.shape == (B, D, M, 1)


def test_default_axes():
    assert default_axes(1) == (Axis("x", 1.0),)
    assert default_axes(2) == (Axis("t"), Axis("x", 1.0))
    assert default_axes(3) == (Axis("t"), Axis("lon"), Axis("lat"))
    assert [axis.name for axis in default_axes(5)] == ["x0", "x1", "x2", "x3", "x4"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_is_copied(dtype):
    coords = np.linspace(0, 1, N, dtype=dtype)[:, None]
    values = np.ones((D, N, 1), dtype=dtype)
    mask = np.ones((D, N, 1), dtype=bool)
    query, at, times = np.ones((N, 1), dtype=dtype), coords.copy(), np.arange(D + 1)
    edges = np.array([[0], [1]])
    prompt = Prompt(
        inputs=Field(coords, values, mask),
        outputs=Field(coords, values),
        query=Field(coords, query),
        at=at,
        graph=Graph(edges, N),
        times=times,
    )
    for array in (coords, values, query, at):
        array[...] = np.nan
    mask[...] = False
    times[...] = -9
    edges[...] = 3
    assert bool((prompt.inputs.values == 1).all())
    assert bool((prompt.query.values == 1).all())
    assert prompt.query.coords.flatten().tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert prompt.at.flatten().tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert bool(prompt.inputs.mask.all())
    assert prompt.times.tolist() == [0, 1, 2, 3]
    assert prompt.graph.edges.tolist() == [[0], [1]]


def test_numpy_of_any_layout():
    """Views, reversed axes, read-only and big-endian arrays are arrays too."""
    plain = np.arange(12.0).reshape(4, 3)
    fixed = plain.copy()
    fixed.setflags(write=False)
    for array in (
        plain[::-1],
        plain.T.copy().T,
        np.flip(plain, 1),
        fixed,
        plain.astype(">f8"),
        plain[::2, ::2],
    ):
        made_field = Field(np.zeros((len(array), 1)), array)
        assert made_field.values.tolist() == array.tolist()


def test_integer_coordinates_are_numbers():
    part = Field(np.arange(N)[:, None], np.zeros((N, 1), np.float32))
    assert part.coords.dtype == torch.float32
    assert part.coords.flatten().tolist() == [0, 1, 2, 3]


def test_numbers_of_numpy_are_numbers():
    assert Graph([[0], [1]], np.int64(2)).size == 2
    assert Axis("x", np.float32(0.5)).period == 0.5


def test_lists_are_read():
    assert Field([[0.0], [0.5]], [[1.0], [2.0]]).values.tolist() == [[1.0], [2.0]]


def test_shared_coordinates_cost_nothing():
    prompt = made()
    for coords in (prompt.inputs.coords, prompt.outputs.coords, prompt.query.coords, prompt.at):
        assert coords.untyped_storage().nbytes() <= (coords.shape[-2] + 1) * 8
        assert all(stride == 0 for stride in coords.stride()[:-2])
    held_out = prompt.held_out(pad=True)
    for coords in (held_out.inputs.coords, held_out.outputs.coords, held_out.query.coords, held_out.at):
        assert coords.untyped_storage().nbytes() <= (coords.shape[-2] + 1) * 8
        assert all(stride == 0 for stride in coords.stride()[:-2])
    flat = make_prompt(0, batch=(2, 3)).held_out(pad=False).flat()
    assert flat.inputs.coords.stride()[:-2] == (0, 0)


def test_shared_masks_cost_nothing():
    part = Field(np.zeros((N, 1)), np.zeros((B, D, N, 1)), np.ones((N, 1), bool))
    assert part.mask.shape == (B, D, N, 1)
    assert part.mask.stride()[:2] == (0, 0)


def test_lean():
    shared = torch.zeros(4, 1).expand(2, 3, 4, 1)
    assert lean(shared).shape == (1, 1, 4, 1)
    assert lean(torch.zeros(2, 3, 4, 1)).shape == (2, 3, 4, 1)
    partly = torch.zeros(2, 1, 4, 1).expand(2, 3, 4, 1)
    assert lean(partly).shape == (2, 1, 4, 1)


def test_identity_not_contents():
    one, two = made(), made()
    assert one == one
    assert one != two
    assert len({one, two}) == 2


def test_nothing_can_be_assigned():
    with pytest.raises(dataclasses.FrozenInstanceError):
        made().at = torch.zeros(M, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made().query.values = torch.zeros(N, 1)


def test_with_values_keeps_points_and_mask():
    part = Field(np.zeros((N, 1)), np.zeros((N, 1)), np.ones((N, 1), bool))
    changed = part.with_values(part.values + float("nan"))  # an operator may make bad ones
    assert changed.coords is part.coords
    assert changed.mask is part.mask
    assert bool(changed.values.isnan().all())


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


# Graphs.


def literal_average(edges, size, field, weight=None):
    """Each point's mean over its distinct neighbours, with loops."""
    answer = field.copy()
    for i in range(size):
        neighbours = {b for a, b in edges if a == i} | {a for a, b in edges if b == i}
        neighbours.discard(i)
        for c in range(field.shape[1]):
            weights = {j: 1.0 if weight is None else weight[j, c] for j in neighbours}
            if sum(weights.values()) > 0:
                answer[i, c] = sum(w * field[j, c] for j, w in weights.items()) / sum(weights.values())
    return answer


@given(
    edges=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
    weighted=st.booleans(),
    seed=st.integers(0, 999),
)
@settings(max_examples=80)
def test_graph_average(edges, weighted, seed):
    random = np.random.default_rng(seed)
    field = random.normal(size=(2, 6, 3))
    weight = random.integers(0, 3, size=(2, 6, 3)).astype(float) if weighted else None
    graph = Graph(np.array(edges, dtype=int).reshape(-1, 2).T, 6)
    got = graph.average(torch.from_numpy(field), None if weight is None else torch.from_numpy(weight))
    for b in range(2):
        expected = literal_average(edges, 6, field[b], None if weight is None else weight[b])
        np.testing.assert_allclose(got[b].numpy(), expected, rtol=1e-13, atol=1e-13)


def test_graph_average_by_hand():
    """An edge listed three times and both ways, a loop, and point 3 alone."""
    graph = Graph([[0, 1, 0, 2, 0], [1, 0, 1, 2, 2]], 4)
    values = torch.tensor([[1.0], [10.0], [100.0], [7.0]])
    assert graph.average(values).flatten().tolist() == [55.0, 1.0, 1.0, 7.0]
    seen = torch.tensor([[False], [False], [True], [True]])
    assert graph.average(values, seen).flatten().tolist() == [100.0, 10.0, 100.0, 7.0]


def test_graph_without_edges():
    values = torch.tensor([[1.0], [2.0]])
    assert torch.equal(Graph(np.zeros((2, 0), int), 2).average(values), values)


def test_graph_serves_autograd_after_a_run():
    """What a run remembers of a graph must be of use outside it."""
    prompt = make_prompt(3, dimensions=3)
    chop.parse('debias(icon, smooth="graph")').run(toy_model, prompt)
    values = torch.ones(prompt.graph.size, 1, requires_grad=True)
    prompt.graph.average(values).square().sum().backward()
    assert values.grad is not None


# Nothing holds on to a prompt.


@pytest.fixture
def _no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
def test_held_out_prompts_die_with_their_last_name():
    prompt = make_prompt(1, batch=(2,))
    held_out = prompt.held_out(pad=True)
    chosen = held_out.choose(held_out.origin.kept[..., :2])
    alive = [weakref.ref(thing) for thing in (prompt, held_out, chosen, prompt.inputs.values)]
    del held_out, chosen
    assert [ref() is None for ref in alive] == [False, True, True, False]
    del prompt
    assert [ref() for ref in alive] == [None] * 4


RUNS = [
    *map(str, chop.programs.values()),
    "reflect | rescale | correct(icon)",
    "nearest_examples | debias(icon)",
]


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("text", RUNS)
def test_a_run_leaves_nothing_behind(text, trace):
    alive = []

    def model(prompt):
        values = toy_model(prompt)
        alive.extend(map(weakref.ref, (prompt, prompt.inputs.values, values)))
        return values

    stations = "frame" in text and "moving" not in text
    prompt = make_prompt(1, batch=(2,), channels=(2, 2), dimensions=3 if stations else 1)
    alive.append(weakref.ref(prompt))
    alive.append(weakref.ref(prompt.inputs.values))
    result = chop.parse(text).run(model, prompt, trace=trace, validate=True)
    if not trace:
        rest = [ref for ref in alive if ref() is not None]
        assert all(ref() is prompt or ref() is prompt.inputs.values for ref in rest)
    else:
        result.trace.explain()
    del result, prompt
    assert [ref for ref in alive if ref() is not None] == []


@pytest.mark.usefixtures("_no_collector")
def test_a_split_run_leaves_nothing_behind():
    alive = []

    def model(prompt):
        alive.append(weakref.ref(prompt))
        return toy_model(prompt)

    prompt = make_prompt(1, batch=(4,))
    result = chop.programs["mfc"].run(model, prompt, trace=False, max_bytes=1)
    assert len(alive) == 4 * 12
    del result, prompt
    assert [ref for ref in alive if ref() is not None] == []


def test_a_batch_without_queries_is_refused():
    whole = make_prompt(0, batch=(3,))
    empty = [Field(part.coords[:0], part.values[:0]) for part in (whole.inputs, whole.outputs, whole.query)]
    with pytest.raises(PromptError, match="holds no query"):
        Prompt(inputs=empty[0], outputs=empty[1], query=empty[2], at=whole.at[:0])


def test_a_copy_with_other_examples_does_not_claim_their_origin():
    child = make_prompt(0).held_out(pad=True)
    assert child.origin is not None
    assert dataclasses.replace(child, inputs=child.outputs).origin is None


@pytest.mark.parametrize("edges", [3, 40])
def test_neighbours_by_list_and_by_matrix_are_the_same(edges: int) -> None:
    """Dense graphs are multiplied by, sparse ones gathered; a bad value reaches its neighbours only."""
    stream = torch.Generator().manual_seed(edges)
    graph = Graph(torch.randint(0, 12, (2, edges), generator=stream), 12)
    assert (graph._matrix is None) == (edges == 3)
    field = torch.randn(2, 12, 3, generator=stream, dtype=torch.float64)
    weight = torch.rand(2, 12, 3, generator=stream, dtype=torch.float64).round()
    linked = torch.zeros(12, 12, dtype=torch.bool)
    linked[graph.edges[0], graph.edges[1]] = linked[graph.edges[1], graph.edges[0]] = True
    linked.fill_diagonal_(False)
    for shares in (None, weight):
        expected = field.clone()
        for point in range(12):
            near = linked[point]
            share = torch.ones_like(field) if shares is None else shares
            total = share[:, near].sum(dim=1)
            mean = (share * field)[:, near].sum(dim=1) / total
            expected[:, point] = torch.where(total > 0, mean, field[:, point])
        torch.testing.assert_close(graph.average(field, shares), expected)
    field[0, 0, 0] = torch.inf
    bad = ~torch.isfinite(graph.average(field)[0, :, 0])
    own = ~linked[0].any()
    assert bad.tolist() == (linked[0] | (torch.arange(12) == 0) & own).tolist()
