"""Files from strangers: nothing outside of them is read, nothing taken that they do not hold."""

import json
import os
import struct
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest
import torch
from question_files import arrays, write_compressed, write_hdf5, write_npz
from safetensors.torch import save_file

import chop
from chop.core.errors import ChopError, DataError
from chop.files import CaseFile, QuestionFile, predict
from chop.files.contents import contents, contents_text
from chop.files.npz import NpzArray
from chop.icon import IconConfig, load, provenance
from chop.icon.config import StationConfig
from chop.icon.weights import WEIGHTS_FORMAT, build
from chop.problems import air, conservation
from chop.problems.question_files import write_cases
from chop.storage import size_limits
from chop.storage.hdf5 import has_endless_heap

SECRET = b"what only the owner of this machine should read, and no file of answers"


@pytest.fixture
def secret(tmp_path):
    """A local file that a question file points to."""
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["target"] = np.frombuffer(SECRET, "u1")[:48].reshape(6, 8, 1)
    return path


def point(file, folder, how):
    """A target that lies elsewhere."""
    if how == "external storage":
        file.create_dataset("target", (6, 8, 1), "u1", external=[(str(folder / "secret"), 0, 48)])
    elif how == "an external link":
        file["target"] = h5py.ExternalLink(str(folder / "secret.h5"), "/target")
    elif how == "a soft link":
        file["target"] = h5py.SoftLink("/input_values")
    elif how == "a soft link through an external one":
        file["other"] = h5py.ExternalLink(str(folder / "secret.h5"), "/")
        file["target"] = h5py.SoftLink("/other/target")
    elif how == "an external link in a group":
        file["deep/down/target"] = h5py.ExternalLink(str(folder / "secret.h5"), "/target")
    elif how == "a virtual data set":
        layout = h5py.VirtualLayout((6, 8, 1), "u1")
        layout[...] = h5py.VirtualSource(str(folder / "secret.h5"), "target", (6, 8, 1))
        file.create_virtual_dataset("target", layout)
    else:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((6, 8, 1))
        for code in (32015,) if how == "a plugin" else (1, 1):
            plan.set_filter(code, h5py.h5z.FLAG_OPTIONAL, (3,))
        space = h5py.h5s.create_simple((6, 8, 1))
        h5py.h5d.create(file.id, b"target", h5py.h5t.NATIVE_UINT8, space, plan)


ELSEWHERE = {
    "external storage": "q.h5: target is stored outside the file",
    "an external link": "q.h5: target is a link to another file",
    "a soft link": "q.h5: target is a soft link",
    "a soft link through an external one": "is a (soft link|link to another file)",
    "an external link in a group": "q.h5: deep/down/target is a link to another file",
    "a virtual data set": "q.h5: target is a virtual data set",
    "a plugin": "q.h5: target is packed by the HDF5 plugin 32015",
    "gzip of gzip": "q.h5: target is packed twice over",
}


@pytest.mark.parametrize("how", ELSEWHERE)
def test_nothing_outside_a_file_is_read(how, secret, tmp_path):
    path = write_hdf5(
        tmp_path / "q.h5", {name: values for name, values in arrays().items() if name != "target"}
    )
    with h5py.File(path, "a") as file:
        point(file, tmp_path, how)
    with pytest.raises(ChopError, match=ELSEWHERE[how]):
        predict(path, chop.parse("mean_output"), lambda prompt: prompt.query.values, tmp_path / "a.npz")
    with pytest.raises(ChopError, match=ELSEWHERE[how]):
        contents(path)
    assert not (tmp_path / "a.npz").exists()


@pytest.mark.parametrize("how", ["external storage", "an external link", "a virtual data set"])
def test_neither_are_cases_and_station_files(how, secret, tmp_path):
    cases = write_cases(tmp_path / "cases.h5", [conservation.sample("u", 3)])
    air.make_world(tmp_path, hours=48, stations=(3, 3), weather=False)
    for path in (cases, tmp_path / "dataset_yrd.nc"):
        with h5py.File(path, "a") as file:
            file.pop("target", None)
            point(file, tmp_path, how)
    with pytest.raises(DataError, match="only data in the file itself are read"):
        CaseFile(cases)
    with pytest.raises(DataError, match="only data in the file itself are read"):
        air.load_region(tmp_path, "yrd")


