"""Files that a stranger may have made: good ones of every kind, damaged by chance or changed on purpose.

``python tests/support/hostile_files.py KIND FIRST LAST SEED FOLDER`` reads the files FIRST to LAST - 1 of a
kind under a limit of address space and time, and writes one line for each into FOLDER: what came of it. Every
file is a function of its kind, its number and the seed.
"""

import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import traceback
import warnings
import zipfile
from pathlib import Path

import h5py
import numpy as np
import torch

import chop
from chop.core.errors import ChopError
from chop.storage.log import decode_line, encode_line

MEMORY = 2 * 2**30
"""Bytes of address space that reading may take beyond what the libraries have when they are loaded."""
SECONDS = 20
"""Of processor time, whatever else the machine does."""
INTERESTING = [
    0,
    1,
    2,
    7,
    8,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**32 - 1,
    2**62,
    2**63 - 1,
    2**64 - 1,
]
SIGNS = (
    b"TREE",
    b"SNOD",
    b"HEAP",
    b"OHDR",
    b"OCHK",
    b"GCOL",
    b"FRHP",
    b"FHDB",
    b"BTHD",
    b"FADB",
    b"PK\1\2",
    b"PK\5\6",
)
"""What HDF5 and zip begin their parts with."""


def question_arrays(grid=False):
    draw = np.random.default_rng(0)
    n, d, inner = 5, 3, (4, 6) if grid else (24, 1)
    content = {
        "input_values": draw.standard_normal((n, d, *inner)).astype("f4"),
        "output_values": draw.standard_normal((n, d, *inner)),
        "query_values": draw.standard_normal((n, *inner)).astype("f4"),
        "target": draw.standard_normal((n, *inner)),
    }
    if grid:
        return content | {"time": np.arange(4.0), "x": np.arange(6) / 6}
    mask = (draw.random((n, d, 24, 1)) < 0.8).astype("i1")
    graph = np.array([range(23), range(1, 24)])
    points = np.arange(24)[:, None] / 24
    return content | {"input_coords": points, "input_mask": mask, "times": np.arange(d + 1), "graph": graph}


def hdf5_seeds(folder):
    from chop.problems import conservation
    from chop.problems.question_files import write_cases

    for name, options in (
        ("plain", {}),
        ("packed", {"compression": "gzip", "shuffle": True, "fletcher32": True}),
    ):
        with h5py.File(folder / f"{name}.h5", "w", libver="latest" if options else None) as file:
            for key, values in question_arrays().items():
                file.create_dataset(key, data=values, **(options if values.ndim > 2 else {}))
            file.attrs["axes"] = "x=1"
            file["query_values"].attrs.update(
                scale_factor=np.float32(0.5), add_offset=1.0, _FillValue=np.float32(-9)
            )
            file["input_coords"].attrs["shared"] = True
    with h5py.File(folder / "grid.h5", "w") as file:
        for key, values in question_arrays(grid=True).items():
            file[key] = values
        for axis in ("time", "x"):
            file[axis].make_scale(axis)
        for key in ("input_values", "output_values", "query_values", "target"):
            for axis, scale in ((-2, "time"), (-1, "x")):
                file[key].dims[file[key].ndim + axis].attach_scale(file[scale])
    write_cases(folder / "cases.h5", [conservation.sample("u", 3, steps=2)])


def netcdf_seeds(folder):
    import xarray

    from chop.problems import air

    content = question_arrays(grid=True)
    dims = {"input_values": ["question", "example"], "output_values": ["question", "example"],
            "query_values": ["question"], "target": ["question"]}  # fmt: skip
    content["target"][1, 2, 3] = np.nan
    variables = {name: ([*lead, "time", "x"], content[name]) for name, lead in dims.items()}
    variables["mask"] = (["time", "x"], np.ones((4, 6), "i1"))
    along = {"time": content["time"], "x": content["x"]}
    data = xarray.Dataset(variables, along, {"title": "waves"})
    packed = {"input_values": {"dtype": "int16", "scale_factor": 1e-3, "_FillValue": -999, "zlib": True}}
    data.to_netcdf(folder / "grid.nc", engine="h5netcdf", encoding=packed)
    air.make_world(folder, hours=48, stations=(3, 3), weather=False)
    (folder / "dataset_yrd.nc").unlink()


def npz_seeds(folder):
    content = question_arrays()
    np.savez(folder / "plain.npz", **content, axes="x=1")
    np.savez_compressed(folder / "packed.npz", **content)
    np.savez(folder / "turned.npz", **{name: np.asfortranarray(values) for name, values in content.items()})
    np.savez_compressed(folder / "grid.npz", **question_arrays(grid=True), grid="time, x")


