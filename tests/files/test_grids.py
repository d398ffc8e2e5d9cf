"""Gridded files as scientists keep them: an axis for each coordinate, a time, a mask, NaN in the gaps."""

import h5py
import numpy as np
import pytest
import torch
import xarray
from question_files import write_npz

from chop.core.errors import ChopError
from chop.core.prompt import Axis
from chop.files import QuestionFile

N, D = 4, 2
SIZES = {"time": 3, "y": 4, "x": 5}
ALONG = {"time": np.array([0.0, 0.5, 2.0]), "y": np.linspace(-1, 1, 4), "x": np.arange(5) / 5}


def gridded(axes=("y", "x"), channels=None, seed=0):
    """The values of all functions with one axis for each coordinate."""
    draw = np.random.default_rng(seed)
    inner = [*(SIZES[axis] for axis in axes), *([] if channels is None else [channels])]
    return {
        "input_values": draw.standard_normal((N, D, *inner)),
        "output_values": draw.standard_normal((N, D, *inner)),
        "query_values": draw.standard_normal((N, *inner)),
        "target": draw.standard_normal((N, *inner)),
    }


def dataset(values, axes=("y", "x"), **more):
    lead = {"input_values": ("question", "example"), "output_values": ("question", "example"),
            "query_values": ("question",), "target": ("question",)}  # fmt: skip

    def dims(name, array):
        named = (*lead[name], *axes)
        return (*named, "channel") if array.ndim > len(named) else named

    return xarray.Dataset(
        {name: (dims(name, array), array) for name, array in values.items()} | more,
        coords={axis: ALONG[axis] for axis in axes},
    )


def as_netcdf(path, values, axes):
    dataset(values, axes).to_netcdf(path.with_suffix(".nc"), engine="h5netcdf")
    return path.with_suffix(".nc")


def as_scales(path, values, axes):
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        for axis in axes:
            file[axis] = ALONG[axis]
            file[axis].make_scale(axis)
        for name, array in values.items():
            lead = 2 if name in ("input_values", "output_values") else 1
            file[name] = array
            for place, axis in enumerate(axes):
                file[name].dims[lead + place].attach_scale(file[axis])
    return path.with_suffix(".h5")


def as_labels(path, values, axes):
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        for axis in axes:
            file[axis] = ALONG[axis]
        for name, array in values.items():
            lead = 2 if name in ("input_values", "output_values") else 1
            file[name] = array
            for place, axis in enumerate(axes):
                file[name].dims[lead + place].label = axis
    return path.with_suffix(".h5")


def as_note(path, values, axes):
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        for name, array in (values | {axis: ALONG[axis] for axis in axes}).items():
            file[name] = array
        file.attrs["grid"] = ", ".join(axes)
    return path.with_suffix(".h5")


def as_npz(path, values, axes):
    return write_npz(
        path.with_suffix(".npz"), values | {axis: ALONG[axis] for axis in axes}, grid=", ".join(axes)
    )


WAYS = {"netcdf": as_netcdf, "scales": as_scales, "labels": as_labels, "note": as_note, "npz": as_npz,
        "Dataset": lambda path, values, axes: dataset(values, axes)}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("channels", [None, 2])
def test_every_way_to_say_it_gives_the_same_questions(way, channels, tmp_path):
    values = gridded(channels=channels)
    points = np.stack(np.meshgrid(ALONG["y"], ALONG["x"], indexing="ij"), -1).reshape(20, 2)
    with QuestionFile(WAYS[way](tmp_path / "q", values, ("y", "x"))) as file:
        assert file.answer_shape == (N, 20, channels or 1)
        assert [name for name, _ in file.answer_grid] == ["y", "x"]
        assert all(np.array_equal(along, ALONG[name]) for name, along in file.answer_grid)
        part = file.read(1, 3)
    prompt = part.prompt
    assert prompt.axes == (Axis("y"), Axis("x"))
    assert np.array_equal(prompt.inputs.values, values["input_values"][1:3].reshape(2, D, 20, -1))
    assert np.array_equal(prompt.outputs.values, values["output_values"][1:3].reshape(2, D, 20, -1))
    assert np.array_equal(prompt.query.values, values["query_values"][1:3].reshape(2, 20, -1))
    assert np.array_equal(part.target, values["target"][1:3].reshape(2, 20, -1))
    for found in (
        prompt.inputs.coords[1, 0],
        prompt.outputs.coords[0, 1],
        prompt.query.coords[1],
        prompt.at[0],
    ):
        assert np.array_equal(found, points)


