"""Fields carried from one grid to another."""

import resource

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop.core.fields import take_examples
from chop.core.grids import _by_all, _by_tree, nearest_index, resample, same_grid
from chop.core.text import parse
from chop.operators.statistics import first_smallest
from chop.testing import toy_model


def literal_nearest(source, target):
    index = []
    for t in target:
        distances = [sum((t - s) ** 2) for s in source]
        index.append(distances.index(min(distances)))
    return index


@given(
    source=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8),
    target=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8),
)
@settings(max_examples=150)
def test_nearest_index_takes_the_first_on_ties(source, target):
    got = nearest_index(torch.tensor(source).double(), torch.tensor(target).double())
    if got is None:
        assert source == target
    else:
        assert got.tolist() == literal_nearest(np.array(source), np.array(target))


def test_nearest_index_of_one_grid_is_the_identity():
    """Even where points repeat, which the nearest-first rule would not give."""
    grid = torch.tensor([[0.0], [0.5], [0.5], [1.0]])
    assert nearest_index(grid, grid.clone()) is None
    values = torch.arange(4.0)[:, None]
    assert resample(values, None) is values


def test_nearest_index_where_some_of_a_batch_coincide():
    source = torch.tensor([[0.0], [0.5], [0.5]]).expand(2, 3, 1)
    target = torch.tensor([[[0.0], [0.5], [0.5]], [[0.4], [0.5], [0.1]]])
    index = nearest_index(source, target)
    assert index.tolist() == [[0, 1, 2], [1, 1, 0]]
    values = torch.tensor([[10.0], [20.0], [30.0]])
    assert resample(values, index).squeeze(-1).tolist() == [[10, 20, 30], [20, 20, 10]]


def test_nearest_index_shares_what_the_batch_shares():
    source = torch.rand(5, 2).expand(3, 4, 5, 2)
    target = torch.rand(6, 2).expand(4, 6, 2)
    index = nearest_index(source, target)
    assert index.shape == (3, 4, 6)
    assert index.stride()[:2] == (0, 0)
    assert index[0, 0].tolist() == literal_nearest(source[0, 0].numpy(), target[0].numpy())


def test_same_grid():
    grid = torch.rand(2, 5, 1)
    examples = grid.unsqueeze(1).expand(2, 3, 5, 1)
    assert same_grid(grid, grid.clone(), examples)
    assert not same_grid(grid, grid[:, :4])
    assert not same_grid(grid, grid.flip(0))
    other = examples.clone()
    other[1, 2, 4] += 1e-6
    assert not same_grid(grid, other)


def test_first_smallest_ignores_rounding():
    costs = torch.tensor([[1.0, 0.3 + 1e-16, 0.3], [2.0, 1.0, 0.5]], dtype=torch.float64)
    assert first_smallest(costs, torch.ones(2, dtype=torch.float64)).tolist() == [1, 2]


# Many points: a tree gives the answer that all distances give.


def points(kind, n, k, seed):
    random = np.random.default_rng(seed)
    made = {
        "scattered": lambda: random.random((n, k)),
        "regular": lambda: np.indices([round(n ** (1 / k))] * k).reshape(k, -1).T / 8,
        "repeated": lambda: random.integers(0, 5, (n, k)) / 2,
        "far": lambda: 1e6 + 1e-3 * random.random((n, k)),
        "tiny": lambda: 1e-25 * random.random((n, k)),
    }
    return torch.from_numpy(np.ascontiguousarray(made[kind]()))


@pytest.mark.parametrize("kind", ["scattered", "regular", "repeated", "far", "tiny"])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_tree_answers_like_all_distances(kind, k, dtype):
    source = points(kind, 300, k, seed=1).to(dtype)
    for target in (points(kind, 200, k, seed=2).to(dtype), source + 1 / 16, source.flip(0)):
        assert torch.equal(_by_tree(source, target), _by_all(source, target))


@given(
    source=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30),
    target=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=8),
)
@settings(max_examples=150)
def test_a_tree_takes_the_first_on_ties(source, target):
    got = _by_tree(torch.tensor(source).double(), torch.tensor(target).double() / 2)
    assert got.tolist() == literal_nearest(np.array(source), np.array(target) / 2)


def test_many_points_in_a_batch():
    """Large grids go through the tree, each element of the batch with its own."""
    source, target = torch.rand(2, 600, 2).double(), torch.rand(2, 700, 2).double()
    index = nearest_index(source, target)
    for i in range(2):
        assert torch.equal(index[i], _by_all(source[i], target[i]))


def test_memory_of_many_points_is_bounded():
    """30,000 points of grids that differ: all distances at once would be 7 GB."""
    n = 30_000
    grids = torch.rand(4, n, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values = torch.rand(3, n, 1, dtype=torch.float64)
    prompt = chop.Prompt(
        chop.Field(grids[:3], values),
        chop.Field(grids[:3], values),
        chop.Field(grids[3], values[0]),
        grids[3],
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parse("mean_output").run(toy_model, prompt)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 2**20  # kilobytes


def test_examples_that_share_their_grid_keep_sharing_it():
    """Corrections look at all examples but one; that must not write shared grids out."""
    grid = torch.rand(3, 5, 1).expand(7, 3, 5, 1)
    taken = take_examples(grid, torch.tensor([0, 2]))
    assert taken.shape == (7, 2, 5, 1)
    assert taken.stride(0) == 0
    assert torch.equal(taken[4], grid[4, [0, 2]])
    one = take_examples(torch.rand(5, 1).expand(7, 3, 5, 1), torch.tensor([0, 2, 1, 1]))
    assert one.shape == (7, 4, 5, 1)
    assert one.stride()[:2] == (0, 0)
