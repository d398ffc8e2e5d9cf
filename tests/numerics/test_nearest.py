"""The best rows, found in single precision and settled in double, are those of computing all in double."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.numerics.nearest import BestRows, NearBy, scores_exactly


def found(queries, rows, k, block=7, centre=None, hidden=None):
    """Through the mechanism, block by block."""
    near = NearBy(queries, rows.mean(axis=0) if centre is None else centre)
    asked = []

    def exact(query, row):
        asked.append(len(row))
        return scores_exactly(queries[query], rows[row])

    best = BestRows(len(queries), k, exact)
    for first in range(0, len(rows), block):
        bounds = near.bounds(rows[first : first + block])
        for start in range(0, len(queries), 3):
            upper = near.upper(bounds, slice(start, start + 3))
            if hidden is not None:
                upper[hidden[start : start + 3, first : first + block]] = -np.inf
            best.offer(first, upper, near.width(bounds, start), start)
    return *best.found(), sum(asked)


def literal(queries, rows, k, hidden=None):
    """All distances in double precision; ties go to the earlier row."""
    chosen = np.full((len(queries), k), -1)
    for i, query in enumerate(queries):
        distance = ((query - rows) ** 2).sum(axis=1)
        if hidden is not None:
            distance[hidden[i]] = np.inf
        order = np.lexsort((np.arange(len(rows)), distance))
        order = order[np.isfinite(distance[order])][:k]
        chosen[i, : len(order)] = order
    return chosen


@settings(max_examples=60)
@given(
    st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 9), st.integers(1, 6), st.integers(1, 50),
    st.sampled_from([1.0, 1e-30, 1e30, 1e200]), st.sampled_from([0.0, 1e3, 1e9]), st.booleans(),
)  # fmt: skip
def test_any_blocks_give_the_literal_answer(seed, count, d, k, block, unit, offset, coarse):
    stream = np.random.default_rng(seed)
    rows, queries = stream.normal(size=(count, d)), stream.normal(size=(5, d))
    if coarse:  # so that many tie
        rows, queries = np.rint(rows), np.rint(queries)
    rows, queries = (part * (1.0 if unit == 1e200 else unit) + offset for part in (rows, queries))
    if unit == 1e200 and count > 2:  # one row that single precision cannot hold
        rows[1] *= 1e100
    hidden = stream.random((5, count)) < 0.3
    got, scores, _ = found(queries, rows, k, block, hidden=hidden)
    np.testing.assert_array_equal(got, literal(queries, rows, k, hidden))
    assert ((got == -1) == np.isneginf(scores)).all()


def test_rows_that_differ_by_less_than_single_precision_are_told_apart():
    stream = np.random.default_rng(0)
    base = stream.normal(size=20)
    rows = base + 1e-9 * np.arange(50, 0, -1)[:, None] * np.eye(20)[0]
    got, _, exact = found(base[None], rows, 5, centre=np.zeros(20))
    assert got.tolist() == [[49, 48, 47, 46, 45]]
    assert exact > 0


def test_most_rows_are_never_computed_in_double_precision():
    stream = np.random.default_rng(1)
    rows, queries = stream.normal(size=(5000, 8)), stream.normal(size=(20, 8))
    got, _, exact = found(queries, rows, 5, block=500)
    np.testing.assert_array_equal(got, literal(queries, rows, 5))
    assert exact < 100


@pytest.mark.parametrize("held", [0, 10**6])
def test_equal_rows_tie_and_the_earliest_win(held, monkeypatch):
    monkeypatch.setattr("chop.numerics.nearest.HELD", held)
    rows = np.ones((400, 3))
    rows[:5] = 2.0
    got, _, _ = found(np.ones((4, 3)), rows, 6, block=37)
    assert got.tolist() == [[5, 6, 7, 8, 9, 10]] * 4


def test_fewer_rows_than_wanted():
    got, scores, _ = found(np.zeros((2, 2)), np.array([[1.0, 0], [0.5, 0]]), 4)
    assert got.tolist() == [[1, 0, -1, -1]] * 2
    assert np.isneginf(scores[:, 2:]).all()
