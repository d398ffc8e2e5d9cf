"""A record of stations as a bank: the same windows, examples and prompts as the problem itself makes."""

import numpy as np
import pytest
import torch
from air_records import record

from chop.bank import BankError
from chop.bank.stations import station_bank
from chop.problems import air
from chop.problems.air.windows import case, eligible, epoch_hours

PERIOD, LATER = ("2022-01-01", "2022-01-21"), ("2022-01-22", "2022-02-01")
LEAD = 6


@pytest.fixture(scope="module")
def history():
    return air.prepare(record(hours=720, missing=0.1), PERIOD)


def test_rows_are_the_usable_windows_of_the_period(history):
    made = station_bank(history, LEAD, PERIOD)
    ends = eligible(history, PERIOD, LEAD)
    assert len(made) == len(ends)
    assert made.asked.tolist() == epoch_hours(history, ends).tolist()
    assert torch.equal(made.known, made.asked + LEAD)
    some = made.take([5, 0, 5])
    expected = case(history, ends[[5, 0, 5]], ends[[5, 0, 5]][:, None], LEAD)
    assert torch.equal(some.inputs.values, expected.prompt.query.values)
    assert torch.equal(some.inputs.mask, expected.prompt.query.mask)
    assert torch.equal(some.outputs.values, expected.target)
    assert torch.equal(some.outputs.mask, expected.mask)
    blocks = list(made.blocks(100))
    assert sum(len(block) for _, block in blocks) == len(made)
    assert torch.equal(blocks[1][1].inputs.values[0], made.take([100]).inputs.values[0])


def test_prompts_are_those_of_the_problem(history):
    made = station_bank(history, LEAD, PERIOD)
    ends = eligible(history, LATER, LEAD)[:20]
    examples = air.similar_examples(air.similarity_index(history, PERIOD, ends), ends, LEAD)
    expected = case(history, ends, examples, LEAD).prompt
    got = made.prompts(expected.query, 5, times=epoch_hours(history, ends))
    for a, b in zip(got.tensors(), expected.tensors(), strict=True):
        assert torch.equal(a, b)
    assert got.axes == expected.axes
    assert torch.equal(got.graph.edges, expected.graph.edges)
    order = [times.argsort(stable=True).tolist() for times in (got.times[0], expected.times[0])]
    assert order[0] == order[1]


def test_windows_inside_the_period_see_their_past_alone(history):
    made = station_bank(history, LEAD, PERIOD)
    rows = made.examples(made.take([200, 300]).inputs, 4, before=made.asked[[200, 300]], exclude=[200, 300])
    assert (made.known[rows] <= made.asked[[200, 300]][:, None]).all()
    prompt, truth = made.question([300], 4)
    assert torch.equal(prompt.inputs.values[0], made.take(rows[1]).inputs.values)
    assert truth.mask is not None
    ends = eligible(history, PERIOD, LEAD)
    stack = np.stack([history.values[end - 23 : end + 1].ravel() for end in ends]).astype(np.float64)
    stack /= np.linalg.norm(stack, axis=1, keepdims=True)
    cosine = stack @ stack[300]
    cosine[made.known.numpy() > int(made.asked[300])] = -np.inf
    assert rows[1].tolist() == np.argsort(-cosine, kind="stable")[:4].tolist()
    for by in ("random", "recent", "spread"):
        assert made.question([300], 3, by)[0].examples == 3


def test_what_a_record_refuses(history):
    made = station_bank(history, LEAD, PERIOD)
    with pytest.raises(BankError, match="is not added to"):
        made.add(made.take([0]))
    window = made.take([0]).inputs
    half = window.each(lambda tensor: tensor[:, :8])
    with pytest.raises(BankError, match="windows of 24 h"):
        made.examples(half, 2)
    with pytest.raises(BankError, match="pairs known by"):
        made.question([0], 2)
