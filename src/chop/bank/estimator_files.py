"""A fitted `chop.InContextOperator` in a folder: parameters and calibration as JSON, and the bank."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from torch import Tensor

from chop.bank.bank import Bank
from chop.bank.containers import ArrayLayout
from chop.core.errors import BankError
from chop.core.fields import Axis, Graph
from chop.core.program import Program
from chop.storage.atomic import errors_named, make_folder, write_text
from chop.storage.json_text import json_text
from chop.storage.schema import anything, mapping_of, mismatch, string

if TYPE_CHECKING:
    from chop.bank.estimator import InContextOperator

_Estimator = TypeVar("_Estimator", bound="InContextOperator")

FORMAT = "chop-operator-1"
PARAMETERS, BANK, CALIBRATION = "operator.json", "bank", "calibration.json"
_LARGEST = 64 * 2**20
"""Bytes of a file of parameters; ours have thousands."""
_SHAPE = {
    "format": string,
    "params": mapping_of(anything),
    "inputs": mapping_of(anything),
    "outputs": mapping_of(anything),
}


def save_estimator(estimator: InContextOperator, path: Path) -> Path:
    """The folder, complete or not there at all."""
    if path.exists():
        raise BankError(f"{path} exists already; choose another name for the folder")
    make_folder(path.parent, BankError)
    params = estimator.get_params()
    named = isinstance(params["model"], str | Path)
    params["model"] = str(params["model"]) if named else None
    content = {
        "format": FORMAT,
        "params": {name: encoded(value, name) for name, value in params.items()},
        "inputs": _layout_content(estimator._inputs),
        "outputs": _layout_content(estimator._outputs),
    }
    with errors_named(path, BankError):
        folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial"))
        try:
            with Bank.create(folder / BANK) as kept:
                for _, pairs in estimator.bank_.blocks():
                    kept.add(pairs)
            if hasattr(estimator, "calibration_"):
                estimator.calibration_.save(folder / CALIBRATION)
            write_text(folder / PARAMETERS, json_text(content), BankError)
            folder.chmod(0o755)
            folder.rename(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return path


def load_estimator(kind: type[_Estimator], path: Path, model: Any) -> _Estimator:
    """What `save_estimator` wrote."""
    content = _read(path)
    try:
        params = {name: decoded(value) for name, value in content["params"].items()}
        layouts = [_layout(content[name]) for name in ("inputs", "outputs")]
        if params.keys() != kind.parameter_names().keys():
            raise KeyError("params")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BankError(f"{path / PARAMETERS} is damaged ({error}); save the operator anew") from None
    if model is not None:
        params["model"] = model
    if params["model"] is None:
        raise BankError(f"the model of {path} has no name to find it by: give it with load(path, model=...)")
    made = kind(**params).fit(path / BANK)
    made._inputs, made._outputs = layouts
    if len(made._inputs.shape) != 1 and hasattr(made, "n_features_in_"):
        del made.n_features_in_
    if (path / CALIBRATION).is_file():
        from chop.bank.calibration import Calibration

        made.calibration_ = Calibration.load(path / CALIBRATION)
    return made


def _read(path: Path) -> dict[str, Any]:
    file = path / PARAMETERS
    try:
        if file.stat().st_size > _LARGEST:
            raise ValueError("it is too large")
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BankError(f"{path} holds no operator: there is no {PARAMETERS} in it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BankError(f"{file} cannot be read: {error}") from None
    problem = mismatch(content, _SHAPE)
    if problem or content["format"] != FORMAT:
        raise BankError(f"{file} is not what InContextOperator.save wrote ({problem or 'another format'})")
    found: dict[str, Any] = content
    return found


def _layout_content(layout: ArrayLayout) -> dict[str, Any]:
    coords = (
        None if layout.coords is None else {name: encoded(part, name) for name, part in layout.coords.items()}
    )
    return {
        "shape": list(layout.shape),
        "dims": None if layout.dims is None else list(layout.dims),
        "coords": coords,
    }


def _layout(content: Mapping[str, Any]) -> ArrayLayout:
    dims, coords = content["dims"], content["coords"]
    return ArrayLayout(
        tuple(int(size) for size in content["shape"]),
        None if dims is None else tuple(map(str, dims)),
        None if coords is None else {str(name): decoded(part) for name, part in coords.items()},
    )


def encoded(value: Any, name: str) -> Any:
    """A parameter in plain values that `decoded` understands."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Program):
        return str(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Axis):
        return {"axis": [value.name, value.period]}
    if isinstance(value, Graph):
        return {"graph": value.edges.tolist(), "size": value.size}
    if isinstance(value, Mapping):
        return {"mapping": {str(key): encoded(part, name) for key, part in value.items()}}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [encoded(part, name) for part in value]}
    array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    if array.dtype.kind == "M":
        return {"times": array.astype("datetime64[ns]").astype(np.int64).tolist()}
    if array.dtype.kind not in "biuf" and array.dtype.kind not in "SU":
        raise BankError(f"the parameter {name} cannot be saved: it is a {type(value).__name__}")
    return {"array": array.tolist(), "dtype": array.dtype.str}


def decoded(content: Any) -> Any:
    """The parameter again; arrays are numpy's."""
    if not isinstance(content, dict):
        return content
    ((kind, value), *_) = content.items()
    if kind == "axis":
        return Axis(str(value[0]), value[1])
    if kind == "graph":
        return Graph(value, content["size"])
    if kind == "mapping":
        return {str(key): decoded(part) for key, part in value.items()}
    if kind in ("tuple", "list"):
        parts = [decoded(part) for part in value]
        return tuple(parts) if kind == "tuple" else parts
    if kind == "times":
        return np.array(value, dtype=np.int64).astype("datetime64[ns]")
    if kind == "array":
        dtype = np.dtype(content["dtype"])
        if dtype.kind not in "biufSU":
            raise ValueError("an odd dtype")
        return np.array(value, dtype=dtype)
    raise ValueError(f"nothing is called {kind!r}")