def weights_seeds(folder):
    from chop.icon import IconConfig, save
    from chop.icon.config import StationConfig
    from chop.icon.weights import build

    small = {"width": 16, "heads": 2}
    save(
        build(IconConfig(**small, encoder_layers=1, decoder_layers=1)), folder / "a.safetensors", {"seed": 1}
    )
    layers = {"window_layers": 1, "pair_layers": 1, "asking_layers": 1, "each": 4}
    save(build(StationConfig(**small, **layers)), folder / "b.safetensors", {"note": ["a", {"b": None}]})


def journal_seeds(folder):
    from chop.problems.air import POLLUTANTS

    asset = Path(__file__).parents[1] / "assets" / "evolution_journal_1.jsonl"
    (folder / "journal.jsonl").write_bytes(b"".join(asset.read_bytes().splitlines(keepends=True)[:20]))
    told = {"calls": 1, "ms": 0.5, "method": "raw"}
    case = {**told, "condition": "a", "batch": [0, 2], "index": 0, "error": 0.5, "curve": [0.5, None]}
    head = {"format": "chop-bench-1", "version": "0", "seed": 0}
    lines = [head, {"model": "mfc", "sha256": "00", "file": "f"}, case, {**case, "index": 1}]
    (folder / "cases.jsonl").write_bytes(b"".join(map(encode_line, lines)))
    head = {"format": "chop-bench-air-1", "version": "0", "seed": 0, "year": 2020}
    errors = {name: [0.1, None] for name in POLLUTANTS}
    row = {**told, **errors, "direction": "a", "selection": "b", "lead": 1, "hours": [1, 2]}
    used = {"used": "network", "region": "a", "sha256": "00", "name": "n"}
    lines = [head, used, {"asked": "a", "every": 1, "hours": [1, 2]}, row]
    (folder / "air.jsonl").write_bytes(b"".join(map(encode_line, lines)))


# What is read of a file; a result or a ChopError, anything else is wrong.


def read_contents(path):
    """As ``chop info`` shows it, which must be possible to print."""
    from chop.files.contents import contents, contents_text
    from chop.storage.json_text import json_text

    found = contents(path)
    for text in (contents_text(found), json_text(found)):
        text.encode()


def read_questions(path, number):
    from chop.files import QuestionFile, predict

    read_contents(path)
    with QuestionFile(path) as file:
        assert all(len(along) for _, along in file.answer_grid)
        for part in file.batches():
            assert len(part) > 0
    if number % 8 == 0:
        predict(
            path, chop.parse("mean_output"), lambda prompt: prompt.query.values, path.with_name("answers.npz")
        )


def read_hdf5(path, number):
    from chop.files import CaseFile

    if path.stem == "cases" and number % 2:
        with CaseFile(path) as file:
            for case in file.batches(2):
                assert len(case) > 0
    else:
        read_questions(path, number)


def read_netcdf(path, number):
    from chop.problems import air

    if path.stem.startswith("dataset"):
        air.load_region(
            path,
            "bthsa",
            stations_csv=path.parents[1] / "seeds" / "stations_bthsa.csv" if number % 2 else None,
        )
    else:
        read_questions(path, number)


def read_weights(path, number):
    from chop.icon import load

    read_contents(path)
    load(path)


def read_journal(path, number):
    from chop.bench.air import AirSuite
    from chop.bench.functions import FunctionSuite
    from chop.bench.store import Store
    from chop.evolution.journal import Journal

    folder = path.parent / f"{path.stem}_{number}"
    folder.mkdir()
    try:
        for name, opened in (
            ("journal", lambda: Journal(folder, None)),
            ("cases", lambda: Store(folder, FunctionSuite.layout)),
            ("air", lambda: Store(folder, AirSuite.layout)),
        ):
            if path.stem == name:
                shutil.copy(path, folder / ("journal.jsonl" if name == "journal" else "cases.jsonl"))
                opened().close()
    finally:
        shutil.rmtree(folder)


# Damage.


def damaged(whole, draw):
    """Bytes cut off, flipped, overwritten, moved or put in."""
    data = bytearray(whole)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        if len(data) < 16:
            break
        place, other = _place(data, draw), draw.randrange(len(data))
        length = draw.choice((1, 2, 4, 8, 64, 512))
        what = draw.randrange(7)
        if what == 0:
            del data[place:]
        elif what in (1, 2):
            data[place] ^= 1 << draw.randrange(8)
        elif what in (3, 4):
            size = draw.choice((1, 2, 4, 8))
            number = draw.choice(INTERESTING) % 256**size
            data[place : place + size] = number.to_bytes(size, draw.choice(("little", "big")))
        elif what == 5:
            data[place : place + length] = data[other : other + length]
        else:
            data[place:place] = draw.randbytes(length)
    return bytes(data)


