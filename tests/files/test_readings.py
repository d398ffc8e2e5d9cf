"""Shapes that lack axes: sizes decide how they are meant; where two readings fit, the file must say it."""

import numpy as np
import pytest
import torch
from question_files import arrays, write_hdf5, write_npz

from chop.core.errors import ChopError
from chop.files import QuestionFile

N, D, n = 6, 3, 8


def coords(*lead, points=n, k=1, seed=5):
    return np.random.default_rng(seed).random((*lead, points, k)).astype(np.float32)


def read(tmp_path, questions=N, examples=D, **content):
    content = {**arrays(n=questions, examples=examples), **content}
    with QuestionFile(write_npz(tmp_path / "q.npz", content)) as file:
        parts = list(file.batches(2))
        return file.read().prompt, parts


def on_its_own(content):
    """Everything that input_coords would stand in for."""
    return {"output_coords": coords(), "query_coords": coords(), "at": coords(), **content}


def test_a_grid_for_each_question(tmp_path):
    """0.1.0 took the questions for examples."""
    own = coords(N)
    prompt, parts = read(tmp_path, **on_its_own({"input_coords": own}))
    assert np.array_equal(prompt.inputs.coords, np.broadcast_to(own[:, None], (N, D, n, 1)))
    assert np.array_equal(parts[1].prompt.inputs.coords[:, 1], own[2:4])


def test_a_grid_for_each_example(tmp_path):
    own = coords(D)
    prompt, _ = read(tmp_path, **on_its_own({"input_coords": own}))
    assert np.array_equal(prompt.inputs.coords, np.broadcast_to(own, (N, D, n, 1)))


@pytest.mark.parametrize("name", ["input_coords", "output_coords"])
def test_as_many_questions_as_examples_must_be_told_apart(name, tmp_path):
    content = on_its_own({"input_coords": coords(), name: coords(4)})
    with pytest.raises(
        ChopError, match=rf"{name} is \(4, 8, 1\), which can be meant as \(4, 1, 8, 1\) or as \(1,"
    ):
        read(tmp_path, 4, 4, **content)
    field = name.split("_")[0] + "s"
    for shape, spread in (((4, 1), lambda grid: grid[:, None]), ((1, 4), lambda grid: grid[None])):
        written = coords(4).reshape(*shape, n, 1)
        prompt, _ = read(tmp_path, 4, 4, **{**content, name: written})
        found = getattr(prompt, field).coords
        assert np.array_equal(found, np.broadcast_to(spread(coords(4)), (4, 4, n, 1)))


def test_the_file_may_say_that_all_questions_share_it(tmp_path):
    path = write_hdf5(
        tmp_path / "q.h5", {**arrays(n=4, examples=4), **on_its_own({"input_coords": coords(4)})}
    )
    import h5py

    with h5py.File(path, "a") as file:
        file["input_coords"].attrs["shared"] = True
    with QuestionFile(path) as file:
        assert np.array_equal(file.read().prompt.inputs.coords, np.broadcast_to(coords(4), (4, 4, n, 1)))


@pytest.mark.parametrize("lead", [(1,), (1, 1), (N, 1), (1, D), (N, D), ()])
def test_axes_of_length_1_are_shared(lead, tmp_path):
    own = coords(*lead)
    prompt, _ = read(tmp_path, **on_its_own({"input_coords": own, "output_coords": own}))
    full = own.reshape((1,) * (2 - len(lead)) + own.shape)
    for field in (prompt.inputs, prompt.outputs):
        assert np.array_equal(field.coords, np.broadcast_to(full, (N, D, n, 1)))


@pytest.mark.parametrize("name", ["query_coords", "at"])
@pytest.mark.parametrize("lead", [(N,), (1,), ()])
def test_points_of_the_query_and_of_the_answer(name, lead, tmp_path):
    own = coords(*lead)
    prompt, parts = read(tmp_path, input_coords=coords(), **{name: own})
    found = prompt.query.coords if name == "query_coords" else prompt.at
    assert np.array_equal(found, np.broadcast_to(own, (N, n, 1)))
    found = parts[2].prompt.query.coords if name == "query_coords" else parts[2].prompt.at
    assert np.array_equal(found, np.broadcast_to(own, (N, n, 1))[4:6])


def test_one_coordinate_needs_no_axis_of_its_own(tmp_path):
    own = coords(N, D)
    for name, values in (("input_coords", own), ("output_coords", own[0]), ("query_coords", own[:, 0])):
        given = on_its_own({"input_coords": coords(), name: values})
        short, _ = read(tmp_path, **{**given, name: values[..., 0]})
        whole, _ = read(tmp_path, **given)
        for part in ("inputs", "outputs", "query"):
            assert torch.equal(getattr(short, part).coords, getattr(whole, part).coords)


def test_a_square_of_numbers(tmp_path):
    """As many questions as points: a grid for each question, or points with many coordinates."""
    square = coords(8)[..., 0]
    with pytest.raises(
        ChopError, match=r"query_coords is \(8, 8\), but \(N, n, k\) is wanted|can be meant as"
    ):
        read(tmp_path, 8, query_coords=square, input_coords=coords(k=2))
    prompt, _ = read(tmp_path, 8, query_coords=square)  # one coordinate everywhere else
    assert np.array_equal(prompt.query.coords[..., 0], square)
    with pytest.raises(ChopError, match=r"input_coords is \(8, 8\), which can be meant as"):
        read(tmp_path, 8, input_coords=square)
    with QuestionFile(
        write_npz(tmp_path / "q.npz", {**arrays(n=8), **on_its_own({"input_coords": square})}, axes="x=1")
    ) as file:
        assert np.array_equal(file.read().prompt.inputs.coords[:, 0, :, 0], square)


def test_each_question_may_have_its_grid_for_everything(tmp_path):
    """What stands in for left-out coordinates only has to be shared by the examples."""
    own = coords(N)
    prompt, parts = read(tmp_path, input_coords=own)
    for found in (prompt.query.coords, prompt.at, prompt.outputs.coords[:, 2]):
        assert np.array_equal(found, own)
    assert np.array_equal(parts[1].prompt.at, own[2:4])


def test_times(tmp_path):
    for times in (np.arange(4), np.arange(4)[None], np.arange(24).reshape(6, 4)):
        prompt, _ = read(tmp_path, times=times)
        assert np.array_equal(prompt.times, np.broadcast_to(times, (N, D + 1)))
    with pytest.raises(ChopError, match=r"times is \(3,\), but \(N, D\+1\) is wanted, with N = 6, D\+1 = 4"):
        read(tmp_path, times=np.arange(3))


def test_what_fits_nothing(tmp_path):
    with pytest.raises(
        ChopError, match=r"is \(5, 8, 1\), but \(N, D, n, k\) is wanted, with N = 6, D = 3, n = 8"
    ):
        read(tmp_path, input_coords=coords(5))


def test_answers_elsewhere_on_as_many_points_as_there_are_questions(tmp_path):
    """Without a target nothing tells the number of points; a column is points sooner than questions."""
    content = {name: values for name, values in arrays().items() if name != "target"}
    with QuestionFile(write_npz(tmp_path / "q.npz", {**content, "at": coords(points=6)})) as file:
        assert file.answer_shape == (6, 6, 1)
