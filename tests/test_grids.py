"""Fields carried from one grid to another."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.grids import nearest_index, resample, same_grid
from chop.operators.statistics import first_smallest


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