def _place(data, draw):
    """Anywhere, but sooner where the file says how it is made."""
    if draw.random() < 0.3:
        return draw.randrange(len(data))
    signs = [at for sign in SIGNS for at in _all(data, sign)]
    start = draw.choice(signs) if signs and draw.random() < 0.7 else 0
    return min(len(data) - 1, start + draw.randrange(600))


def _all(data, sign):
    at = data.find(sign)
    while at >= 0:
        yield at
        at = data.find(sign, at + 1)


# Change on purpose: a file that is whole, and says something else.


def odd_value(draw):
    deep = "[" * 5000 + "]" * 5000
    texts = [
        "abc",
        "",
        "x=1, x=1",
        "t, x",
        deep,
        '{"axes": 5}',
        '{"axes": [["x", "far"]]}',
        "\0\ud7ff",
        "9" * 400,
    ]
    numbers = [-1, 0, 3, 0.5, 2**62, -(2**63), float("nan"), float("inf"), True]
    return draw.choice([*texts, *numbers, [1, 2], [], [["x", None]], None, {"a": {"b": []}}])


def odd_shape(draw):
    sizes = (0, 1, 2, 3, 5, 24, 24, 6, 4, 1000, 2**20, 2**31, 2**40)
    return tuple(draw.choice(sizes) for _ in range(draw.randrange(6)))


ATTRIBUTES = (
    "axes", "settings", "shared", "scale_factor", "_FillValue", "missing_value", "grid", "format", "rows",
    "DIMENSION_LIST", "DIMENSION_LABELS", "NAME", "CLASS", "complete",
)  # fmt: skip


def changed_hdf5(path, draw):
    with h5py.File(path, "a") as file:
        names = [name for name in file if isinstance(file[name], h5py.Dataset)]
        name = draw.choice(names or ["none"])
        what = draw.randrange(8)
        if what < 3:
            holder = draw.choice([file, file.get(name, file)])
            key, value = draw.choice([*holder.attrs, *ATTRIBUTES]), odd_value(draw)
            with contextlib.suppress(TypeError, ValueError, KeyError, OSError, OverflowError):
                holder.attrs.create(
                    key, "null" if value is None else json.dumps(value) if isinstance(value, dict) else value
                )
            return
        if name not in file:
            return
        values = file[name][...]
        del file[name]
        if what == 3:
            file[name] = draw.choice([h5py.SoftLink("/x"), h5py.ExternalLink("/etc/hostname", "/x")])
        elif what == 4:
            file.create_dataset(
                name, shape=values.shape, dtype="u1", external=[("/etc/hostname", 0, values.size)]
            )
        elif what == 5:
            layout = h5py.VirtualLayout(values.shape, "f4")
            layout[...] = h5py.VirtualSource(str(path), "x", values.shape)
            file.create_virtual_dataset(name, layout)
        else:
            kind = draw.choice(
                ["f2", "f4", "f8", ">f8", "i1", "u8", "c8", "S5", "?", h5py.string_dtype(), h5py.ref_dtype]
            )
            shape = odd_shape(draw)
            options = {"chunks": tuple(min(n, 64) or 1 for n in shape), "maxshape": (None,) * len(shape)}
            with contextlib.suppress(ValueError, TypeError, OverflowError, OSError):
                file.create_dataset(name, shape, kind, **(options if shape and draw.random() < 0.7 else {}))


