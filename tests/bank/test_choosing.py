"""Which pairs a bank shows, against literal numpy: similar, random, recent, spread; never what came later."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import chop
from chop.bank import BankError, Pairs

N, POINTS = 60, 12


def numbers(seed=0, count=N, points=POINTS):
    return np.random.default_rng(seed).normal(size=(count, points))


def bank(seed=0, count=N, **options):
    x = numbers(seed, count)
    return chop.Bank(x, x + numbers(seed + 1, count), **options), x


def literal(x, queries, k, known=None, before=None, exclude=None):
    """All distances, what is allowed, the nearest; ties go to the earlier row."""
    chosen = []
    for i, query in enumerate(queries):
        distance = ((x - query) ** 2).sum(axis=1)
        if before is not None:
            distance[known > before[i]] = np.inf
        if exclude is not None:
            distance[exclude[i]] = np.inf
        chosen.append(np.lexsort((np.arange(len(x)), distance))[:k])
    return np.array(chosen)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans(), st.integers(1, 80))
def test_similar_is_literal(seed, k, timed, count):
    stream = np.random.default_rng(seed)
    x = np.rint(2 * stream.normal(size=(count, 3)))  # coarse: many tie
    known = stream.integers(0, 30, size=count)
    queries, before = np.rint(2 * stream.normal(size=(7, 3))), stream.integers(0, 40, size=7)
    exclude = stream.integers(-1, count, size=(7, 2))
    made = chop.Bank(x, stream.normal(size=(count, 3)), times=known if timed else None)
    enough = min(
        count - len(set(e[e >= 0]) | (set(np.flatnonzero(known > b)) if timed else set()))
        for e, b in zip(exclude, before, strict=True)
    )
    options = {"before": before} if timed else {}
    if enough < k:
        with pytest.raises(BankError, match="to show for query"):
            made.examples(queries, k, exclude=exclude, **options)
        return
    assume(made.likeness.way == "plain")
    got = made.examples(queries, k, exclude=exclude, **options)
    left_out = [e[e >= 0] for e in exclude]
    expected = literal(x, queries, k, known, before if timed else None, left_out)
    np.testing.assert_array_equal(got, expected)


def test_a_large_bank_in_blocks_is_literal(monkeypatch):
    monkeypatch.setattr("chop.bank.choosing._ROWS", 64)
    monkeypatch.setattr("chop.bank.choosing._SCORES", 640)
    x = numbers(3, 1000)
    made = chop.Bank(x, numbers(4, 1000))
    queries = numbers(5, 50)
    np.testing.assert_array_equal(made.examples(queries, 4), literal(x, queries, 4))


def test_equal_inputs_and_the_earlier_row_first():
    x = np.tile(numbers(0, 1), (20, 1))
    made = chop.Bank(x, numbers(1, 20))
    assert made.examples(x[:2], 3, exclude=[0, 2]).tolist() == [[1, 2, 3], [0, 1, 3]]


def test_recent_is_in_the_order_of_time():
    known = np.array([5, 1, 9, 3, 9, 7])
    made = chop.Bank(numbers(0, 6), numbers(1, 6), times=np.array([0, 1, 2, 3, 4, 5]), known=known)
    queries = numbers(2, 3)
    assert made.examples(queries, 2, "recent", before=[7, 9, 100]).tolist() == [[0, 5], [2, 4], [2, 4]]
    assert made.examples(queries, 2, "recent", exclude=[4, 2, -1]).tolist() == [[5, 2], [5, 4], [2, 4]]
    without, _ = bank()
    assert without.examples(queries, 3, "recent").tolist() == [[57, 58, 59]] * 3


def test_random_depends_on_the_seed_and_the_number_alone():
    made, x = bank(times=np.arange(N))
    whole = made.examples(x[:10], 5, "random", before=np.arange(20, 30), exclude=np.arange(10))
    assert torch.equal(
        made.examples(x[:3], 5, "random", before=np.arange(20, 23), exclude=np.arange(3)), whole[:3]
    )
    assert not torch.equal(made.examples(x[:10], 5, "random", before=np.arange(20, 30), seed=1), whole)
    for i, rows in enumerate(whole.tolist()):
        assert len(set(rows)) == 5
        assert max(rows) <= 20 + i
        assert i not in rows
    one, _ = made.question([17, 40], 4, "random")
    other, _ = made.question([40], 4, "random")
    assert torch.equal(one.inputs.values[1], other.inputs.values[0]), "whatever is asked beside it"


def test_random_is_uniform_over_what_is_allowed():
    made, _ = bank(count=10, times=np.arange(10)[::-1].copy())
    queries = numbers(7, 4000)
    rows = made.examples(queries, 2, "random", before=np.full(4000, 6), exclude=np.full(4000, 5)).numpy()
    counts = np.bincount(rows.ravel(), minlength=10)
    assert counts[[0, 1, 2, 5]].tolist() == [0] * 4
    assert np.abs(counts[[3, 4, 6, 7, 8, 9]] - 8000 / 6).max() < 5 * np.sqrt(8000 / 6)


def test_spread_is_literal_farthest_first():
    made, x = bank(times=np.arange(N))
    queries = numbers(9, 6)
    before, exclude = np.array([20, 30, 40, 50, 59, 8]), np.arange(6)
    rows = made.examples(queries, 4, "spread", before=before, exclude=exclude).numpy()
    for i in range(6):
        allowed = [j for j in range(before[i] + 1) if j != exclude[i]]
        chosen = [min(allowed, key=lambda j: ((x[j] - queries[i]) ** 2).sum())]
        while len(chosen) < 4:
            rest = [j for j in allowed if j not in chosen]
            chosen.append(max(rest, key=lambda j: min(((x[j] - x[c]) ** 2).sum() for c in chosen)))
        assert rows[i].tolist() == chosen


def test_spread_takes_every_other_row_of_many(monkeypatch):
    monkeypatch.setattr("chop.bank.choosing.POOL", 16)
    made, _ = bank()
    rows = made.examples(numbers(9, 5), 3, "spread", exclude=np.full(5, 4))
    assert (rows % 4 == 0).all()
    assert not (rows == 4).any()


def test_questions_see_what_was_known_by_then_and_never_themselves():
    times = np.arange(N) * 3
    made, x = bank(times=times, known=times + 6)
    for by in ("similar", "random", "recent", "spread"):
        prompt, truth = made.question([30, 59], 5, by)
        assert tuple(prompt.batch) == (2,)
        for i, row in enumerate([30, 59]):
            assert torch.equal(prompt.query.values[i, :, 0], torch.from_numpy(x[row]))
            shown = prompt.inputs.values[i, :, :, 0].numpy()
            rows = [int(np.flatnonzero((x == one).all(axis=1))[0]) for one in shown]
            assert max(rows) * 3 + 6 <= row * 3
        assert torch.equal(truth.values, made.take([30, 59]).outputs.values)
    with pytest.raises(BankError, match="has 0 pairs known by 3"):
        made.question([1], 1)


def test_without_times_a_question_leaves_out_itself_alone():
    made, x = bank()
    prompt, _ = made.question([5], N - 1)
    shown = prompt.inputs.values[0, :, :, 0].numpy()
    assert len({tuple(row) for row in shown}) == N - 1
    assert not (shown == x[5]).all(axis=1).any()


def test_frames_of_a_trajectory_keep_their_time():
    frames = numbers(0, 21)
    made = chop.Bank(frames[:-1], frames[1:], times=np.arange(20) * 6, known=np.arange(20) * 6 + 6)
    prompt = made.prompts(frames[20:], 4, "recent")
    assert prompt.times.tolist() == [[0, 1, 2, 3, 4]], "asked now, when the last output was there"
    prompt = made.prompts(frames[20:], 3, "recent", times=60)
    assert prompt.times.tolist() == [[0, 1, 2, 3]]
    odd = chop.Bank(frames[:-1], frames[1:], times=np.arange(20) ** 3, known=np.arange(20) ** 3 + 2)
    assert odd.prompts(frames[20:], 3, "recent").times.tolist() == [[0, 1, 2, 3]], "ranks"
    at_once = chop.Bank(frames[:-1], frames[1:], times=np.arange(20) * 10)
    assert at_once.prompts(frames[20:], 3, "recent", times=230).times.tolist() == [[0, 1, 2, 6]]
    plain = chop.Bank(frames[:-1], frames[1:])
    assert plain.prompts(frames[20:], 3).times.tolist() == [[0, 1, 2, 3]]


def test_prompts_show_what_was_chosen():
    made, _ = bank(count=20)
    queries = torch.from_numpy(numbers(3, 4)).float()
    rows = made.examples(queries, 3)
    prompt = made.prompts(queries, 3)
    assert prompt.dtype == torch.float64, "in the precision of the bank"
    assert torch.equal(prompt.inputs.values, made.take(rows.flatten()).inputs.values.unflatten(0, (4, 3)))
    assert torch.equal(made.shown(queries, rows).outputs.values, prompt.outputs.values)
    elsewhere = made.prompts(queries, 3, at=[[0.5], [0.25]])
    assert elsewhere.answer_shape == (4, 2, 1)
    result = chop.parse("icon").run(lambda p: p.outputs.values.mean(-3), prompt)
    assert result.values.shape == (4, POINTS, 1)


def test_queries_at_other_points_are_compared_where_the_bank_has_its_own():
    x = np.linspace(0, 1, 11)
    inputs = np.stack([np.sin(a * x) for a in np.arange(1, 8)])
    made = chop.Bank(inputs, inputs, coords=x)
    finer = np.linspace(0, 1, 41)
    query = chop.Field(finer[:, None], np.sin(3 * finer)[None, :, None])
    assert made.examples(query, 1).tolist() == [[2]]
    assert made.prompts(query, 2).query.points == 41


def test_bad_wishes():
    made, x = bank()
    timed, _ = bank(times=np.arange(N))
    for call, words in (
        (lambda: made.examples(x[:1], 0), "k must be 1 or more"),
        (lambda: made.examples(x[:1], 2.5), "k must be a whole number"),
        (lambda: made.examples(x[:1], by="best"), "similar, random, recent, spread, not 'best'"),
        (lambda: made.examples(x[:1, :5]), r"queries must be \(Q, 12, 1\)"),
        (lambda: made.examples(x[0]), "queries must be"),
        (lambda: made.examples(np.full((1, POINTS), np.nan)), "non-finite"),
        (lambda: made.examples(x[:1], before=3), "has no times"),
        (lambda: made.prompts(x[:1], times=3), "has no times"),
        (lambda: timed.examples(x[:2], before=[1, 2, 3]), "before must be a whole number or 2"),
        (lambda: timed.examples(x[:2], before=1.5), "before must be"),
        (lambda: timed.examples(x[:2], 5, before=[3, 50]), "4 pairs known by 3 to show for query 0, but 5"),
        (lambda: made.examples(x[:2], exclude=[1]), "exclude must be rows"),
        (lambda: made.examples(x[:1], N + 1), "has 60 pairs to show for query 0, but 61 are needed"),
        (lambda: made.examples(x[:1], N, exclude=[3]), "apart from those left out"),
        (lambda: made.take([60]), "rows 0 to 59, so 60 is none"),
        (lambda: made.take([-1]), "so -1 is none"),
        (lambda: made.take([]), "one row or more"),
        (lambda: made.take([0.5]), "whole numbers"),
        (lambda: list(made.blocks(0)), "1 row or more"),
        (lambda: made.shown(x[:2], [[1]]), r"rows must be \(2, k\)"),
        (lambda: made.add(Pairs.from_arrays(x[:, :5], x[:, :5])), "make a bank of their own"),
        (lambda: made.add(Pairs.from_arrays(x, x, times=np.arange(N))), "has no times"),
        (lambda: timed.add(Pairs.from_arrays(x, x)), "give the times of these too"),
        (lambda: made.add(Pairs.from_arrays(x, x).to(torch.float32)), "write .to"),
    ):
        with pytest.raises(BankError, match=words):
            call()
