"""Pairs of files into banks, whole and again, and questions of banks into files."""

import numpy as np
import pytest
import torch
from question_files import WRITERS, arrays, write_hdf5, write_npz

import chop
from chop.bank import Bank
from chop.bank.segments import DiskPairs
from chop.core.errors import ChopError, FileError
from chop.files import banks, pair_files
from chop.files.banks import add_file, ask_bank, goes_on, read_queries
from chop.files.pair_files import open_pairs
from chop.files.question_writing import write_questions
from chop.files.questions import QuestionFile

STREAM = np.random.default_rng(0)
X = np.linspace(0, 1, 8)


def plain(count=10, **more):
    inputs = STREAM.normal(size=(count, 8)).astype(np.float32)
    return {"inputs": inputs, "outputs": 2 * inputs, "coords": X, **more}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_pair_of_a_question_file(kind, tmp_path, monkeypatch):
    name, write = WRITERS[kind]
    content = arrays(n=6, examples=3)
    path = write(tmp_path / name, content)
    monkeypatch.setattr(pair_files, "BLOCK_BYTES", 500)
    with open_pairs(path) as file:
        assert len(file) == 24
        blocks = list(file.blocks())
    assert len(blocks) > 1
    inputs = torch.cat([pairs.inputs.values for _, pairs in blocks])
    outputs = torch.cat([pairs.outputs.values for _, pairs in blocks])
    for question in range(6):
        for example in range(3):
            row = 4 * question + example
            np.testing.assert_array_equal(inputs[row], content["input_values"][question, example])
            np.testing.assert_array_equal(outputs[row], content["output_values"][question, example])
        np.testing.assert_array_equal(inputs[4 * question + 3], content["query_values"][question])
        np.testing.assert_array_equal(outputs[4 * question + 3], content["target"][question])
    assert all(pairs.inputs.coords.stride(0) == 0 for _, pairs in blocks)


def test_without_a_target_the_examples_alone(tmp_path):
    content = {name: part for name, part in arrays().items() if name != "target"}
    with open_pairs(write_npz(tmp_path / "q.npz", content)) as file:
        assert len(file) == 18
    gaps = arrays()
    gaps["target"][0, 2] = np.nan
    with open_pairs(write_npz(tmp_path / "gaps.npz", gaps)) as file:
        ((_, pairs),) = file.blocks()
        assert (~pairs.outputs.mask).sum() == 1


def test_a_plain_file_of_pairs(tmp_path):
    content = plain(times=np.arange(10), known=np.arange(10) + 1)
    for path in (
        write_npz(tmp_path / "a.npz", content, axes="x=2"),
        write_hdf5(tmp_path / "a.h5", content, axes="x=2"),
    ):
        with open_pairs(path) as file:
            ((first, pairs),) = file.blocks()
        assert (first, len(pairs)) == (0, 10)
        assert pairs.axes == (chop.Axis("x", 2.0),)
        np.testing.assert_array_equal(pairs.inputs.values[..., 0], content["inputs"])
        assert pairs.known.tolist() == list(range(1, 11))
        assert pairs.outputs.mask is None


def test_gaps_masks_grids_and_points_of_their_own(tmp_path):
    content = plain()
    content["inputs"][1, 2] = np.nan
    with open_pairs(write_npz(tmp_path / "gaps.npz", content)) as file:
        ((_, pairs),) = file.blocks()
    assert (~pairs.inputs.mask).nonzero().tolist() == [[1, 2, 0]]
    masked = plain(output_mask=np.eye(10, 8) == 0)
    with open_pairs(write_npz(tmp_path / "masked.npz", masked)) as file:
        ((_, pairs),) = file.blocks()
    assert (~pairs.outputs.mask).sum() == 8
    grid = {
        "inputs": np.ones((3, 4, 5)), "outputs": np.ones((3, 4, 5)), "y": np.arange(4.0), "x": np.arange(5.0),
    }  # fmt: skip
    with open_pairs(write_npz(tmp_path / "grid.npz", grid, grid="y, x")) as file:
        ((_, pairs),) = file.blocks()
    assert pairs.inputs.values.shape == (3, 20, 1)
    assert [axis.name for axis in pairs.axes] == ["y", "x"]
    own = plain(coords=STREAM.random((10, 8, 1)))
    with open_pairs(write_npz(tmp_path / "own.npz", own)) as file:
        ((_, pairs),) = file.blocks()
    np.testing.assert_allclose(pairs.outputs.coords, own["coords"], rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"inputs": np.ones((3, 4))}, "questions need"),
        (plain(outputs=np.ones((9, 8))), "10 rows"),
        (plain(times=np.arange(10) / 2), "whole numbers"),
        (plain(coords=np.arange(7.0)), "do not fit coords"),
        (plain(inputs=np.full((10, 8), np.inf)), "finite"),
        (plain(inputs=np.array([["a"] * 8] * 10)), "not numbers"),
        (plain(output_mask=np.full((10, 8), 2)), "0 or 1"),
        (plain(known=np.arange(10)), "asked"),
        ({"inputs": np.ones(3), "outputs": np.ones(3)}, r"\(N, n\)"),
    ],
)
def test_bad_files_are_told_about(content, words, tmp_path):
    path = write_npz(tmp_path / "bad.npz", content)
    with pytest.raises(ChopError, match=words) as told, open_pairs(path) as file:
        list(file.blocks())
    assert "bad.npz" in str(told.value)


