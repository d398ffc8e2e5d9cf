"""The simplex problems behind weights, against exact answers."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.numerics.simplex import project_to_simplex, smallest_quadratic


@given(st.lists(st.integers(-6, 6).map(lambda i: i / 4), min_size=1, max_size=5))
@settings(max_examples=200)
def test_simplex_projection_is_the_nearest_point(point):
    """Against the best over all possible supports, each solved in closed form."""
    p = np.array(point)
    best, distance = None, np.inf
    for size in range(1, len(p) + 1):
        for support in itertools.combinations(range(len(p)), size):
            candidate = np.zeros(len(p))
            inside = list(support)
            candidate[inside] = p[inside] - (p[inside].sum() - 1) / size
            if candidate.min() >= 0 and np.sum((candidate - p) ** 2) < distance - 1e-15:
                best, distance = candidate, np.sum((candidate - p) ** 2)
    got = project_to_simplex(torch.from_numpy(p)).numpy()
    np.testing.assert_allclose(got, best, atol=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8))
def test_simplex_projection_lies_on_the_simplex(point):
    got = project_to_simplex(torch.tensor(point, dtype=torch.float64))
    assert bool((got >= 0).all())
    assert float(got.sum()) == pytest.approx(1, abs=1e-8)


def test_simplex_projection_of_what_is_on_it():
    point = torch.tensor([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(project_to_simplex(point), point, rtol=0, atol=1e-15)
    assert project_to_simplex(torch.tensor([[5.0, 0.0, 0.0]])).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("seed", range(8))
def test_smallest_quadratic_against_a_fine_grid(seed):
    random = np.random.default_rng(seed)
    root = random.normal(size=(3, 4 + seed))
    matrix = root @ root.T
    steps = 100
    grid = np.array(
        [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)], dtype=float
    )
    grid /= steps
    costs = np.einsum("gi,ij,gj->g", grid, matrix, grid)
    got = smallest_quadratic(torch.from_numpy(matrix)).numpy()
    assert got @ matrix @ got <= costs.min() + 1e-9
    assert np.abs(got - grid[costs.argmin()]).max() < 0.05


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
@settings(max_examples=60)
def test_smallest_quadratic_is_optimal(seed, k):
    """On the support all gradients are equal, off it none is smaller."""
    root = torch.from_numpy(np.random.default_rng(seed).normal(size=(k, k + 4)))
    matrix = root @ root.T / (k + 4)
    got = smallest_quadratic(matrix)
    assert bool((got >= 0).all())
    assert float(got.sum()) == pytest.approx(1)
    gradient = matrix @ got
    level = float(got @ gradient)
    assert bool((gradient >= level - 1e-5).all())
    assert bool((gradient[got > 1e-6] <= level + 1e-5).all())


def test_smallest_quadratic_of_a_batch_is_that_of_its_elements():
    random = np.random.default_rng(0)
    roots = torch.from_numpy(random.normal(size=(7, 4, 6)) * random.uniform(0.01, 100, size=(7, 1, 1)))
    matrices = roots @ roots.mT
    matrices[3] = 0
    together = smallest_quadratic(matrices)
    alone = torch.stack([smallest_quadratic(matrix) for matrix in matrices])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)
    assert together[3].tolist() == [0.25] * 4  # nothing to choose by: uniform