def test_groups_in_a_circle_and_arrays_with_two_names(tmp_path):
    path = write_hdf5(tmp_path / "q.h5", arrays())
    with h5py.File(path, "a") as file:
        file["loop/back"] = file["/"]
        file["at"] = file["input_coords"]
    with QuestionFile(path) as file:
        assert np.array_equal(file.read().prompt.at[0], arrays()["input_coords"])


# What a few bytes claim to be.


def claiming(path, name, shape, **options):
    content = {key: values for key, values in arrays().items() if key != name}
    write_hdf5(path, content)
    with h5py.File(path, "a") as file:
        file.create_dataset(name, shape, "f4", **options)
    return path


@pytest.mark.parametrize(
    "options", [{}, {"chunks": (1, 3, 8, 1)}, {"chunks": (64, 3, 8, 1), "compression": "gzip"}]
)
def test_data_that_was_never_written(options, tmp_path):
    path = claiming(tmp_path / "q.h5", "input_values", (10**8, 3, 8, 1), **options)
    assert path.stat().st_size < 20_000
    with pytest.raises(ChopError, match=r"input_values has 100000000 questions, but"):
        QuestionFile(path)
    for name in ("output_values", "query_values", "target"):
        shape = (10**8, 3, 8, 1) if name == "output_values" else (10**8, 8, 1)
        with h5py.File(path, "a") as file:
            del file[name]
            file.create_dataset(
                name,
                shape,
                "f4",
                **{**options, **({"chunks": shape[1:] and (1, *shape[1:])} if options else {})},
            )
    with pytest.raises(
        ChopError, match=r"input_values claims 9,600,000,000 bytes, but only \d+ of it are stored"
    ):
        QuestionFile(path)


def test_answers_that_would_be_larger_than_their_questions_warrant(tmp_path):
    """Each array is small and honest; all questions times all points are not."""
    content = arrays(n=20_000, examples=1, points=1)
    content["at"] = np.linspace(0, 1, 50_000, dtype="f4")[:, None]
    del content["target"]
    path = write_compressed(
        tmp_path / "q.npz", {name: np.zeros_like(values) for name, values in content.items()}
    )
    assert path.stat().st_size < 20_000
    with pytest.raises(ChopError, match=r"\(20000, 50000, 1\) answers take 4,000,000,000 bytes, too many"):
        QuestionFile(path)


def test_a_question_that_is_larger_than_its_file_warrants(tmp_path):
    grid = {axis: np.arange(300.0) for axis in "zyx"}
    values = {"input_values": np.zeros((1, 1, 1)), "output_values": np.zeros((1, 1, 1))}
    values["query_values"] = np.zeros((1, 1))
    path = write_npz(
        tmp_path / "q.npz", {**values, **grid, "one": np.zeros(1)}, grid="one", target_grid="z, y, x"
    )
    with pytest.raises(ChopError, match=r"too many for a file of"):
        QuestionFile(path)


def test_a_batch_that_is_larger_than_its_file_warrants(tmp_path, monkeypatch):
    path = write_npz(tmp_path / "q.npz", arrays(n=40))
    monkeypatch.setattr(size_limits, "MEMORY", 10_000)
    monkeypatch.setattr(size_limits, "MEMORY_RATIO", 0)
    with QuestionFile(path) as file:
        assert len(file.read(0, 10)) == 10
        with pytest.raises(ChopError, match=r"40 of its questions take \d\d,\d{3} bytes, .* \(--batch\)"):
            file.read()