def test_an_interrupted_addition_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(pair_files, "BLOCK_BYTES", 3 * 64)
    content = plain()
    path = write_npz(tmp_path / "a.npz", content)
    bank = DiskPairs.create(tmp_path / "a.bank")

    def stop(done, total):
        assert total == 10
        if done >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_file(bank, path, stop)
    assert len(bank) == 6
    bank.close()
    bank = DiskPairs(tmp_path / "a.bank", writing=True)
    assert goes_on(bank, [path])
    copy = tmp_path / "renamed.npz"
    copy.write_bytes(path.read_bytes())
    assert add_file(bank, copy) == 4, "a file is known by its content"
    assert add_file(bank, path) == 0
    np.testing.assert_array_equal(bank.take(torch.arange(10)).inputs.values[..., 0], content["inputs"])
    other = write_npz(tmp_path / "b.npz", {name: np.asarray(v, float) for name, v in plain().items()})
    assert not goes_on(bank, [other])
    assert add_file(bank, other) == 10, "in the precision that is there"
    assert goes_on(bank, [path, other])
    assert bank.take(torch.tensor([15])).inputs.values.dtype == torch.float32
    bank.close()


def test_questions_come_back_as_they_were_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(banks, "ASKED_AT_A_TIME", 3)
    content = plain(30, times=np.arange(30))
    made = Bank(
        content["inputs"], content["outputs"], coords=X, times=content["times"], axes=chop.Axis("x", 2.0)
    )
    path = write_npz(tmp_path / "q.npz", {"queries": content["inputs"][:8], "times": np.arange(10, 18)})
    queries, times = read_queries(path, made.form)
    done = []
    assert ask_bank(made, queries, times, tmp_path / "o.h5", k=4, progress=done.append) == 8
    assert done == [3, 6, 8]
    expected = made.prompts(queries, 4, times=times)
    with QuestionFile(tmp_path / "o.h5") as file:
        got = file.read().prompt
    for a, b in zip(got.tensors(), expected.tensors(), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(got.times, expected.times)
    assert got.axes == expected.axes
    with pytest.raises(FileError, match="exists already"):
        ask_bank(made, queries, times, tmp_path / "o.h5")


def test_what_later_questions_have_is_written_for_all(tmp_path):
    def prompt(own, masked):
        grid = torch.rand(2, 3, 8, 1) if own else torch.linspace(0, 1, 8)[:, None]
        mask = torch.rand(2, 3, 8, 1) > 0.5 if masked else None
        outputs = chop.Field(torch.linspace(0, 1, 8)[:, None], torch.rand(2, 3, 8, 1), mask)
        query = chop.Field(torch.linspace(0, 1, 8)[:, None], torch.rand(2, 8, 1))
        return chop.Prompt(
            chop.Field(grid, torch.rand(2, 3, 8, 1)), outputs, query, query.coords,
            graph=chop.Graph([[0], [1]], 8), axes=(chop.Axis("x"),),
        )  # fmt: skip

    parts = [prompt(False, False), prompt(True, True), prompt(False, False)]
    assert write_questions(tmp_path / "q.h5", parts) == 6
    with QuestionFile(tmp_path / "q.h5") as file:
        for i, part in enumerate(parts):
            got = file.read(2 * i, 2 * i + 2).prompt
            assert torch.equal(got.inputs.coords, part.inputs.coords)
            assert torch.equal(got.outputs.observed, part.outputs.observed)
            assert torch.equal(got.query.values, part.query.values)
            assert got.graph.edges.tolist() == [[0], [1]]


def test_queries_that_do_not_fit(tmp_path):
    made = Bank(np.ones((3, 8)), np.ones((3, 8)), coords=X)
    for content, words in (
        ({"other": np.ones((2, 8))}, "no queries or query_values"),
        ({"queries": np.ones((2, 7))}, "8 points with 1 channels"),
        ({"queries": np.ones(8)}, r"\(N, n\)"),
    ):
        with pytest.raises(FileError, match=words):
            read_queries(write_npz(tmp_path / "q.npz", content), made.form)
    gaps = np.ones((2, 8))
    gaps[1, 3] = np.nan
    queries, times = read_queries(write_npz(tmp_path / "q.npz", {"queries": gaps}), made.form)
    assert times is None
    assert not queries.mask[1, 3, 0]
    finer = {"queries": np.ones((2, 16)), "coords": np.linspace(0, 1, 16)}
    queries, _ = read_queries(write_npz(tmp_path / "q.npz", finer), made.form)
    assert queries.points == 16
