"""Pairs with everything that pairs can have, for tests of banks."""

import torch

import chop
from chop.bank import Pairs


def pairs(count=30, seed=0, masked=False, timed=True, own_points=False, channels=2, dtype=torch.float32):
    """Inputs of 5 points, outputs of 4; known two steps after they were asked."""
    stream = torch.Generator().manual_seed(seed)

    def some(*shape):
        return torch.rand(*shape, generator=stream, dtype=dtype)

    grid = torch.linspace(0, 1, 5, dtype=dtype)[:, None]
    there = torch.linspace(0, 1, 4, dtype=dtype)[:, None]
    mask = some(count, 4, 1) > 0.3 if masked else None
    return Pairs(
        chop.Field(some(count, 5, 1) if own_points else grid, some(count, 5, channels)),
        chop.Field(there, some(count, 4, 1), mask),
        axes=(chop.Axis("x", 1.0),),
        graph=chop.Graph([[0, 1], [1, 2]], 4),
        asked=torch.arange(count) if timed else None,
        known=torch.arange(count) + 2 if timed else None,
    )


def assert_same(one, other):
    """Whether pairs are the same, bit for bit."""
    for a, b in ((one.inputs, other.inputs), (one.outputs, other.outputs)):
        assert torch.equal(a.values, b.values)
        assert torch.equal(a.coords, b.coords)
        assert torch.equal(a.observed, b.observed)
    for a, b in ((one.asked, other.asked), (one.known, other.known)):
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)
    assert one.axes == other.axes
    assert (one.graph is None) == (other.graph is None)
