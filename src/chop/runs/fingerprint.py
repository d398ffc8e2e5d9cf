"""What tells things apart: tensors, prompts, networks, plain values, files, and callables such as a metric.

`stored_digest` digests stand in journals, stores and file names: what is fed to them, byte for byte, is part
of those formats and does not change. `quick_digest` ones live as long as the process.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from chop.core.model import Caller, FrozenModel
from chop.core.prompt import Axis, Prompt
from chop.core.user_code import installed

if TYPE_CHECKING:
    Digest = hashlib._Hash | hashlib.blake2b


def stored_digest() -> Digest:
    """A digest for what is kept in files: SHA-256."""
    return hashlib.sha256()


def quick_digest() -> Digest:
    """A digest for what is looked up at every turn: BLAKE2b, 16 bytes."""
    return hashlib.blake2b(digest_size=16)


def canonical_json(value: Any) -> str:
    """Plain values as JSON in one form, whatever the order of their names."""
    return json.dumps(value, sort_keys=True)


def feed_bytes(digest: Digest, data: Tensor | np.ndarray[Any, Any]) -> None:
    """The numbers alone; dtype and shape are known to whoever asks."""
    if isinstance(data, Tensor):
        tensor = data.detach().cpu().contiguous()
        try:
            data = tensor.numpy()
        except TypeError:  # numpy does not know every dtype of torch
            data = tensor.reshape(-1).view(torch.uint8).numpy()
    digest.update(np.ascontiguousarray(data).data)


def feed_tensor(digest: Digest, tensor: Tensor) -> None:
    """Dtype, shape and numbers."""
    digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    feed_bytes(digest, tensor)


def _feed_once(digest: Digest, tensor: Tensor) -> None:
    """Dtype, shape and numbers, without reading twice what an expanded view only repeats."""
    once = tensor
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and once.shape[axis] > 1:
            once = once.narrow(axis, 0, 1)
    digest.update(f"{tensor.dtype}{tuple(tensor.shape)}{tuple(once.shape)}".encode())
    feed_bytes(digest, once)


def feed_state(
    digest: Digest, module: nn.Module, feed: Callable[[Digest, Tensor], None] = feed_tensor
) -> None:
    """A torch module's weights and buffers, by name."""
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        feed(digest, value)


def feed_prompt(digest: Digest, prompt: Prompt) -> None:
    """What a prompt holds; `axis_values` and its times are told apart from that."""
    for tensor in prompt.tensors():
        feed_tensor(digest, tensor)
    if prompt.graph is not None:
        feed_tensor(digest, prompt.graph.edges)


def content_key(prompt: Prompt) -> bytes:
    """A digest of what a model can see of a prompt, and of where its examples come from.

    The origin counts because a model may encode the examples of the parent instead of the prompt's own,
    which is the same answer only to rounding.
    """
    digest = quick_digest()
    while True:
        for tensor in prompt.tensors():
            _feed_once(digest, tensor)
        if prompt.times is not None:
            _feed_once(digest, prompt.times)
        if prompt.graph is not None:
            _feed_once(digest, prompt.graph.edges)
        digest.update(_axes_text(prompt.axes))
        if prompt.origin is None:
            return digest.digest()
        _feed_once(digest, prompt.origin.kept)
        prompt = prompt.origin.parent


@lru_cache(maxsize=64)
def _axes_text(axes: tuple[Axis, ...] | None) -> bytes:
    return repr(axes).encode()


def axis_values(prompt: Prompt) -> list[list[Any]]:
    """Names and periods of the coordinates, as plain values."""
    return [[axis.name, axis.period] for axis in prompt.axes or ()]


def of_model(model: FrozenModel, probe: Prompt) -> str:
    """A torch module by its class and state; any other callable by its answers to some questions."""
    if isinstance(model, nn.Module):
        return of_module(model)
    digest = stored_digest()
    with torch.inference_mode():
        feed_tensor(digest, Caller(model, probe)([probe])[0])
    return digest.hexdigest()


def of_module(module: nn.Module) -> str:
    """A torch module by its class and state."""
    digest = stored_digest()
    digest.update(type(module).__qualname__.encode())
    feed_state(digest, module)
    return digest.hexdigest()


def of_network(config: Any, network: nn.Module) -> str:
    """A network by its shape (plain values) and its weights, not by what else its file says about itself."""
    digest = stored_digest()
    digest.update(canonical_json(config).encode())
    feed_state(digest, network, feed_bytes)
    return digest.hexdigest()