def changed_npz(path, draw):
    members = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            members[name] = archive.read(name)
    name = draw.choice(list(members))
    what = draw.randrange(5)
    if what == 0:
        made = io.BytesIO()
        np.lib.format.write_array(made, np.array(str(odd_value(draw))[:9000]))
        members[draw.choice(["axes.npy", "grid.npy", "output_grid.npy", "format.npy", "settings.npy"])] = (
            made.getvalue()
        )
    elif what == 1:
        shape = draw.choice([odd_shape(draw), (-1, 4), (True,), (2**63, 2**63), ()])
        kind = draw.choice(
            ["<f4", "<f8", "|O", "<U9", "|S0", "<c8", "<f16", "<i8", "|V5", "<M8[ns]", [("a", "<f4")]]
        )
        members[name] = _npy_header(kind, draw.random() < 0.5, shape) + members[name][128:]
    elif what == 2:
        members[name] = damaged(members[name], draw)
    elif what == 3:
        header = draw.choice(
            ["-" * 9000 + "1", "(" * 9000, "{'descr': 5}", "{" * 50, "[" + "1," * 4000 + "]", "\0" * 90]
        )
        members[name] = (
            b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + members[name][128:]
        )
    else:
        members[name] = _npy_header("|i1", False, (2**27,)) + bytes(2**24)
    how = draw.choice(
        [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    )
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _npy_header(kind, fortran, shape):
    text = str({"descr": kind, "fortran_order": fortran, "shape": shape})
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + text.ljust(117)[:117].encode() + b"\n"


def changed_weights(path, draw):
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    place = draw.choice(["config", "config", "training", "tensor", "tensor", "format"])
    if place == "config":
        config = json.loads(header["__metadata__"]["config"])
        for _ in range(draw.choice((1, 1, 2, 5))):
            config[draw.choice(list(config))] = draw.choice(
                [*INTERESTING[:12], 64, 128, 2**12, 2**16, odd_value(draw)]
            )
        header["__metadata__"]["config"] = draw.choice(
            [json.dumps(config), json.dumps(config), str(odd_value(draw))]
        )
    elif place == "tensor":
        name = draw.choice([name for name in header if name != "__metadata__"])
        key = draw.choice(["shape", "dtype", "data_offsets"])
        header[name][key] = draw.choice(
            [odd_shape(draw), draw.choice(["F64", "F16", "I8", "BF16", "Q9"]), odd_value(draw)]
        )
    else:
        header["__metadata__"][place] = str(odd_value(draw))
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + length :])


def changed_journal(path, draw):
    lines = [decode_line(line) for line in path.read_bytes().splitlines()]
    for _ in range(draw.choice((1, 1, 3))):
        number = draw.choice([0, draw.randrange(len(lines))])
        record = lines[number]
        if not isinstance(record, dict) or draw.random() < 0.1:
            lines[number] = odd_value(draw)
        elif draw.random() < 0.3:
            record.pop(draw.choice(list(record) or [""]), None)
        else:
            record[draw.choice([*record, "kind", "agent", "candidate"])] = odd_value(draw)
    texts = [json.dumps(line).encode() for line in lines]
    if draw.random() < 0.2:
        texts[draw.randrange(len(texts))] = draw.choice(
            [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"NaN", b"\xff"]
        )
    import zlib

    path.write_bytes(b"".join(b"%08x %b\n" % (zlib.crc32(text), text) for text in texts))


KINDS = {
    "hdf5": (hdf5_seeds, changed_hdf5, read_hdf5),
    "netcdf": (netcdf_seeds, changed_hdf5, read_netcdf),
    "npz": (npz_seeds, changed_npz, read_questions),
    "weights": (weights_seeds, changed_weights, read_weights),
    "journal": (journal_seeds, changed_journal, read_journal),
}


def make(kind, number, seed, seeds, folder):
    """The file of a number: damaged bytes, or a change on purpose, or both."""
    draw = random.Random(f"{seed}/{kind}/{number}")
    origin = draw.choice(sorted(path for path in seeds.iterdir() if path.suffix != ".csv"))
    path = folder / origin.name
    shutil.copy(origin, path)
    if draw.random() < 0.4:
        KINDS[kind][1](path, draw)
        if draw.random() < 0.8:
            return path
    path.write_bytes(damaged(path.read_bytes(), draw))
    return path


def outcome(kind, path, number):
    """How reading ends: "read", "refused" or the traceback of what must not be."""
    try:
        KINDS[kind][2](path, number)
    except ChopError as error:
        return "refused" if str(error) and "\n" not in str(error) else f"not one sentence: {error!r}"
    except BaseException:
        return traceback.format_exc()
    return "read"


@contextlib.contextmanager
def scratch(folder):
    work = folder / "work"
    work.mkdir()
    yield work
    shutil.rmtree(work)


def main(kind, first, last, seed, folder):
    folder = Path(folder)
    seeds = folder / "seeds"
    if not seeds.exists():
        seeds.mkdir(parents=True)
        KINDS[kind][0](seeds)
    torch.set_num_threads(1)
    for origin in sorted(path for path in seeds.iterdir() if path.suffix != ".csv"):
        for number in (0, 1):  # everything is imported before memory is limited, and reads what it should
            with scratch(folder) as work:
                path = Path(shutil.copy(origin, work))
                assert outcome(kind, path, number) == "read", outcome(kind, path, number)
    warnings.simplefilter("ignore")
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(int(first), int(last)):
        with scratch(folder) as work:
            path = make(kind, number, int(seed), seeds, work)
            (folder / "now").write_text(str(number))
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            told = outcome(kind, path, number)
            signal.setitimer(signal.ITIMER_PROF, 0)
        with (folder / "outcomes.jsonl").open("a") as file:
            file.write(json.dumps([number, told]) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(*sys.argv[1:])
