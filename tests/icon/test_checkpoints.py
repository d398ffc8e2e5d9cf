"""Checkpoints of strangers: what torch.save wrote comes back, and nothing else in the file happens."""

from __future__ import annotations

import argparse
import enum
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import types
import zipfile
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from chop.core.errors import ModelError
from chop.icon.published import checkpoint as checkpoints
from chop.icon.published.checkpoint import plain_values, read_checkpoint
from chop.icon.published.pickled import Global, Placeholder, Storage, StoredTensor, read_pickle

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
    torch.int8, torch.uint8, torch.bool, torch.complex64,
]  # fmt: skip
FLOATS = b"ctorch\nFloatStorage\n"


def saved(folder: Path, content: Any, **options: Any) -> Path:
    path = folder / "some.ckpt"
    torch.save(content, path, **options)
    return path


def archive(path: Path, members: dict[str, bytes], **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return path


def pickled(folder: Path, *opcodes: bytes, storages: tuple[bytes, ...] = ()) -> Path:
    numbers = {f"archive/data/{key}": content for key, content in enumerate(storages)}
    content = b"\x80\x02" + b"".join(opcodes) + b"."
    return archive(folder / "made.ckpt", {"archive/data.pkl": content, **numbers})


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    digits = value.to_bytes(12, "little", signed=True)
    return b"\x8a" + bytes([len(digits)]) + digits


def storage(numel: int, key: str = "0", kind: bytes = FLOATS, word: str = "storage") -> bytes:
    return b"(" + text(word) + kind + text(key) + text("cpu") + number(numel) + b"tQ"


def tensor(numbers: bytes, offset: bytes, shape: bytes, strides: bytes) -> bytes:
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + numbers + offset + shape + strides + b"\x89}tR"


def lengths(*values: int) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def whole(path: Path) -> Any:
    """The content with every tensor read."""
    found = read_checkpoint(path)

    def filled(value: Any) -> Any:
        if isinstance(value, StoredTensor):
            return found.tensor(value)
        if isinstance(value, dict):
            return {key: filled(part) for key, part in value.items()}
        return type(value)(map(filled, value)) if isinstance(value, list | tuple) else value

    return filled(found.content)


def same(left: Any, right: Any) -> bool:
    """Equal in kind and order, tensors bit for bit."""
    if isinstance(right, torch.Tensor):
        bits = [
            value.detach().clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)
            for value in (left, right)
        ]
        return left.dtype == right.dtype and left.shape == right.shape and torch.equal(*bits)
    if isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in right)
    if isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        whole(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path.name}: ")
    assert sentence.isprintable()
    assert len(sentence) < 300
    return sentence


# What torch.save writes comes back.


