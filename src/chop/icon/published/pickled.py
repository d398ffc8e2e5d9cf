"""What a pickle of ``torch.save`` says, without doing any of it.

A pickle is a program for a small stack machine, and Python's own machine imports and calls whatever it names.
This one knows how tensors are written and a few plain containers; any other thing it is told to make becomes
an inert note of what that was. What it spends on a pickle grows with the length of the pickle and no faster.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from chop.core.errors import ModelError

MOST_STEPS = 4_000_000
"""Opcodes of a pickle, at most; a tensor takes about thirty."""
MOST_NUMBERS_AS_KEYS = 2**16
"""Hashes of numbers can be chosen such that they collide, those of texts cannot."""
LONGEST_NAME = 500
"""Characters of the name of a module or class."""
MOST_AXES = 64
_TOO_LARGE = 2**62
"""No length, stride or place reaches it; twice as much still has 64 bits."""
_STORAGES = {
    "torch.DoubleStorage": "float64",
    "torch.FloatStorage": "float32",
    "torch.HalfStorage": "float16",
    "torch.BFloat16Storage": "bfloat16",
    "torch.LongStorage": "int64",
    "torch.IntStorage": "int32",
    "torch.ShortStorage": "int16",
    "torch.CharStorage": "int8",
    "torch.ByteStorage": "uint8",
    "torch.BoolStorage": "bool",
    "torch.ComplexDoubleStorage": "complex128",
    "torch.ComplexFloatStorage": "complex64",
    "torch.storage.UntypedStorage": "uint8",
}
"""Classes of storages and the dtypes of their numbers."""


@dataclass(frozen=True, slots=True)
class Global:
    """The name of a class or function, which is not looked up."""

    name: str


@dataclass(frozen=True, slots=True)
class Storage:
    """Numbers that lie in a row in a member of the archive, named by a key."""

    dtype: str
    key: str
    numel: int


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where the numbers of a tensor lie, as the pickle says; whether it is so is seen when they are read."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> str:
        return self.storage.dtype


@dataclass(eq=False, slots=True)
class Placeholder:
    """Stands for an object that was not made: the name of its maker, and what the pickle would give it.

    Its parts may contain it or repeat without end, so they are neither compared nor printed.
    """

    name: str
    arguments: tuple[Any, ...] = field(repr=False)
    state: Any = field(default=None, repr=False)
    items: list[Any] = field(default_factory=list, repr=False)
    """Of a list's or a set's subclass."""
    entries: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Of a dict's subclass."""


def read_pickle(data: bytes, name: str) -> Any:
    """The value of a pickle of a file of that name: plain containers and values, and the classes above."""
    machine = _Machine(data)
    try:
        return machine.run()
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from None
    except (IndexError, ValueError, struct.error):
        raise ModelError(f"{name}: its pickle is damaged at byte {machine.at:,}") from None


_Reader = Callable[[bytes, int], tuple[Any, int]]
"""From the bytes and a place in them to what is written there and the place behind it."""


def _fixed(layout: str) -> _Reader:
    unpack, size = struct.Struct(layout).unpack_from, struct.calcsize(layout)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at)[0], at + size

    return read


def _counted(layout: str, decoded: Callable[[bytes], Any]) -> _Reader:
    """What is written behind its own length in bytes."""
    unpack, size = struct.Struct(layout).unpack_from, struct.calcsize(layout)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        length, begin = unpack(data, at)[0], at + size
        end = begin + length
        if end > len(data):
            raise ModelError(f"its pickle has {len(data) - begin:,} bytes where it says {length:,}")
        return decoded(data[begin:end]), end

    return read