@pytest.mark.parametrize("kind", ["h5", "npz"])
def test_honest_data_that_pack_well_are_read(kind, tmp_path, monkeypatch):
    """Nothing but zeros, far beyond what is free: a thousand times smaller on disk, and not more."""
    monkeypatch.setattr(size_limits, "FREE", 2**16)
    content = arrays(n=800, examples=10, points=400)
    content |= {name: np.zeros_like(values) for name, values in content.items() if name != "input_coords"}
    path = tmp_path / f"q.{kind}"
    if kind == "npz":
        write_compressed(path, content)
    else:
        with h5py.File(path, "w") as file:
            for name, values in content.items():
                chunks = {"chunks": (80, *values.shape[1:]), "compression": "gzip"} if values.ndim > 2 else {}
                file.create_dataset(name, data=values, **chunks)
    with QuestionFile(path) as file:
        inputs = file._plan.arrays["input_values"].stored
        assert content["input_values"].nbytes > max(800 * inputs.stored_bytes, size_limits.FREE)
        assert len(file.read(790)) == 10


def test_pieces_that_are_larger_than_the_file_warrants(tmp_path):
    path = claiming(tmp_path / "q.h5", "target", (6, 8, 1), chunks=(2**27, 1, 1), maxshape=(None, 8, 1))
    with pytest.raises(ChopError, match="target claims"):
        QuestionFile(path)


def npy(shape, kind="<f4", fortran=False, data=b""):
    header = repr({"descr": kind, "fortran_order": fortran, "shape": shape}).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def with_member(path, name, content, how=zipfile.ZIP_DEFLATED):
    write_npz(path, {key: values for key, values in arrays().items() if key != name})
    with zipfile.ZipFile(path, "a", how) as archive:
        archive.writestr(f"{name}.npy", content)
    return path


MEMBERS = {
    "a header that claims more": npy((10**9, 8, 1)),
    "a negative length": npy((-1, 8, 1)),
    "lengths beyond all numbers": npy((2**63, 2**63)),
    "characters without bytes": npy((10**12,), "<U0"),
    "a header that is nested": b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"-" * 9000,
    "a header of gigabytes": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + bytes(2**22),
    "no header": b"x",
}


@pytest.mark.parametrize("what", MEMBERS)
def test_members_that_are_not_what_they_claim(what, tmp_path):
    path = with_member(tmp_path / "q.npz", "target", MEMBERS[what])
    with pytest.raises(ChopError, match="target cannot be read; the file is damaged"):
        QuestionFile(path)


def test_members_packed_otherwise_or_that_share_their_bytes(tmp_path):
    path = with_member(tmp_path / "a.npz", "target", npy((6, 8, 1), data=bytes(192)), zipfile.ZIP_LZMA)
    with pytest.raises(ChopError, match="target is packed as numpy never does"):
        QuestionFile(path)
    path = with_member(tmp_path / "b.npz", "target", npy((6, 8, 1), data=bytes(192)))
    whole = bytearray(path.read_bytes())
    for at in [i for i in range(len(whole)) if whole[i : i + 4] == b"PK\x01\x02"]:
        whole[at + 20 : at + 24] = struct.pack("<I", len(whole))  # every member takes the whole file
    path.write_bytes(whole)
    with pytest.raises(ChopError, match="its arrays take more than the file"):
        QuestionFile(path)


def bomb(path, network, **header):
    told = {"format": WEIGHTS_FORMAT, "config": json.dumps(network), "training": "{}", **header}
    save_file({"a": torch.zeros(1)}, path, metadata=told)
    return path


WIDE = {**IconConfig().to_dict(), "width": 2**14, "heads": 4}
STATIONS = {**StationConfig().to_dict(), "width": 2**12, "each": 2**12}