def test_a_time_is_called_t(tmp_path):
    with QuestionFile(as_netcdf(tmp_path / "q", gridded(("time", "y")), ("time", "y"))) as file:
        prompt = file.read().prompt
        assert [name for name, _ in file.answer_grid] == ["time", "y"]
    assert [axis.name for axis in prompt.axes] == ["t", "y"]
    assert np.array_equal(prompt.at[0, ::4, 0], ALONG["time"])


def test_axes_may_still_be_said(tmp_path):
    path = as_note(tmp_path / "q", gridded(), ("y", "x"))
    with h5py.File(path, "a") as file:
        file.attrs["axes"] = "north, east=1"
    with QuestionFile(path) as file:
        assert file.read().prompt.axes == (Axis("north"), Axis("east", 1.0))


def test_outputs_on_a_grid_of_their_own(tmp_path):
    values = gridded(("x",))
    finer = gridded(("y", "x"))
    values |= {"output_values": finer["output_values"][..., 0], "target": finer["target"][..., 0]}
    path = write_npz(
        tmp_path / "q.npz",
        values | {"x": ALONG["x"], "y": ALONG["y"]},
        grid="x",
        output_grid="y",
        target_grid="y",
    )
    with QuestionFile(path) as file:
        prompt = file.read().prompt
        assert file.answer_grid[0][0] == "y"
    assert np.array_equal(prompt.at[0, :, 0], ALONG["y"])
    assert np.array_equal(prompt.query.coords[0, :, 0], ALONG["x"])


def test_dates_are_the_numbers_that_a_file_would_hold(tmp_path):
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-04"], dtype="datetime64[ns]")
    data = dataset(gridded(("time", "x")), ("time", "x")).assign_coords(time=days)
    data.to_netcdf(tmp_path / "q.nc", engine="h5netcdf")
    for source in (data, tmp_path / "q.nc"):
        with QuestionFile(source) as file:
            assert file.answer_grid[0][1].tolist() == [0, 1, 3]
    with xarray.open_dataset(tmp_path / "q.nc", engine="h5netcdf") as opened, QuestionFile(opened) as file:
        assert file.answer_grid[0][1].tolist() == [0, 1, 3]
        assert not file.path.exists()  # it may hold something else than that file by now
        assert len(file.read(0, 2)) == 2


def test_nan_marks_what_was_not_observed(tmp_path):
    values = gridded()
    gaps = {name: np.random.default_rng(1).random(array.shape) < 0.3 for name, array in values.items()}
    holed = {name: np.where(gaps[name], np.nan, array) for name, array in values.items()}
    with QuestionFile(as_netcdf(tmp_path / "q", holed, ("y", "x"))) as file:
        part = file.read()
    prompt = part.prompt
    found = {"input_values": prompt.inputs, "output_values": prompt.outputs, "query_values": prompt.query}
    for name, field in found.items():
        assert np.array_equal(field.mask[..., 0], ~gaps[name].reshape(*field.mask.shape[:-1]))
        assert np.array_equal(field.values[field.mask], values[name][~gaps[name]])
        assert torch.isfinite(field.values).all()
    assert np.array_equal(part.mask[..., 0], ~gaps["target"].reshape(N, -1))
    query, seen = prompt.query.values[2, :, 0], prompt.query.mask[2, :, 0]
    assert torch.allclose(query[~seen], query[seen].mean())  # what is not known is filled by what is


