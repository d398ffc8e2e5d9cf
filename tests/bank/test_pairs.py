"""Pairs and banks in memory: read as prompts are, appended in any chunks, taken as slices are."""

import numpy as np
import pytest
import torch
from bank_pairs import assert_same, pairs
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop.bank import Bank, BankError, Pairs


@settings(max_examples=25)
@given(st.data())
def test_any_chunks_are_all_at_once(data):
    count = data.draw(st.integers(1, 40))
    whole = pairs(count, masked=data.draw(st.booleans()), own_points=data.draw(st.booleans()))
    cuts = sorted(data.draw(st.sets(st.integers(1, count))) | {count})
    made = None
    for start, stop in zip([0, *cuts], cuts, strict=False):
        part = whole.cut(start, stop)
        if made is None:
            made = Bank.of(part)
        else:
            assert made.add(part) == stop
    rows = data.draw(st.lists(st.integers(0, count - 1), min_size=1))
    assert_same(made.take(rows), whole.take(torch.tensor(rows)))
    assert torch.equal(made.known, whole.known)
    seen = 0
    for first, block in made.blocks(data.draw(st.integers(1, 50))):
        assert first == seen
        assert_same(block, whole.cut(first, first + len(block)))
        seen += len(block)
    assert seen == count


def test_masks_and_points_of_some_are_those_of_all():
    made = Bank.of(pairs(3))
    made.add(pairs(2, masked=True, own_points=True))
    found = made.take(range(5))
    assert found.outputs.mask[:3].all()
    assert torch.equal(found.inputs.coords[0], made.form.input_coords)
    assert not torch.equal(found.inputs.coords[3], found.inputs.coords[4])
    assert found.outputs.coords.stride(0) == 0, "what all share is kept once"


def test_arrays_are_read_as_those_of_a_prompt():
    x = np.linspace(0, 1, 6)
    flat = chop.Bank(np.ones((6, 6)), np.ones((6, 6)), coords=x)
    assert flat.form.words() == "6 points x 1 ch -> 6 points x 1 ch"
    channels = chop.Bank(np.ones((6, 6, 3)), np.ones((6, 6)), coords=x)
    assert channels.form.words() == "6 points x 3 ch -> 6 points x 1 ch", "the first axis counts pairs"
    grid = chop.Bank(
        np.ones((3, 4, 5)), np.ones((3, 4, 5)), coords={"y": np.arange(4.0), "x": np.arange(5.0)}
    )
    assert [axis.name for axis in grid.form.axes] == ["y", "x"]
    gaps = np.ones((4, 6))
    gaps[0, 2] = np.nan
    masked = chop.Bank(gaps, gaps, coords=x, mask="nan")
    assert not masked.take([0]).inputs.mask[0, 2, 0]
    assert masked.take([1]).inputs.mask.all()
    told = chop.Bank(gaps, np.ones((4, 6)), coords=x, mask={"inputs": ~np.isnan(gaps)})
    assert not told.take([0]).inputs.mask[0, 2, 0]
    assert "pairs 4" in repr(told)


def test_labelled_arrays():
    xarray = pytest.importorskip("xarray")
    u = xarray.DataArray(np.ones((3, 4)), {"t": [0.0, 1, 2], "x": np.arange(4.0)}, ["t", "x"])
    made = chop.Bank(u, 2 * u)
    assert len(made) == 3
    assert made.form.input_coords[:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"times": [1, 2]}, "asked must be 3 whole numbers"),
        ({"times": [0.5, 1, 2]}, "asked must be 3 whole numbers"),
        ({"known": [1, 2, 3]}, "must say when they were asked too"),
        ({"times": [1, 2, 3], "known": [1, 1, 3]}, "pair 1 is known at 1, before its input is there at 2"),
    ],
)
def test_bad_times(change, words):
    with pytest.raises(BankError, match=words):
        chop.Bank(np.ones((3, 4)), np.ones((3, 4)), **change)


def test_bad_pairs():
    grid = np.linspace(0, 1, 4)[:, None]
    good = chop.Field(grid, np.ones((3, 4, 1)))
    for inputs, outputs, options, words in (
        (good, np.ones((3, 4)), {}, "outputs of pairs must be a Field"),
        (good, chop.Field(grid, np.ones((2, 4, 1))), {}, "3 inputs but 2 outputs"),
        (good, chop.Field(grid, np.ones((1, 3, 4, 1))), {}, r"must be \(N, n, c\)"),
        (good, chop.Field(grid, np.full((3, 4, 1), np.inf)), {}, "12 non-finite"),
        (good, chop.Field(grid, np.ones((3, 4, 1), np.float32)), {}, "they must agree"),
        (good, chop.Field(np.ones((4, 2)), np.ones((3, 4, 1))), {}, "1 coordinates, outputs 2"),
        (good, good, {"graph": chop.Graph([[0], [1]], 3)}, "a Graph of the 4 output points"),
        (good, good, {"axes": (chop.Axis("t"), chop.Axis("x"))}, "1 different names"),
        (good, good, {"axes": "x"}, "sequence of Axis"),
        (
            chop.Field(grid, np.ones((0, 4, 1))),
            chop.Field(grid, np.ones((0, 4, 1))),
            {},
            "there are no pairs",
        ),
    ):
        with pytest.raises(BankError, match=words):
            Pairs(inputs, outputs, **options)
    made = Bank.of(pairs(3))
    with pytest.raises(BankError, match="has the axes x"):
        made.add(Pairs(*_fields(), (chop.Axis("y"),), asked=[1], known=[1]))
    with pytest.raises(BankError, match="another graph"):
        made.add(Pairs(*_fields(), graph=chop.Graph([[0], [3]], 4), asked=[1], known=[1]))
    assert made.add(Pairs(*_fields(), asked=[1], known=[1])) == 4, "axes and graph need not be repeated"


def _fields():
    one = pairs(1)
    return one.inputs, one.outputs