@pytest.mark.parametrize("config", [WIDE, STATIONS], ids=["functions", "stations"])
def test_a_network_that_is_not_in_its_file_is_not_built(config, tmp_path, monkeypatch):
    """A few hundred bytes that ask for gigabytes."""
    path = bomb(tmp_path / "w.safetensors", config)
    assert path.stat().st_size < 700
    made = []
    monkeypatch.setattr("chop.icon.weights.build", lambda config: made.append(build(config)) or made[-1])
    with pytest.raises(ChopError, match="the tensors do not fit the configuration"):
        load(path)
    assert all(value.is_meta for network in made for value in network.state_dict().values())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**WIDE, "encoder_layers": 65}, "encoder_layers of a network must be a whole number, 1 to 64"),
        ({**STATIONS, "asking_layers": 10**9}, "asking_layers of a network must be"),
        ({**WIDE, "width": 10**400}, "width of a network must be"),
        ({**STATIONS, "lengths": [10**400]}, "header cannot be read"),
        ({**STATIONS, "lengths": 5}, "header cannot be read"),
        ({**STATIONS, "channels": None}, "header cannot be read"),
    ],
)
def test_odd_configurations(config, words, tmp_path):
    path = bomb(tmp_path / "w.safetensors", config)
    for read in (load, provenance, contents):
        with pytest.raises(ChopError, match=words) as told:
            read(path)
        assert len(str(told.value)) < 300


DEEP = "[" * 20_000 + "]" * 20_000


@pytest.mark.parametrize(
    "header",
    [{"config": DEEP}, {"training": DEEP}, {"training": "[1]"}, {"training": '"' + "a" * 2**17 + '"'}],
)
def test_headers_that_are_nested_or_long(header, tmp_path):
    path = bomb(tmp_path / "w.safetensors", IconConfig().to_dict(), **header)
    with pytest.raises(ChopError, match="its header cannot be read"):
        load(path)