def a_training() -> dict[str, Any]:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16)
    optimizer = torch.optim.AdamW(layer.parameters(), amsgrad=True)
    layer(torch.randn(3, 2, 8)).square().sum().backward()
    optimizer.step()
    base = torch.randn(6, 5)
    noted = torch.nn.Parameter(torch.randn(2))
    noted.note = "kept elsewhere"  # type: ignore[attr-defined]
    counts = defaultdict(int, a=1)
    return {
        "epoch": 3,
        "large": [2**40, -(2**70), 1.5, float("inf"), True, None, "ψ\n", ("a", (), [])],
        "state_dict": layer.state_dict(),
        "optimizer_states": [optimizer.state_dict()],
        "parameters": [torch.nn.Parameter(torch.randn(2, 3)), noted],
        "shared": [base, base[2:4], base.T, base[:, ::2], base[1, 2]],
        "empty": [torch.empty(0), torch.empty(3, 0, 2), torch.tensor(2.5)],
        "repeated": torch.tensor([1.0, 2.0]).expand(3, 2),
        "dtypes": [torch.tensor([0, 1, 2, 3]).to(dtype) for dtype in DTYPES],
        "containers": [OrderedDict(b=1, a=2), counts, torch.Size([2, 3]), {1, 2}, {"x"}],
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_torch_saves_comes_back(tmp_path: Path, protocol: int) -> None:
    path = saved(tmp_path, a_training(), pickle_protocol=protocol)
    assert same(whole(path), torch.load(path, weights_only=False))


def test_what_is_read_is_what_a_careful_torch_reads(tmp_path: Path) -> None:
    content = a_training()
    del content["containers"]
    path = saved(tmp_path, content)
    assert same(whole(path), torch.load(path, weights_only=True))


@st.composite
def views(draw: Any) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    base = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(draw(st.sampled_from(DTYPES)))
    view = base.permute(*draw(st.permutations(range(len(shape))))) if shape else base
    for axis in range(len(shape)):
        begin, step = draw(st.integers(0, 2)), draw(st.integers(1, 3))
        view = view[(slice(None),) * axis + (slice(begin, None, step),)]
    return view.expand(draw(st.integers(0, 3)), *view.shape) if draw(st.booleans()) else view


@given(views())
def test_any_view_comes_back(tmp_path_factory: pytest.TempPathFactory, view: torch.Tensor) -> None:
    path = saved(tmp_path_factory.getbasetemp(), view)
    found = whole(path)
    assert same(found, torch.load(path, weights_only=True))
    assert found.is_contiguous()


def test_a_tensor_is_read_alone_and_into_memory_of_its_own(tmp_path: Path) -> None:
    path = saved(tmp_path, {"row": torch.arange(12.0).reshape(4, 3)[2], "other": torch.ones(3)})
    found = read_checkpoint(path)
    row = found.content["row"]
    assert row == StoredTensor(Storage("float32", "0", 12), 6, (3,), (1,))
    assert row.dtype == "float32"
    # Any damage to numbers that nobody asks for is not seen.
    data = bytearray(path.read_bytes())
    data[data.index(struct.pack("<3f", 0, 1, 2))] ^= 1
    data[data.index(struct.pack("<3f", 1, 1, 1))] ^= 1
    path.write_bytes(data)
    first, second = found.tensor(row), found.tensor(row)
    first += 1
    assert second.tolist() == [6, 7, 8]
    assert second.untyped_storage().nbytes() == 12
    with pytest.raises(ModelError, match="'some/data/1' is cut off or damaged"):
        found.tensor(found.content["other"])
    data[data.rindex(b"PK\x03\x04", 0, data.index(b"some/data/0"))] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelError, match="'some/data/0' is cut off or damaged"):
        found.tensor(row)