@pytest.mark.parametrize("shape", ["y x", "y x channel", "question y x"])
def test_a_variable_called_mask(shape, tmp_path):
    values = gridded()
    sizes = {"y": 4, "x": 5, "channel": 1, "question": N}
    mask = np.random.default_rng(2).random([sizes[axis] for axis in shape.split()]) < 0.7
    land = np.broadcast_to(mask.reshape(-1, 4, 5), (N, 4, 5))
    values["target"][~land] = np.nan
    data = dataset(values, mask=(shape.split(), mask.astype("i1")))
    with QuestionFile(data) as file:
        part = file.read(1, 3)
    assert np.array_equal(part.mask[..., 0], land[1:3].reshape(2, 20))
    for field in (part.prompt.inputs, part.prompt.outputs, part.prompt.query):
        if shape.startswith("question"):
            assert field.mask is None
        else:
            assert np.array_equal(field.mask.reshape(-1, 20)[-1], mask.reshape(20))


def test_a_mask_of_points_and_gaps_go_together(tmp_path):
    values = gridded()
    values["query_values"][0, 1, 1] = np.nan
    mask = np.ones((4, 5), "i1")
    mask[3] = 0
    with QuestionFile(dataset(values, mask=(("y", "x"), mask))) as file:
        seen = file.read().prompt.query.mask[..., 0].reshape(N, 4, 5)
    assert not seen[0, 1, 1]
    assert not seen[:, 3].any()
    assert int(seen.sum()) == N * 15 - 1


WRONG = {
    "an axis without coordinates": (
        lambda data: data.drop_vars("y"), r"has no input_coords; .*or coordinates along each axis"
    ),
    "a mask that fits nothing": (lambda data: data.assign(mask=(("a",), np.ones(7))), "mask is .* fits neit"),
    "a query on another grid": (
        lambda data: data.assign(query_values=(("question", "x"), np.zeros((N, 5)))), "number of coordinates"
    ),
    "NaN where the mask says observed": (
        lambda data: data.assign(
            query_values=data["query_values"].where(data["x"] > 0),
            query_mask=(("question", "y", "x"), np.ones((N, 4, 5))),
        ),
        "query_values of question 0 holds NaN where query_mask says",
    ),
    "NaN everywhere": (
        lambda data: data.assign(query_values=data["query_values"].where(data["question"] != 2)),
        "query_values of question 2 holds NaN at every point",
    ),
    "infinity": (lambda data: data.assign(query_values=data["query_values"] * np.inf), "holds infinity"),
    "NaN on the grid": (
        lambda data: data.assign_coords(x=np.where(ALONG["x"] > 0.5, np.nan, 0)), "the grid y, x holds NaN"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_with_a_grid_is_one_sentence(what):
    change, words = WRONG[what]

    def read():
        with QuestionFile(change(dataset(gridded()).assign_coords(question=np.arange(N)))) as file:
            file.read()

    with pytest.raises(ChopError, match=words):
        read()


def test_a_grid_that_is_not_there(tmp_path):
    along = {axis: ALONG[axis] for axis in ("y", "x")}
    path = write_npz(tmp_path / "q.npz", gridded() | along, grid="y, z")
    with pytest.raises(
        ChopError, match="the grid needs an array 'z' of numbers along that axis; there is none"
    ):
        QuestionFile(path)
    path = write_npz(tmp_path / "r.npz", gridded() | along, grid="x, y")
    with pytest.raises(ChopError, match=r"its grid x, y is \(5, 4\)"):
        QuestionFile(path)


def test_points_that_are_no_grid_have_none(tmp_path):
    from question_files import arrays

    with QuestionFile(write_npz(tmp_path / "q.npz", arrays())) as file:
        assert file.answer_grid == ()


def test_other_things_than_files_and_data_sets():
    with pytest.raises(ChopError, match=r"in a file or an xarray.Dataset, not in a dict"):
        QuestionFile({})