def of_file(path: Path) -> str:
    """A file by its bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, stored_digest).hexdigest()


# Callables are known by what they would do, the same in every process. What is installed is known by its
# name. A user's own function is known by its name, its compiled code with constants, its defaults, what it
# closes over, and the globals it reads, functions among them. A callable object is known by its class and its
# state. Where a file lies, its lines and all addresses do not count.

_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_CONSTANTS = (tuple, frozenset, CodeType)
"""Whether two equal ones are one object is up to the compiler, and to where byte code came from."""
_DEEPEST = 30
_CLASS_MACHINERY = {
    "__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__firstlineno__",
    "__static_attributes__", "__annotations__", "__annotations_cache__", "__annotate_func__", "__slotnames__",
    "__abstractmethods__", "_abc_impl", "__parameters__", "__dataclass_fields__", "__dataclass_params__",
}  # fmt: skip
"""What classes hold beside what they were given."""


def of_callable(function: Any) -> str:
    """``NAME@PYTHON:SHA256``; without ``PYTHON`` where no compiled code was read."""
    walk = _Walk()
    walk.feed(function)
    python = _PYTHON if walk.compiled else ""
    return f"{_name(function)}@{python}:{walk.digest.hexdigest()}"


def may_be_same(one: str, other: str) -> bool:
    """Whether two fingerprints of `of_callable` may be of the same callable.

    Two versions of Python compile the same text differently: of those, only the names can be compared.
    """
    (name, code), (other_name, other_code) = (text.rpartition("@")[::2] for text in (one, other))
    pythons = {text.partition(":")[0] for text in (code, other_code)}
    return name == other_name and (code == other_code or (len(pythons) == 2 and "" not in pythons))


def _name(value: Any) -> str:
    while isinstance(value, functools.partial):
        value = value.func
    return str(getattr(value, "__qualname__", None) or type(value).__qualname__)


class _Walk:
    """Feeds values of any kind to one digest; what was met before is fed as a reference to it."""

    def __init__(self) -> None:
        self.digest = stored_digest()
        self.compiled = False
        self._met: dict[int, tuple[int, Any]] = {}  # holds what it has met: an address must not come twice
        self._depth = 0

    def _say(self, *words: object) -> None:
        self.digest.update(repr(words).encode())

    def feed(self, value: Any) -> None:
        if type(value) in _ATOMS:
            self._say(type(value).__name__, value)
            return
        if type(value) not in _CONSTANTS:
            if id(value) in self._met:
                self._say("again", self._met[id(value)][0])
                return
            self._met[id(value)] = (len(self._met), value)
        if self._depth >= _DEEPEST:
            self._say("deep", _full_name(type(value)))
            return
        self._depth += 1
        try:
            self._feed_new(value)
        finally:
            self._depth -= 1

    def _feed_new(self, value: Any) -> None:
        if isinstance(value, tuple | list):
            self._all(type(value).__name__, value)
        elif isinstance(value, set | frozenset):
            self._all("set", sorted(value, key=repr))
        elif isinstance(value, Mapping):
            self._all("mapping", [part for key in sorted(value, key=repr) for part in (key, value[key])])
        elif isinstance(value, Tensor):
            feed_tensor(self.digest, value)
        elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
            self._say("array", str(value.dtype), value.shape)
            feed_bytes(self.digest, value)
        elif isinstance(value, CodeType):
            self._code(value)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self._all("method", (value.__func__, value.__self__))
        elif isinstance(value, functools.partial):
            self._all("partial", (value.func, value.args, value.keywords))
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, CellType):
            self.feed(_content(value))
        elif isinstance(value, property | staticmethod | classmethod):
            functions = (value.fget, value.fset) if isinstance(value, property) else (value.__func__,)
            self._all(type(value).__name__, functions)
        else:
            self._object(value)

    def _all(self, kind: str, values: Any) -> None:
        self._say(kind, len(values))
        for value in values:
            self.feed(value)

    def _code(self, code: CodeType) -> None:
        self.compiled = True
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self._say("code", code.co_name, counts, names, code.co_code)
        self.feed(code.co_consts)

    def _function(self, function: FunctionType) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if installed(function.__code__.co_filename):
            # Its own name: a decorator gives its function the name, and the module, of what it decorates.
            self._all("installed", (function.__globals__["__name__"], function.__code__.co_qualname, wrapped))
            return
        self._say("function", function.__qualname__)
        used = {
            name: function.__globals__[name] for name in _globals(function) if name in function.__globals__
        }
        self._all("parts", (function.__code__, function.__defaults__, function.__kwdefaults__, used, wrapped))
        self._all("closure", function.__closure__ or ())

    def _class(self, kind: type) -> None:
        if _is_installed(kind):
            self._say("installed", _full_name(kind))
            return
        own = {name: part for name, part in vars(kind).items() if name not in _CLASS_MACHINERY}
        self._say("class", kind.__qualname__)
        self._all("parts", (kind.__bases__, own))

    def _object(self, value: Any) -> None:
        """State of objects: weights of modules, attributes of others; what has neither says its own words."""
        if isinstance(value, ModuleType | BuiltinFunctionType):
            self._say("named", _full_name(value))
            return
        self.feed(type(value))
        if hasattr(value, "__wrapped__"):  # compiled, remembered or counted: what counts is inside
            self.feed(value.__wrapped__)
            return
        if isinstance(value, nn.Module):
            feed_state(self.digest, value)
            self.feed({name: part for name, part in vars(value).items() if type(part) in _ATOMS})
            return
        state = _state(value)
        if state is not None:
            self.feed(state)
        elif " at 0x" not in (words := repr(value)):
            self._say("repr", words)


def _is_installed(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__":
        return False
    file = getattr(module, "__file__", None)
    return file is None or installed(file)


def _globals(function: FunctionType) -> list[str]:
    """Names a function, or one inside it, looks up in its module."""
    found = {
        str(step.argval)
        for code in _codes(function.__code__)
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return sorted(found)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _state(value: Any) -> Any:
    try:
        return value.__getstate__()
    except Exception:  # a class of somebody else may raise anything
        return getattr(value, "__dict__", None)


def _full_name(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return f"{getattr(value, '__module__', '')}.{name or type(value).__qualname__}"