def test_a_file_without_checksums(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        path = saved(tmp_path, torch.arange(3))
    finally:
        torch.serialization.set_crc32_options(True)
    assert whole(path).tolist() == [0, 1, 2]


@pytest.mark.parametrize("length", [1, 4])
def test_a_tuple_inside_itself(tmp_path: Path, length: int) -> None:
    circle: list[Any] = []
    circle.append((circle,) * length)
    found = read_checkpoint(saved(tmp_path, circle)).content
    assert len(found[0]) == length
    assert all(part is found for part in found[0])


def test_an_ordered_dict_of_pairs(tmp_path: Path) -> None:
    """As Python 2 wrote it."""
    pairs = b"](](" + text("b") + b"K\x01e](" + text("a") + b"K\x02ee"
    path = pickled(tmp_path, b"ccollections\nOrderedDict\n", pairs, b"\x85R}" + text("x") + b"K\x03sb")
    assert list(read_checkpoint(path).content.items()) == [("b", 1), ("a", 2)]


def test_tensors_that_are_more_than_their_numbers_are_not_made(tmp_path: Path) -> None:
    turned = [torch.tensor([1 + 2j, 3 - 4j]).conj() for _ in range(2)]
    content = {"conj": turned[0], "neg": turned[1].imag, "kind": torch.zeros(2, dtype=torch.uint16)}
    found = read_checkpoint(saved(tmp_path, content)).content
    assert found["conj"].name == found["neg"].name == "torch._utils._rebuild_tensor_v2"
    assert found["kind"].name == "torch._utils._rebuild_tensor_v3"


# Objects become notes of what they were.


class Colour(enum.Enum):
    RED = 1


def gone_module() -> types.ModuleType:
    """A library that is there when a file is written, and not when it is read."""
    module = types.ModuleType("gone_library")
    code = (
        "class Node:\n    def __init__(self, **state): self.__dict__.update(state)\n"
        "class Table(dict): pass\nclass Row(list): pass\n"
        "class Slotted:\n    __slots__ = ('a',)\n"
    )
    exec(code, module.__dict__)
    return module


def test_objects_of_classes_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = gone_module()
    monkeypatch.setitem(sys.modules, "gone_library", module)
    node: Any = module.Node
    parent = node(_parent=None, _metadata=Colour.RED)
    parent._content = {
        "width": node(_val=64, _parent=parent),
        "layers": node(_content=[node(_val="a", _parent=parent), node(_val=None)], _parent=parent),
        "unset": node(_content="???", _parent=parent),
    }
    slotted = module.Slotted()
    slotted.a = 1
    table, row = module.Table(a=1), module.Row([1, 2])
    table.note = "an attribute"
    content = {
        "hyper_parameters": parent,
        "namespace": argparse.Namespace(rate=0.1, inner=argparse.Namespace(names=("a", "b"))),
        "kinds": [node, torch.float32, Colour.RED, torch.device("cpu"), Path("a/b")],
        "subclasses": [table, row, slotted],
        node: "a class as a key",
        Colour.RED: {"a set": frozenset([1])},
    }
    paths = []
    for protocol in (2, 4):
        paths.append(tmp_path / f"{protocol}.ckpt")
        torch.save(content, paths[-1], pickle_protocol=protocol)
    monkeypatch.undo()
    assert "gone_library" not in sys.modules
    for path in paths:
        found = read_checkpoint(path).content
        assert found[Global("gone_library.Node")] == "a class as a key"
        config = found["hyper_parameters"]
        assert isinstance(config, Placeholder)
        assert (config.name, config.arguments) == ("gone_library.Node", ())
        assert config.state["_content"]["width"].state["_parent"] is config
        assert plain_values(config) == {"width": 64, "layers": ["a", None], "unset": "???"}
        assert plain_values(found["namespace"]) == {"rate": 0.1, "inner": {"names": ["a", "b"]}}
        assert found["kinds"][:2] == [Global("gone_library.Node"), Global("torch.float32")]
        assert found["kinds"][2].arguments == (1,)
        assert plain_values(found["kinds"]) == [None] * 5
        assert found["subclasses"][0].state == {"note": "an attribute"}
        assert plain_values(found["subclasses"]) == [{"a": 1}, [1, 2], None]
        (colour,) = [key for key in found if isinstance(key, Placeholder)]
        assert found[colour] == {"a set": {1}}
        assert repr(config) == "Placeholder(name='gone_library.Node')"
    assert "gone_library" not in sys.modules


@pytest.mark.parametrize("module", ["antigravity", "there.is.no.such_module"])
def test_nothing_is_imported(tmp_path: Path, module: str) -> None:
    by_line = f"c{module}\nName\n".encode()
    by_stack = text(module) + text("Name") + b"\x93"
    path = pickled(tmp_path, b"](", by_line, by_stack, by_line + b")R", by_line + b")\x81}be")
    loaded = set(sys.modules)
    found = read_checkpoint(path).content
    assert found[:2] == [Global(f"{module}.Name")] * 2
    assert [made.name for made in found[2:]] == [f"{module}.Name"] * 2
    assert not {name for name in set(sys.modules) - loaded if name.startswith(module.split(".")[0])}


def test_plain_values_are_few() -> None:
    assert plain_values([1, "a", {2: (None, b"bytes", {3})}, Global("a.b")]) == [
        1,
        "a",
        {2: [None, None, None]},
        None,
    ]
    assert plain_values({(1, 2): 1, "a": 2}) == {"a": 2}
    circle: list[Any] = [1]
    circle.append(circle)
    found = plain_values(circle)
    for _ in range(checkpoints.DEEPEST_VALUES):
        assert found[0] == 1
        found = found[1]
    assert found == [None, None]
    shared = ["x"] * 10
    assert plain_values([shared] * 10) == [shared] * 10
    with pytest.raises(ModelError, match=r"^a.ckpt: its configuration has more than 10,000 values$"):
        plain_values([shared] * 1000, "a.ckpt")


# Nothing is run.


class Runs:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def payloads(folder: Path) -> dict[str, bytes]:
    """Pickles of which each makes a file of its name, if Python loads it."""

    def shell(name: str) -> str:
        return f"echo > {folder / name}"

    arguments = text(shell("inst")) + b"K\xffNNNNN\x88\x88"  # of which the last is: in a shell
    setstate = b"cargparse\nNamespace\n)\x81}" + text("__setstate__") + b"cposix\nsystem\nsb"
    nested = {"state_dict": OrderedDict(weight=Runs(os.system, shell("nested")))}
    return {
        "reduce": pickle.dumps(Runs(os.system, shell("reduce")), 2),
        "stack_global": pickle.dumps(Runs(os.system, shell("stack_global")), 4),
        "eval": pickle.dumps(Runs(eval, f"open({str(folder / 'eval')!r}, 'w').close()"), 2),
        "nested": pickle.dumps(nested, 2),
        "build": b"\x80\x02" + setstate + text(shell("build")) + b"b.",
        "inst": b"\x80\x02(" + arguments + b"isubprocess\nPopen\n.",
        "obj": b"\x80\x02(csubprocess\ngetoutput\n" + text(shell("obj")) + b"o.",
    }


LOADS = """
import pathlib, pickle, sys
for path in pathlib.Path(sys.argv[1]).glob("*.pkl"):
    made = pickle.loads(path.read_bytes())
    getattr(made, "wait", int)()
"""


def test_nothing_is_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    made = payloads(folder)
    for name, content in made.items():
        path = archive(tmp_path / f"{name}.ckpt", {"archive/data.pkl": content})
        try:
            plain_values(read_checkpoint(path).content)
        except ModelError as error:
            assert str(error).startswith(f"{name}.ckpt: ")  # noqa: PT017
        (tmp_path / f"{name}.pkl").write_bytes(content)
    assert not list(folder.iterdir())
    subprocess.run([sys.executable, "-c", LOADS, tmp_path], check=True)
    assert {path.name for path in folder.iterdir()} == made.keys()


def test_what_would_have_run_can_be_looked_at(tmp_path: Path) -> None:
    found = read_pickle(payloads(tmp_path)["nested"], "a")["state_dict"]["weight"]
    assert (found.name, found.arguments) == ("posix.system", (f"echo > {tmp_path / 'nested'}",))
    made = read_checkpoint(pickled(tmp_path, b"csubprocess\nPopen\n" + text("ls") + b"\x85\x81")).content
    assert (made.name, made.arguments) == ("subprocess.Popen", ("ls",))
    again = read_checkpoint(pickled(tmp_path, b"csubprocess\nPopen\n" + text("ls") + b"\x85}\x92")).content
    assert (again.name, again.arguments) == ("subprocess.Popen", ("ls",))
    nested = read_checkpoint(pickled(tmp_path, b"cbuiltins\ngetattr\n)RN\x85R")).content
    assert (nested.name, nested.arguments) == ("builtins.getattr", (None,))


# Pickles that are not what they should be.

ONE = storage(1)
ODD = {
    "an extension": (b"\x82\x01", "opcode 0x82 at byte 2"),
    "another extension": (b"\x84\x01\x00\x00\x00", "opcode 0x84"),
    "a buffer": (b"\x97", "opcode 0x97"),
    "text of protocol 0": (b"I1\n", "opcode 0x49"),
    "a long integer": (b"\x8b\x01\x00\x00\x00\x01", "opcode 0x8b"),
    "nothing": (b"", "damaged at byte 3"),
    "too little on the stack": (b"K\x01\x87", "damaged"),
    "no mark": (b"K\x01t", "damaged"),
    "no memory": (b"h\x00", "damaged"),
    "memory out of order": (b"Nr\x00\x00\x00\x80", "remembers value 2,147,483,648 after 0"),
    "an odd dict": (b"}(K\x01u", "damaged"),
    "half an entry": (b"}s", "damaged"),
    "a list as a key": (b"}]Ns", "a list as a key"),
    "a tuple as a key": (b"})Ns", "a tuple as a key"),
    "a list in a set": (b"\x8f(]\x90", "a list as a key"),
    "a large key": (b"}" + number(2**61 - 1) + b"Ns", "an int as a key"),
    "more": (b"N.N", "goes on after its end at byte 4"),
    "items of a text": (text("a") + b"Na", "adds items to a str"),
    "entries of a list": (b"]NNs", "sets entries of a list"),
    "a state of a list": (b"]Nb", "gives a state to a list"),
    "a state of a tensor": (tensor(ONE, b"K\x00", b")", b")") + b"}b", "gives a state to a StoredTensor"),
    "a call of a text": (text("os.system") + b")R", "calls a str with a tuple"),
    "a call with a list": (b"cos\nsystem\n]R", "calls 'os.system' with a list"),
    "numbers as a name": (b"K\x01K\x02\x93", "is no name"),
    "a long name": (text("a" * 501) + text("b") + b"\x93", "is no name"),
    "a long line": (b"c" + b"a" * 501 + b"\nb\n", "damaged at byte 3"),
    "an unprintable call": (text("\x1b[2J\n") + text("b") + b"\x93]R", r"calls '\x1b[2J\n.b' with a list"),
    "no pairs": (b"ccollections\nOrderedDict\n](K\x01e\x85R", "no pairs"),
    "another reference": (text("path") + b"Q", "no storage of numbers"),
    "a module": (storage(1, word="module"), "no storage of numbers"),
    "a file as a key": (storage(1, key="../../x"), "no storage of numbers"),
    "a truth value of numbers": (storage(0)[:-16] + b"\x88tQ", "no storage of numbers"),
    "fewer than none": (storage(-1), "no storage of numbers"),
    "another class": (storage(1, kind=b"cos\nsystem\n"), "numbers of kind 'os.system'"),
    "a tensor of nothing": (tensor(b"N", b"K\x00", b")", b")"), "a tensor of a NoneType"),
    "true as an offset": (tensor(ONE, b"\x88", b")", b")"), "at storage 0 has no shape"),
    "a list as a shape": (tensor(ONE, b"K\x00", b"]", b"]"), "at storage 0 has no shape"),
    "fewer strides": (tensor(ONE, b"K\x00", lengths(1), b")"), "at storage 0 has no shape"),
    "a negative stride": (tensor(ONE, b"K\x00", lengths(1), lengths(-1)), "at storage 0 has no shape"),
    "a negative offset": (tensor(ONE, number(-1), b")", b")"), "at storage 0 has no shape"),
    "an endless shape": (
        tensor(ONE, b"K\x00", lengths(0, 2**40, 2**40), lengths(1, 1, 1)),
        "at storage 0 has no shape",
    ),
    "many axes": (tensor(ONE, b"K\x00", lengths(*[1] * 65), lengths(*[1] * 65)), "at storage 0 has no shape"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_pickles_are_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    opcodes, word = ODD[name]
    assert word in refusal(pickled(tmp_path, opcodes, storages=(bytes(4),)))


def test_tensors_stay_inside_their_storage(tmp_path: Path) -> None:
    def made(shape: bytes, strides: bytes, offset: int = 0, numel: int = 64) -> Path:
        numbers = storage(numel)
        return pickled(
            tmp_path, tensor(numbers, number(offset), shape, strides), storages=(bytes(range(256)),)
        )

    assert whole(made(lengths(8, 8), lengths(8, 1))).shape == (8, 8)
    assert whole(made(lengths(1, 2), lengths(2**61, 63))).stride() == (2, 1)
    assert whole(made(lengths(2**16), lengths(0))).shape == (2**16,)
    assert refusal(made(lengths(10**9, 8), lengths(8, 1))) == (
        "made.ckpt: the tensor at storage 0 says shape (1000000000, 8) from number 0 in steps of (8, 1), "
        "but its storage has 64 numbers"
    )
    for shape, strides, offset in (
        (lengths(8, 8), lengths(8, 1), 1),
        (lengths(2), lengths(64), 0),
        (lengths(2), lengths(2**61), 0),
        (b")", b")", 64),
        (b")", b")", 2**61),
        (lengths(2**16 + 1), lengths(0), 0),
        (lengths(2**30, 2**30), lengths(0, 0), 0),
        (lengths(2**15, 33), lengths(0, 1), 0),
    ):
        assert "but its storage has 64 numbers" in refusal(made(shape, strides, offset))
    assert refusal(made(b")", b")", numel=63)) == (
        "made.ckpt: the tensor at storage 0 says 63 numbers of 4 bytes, but has 256 bytes"
    )
    assert "no member 'archive/data/0'" in refusal(pickled(tmp_path, tensor(ONE, b"K\x00", b")", b")")))


# Pickles and archives that would take everything.


def put(index: int) -> bytes:
    return b"r" + struct.pack("<I", index)


def get(index: int) -> bytes:
    return b"j" + struct.pack("<I", index)


def bombs() -> dict[str, tuple[bytes, str]]:
    """Small or middling pickles that name much, and how reading them should end."""
    promised = struct.pack("<Q", 2**40) + b"abc"
    laughs = b"]" + put(0)
    for level in range(60):
        laughs += b"](" + get(level) * 10 + b"e" + put(level + 1)
    colliding = b"".join(b"\x8a\x0c" + (i * (2**61 - 1)).to_bytes(12, "little") + b"N" for i in range(50_000))
    many = b"".join(b"J" + struct.pack("<i", i) + b"N" for i in range(70_000))
    long_list = b"](" + (text("a") + b"N\x86") * 100_000 + b"e\x85" + put(0) + b"0ccollections\nOrderedDict\n"
    return {
        "memory": (b"]r\xff\xff\xff\x7f", "remembers"),
        "bytes": (b"\x8e" + promised, "has 4 bytes where it says 1,099,511,627,776"),
        "bytearray": (b"\x96" + promised, "has 4 bytes where it says 1,099,511,627,776"),
        "text": (b"\x8d" + promised, "has 4 bytes where it says 1,099,511,627,776"),
        "short text": (b"X\xff\xff\xff\xffabc", "has 4 bytes where it says 4,294,967,295"),
        "laughs": (laughs, "its configuration has more than 10,000 values"),
        "deep lists": (b"]" * 100_000 + b"a" * 99_999, "read"),
        "deep tuples": (b")" + b"\x85" * 100_000, "read"),
        "deep objects": (b"ca\nb\n" + put(0) + b"0" + (get(0) + b")R") * 50_000 + b"b" * 49_999, "read"),
        "a deep key": (b"})" + b"\x85" * 300_000 + b"Ns", "a tuple as a key"),
        "a circle": (b"]" + put(0) + get(0) + b"a", "read"),
        "a circle of objects": (b"ca\nb\n)R" + put(0) + b"}" + text("x") + get(0) + b"sb", "read"),
        "digits": (b"\x8b" + struct.pack("<i", 10**6) + b"\x7f" * 10**6, "opcode 0x8b"),
        "text digits": (b"L" + b"9" * 10**6 + b"L\n", "opcode 0x4c"),
        "names": (text("a" * 10**6) + put(0) + (get(0) + get(0) + b"\x93") * 100_000, "is no name"),
        "copies": (long_list + put(1) + (get(1) + get(0) + b"R0") * 100_000, "copies more than"),
        "collisions": (b"}(" + colliding + b"u", "an int as a key"),
        "number keys": (b"}(" + many + b"u", "more than 65,536 numbers as keys"),
        "marks": (b"(" * 1_000_000 + b"N", "read"),
        "steps": (b"N" * 4_000_000, "more than 4,000,000 steps"),
        "dicts": (b"}" * 1_500_000, "read"),
        "repeats": (tensor(storage(1), b"K\x00", lengths(2**40), lengths(0)), "its storage has 1 numbers"),
    }


LIMITED = """
import json, pathlib, resource, signal, sys
from chop.core.errors import ModelError
from chop.icon.published.checkpoint import plain_values, read_checkpoint
from chop.icon.published.pickled import StoredTensor

def outcome(path):
    try:
        found = read_checkpoint(path)
        plain_values(found.content, path.name)
        if isinstance(found.content, StoredTensor):
            found.tensor(found.content)
    except ModelError as error:
        return str(error)
    return f"{path.name}: read"

pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    signal.setitimer(signal.ITIMER_PROF, 20)
    print(json.dumps(outcome(path)), flush=True)
"""


def huge_directory(entries: int) -> bytes:
    entry = b"PK\x01\x02".ljust(46, b"\0")
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, entries * 46, 4, 0)
    return b"PK\x03\x04" + entry * entries + end


@pytest.mark.slow
def test_bombs_are_refused_or_survived_in_little_memory(tmp_path: Path) -> None:
    expected = {f"{name}.ckpt: ": word for name, (_, word) in bombs().items()}
    for name, (opcodes, _) in bombs().items():
        pickled(tmp_path, opcodes, storages=(bytes(4),)).rename(tmp_path / f"{name}.ckpt")
    for name, entries, word in (("members", 120_000, "same name, or more than"), ("d", 400_000, "damaged")):
        (tmp_path / f"{name}.ckpt").write_bytes(huge_directory(entries))
        expected[f"{name}.ckpt: "] = word
    archive(tmp_path / "z.ckpt", {"archive/data.pkl": b"\x80\x02N." + bytes(2**26)})
    expected["z.ckpt: "] = "at most 67,108,864 are read"
    done = subprocess.run([sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(expected), (told[-1:], done.returncode, done.stderr)
    for sentence in told:
        begin = sentence[: sentence.index(": ") + 2]
        assert expected[begin] in sentence


# Damaged and foreign files.


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    content = {
        "state_dict": OrderedDict(a=torch.arange(3.0), b=torch.ones(2, 2).T),
        "config": {"x": [1, "a"]},
    }
    return saved(tmp_path_factory.mktemp("small"), content)


def survives(path: Path) -> bool:
    """Whether a file is read; if not, it must be refused."""
    try:
        whole(path)
    except ModelError as error:
        assert str(error).startswith(f"{path.name}: ")  # noqa: PT017
        assert str(error).isprintable()  # noqa: PT017
        return False
    return True


def test_truncated_files(tmp_path: Path, small: Path) -> None:
    data, path = small.read_bytes(), tmp_path / "cut.ckpt"
    for part in range(50):
        path.write_bytes(data[: len(data) * part // 50])
        assert not survives(path)


def test_flipped_bytes(tmp_path: Path, small: Path) -> None:
    data, path = small.read_bytes(), tmp_path / "flipped.ckpt"
    good = whole(small)
    read = 0
    for seed in range(200):
        draw, changed = random.Random(seed), bytearray(data)
        for _ in range(draw.choice((1, 1, 2, 8))):
            changed[draw.randrange(len(data))] ^= draw.randrange(1, 256)
        path.write_bytes(changed)
        if survives(path):
            read += 1
            assert same(whole(path), good)  # what is wrong lies in the padding
    assert 0 < read < 200


def test_flipped_pickles(tmp_path: Path, small: Path) -> None:
    """Without the checksum of the archive, which sees most of it first."""
    with zipfile.ZipFile(small) as archived:
        data = archived.read("some/data.pkl")
    read = 0
    for seed in range(2000):
        draw, changed = random.Random(seed), bytearray(data)
        for _ in range(draw.choice((1, 1, 2, 8))):
            changed[draw.randrange(len(data))] = draw.choice((draw.randrange(256), *data))
        try:
            plain_values(read_pickle(bytes(changed), "a"))
            read += 1
        except ModelError as error:
            assert str(error).startswith("a: ")  # noqa: PT017
    assert 0 < read < 2000


def test_archives_that_torch_does_not_write(tmp_path: Path, small: Path) -> None:
    with zipfile.ZipFile(small) as archived:
        members = {name: archived.read(name) for name in archived.namelist()}
    path = tmp_path / "odd.ckpt"
    assert survives(archive(path, members))
    del members["some/byteorder"]
    assert survives(archive(path, members))
    assert "'some/data.pkl' is packed" in refusal(archive(path, members, compression=zipfile.ZIP_DEFLATED))
    assert "not in little-endian order" in refusal(archive(path, {**members, "some/byteorder": b"big"}))
    assert survives(archive(path, {**members, "some/inner/data.pkl": b"N."}))
    assert "no data.pkl, or several" in refusal(archive(path, {"some/data": b""}))
    assert "no data.pkl, or several" in refusal(archive(path, {**members, "other/data.pkl": b"N."}))
    with (
        pytest.warns(UserWarning, match="Duplicate"),
        zipfile.ZipFile(archive(path, members), "a") as archived,
    ):
        archived.writestr("some/data.pkl", b"N.")
    assert "members of the same name" in refusal(path)
    whole_file = archive(path, members).read_bytes()
    entry = whole_file.rindex(b"PK\x01\x02", 0, whole_file.rindex(b"some/data.pkl"))

    def changed(place: int, *values: int) -> Path:
        data = bytearray(whole_file)
        data[entry + place : entry + place + 4 * len(values)] = struct.pack(f"<{len(values)}L", *values)
        path.write_bytes(data)
        return path

    assert "packed" in refusal(changed(8, 1))  # encrypted
    assert "packed" in refusal(changed(20, 10, 11))
    assert "cut off or damaged" in refusal(changed(20, 2**25, 2**25))
    assert "cut off or damaged" in refusal(changed(42, 2**31))
    assert "cut off or damaged" in refusal(changed(42, 1))


def test_files_of_other_kinds(tmp_path: Path) -> None:
    legacy = saved(tmp_path, [torch.zeros(2)], _use_new_zipfile_serialization=False)
    assert "torch before 1.6 wrote this file; if you trust it" in refusal(legacy)
    other = tmp_path / "other.ckpt"
    for content in (pickle.dumps({"a": 1}), b"epoch,loss\n1,2\n", b"PK"):
        other.write_bytes(content)
        assert refusal(other) == "other.ckpt: the file is not what torch.save writes, a zip archive"
    save_file({"a": torch.zeros(2)}, other)
    assert "is not what torch.save writes" in refusal(other)
    other.write_bytes(b"")
    assert refusal(other) == "other.ckpt: the file is empty"
    for missing in (tmp_path, tmp_path / "nothing.ckpt", tmp_path / "other.ckpt" / "x"):
        assert refusal(missing) == f"{missing.name}: there is no file of this name"
    assert "the file cannot be read (File name too long)" in refusal(tmp_path / ("é" * 130))
