"""Questions in files: the same from every kind of file, read in pieces, and clear words when not."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from question_files import WRITERS, arrays, write_hdf5, write_npz

from chop.core.errors import ChopError
from chop.core.prompt import Axis, Field, Graph, Prompt
from chop.files import CaseFile, QuestionFile
from chop.files.hdf5 import Hdf5Array
from chop.files.layout import LAYOUT
from chop.files.npz import NpzArray
from chop.problems import conservation, mfc
from chop.problems.case import Case
from chop.problems.question_files import write_cases


def same(left, right):
    pairs = [(left.at, right.at), (left.times, right.times)]
    for name in ("inputs", "outputs", "query"):
        one, other = getattr(left, name), getattr(right, name)
        pairs += [(one.coords, other.coords), (one.values, other.values), (one.observed, other.observed)]
    return left.axes == right.axes and all(torch.equal(a, b) for a, b in pairs)


def prompt_of(content):
    grid = torch.from_numpy(content["input_coords"])
    return Prompt(
        Field(grid, torch.from_numpy(content["input_values"])),
        Field(grid, torch.from_numpy(content["output_values"])),
        Field(grid, torch.from_numpy(content["query_values"])),
        at=grid,
    )


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_gives_the_same_questions(kind, tmp_path):
    name, write = WRITERS[kind]
    content = arrays()
    with QuestionFile(write(tmp_path / name, content)) as file:
        assert kind.endswith(file.kind.removesuffix("-4"))
        assert len(file) == 6
        assert file.answer_shape == (6, 8, 1)
        read = file.read()
        assert same(read.prompt, prompt_of(content))
        assert torch.equal(read.target, torch.from_numpy(content["target"]))
        parts = list(file.batches(4))
        assert [(part.first, len(part)) for part in parts] == [(0, 4), (4, 2)]
        assert same(parts[1].prompt, read.prompt[4:])
        assert same(file.read(2, 3).prompt, read.prompt[2:3])  # backwards, too


@pytest.mark.parametrize("kind", WRITERS)
def test_everything_that_a_prompt_can_have(kind, tmp_path):
    name, write = WRITERS[kind]
    random = np.random.default_rng(1)
    n, d = 4, 3
    content = {
        "input_values": random.standard_normal((n, d, 5, 2)),
        "output_values": random.standard_normal((n, d, 4, 3)),
        "query_values": random.standard_normal((n, 5, 2)),
        "input_coords": random.random((n, d, 5, 2)),
        "output_coords": random.random((d, 4, 2)),
        "query_coords": random.random((n, 5, 2)),
        "at": random.random((n, 4, 2)),
        "input_mask": random.random((n, d, 5, 2)) < 0.5,
        "output_mask": (random.random((n, d, 4, 3)) < 0.5).astype(np.int8),
        "query_mask": random.random((n, 5, 2)) < 0.5,
        "times": np.arange(d + 1) * 2,
        "graph": np.array([[0, 1, 2], [1, 2, 3]]),
        "target": random.standard_normal((n, 4, 3)),
        "target_mask": random.random((n, 4, 3)) < 0.5,
    }
    with QuestionFile(write(tmp_path / name, content, axes="t, x=2.5")) as file:
        read = file.read(1, 3)
    prompt = read.prompt
    assert prompt.axes == (Axis("t"), Axis("x", 2.5))
    assert prompt.dtype == torch.float64
    assert prompt.times.tolist() == [[0, 2, 4, 6]] * 2
    assert prompt.graph.size == 4
    for part, field in (("input", prompt.inputs), ("output", prompt.outputs), ("query", prompt.query)):
        assert np.array_equal(field.values, content[f"{part}_values"][1:3])
        assert np.array_equal(field.mask, content[f"{part}_mask"][1:3].astype(bool))
    assert np.array_equal(prompt.inputs.coords, content["input_coords"][1:3])
    assert np.array_equal(prompt.outputs.coords[1], content["output_coords"])
    assert np.array_equal(prompt.query.coords, content["query_coords"][1:3])
    assert np.array_equal(prompt.at, content["at"][1:3])
    assert np.array_equal(read.mask, content["target_mask"][1:3])


def test_generated_data_sets_are_question_files(tmp_path):
    for name, case in (("a", conservation.sample("tanh", 5, steps=2)), ("b", mfc.sample("g_1to2", 1.0, 3))):
        path = write_cases(tmp_path / f"{name}.h5", [case[:2], case[2:]])
        with QuestionFile(path) as file:
            read = file.read()
            assert same(read.prompt, case.prompt)
            assert torch.equal(read.target, case.target)
            assert same(file.read(1, 3).prompt, case.prompt[1:3])


def test_generated_data_sets_with_masks_and_graphs(tmp_path):
    plain = prompt_of(arrays(n=1))  # a single question: nothing repeats along its axis
    seen = torch.rand(plain.outputs.values.shape) < 0.5
    prompt = Prompt(
        plain.inputs, Field(plain.outputs.coords, plain.outputs.values, seen), plain.query, plain.at,
        graph=Graph(torch.tensor([[0, 1], [1, 2]]), 8),
    )  # fmt: skip
    case = Case(prompt, torch.zeros(1, 8, 1), mask=torch.rand(1, 8, 1) < 0.5)
    with QuestionFile(write_cases(tmp_path / "a.h5", [case])) as file:
        read = file.read()
    assert same(read.prompt, prompt)
    assert torch.equal(read.prompt.graph.edges, prompt.graph.edges)
    assert torch.equal(read.mask, case.mask)


def test_generated_data_sets_whose_questions_share_their_values(tmp_path):
    plain = prompt_of(arrays(n=1))

    def repeated(field):
        return Field(field.coords, field.values.expand(4, *field.values.shape[1:]))

    outputs = Field(plain.outputs.coords, torch.rand(4, 3, 8, 1))
    prompt = Prompt(repeated(plain.inputs), outputs, repeated(plain.query), plain.at)
    case = Case(prompt, torch.zeros(1, 8, 1).expand(4, 8, 1))
    with QuestionFile(write_cases(tmp_path / "a.h5", [case])) as file:
        assert len(file) == 4
        read = file.read(1, 3)
    assert torch.equal(read.prompt.outputs.values, outputs.values[1:3])
    assert torch.equal(read.prompt.inputs.values, prompt.inputs.values[1:3])
    assert torch.equal(read.target, case.target[1:3])


def test_a_generated_data_set_of_one_question_again_and_again(tmp_path):
    """Everything is stored once; how many questions there are, the file says."""
    one = conservation.sample("u", 1)
    prompt = one.prompt[torch.zeros(4, dtype=torch.long)]
    prompt = Prompt(
        *(Field(part.coords[:1], part.values[:1].expand(4, *part.values.shape[1:]))
          for part in (prompt.inputs, prompt.outputs, prompt.query)),
        at=prompt.at[:1], axes=prompt.axes,
    )  # fmt: skip
    case = Case(prompt, one.target.expand(4, *one.target.shape[1:]))
    path = write_cases(tmp_path / "a.h5", [case])
    with QuestionFile(path) as file, CaseFile(path) as cases:
        assert len(file) == len(cases) == 4
        assert same(file.read(1, 3).prompt, case.prompt[1:3])
        assert torch.equal(cases.read().target, case.target)


def test_every_array_of_the_layout_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    for spec in LAYOUT:
        assert f"`{spec.name}`" in page
        assert spec.kind == "mask" or f"| {spec.shape} |" in page, spec


def test_one_channel_and_one_coordinate_can_be_left_out(tmp_path):
    content = arrays()
    short = {name: values[..., 0] for name, values in content.items()}
    with QuestionFile(write_npz(tmp_path / "q.npz", short)) as file:
        assert file.answer_shape == (6, 8, 1)
        assert same(file.read().prompt, prompt_of(content))


def test_arrays_in_fortran_order_and_other_bytes(tmp_path):
    content = arrays()
    odd = {name: np.asfortranarray(values).astype(">f4") for name, values in content.items()}
    with QuestionFile(write_npz(tmp_path / "q.npz", odd)) as file:
        assert same(file.read(1, 4).prompt, prompt_of(content)[1:4])


def test_packed_numbers_are_unpacked(tmp_path):
    content = arrays()
    packed = np.arange(6 * 8, dtype=np.int16).reshape(6, 8, 1)
    path = write_hdf5(tmp_path / "q.h5", {**content, "query_values": packed})
    with h5py.File(path, "a") as file:
        file["query_values"].attrs.update(scale_factor=0.5, add_offset=10.0, _FillValue=np.int16(17))
    with QuestionFile(path) as file:
        assert torch.equal(
            file.read(0, 2).prompt.query.values, torch.from_numpy(packed[:2] * 0.5 + 10).double()
        )
        query = file.read(1, 4).prompt.query  # 17 stands where nothing was observed
        assert torch.equal(query.mask, torch.from_numpy(packed[1:4] != 17))
        rest = np.delete(packed[2, :, 0], 1)
        assert float(query.values[1, 1, 0]) == pytest.approx(rest.mean() * 0.5 + 10)


@pytest.mark.parametrize(("name", "kind"), [("q.npz", NpzArray), ("q.h5", Hdf5Array)])
def test_no_read_is_larger_than_a_batch(name, kind, tmp_path, monkeypatch):
    write = write_npz if name.endswith("npz") else write_hdf5
    path = write(tmp_path / name, arrays(n=40))
    sizes = []
    plain = kind._read

    def counted(self, *part):
        found = plain(self, *part)
        sizes.append(found.nbytes)
        return found

    monkeypatch.setattr(kind, "_read", counted)
    with QuestionFile(path) as file:
        assert sum(len(part) for part in file.batches(4)) == 40
    one_question = 3 * 8 * 4
    assert max(sizes) == 4 * one_question
    assert sizes.count(8 * 4) == 4  # the grid is read once for each array that it serves


def test_the_usual_batch_is_bounded_by_bytes(tmp_path):
    with QuestionFile(write_npz(tmp_path / "q.npz", arrays())) as file:
        assert file.batch_size() == 256
        assert file.question_bytes == (2 * 3 + 2) * 8 * 4
    with QuestionFile(write_npz(tmp_path / "w.npz", arrays(n=1, examples=5, points=100_000))) as file:
        assert file.batch_size() == 1


def without(*names):
    return {name: values for name, values in arrays().items() if name not in names}


def changed(**content):
    return {**arrays(), **content}


def with_nan(name, *place):
    values = arrays()[name]
    values[place] = np.nan
    return {name: values}


A = arrays()
WRONG = {
    "an array is missing": (without("query_values"), "has no query_values; questions need"),
    "a misspelt name": (
        changed(input_masks=np.ones((6, 3, 8, 1))), "an array 'input_masks'; rename it to 'input_mask'"
    ),
    "the same twice": (changed(**{"query/values": A["query_values"]}), "both query_values and query/values"),
    "text": (changed(query_values=np.full((6, 8, 1), "low")), "query_values holds text, not numbers"),
    "complex numbers": (changed(target=A["target"] * 1j), "target holds complex numbers"),
    "fractional times": (changed(times=np.arange(4) / 2), "times holds fractions, not whole numbers"),
    "no axis of questions": (
        changed(query_values=A["query_values"][0]), r"query_values is \(8, 1\), but \(N, n, c\) is wanted"
    ),
    "too many axes": (changed(query_values=A["query_values"][None]), r"is \(1, 6, 8, 1\), but"),
    "other numbers of questions": (
        changed(query_values=A["query_values"][:4]), "input_values has 6 questions, but query_values has 4"
    ),
    "no questions": ({n: v if v.ndim < 3 else v[:0] for n, v in A.items()}, "holds no questions"),
    "other numbers of examples": (
        changed(output_values=A["output_values"][:, :2]), "3 example inputs but 2 example outputs"
    ),
    "other numbers of points": (changed(query_values=A["query_values"][:, :5]), "does not fit values"),
    "a target of another shape": (changed(target=A["target"][:, :5]), r"target is \(6, 5, 1\), but"),
    "outputs elsewhere, without their coordinates": (
        changed(output_values=A["output_values"][:, :, :4]), "does not fit values"
    ),
    "coordinates that nothing stands in for": (
        changed(input_coords=np.broadcast_to(A["input_coords"], (3, 8, 1))), "has no output_coords; it can be"
    ),
    "NaN in the query": (changed(**with_nan("query_values", 4)), "query_values of question 4 holds NaN"),
    "NaN on the grid": (changed(**with_nan("input_coords", 4)), "input_coords holds NaN or infinity$"),
    "a mask of other numbers": (changed(query_mask=A["query_values"]), "query_mask must be 0 or 1"),
    "a graph to nowhere": (changed(graph=np.array([[0], [9]])), r"points 0\.\.7"),
    "integers as a target mask of another shape": (
        changed(target_mask=np.ones((6, 5, 1), bool)), "target_mask is"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_one_sentence(what, tmp_path):
    content, words = WRONG[what]
    path = write_npz(tmp_path / "q.npz", content)

    def read():
        with QuestionFile(path) as file:
            for _ in file.batches(4):
                pass

    with pytest.raises(ChopError, match=words) as told:
        read()
    assert str(told.value).startswith(str(path))
    assert "\n" not in str(told.value)


def test_targets_may_be_unknown_where_they_were_not_observed(tmp_path):
    content = changed(**with_nan("target", 4), target_mask=np.ones((6, 8, 1), bool))
    content["target_mask"][4] = False
    with QuestionFile(write_npz(tmp_path / "q.npz", content)) as file:
        assert torch.equal(file.read().target[4], torch.zeros(8, 1))


@pytest.mark.parametrize("axes", ["x=wide", "x=-1", "t, x"])
def test_axes_that_say_nothing(axes, tmp_path):
    path = write_npz(tmp_path / "q.npz", arrays(), axes=axes)

    def read():
        with QuestionFile(path) as file:
            file.read()

    with pytest.raises(ChopError, match=r"axes reads like|positive finite period|axes must give 1"):
        read()


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"", "is empty"),
        (b"CDF\x01 and so on", "NetCDF-3 file; convert it"),
        (b"\x93NUMPY\x01\x00", "one array without a name"),
        (b"x,u\n0,1\n", "neither HDF5, NetCDF-4 nor npz"),
        (b"PK\x03\x04 and then nothing", "cut off or damaged"),
    ],
)
def test_files_of_other_kinds(start, words, tmp_path):
    path = tmp_path / "q.h5"
    path.write_bytes(start)
    with pytest.raises(ChopError, match=words):
        QuestionFile(path)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("part", [0.3, 0.9])
def test_truncated_files(kind, part, tmp_path):
    name, write = WRITERS[kind]
    path = write(tmp_path / name, arrays())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ChopError, match=r"cut off|cannot be opened|damaged"):
        QuestionFile(path)


@pytest.mark.parametrize("kind", ["npz", "compressed npz"])
def test_a_byte_that_changed_is_noticed(kind, tmp_path):
    name, write = WRITERS[kind]
    path = write(tmp_path / name, arrays())
    whole = bytearray(path.read_bytes())
    whole[700] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(ChopError, match="damaged"), QuestionFile(path) as file:
        file.read()


def test_unfinished_data_and_answers_are_no_questions(tmp_path):
    unfinished = write_hdf5(tmp_path / "a.h5", arrays(), format="chop cases", complete=False)
    with pytest.raises(ChopError, match="not written to its end"):
        QuestionFile(unfinished)
    with pytest.raises(ChopError, match="holds answers, not questions"):
        QuestionFile(write_hdf5(tmp_path / "b.h5", arrays(), format="chop answers"))
