"""Prompts: what they accept, their graphs, and that nothing holds on to them."""

import dataclasses
import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_parts import B, D, M, N, made

import chop
from chop import Axis, Field, Graph, Prompt, PromptError
from chop.core.prompt import without_repeats
from chop.testing import make_prompt, toy_model

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
    assert without_repeats(shared).shape == (1, 1, 4, 1)
    assert without_repeats(torch.zeros(2, 3, 4, 1)).shape == (2, 3, 4, 1)
    partly = torch.zeros(2, 1, 4, 1).expand(2, 3, 4, 1)
    assert without_repeats(partly).shape == (2, 1, 4, 1)


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


# Arrays as scientists have them.


def test_masked_arrays_keep_their_mask():
    """Fill values such as 1e20 became data."""
    values = np.ma.masked_greater(np.array([[[1.0], [3.0], [1e20], [5.0]]] * D), 1e10)
    field = Field(np.arange(4.0)[:, None], values)
    assert field.mask[0].flatten().tolist() == [True, True, False, True]
    assert field.values[0].flatten().tolist() == [1, 3, 3, 5]  # the mean of the others
    both = Field(np.arange(4.0)[:, None], values, mask=np.array([[False], [True], [True], [True]]))
    assert both.mask[0].flatten().tolist() == [False, True, False, True]


def test_masked_arrays_that_hide_nothing_or_everything():
    grid = np.arange(4.0)[:, None]
    assert bool(Field(grid, np.ma.ones((D, 4, 1))).observed.all())
    nothing = Field(grid, np.ma.masked_all((D, 4, 1)))
    assert not nothing.mask.any()
    assert bool((nothing.values == 0).all())


def test_masked_nan_is_unobserved():
    values = np.ma.masked_invalid(np.array([[np.nan], [2.0], [4.0], [np.inf]]))
    field = Field(np.arange(4.0)[:, None], values)
    assert field.values.flatten().tolist() == [3, 2, 4, 3]


def test_only_values_can_be_masked():
    hidden = np.ma.masked_less(np.arange(4.0)[:, None], 2)
    with pytest.raises(PromptError, match="coords has masked entries; only values can be unobserved"):
        Field(hidden, np.ones((4, 1)))
    with pytest.raises(PromptError, match="at has masked entries"):
        made(at=hidden)


def test_xarray_and_pandas():
    import pandas
    import xarray

    grid = np.arange(4.0)[:, None]
    values = np.arange(8.0).reshape(4, 2)
    frame = pandas.DataFrame(values, columns=["NO2", "O3"])
    places = pandas.DataFrame({"x": grid[:, 0]})
    array = xarray.DataArray(values, dims=("x", "channel"))
    for field in (Field(places, frame), Field(xarray.DataArray(grid), array), Field(grid, frame)):
        assert torch.equal(field.values, torch.from_numpy(values))
        assert torch.equal(field.coords, torch.from_numpy(grid))
    values[0, 0] = 7.0
    assert float(Field(grid, array).values[0, 0]) == 7  # a view of the same memory, copied each time
    text = pandas.DataFrame({"station": ["a", "b", "c", "d"]})
    with pytest.raises(PromptError, match="values cannot be read as a tensor"):
        Field(grid, text)