def test_a_limit_of_memory_is_kept(tmp_path):
    """The same in a process that may not have much."""
    bomb(tmp_path / "w.safetensors", WIDE)
    claiming(tmp_path / "q.h5", "target", (6, 10**10, 1))
    with_member(tmp_path / "q.npz", "target", npy((6, 10**10, 1)))
    code = f"""
import resource, sys
import torch, chop
from chop.files import QuestionFile
from chop.files.contents import contents, contents_text
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + {700 * 2**20},) * 2)
for read, path in ((chop.load, "w.safetensors"), (QuestionFile, "q.h5"), (QuestionFile, "q.npz")):
    try:
        read(path).read()
        sys.exit(f"{{path}} was read")
    except chop.ChopError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 3


# What a file says about itself, malformed.


ATTRIBUTES = {
    "scale_factor": ("abc", "scale_factor of query_values must be one finite number, not 'abc'"),
    "add_offset": ([1.0, 2.0], "add_offset of query_values must be one finite number"),
    "_FillValue": ("none", "_FillValue of query_values must be a number, not 'none'"),
    "missing_value": (["a", "b"], "missing_value of query_values must be a number"),
    "shared": ("no", "shared of input_coords must be 0 or 1, not 'no'"),
    "DIMENSION_LIST": ("x", None),
    "DIMENSION_LABELS": (5, "q.h5 is damaged"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_malformed_attributes_of_an_array(name, tmp_path):
    value, words = ATTRIBUTES[name]
    path = write_hdf5(tmp_path / "q.h5", arrays())
    with h5py.File(path, "a") as file:
        file["input_coords" if name == "shared" else "query_values"].attrs[name] = value

    def read():
        with QuestionFile(path) as file:
            return file.read()

    if words is None:
        assert len(read()) == 6  # it names no axis, and none need be named
    else:
        with pytest.raises(ChopError, match=words):
            read()


@pytest.mark.parametrize(
    "settings", ["{", DEEP, "5", '{"axes": 5}', '{"axes": [["x", "far"]]}', '{"axes": [[1]]}', 7]
)
def test_malformed_settings_of_generated_data(settings, tmp_path):
    path = write_cases(tmp_path / "a.h5", [conservation.sample("u", 3)])
    with h5py.File(path, "a") as file:
        del file.attrs["settings"]
        file.attrs["settings"] = settings

    def read(opened):
        with opened(path) as file:
            file.read()

    for opened in (QuestionFile, CaseFile):
        with pytest.raises(
            ChopError, match=r"settings cannot be read|damaged|positive finite period"
        ) as told:
            read(opened)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["complete", "rows", "version"])
def test_malformed_attributes_of_generated_data(name, tmp_path):
    path = write_cases(tmp_path / "a.h5", [conservation.sample("u", 3)])
    with h5py.File(path, "a") as file:
        file.attrs[name] = np.array([1, 2, 3])
    with pytest.raises(
        ChopError, match=r"damaged|not written to its end|rows it should|not a data set of cases"
    ):
        CaseFile(path)
    if name == "complete":
        with pytest.raises(ChopError, match="not written to its end"):
            QuestionFile(path)


@pytest.mark.parametrize("value", [[1, 2], [], ["chop cases", "chop answers"], 5, h5py.Empty("f")])
@pytest.mark.parametrize("name", ["format", "complete", "settings", "grid"])
def test_malformed_attributes_of_a_file(name, value, tmp_path):
    content = arrays()
    if name == "grid":
        del content["input_coords"]
    told = contents(write_hdf5(tmp_path / "q.h5", content, **{name: value}))
    assert told["holds"] == ("arrays" if name == "grid" else "questions"), told


ODD = "up \x1b[2Jdown \ud800 and é"
SHOWN = "up \\x1b[2Jdown \\ud800 and é"


def test_texts_that_no_terminal_should_be_sent(tmp_path):
    written = write_npz(tmp_path / "q.npz", arrays(), title=ODD)
    network = bomb(tmp_path / "w.safetensors", IconConfig().to_dict(), training=json.dumps({ODD: [ODD]}))
    assert contents(written)["notes"]["title"] == SHOWN
    assert contents(network)["training"] == {SHOWN: [SHOWN]}
    assert SHOWN in contents_text(contents(written))


def test_numbers_that_are_no_characters(tmp_path):
    path = with_member(tmp_path / "q.npz", "axes", npy((), "<U3", data=b"\xff" * 12))
    with pytest.raises(ChopError, match="axes cannot be read"):
        QuestionFile(path)


def test_a_heap_without_end(tmp_path):
    """HDF5 would read it for ever."""
    path = write_hdf5(tmp_path / "q.h5", arrays(), axes="x=1")
    whole = bytearray(path.read_bytes())
    at = whole.index(b"GCOL")
    whole[at + 16 : at + 4096] = bytes(4080)
    path.write_bytes(whole)
    with pytest.raises(ChopError, match="damaged where its texts are"):
        QuestionFile(path)
    assert has_endless_heap(path, 8)


# Order.


def test_arrays_in_fortran_order_are_turned_once(tmp_path, monkeypatch):
    """0.1.0 read them whole for every batch."""
    content = arrays(n=40)
    turned = {name: np.asfortranarray(values) for name, values in content.items()}
    for name, write in (("a.npz", write_npz), ("b.npz", write_compressed)):
        path = write(tmp_path / name, turned)
        monkeypatch.setattr("chop.files.npz._BLOCK", 1000)
        sizes = []
        plain = NpzArray._read

        def counted(self, *part, plain=plain, sizes=sizes):
            found = plain(self, *part)
            sizes.append(found.nbytes)
            return found

        monkeypatch.setattr(NpzArray, "_read", counted)
        with QuestionFile(path) as file:
            parts = list(file.batches(4))
        monkeypatch.setattr(NpzArray, "_read", plain)
        assert (
            sum(sizes)
            == sum(values.nbytes for values in content.values()) + 3 * content["input_coords"].nbytes
        )
        assert max(sizes) <= 1000
        assert np.array_equal(
            np.concatenate([part.prompt.inputs.values for part in parts]), content["input_values"]
        )
        assert np.array_equal(np.concatenate([part.target for part in parts]), content["target"])


def test_no_room_to_turn_them(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("os.posix_fallocate", full)
    path = write_npz(
        tmp_path / "q.npz", {name: np.asfortranarray(values) for name, values in arrays().items()}
    )
    with QuestionFile(path) as file, pytest.raises(ChopError, match=r"in Fortran order, .*No space left"):
        file.read()