def _line(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\n", at, at + LONGEST_NAME + 1)
    return data[at:end].decode(), end + 1


def _dotted_lines(data: bytes, at: int) -> tuple[Global, int]:
    module, at = _line(data, at)
    name, at = _line(data, at)
    return Global(f"{module}.{name}"), at


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


_PUSHED: dict[int, _Reader] = {
    pickle.BININT[0]: _fixed("<i"),
    pickle.BININT1[0]: _fixed("<B"),
    pickle.BININT2[0]: _fixed("<H"),
    pickle.BINFLOAT[0]: _fixed(">d"),
    pickle.LONG1[0]: _counted("<B", _integer),
    pickle.SHORT_BINUNICODE[0]: _counted("<B", _text),
    pickle.BINUNICODE[0]: _counted("<I", _text),
    pickle.BINUNICODE8[0]: _counted("<Q", _text),
    pickle.SHORT_BINBYTES[0]: _counted("<B", bytes),
    pickle.BINBYTES[0]: _counted("<I", bytes),
    pickle.BINBYTES8[0]: _counted("<Q", bytes),
    pickle.BYTEARRAY8[0]: _counted("<Q", bytearray),
    pickle.GLOBAL[0]: _dotted_lines,
    pickle.NONE[0]: lambda _, at: (None, at),
    pickle.NEWTRUE[0]: lambda _, at: (True, at),
    pickle.NEWFALSE[0]: lambda _, at: (False, at),
    pickle.EMPTY_TUPLE[0]: lambda _, at: ((), at),
    pickle.EMPTY_LIST[0]: lambda _, at: ([], at),
    pickle.EMPTY_DICT[0]: lambda _, at: ({}, at),
    pickle.EMPTY_SET[0]: lambda _, at: (set(), at),
}
"""Opcodes that only put a value on the stack."""
_REMEMBERED: dict[int, _Reader] = {
    pickle.BINPUT[0]: _fixed("<B"),
    pickle.LONG_BINPUT[0]: _fixed("<I"),
}
_RECALLED: dict[int, _Reader] = {
    pickle.BINGET[0]: _fixed("<B"),
    pickle.LONG_BINGET[0]: _fixed("<I"),
}
_IGNORED: dict[int, _Reader] = {pickle.PROTO[0]: _fixed("<B"), pickle.FRAME[0]: _fixed("<Q")}


class _Machine:
    """The stack, its marks and the memo, on which the opcodes work one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: list[Any] = []
        self.copied = self.numbers_as_keys = 0

    def run(self) -> Any:
        data, at, stack, memo = self.data, self.at, self.stack, self.memo
        try:
            for _ in range(MOST_STEPS):
                code = data[at]
                at += 1
                if read := _PUSHED.get(code):
                    value, at = read(data, at)
                    stack.append(value)
                elif read := _REMEMBERED.get(code):
                    number, at = read(data, at)
                    # Whoever writes pickles counts from 0.
                    if number < len(memo):
                        memo[number] = stack[-1]
                    elif number == len(memo):
                        memo.append(stack[-1])
                    else:
                        raise ModelError(f"its pickle remembers value {number:,} after {len(memo):,}")
                elif read := _RECALLED.get(code):
                    number, at = read(data, at)
                    stack.append(memo[number])
                elif act := _ACTS.get(code):
                    self.at = at
                    act(self)
                    at = self.at
                elif read := _IGNORED.get(code):
                    _, at = read(data, at)
                elif code != pickle.STOP[0]:
                    raise ModelError(
                        f"its pickle has opcode {code:#04x} at byte {at - 1:,}, which is not read here"
                    )
                elif at != len(data):
                    raise ModelError(f"its pickle goes on after its end at byte {at:,}")
                else:
                    return stack.pop()
        finally:
            self.at = at
        raise ModelError(f"its pickle takes more than {MOST_STEPS:,} steps")

    def count_copies(self, items: list[Any]) -> None:
        """A list can be copied again and again in a few opcodes, so all copies together are bounded."""
        self.copied += len(items)
        if self.copied > MOST_STEPS:
            raise ModelError(f"its pickle copies more than {MOST_STEPS:,} values")

    def memoize(self) -> None:
        self.memo.append(self.stack[-1])

    def mark(self) -> None:
        self.marks.append(len(self.stack))

    def since_mark(self) -> list[Any]:
        """What lies above the last mark, taken off."""
        mark = self.marks.pop()
        found = self.stack[mark:]
        del self.stack[mark:]
        return found

    def make_tuple(self) -> None:
        self.stack.append(tuple(self.since_mark()))

    def make_set(self) -> None:
        self.stack.append(set(self.keys(self.since_mark())))

    def make_short_tuple(self, length: int) -> None:
        parts = self.stack[-length:]
        if len(parts) < length:
            raise IndexError
        self.stack[-length:] = [tuple(parts)]

    def append(self) -> None:
        self.add_items([self.stack.pop()])

    def extend(self) -> None:
        self.add_items(self.since_mark())

    def add_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is set:
            target.update(self.keys(items))
        elif type(target) is list:
            target += items
        elif type(target) is Placeholder:
            target.items += items
        else:
            raise ModelError(f"its pickle adds items to {_kind(target)}")

    def set_entry(self) -> None:
        entry = self.stack[-2:]
        del self.stack[-2:]
        self.set_entries(entry)

    def set_many_entries(self) -> None:
        self.set_entries(self.since_mark())

    def set_entries(self, flat: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is Placeholder:
            target = target.entries
        elif type(target) is not dict:
            raise ModelError(f"its pickle sets entries of {_kind(target)}")
        target.update(zip(self.keys(flat[::2]), flat[1::2], strict=True))

    def keys(self, keys: list[Any]) -> list[Any]:
        """Keys whose hashes cost little and collide rarely, which those of nested tuples need not."""
        for key in keys:
            if type(key) in (str, bytes, type(None), Global, Placeholder):
                continue
            if type(key) not in (int, float, bool) or (type(key) is int and abs(key) >= 2**60):
                raise ModelError(f"its pickle has {_kind(key)} as a key; keys are texts and small numbers")
            self.numbers_as_keys += 1
            if self.numbers_as_keys > MOST_NUMBERS_AS_KEYS:
                raise ModelError(f"its pickle has more than {MOST_NUMBERS_AS_KEYS:,} numbers as keys")
        return keys

    def name(self) -> None:
        module, name = self.stack[-2:]
        if type(module) is not str or type(name) is not str or max(len(module), len(name)) > LONGEST_NAME:
            raise ModelError("its pickle names a class by something that is no name")
        self.stack[-2:] = [Global(f"{module}.{name}")]

    def call(self) -> None:
        maker, arguments = self.stack[-2:]
        self.stack[-2:] = [self.made(maker, arguments)]

    def call_with_keywords(self) -> None:
        """Keywords mean nothing without the class that would be told them."""
        self.stack.pop()
        self.call()

    def call_since_mark(self) -> None:
        maker, *arguments = self.since_mark()
        self.stack.append(self.made(maker, tuple(arguments)))

    def call_named_since_mark(self) -> None:
        maker, self.at = _dotted_lines(self.data, self.at)
        self.stack.append(self.made(maker, tuple(self.since_mark())))

    def made(self, maker: Any, arguments: Any) -> Any:
        """The few things that are known, or a note of what was to be made."""
        if type(maker) not in (Global, Placeholder) or type(arguments) is not tuple:
            raise ModelError(f"its pickle calls {_kind(maker)} with {_kind(arguments)}")
        match maker.name, arguments:
            case "torch._utils._rebuild_tensor_v2", (storage, offset, shape, strides, _, _):
                return _tensor(storage, offset, shape, strides)
            case "torch._utils._rebuild_tensor_v2", (storage, offset, shape, strides, _, _, bits) if not bits:
                return _tensor(storage, offset, shape, strides)  # with bits, its numbers are to be negated
            case "torch._utils._rebuild_tensor", (storage, offset, shape, strides):
                return _tensor(storage, offset, shape, strides)
            case (
                "torch._utils._rebuild_parameter" | "torch._utils._rebuild_parameter_with_state",
                (StoredTensor() as tensor, *_),
            ):
                return tensor
            case "torch.Size", (tuple() as lengths,):
                return lengths
            case "collections.OrderedDict", ():
                return {}
            case "collections.OrderedDict", (list() as pairs,):
                return self.dict_of(pairs)
            case "collections.defaultdict", ((_,) | ()):
                return {}
            case (
                "builtins.set" | "__builtin__.set" | "builtins.frozenset" | "__builtin__.frozenset",
                (list() as items,),
            ):
                self.count_copies(items)
                return set(self.keys(items))
        return Placeholder(maker.name, arguments)

    def dict_of(self, pairs: list[Any]) -> dict[Any, Any]:
        self.count_copies(pairs)
        if not all(type(pair) in (tuple, list) and len(pair) == 2 for pair in pairs):
            raise ModelError("its pickle makes a dict of what are no pairs")
        self.keys([key for key, _ in pairs])
        return dict(pairs)

    def give_state(self) -> None:
        """What an object would set itself up from; for a dict, attributes that nobody asks for."""
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is Placeholder:
            target.state = state
        elif type(target) is not dict:
            raise ModelError(f"its pickle gives a state to {_kind(target)}")

    def persistent(self) -> None:
        match self.stack.pop():
            case ("storage", Global(kind), str() as key, str(), int() as numel) if (
                kind in _STORAGES and _is_size(numel) and len(key) < 20 and key.isascii() and key.isdigit()
            ):
                self.stack.append(Storage(_STORAGES[kind], key, numel))
            case ("storage", Global(kind), *_) if kind not in _STORAGES:
                raise ModelError(f"its pickle has numbers of kind {kind[:60]!r}, which are not read here")
            case _:
                raise ModelError("its pickle refers to something that is no storage of numbers")


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any) -> StoredTensor:
    if type(storage) is not Storage:
        raise ModelError(f"its pickle makes a tensor of {_kind(storage)}")
    if not (
        _is_size(offset)
        and type(shape) is type(strides) is tuple
        and len(shape) == len(strides) <= MOST_AXES
        and all(map(_is_size, shape + strides))
        and prod(max(1, length) for length in shape) < _TOO_LARGE
    ):
        raise ModelError(f"the tensor at storage {storage.key} has no shape, strides and offset of a tensor")
    return StoredTensor(storage, offset, shape, strides)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < _TOO_LARGE


def _kind(value: Any) -> str:
    """A value in a sentence; never its content, which may be endless."""
    if type(value) in (Global, Placeholder):
        return f"{value.name[:60]!r}"
    kind = type(value).__name__
    return f"an {kind}" if kind == "int" else f"a {kind}"


_ACTS: dict[int, Callable[[_Machine], object]] = {
    pickle.MEMOIZE[0]: _Machine.memoize,
    pickle.MARK[0]: _Machine.mark,
    pickle.POP[0]: lambda machine: machine.stack.pop(),
    pickle.POP_MARK[0]: _Machine.since_mark,
    pickle.TUPLE[0]: _Machine.make_tuple,
    pickle.TUPLE1[0]: lambda machine: machine.make_short_tuple(1),
    pickle.TUPLE2[0]: lambda machine: machine.make_short_tuple(2),
    pickle.TUPLE3[0]: lambda machine: machine.make_short_tuple(3),
    pickle.FROZENSET[0]: _Machine.make_set,
    pickle.APPEND[0]: _Machine.append,
    pickle.APPENDS[0]: _Machine.extend,
    pickle.ADDITEMS[0]: _Machine.extend,
    pickle.SETITEM[0]: _Machine.set_entry,
    pickle.SETITEMS[0]: _Machine.set_many_entries,
    pickle.STACK_GLOBAL[0]: _Machine.name,
    pickle.REDUCE[0]: _Machine.call,
    pickle.NEWOBJ[0]: _Machine.call,
    pickle.NEWOBJ_EX[0]: _Machine.call_with_keywords,
    pickle.OBJ[0]: _Machine.call_since_mark,
    pickle.INST[0]: _Machine.call_named_since_mark,
    pickle.BUILD[0]: _Machine.give_state,
    pickle.BINPERSID[0]: _Machine.persistent,
}
