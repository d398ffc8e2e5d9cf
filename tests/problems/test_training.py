"""Training batches: the right functions, endless, and the same again from any number on."""

import itertools

import numpy as np
import pytest
import torch

from chop.core.errors import ProblemError
from chop.problems import conservation, mfc
from chop.problems.conservation.solver import solve

SMALL = {"batch": 4, "trajectories": 2, "frames": 8, "reuse": 2}


def test_cubic_batches() -> None:
    stream = conservation.CubicStream(**SMALL)
    cases = list(itertools.islice(stream, 3))
    again = next(stream.from_batch(2))
    assert torch.equal(cases[2].target, again.target)
    for case in cases:
        assert case.prompt.inputs.values.shape == (4, 5, 100, 1)
        assert case.prompt.dtype == torch.float32
        assert case.rows["window"].tolist() == [False, True, False, True]
    assert cases[0].rows["a"].tolist() == cases[1].rows["a"].tolist()  # one block, two batches
    assert cases[0].rows["a"].tolist() != cases[2].rows["a"].tolist()
    assert not torch.equal(cases[0].target, cases[1].target)


def test_windows_are_consecutive_and_pairs_are_not() -> None:
    case = conservation.CubicStream(**SMALL).case(0)
    inputs, outputs = case.pairs()
    assert inputs.values.shape == outputs.values.shape == (4, 6, 100, 1)
    assert inputs.coords.shape == (4, 6, 100, 1)
    follows = [bool(torch.equal(outputs.values[i, :-1], inputs.values[i, 1:])) for i in range(4)]
    assert follows == [False, True, False, True]


def test_every_pair_is_one_step_of_its_flux() -> None:
    case = conservation.CubicStream(**SMALL, seed=3).case(5)
    inputs, outputs = case.pairs()
    for i in range(4):
        numbers = np.array([case.rows[name][i] for name in "abc"])
        found = solve("cubic", inputs.values[i, :, :, 0].double().numpy(), [0.1], parameters=numbers)
        # Started anew from float32 values: the same step up to that rounding.
        assert np.abs(found.values[:, 0] - outputs.values[i, :, :, 0].numpy()).max() < 1e-4


def test_modes() -> None:
    assert not conservation.CubicStream(**SMALL, mode="pairs").case(0).rows["window"].any()
    assert conservation.CubicStream(**SMALL, mode="windows").case(0).rows["window"].all()
    with pytest.raises(ProblemError, match="mixed, pairs, windows"):
        conservation.CubicStream(mode="all")  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="needs 7 frames"):
        conservation.CubicStream(frames=6)
    with pytest.raises(ProblemError, match="1 or more"):
        conservation.CubicStream(batch=0)


def test_mfc_batches_take_turns_and_change_their_grids() -> None:
    stream = mfc.MfcStream(batch=3)
    cases = list(itertools.islice(stream, 10))
    assert [case.meta["family"] for case in cases] == list(mfc.FAMILIES) * 2
    for case in cases:
        assert case.prompt.inputs.values.shape == (3, 5, 100, 1)
        assert case.target.shape == (3, 100, 1)
        assert (case.target > 0).all()
        t = case.prompt.at[..., 0]
        assert float(t.min()) >= 0.5
    assert not torch.equal(cases[2].prompt.at, cases[7].prompt.at)
    assert torch.equal(next(stream.from_batch(7)).target, cases[7].target)


def test_mfc_grids_lie_on_the_protocols() -> None:
    for spacing in ("even", "random", "rows"):
        stream = mfc.MfcStream(spacing=spacing)  # type: ignore[arg-type]
        for number in range(20):
            for grid, (low, high) in zip(
                stream.grids(mfc.FAMILIES["g_2to2"], number), ((0, 24), (25, 50)), strict=True
            ):
                rows, columns = np.array(grid.times) * 50, np.array(grid.points) * 100
                assert rows == pytest.approx(np.round(rows))
                assert columns == pytest.approx(np.round(columns))
                assert len(set(np.round(rows))) == len(set(np.round(columns))) == 10
                assert low <= round(rows.min()) <= round(rows.max()) <= high
                assert columns.min() >= 0
                assert columns.max() < 100


def test_bad_mfc_streams() -> None:
    with pytest.raises(ProblemError, match="mixed, even, random, rows"):
        mfc.MfcStream(spacing="odd")  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="family must be one of"):
        mfc.MfcStream(families=("g_1to3",))
    with pytest.raises(ProblemError, match="do not fit"):
        mfc.MfcStream(times=40)
    with pytest.raises(ProblemError, match="1 or more"):
        mfc.MfcStream(families=())


def test_pairs_of_an_mfc_case_keep_their_coordinates() -> None:
    case = mfc.MfcStream(batch=2).case(2)
    inputs, outputs = case.pairs()
    assert torch.equal(inputs.coords[:, 0], case.prompt.query.coords)
    assert torch.equal(outputs.coords[:, -1], case.prompt.at)
    assert torch.equal(outputs.values[:, -1], case.target)
