"""How inputs are compared is chosen by the data: shapes and turns where these decide, else plain values."""

import numpy as np
import torch

import chop
from chop.bank.likeness import turned

X = np.arange(32) / 32
CIRCLE = chop.Axis("x", 1.0)


def bumps(count, seed, shapes=40, turns=True, sizes=True):
    """Few shapes, turned and scaled at will, and what an operator that commutes with both makes of them."""
    stream = np.random.default_rng(seed)
    waves = np.random.default_rng(99).normal(size=(shapes, 6))
    kind = stream.integers(0, shapes, size=count)
    modes = np.stack([f(2 * np.pi * m * X) for m in (1, 2, 3) for f in (np.cos, np.sin)])
    u = waves[kind] @ modes
    u[:, :] += 3 * np.cos(2 * np.pi * X)
    if turns:
        u = turned(u[:, :, None], stream.integers(0, 32, size=count))[:, :, 0]
    if sizes:
        u = u * np.exp(stream.normal(size=(count, 1))) + stream.normal(size=(count, 1))
    mean = u.mean(axis=1, keepdims=True)
    return u, mean + 0.5 * (np.roll(u, 1, axis=1) - mean) + 0.1 * np.abs(u - mean), kind


def test_values_as_they_are_where_nothing_else_helps():
    u = np.random.default_rng(0).normal(size=(300, 32))
    assert chop.Bank(u, u**2, coords=X, axes=CIRCLE).likeness.way == "plain"


def test_shapes_where_sizes_differ():
    u, v, kind = bumps(600, 0, turns=False)
    made = chop.Bank(u, v, coords=X, axes=chop.Axis("x"))
    assert made.likeness.way == "scaled"
    asked, _, own = bumps(20, 1, turns=False)
    assert (kind[made.examples(asked, 1)[:, 0]] == own).mean() > 0.9


def test_turned_shapes_on_a_circle():
    u, v, kind = bumps(600, 0)
    made = chop.Bank(u, v, coords=X, axes=CIRCLE)
    assert made.likeness.way == "aligned"
    asked, _, own = bumps(20, 1)
    assert (kind[made.examples(asked, 1)[:, 0]] == own).mean() > 0.9
    keys = made.likeness.keys(made.take(range(5)).inputs)
    turned_keys = made.likeness.keys(chop.Field(X[:, None], turned(u[:5, :, None], np.arange(5) * 3)))
    np.testing.assert_allclose(keys, turned_keys, atol=1e-9)


def test_points_that_do_not_close_are_never_turned():
    u, v, _ = bumps(300, 0)
    assert chop.Bank(u, v, coords=X**2, axes=CIRCLE).likeness.way != "aligned"
    assert chop.Bank(u, v, coords=X, axes=chop.Axis("x")).likeness.way != "aligned"


def test_units_decide_nothing():
    u, v, _ = bumps(300, 0)
    queries, _, _ = bumps(10, 1)
    rows = chop.Bank(u, v, coords=X, axes=CIRCLE).examples(queries)
    for unit in (2.0**-660, 2.0**100, 2.0**660):
        other = chop.Bank(unit * u, unit * v, coords=X, axes=CIRCLE)
        assert torch.equal(other.examples(unit * queries), rows)
    both = np.stack([u, 1e6 * np.random.default_rng(3).normal(size=u.shape)], axis=-1)
    small = both * np.array([1.0, 1e-9])
    asked = both[:7] + 0.01
    one = chop.Bank(both, u, coords=X).examples(asked)
    assert torch.equal(chop.Bank(small, u, coords=X).examples(asked * np.array([1.0, 1e-9])), one)


def test_a_pair_is_never_judged_by_itself_or_by_a_frame_it_shares():
    u = np.random.default_rng(0).normal(size=(40, 32))
    twice = chop.Bank(np.concatenate([u, u]), np.concatenate([u, u]), coords=X)
    assert twice.likeness.way == "plain"
    constant = chop.Bank(np.ones((5, 32)), np.ones((5, 32)), coords=X)
    assert constant.likeness.way == "plain"
    assert constant.examples(np.ones((1, 32)), 2).tolist() == [[0, 1]]
    assert chop.Bank(np.ones((1, 32)), np.ones((1, 32))).examples(np.zeros((1, 32)), 1).tolist() == [[0]]


def test_chosen_anew_when_the_bank_has_doubled():
    u, v, _ = bumps(600, 0)
    made = chop.Bank(u[:2], v[:2], coords=X, axes=CIRCLE)
    assert made.likeness.way == "plain"
    made.add(chop.bank.Pairs.from_arrays(u[2:], v[2:], coords=X, axes=CIRCLE))
    assert made.likeness.way == "aligned"
