"""The names and shapes of the arrays in a question file: one layout for HDF5, NetCDF-4 and npz.

N questions, D examples of each, n points of an input and m of an output, k coordinates, c channels.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from chop.files.errors import FileError
from chop.files.sources import Stored

GENERATED = "chop cases"
"""How files that ``chop data`` writes call themselves."""

Kind = Literal["values", "coords", "mask", "times", "graph"]


@dataclass(frozen=True)
class Spec:
    """One array of the layout."""

    name: str
    grouped: str
    """The same array in files that keep functions as groups, as ``chop data`` writes them."""
    kind: Kind
    axes: tuple[str, ...]
    """Every axis it can have; coordinates and times may leave out the first ones, which are then shared."""
    meaning: str

    @property
    def shape(self) -> str:
        """The full shape, for a sentence."""
        return f"({', '.join(self.axes)})"


def _spec(name: str, grouped: str, kind: Kind, axes: str, meaning: str) -> Spec:
    return Spec(name, grouped, kind, tuple(axes.split()), meaning)


LAYOUT = (
    _spec("input_values", "inputs/values", "values", "N D n c", "inputs of the examples"),
    _spec("output_values", "outputs/values", "values", "N D m c", "their outputs"),
    _spec("query_values", "query/values", "values", "N n c", "the input that is asked about"),
    _spec("input_coords", "inputs/coords", "coords", "N D n k", "where the example inputs are known"),
    _spec("output_coords", "outputs/coords", "coords", "N D m k", "where the example outputs are known"),
    _spec("query_coords", "query/coords", "coords", "N n k", "where the query is known"),
    _spec("at", "at", "coords", "N m k", "where the answer is wanted"),
    _spec("input_mask", "inputs/mask", "mask", "N D n c", "1 where an input was observed, else 0"),
    _spec("output_mask", "outputs/mask", "mask", "N D m c", "the same for outputs"),
    _spec("query_mask", "query/mask", "mask", "N n c", "the same for the query"),
    _spec("times", "times", "times", "N D+1", "time index of each example input and of the query"),
    _spec("graph", "graph", "graph", "2 E", "neighbouring output points, by their numbers"),
    _spec("target", "target", "values", "N m c", "the true answer; errors are computed then"),
    _spec("target_mask", "mask", "mask", "N m c", "1 where the target was observed, else 0"),
)
SPECS: Mapping[str, Spec] = {spec.name: spec for spec in LAYOUT}

REQUIRED = ("input_values", "output_values", "query_values", "input_coords")
STAND_IN = {"output_coords": "input_coords", "query_coords": "input_coords", "at": "output_coords"}
"""What is taken for coordinates that are left out, if all questions and examples share it."""


def named(arrays: Mapping[str, Stored], where: str) -> dict[str, Stored]:
    """The arrays of the layout under their plain names; clear words about what is missing or misspelt."""
    found: dict[str, Stored] = {}
    for spec in LAYOUT:
        spellings = [name for name in dict.fromkeys((spec.name, spec.grouped)) if name in arrays]
        if len(spellings) > 1:
            raise FileError(f"{where} has both {spec.name} and {spec.grouped}; keep one of them")
        if spellings:
            found[spec.name] = arrays[spellings[0]]
    _refuse_misspelt(arrays, found, where)
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        there = ", ".join(sorted(arrays)[:12]) or "no arrays at all"
        raise FileError(
            f"{where} has no {' and no '.join(missing)}; questions need {', '.join(REQUIRED)} "
            f"(it has {there})"
        )
    for name, other in STAND_IN.items():
        if name not in found and (len(found[other].shape) <= 2):
            found[name] = found[other]
        elif name not in found:
            raise FileError(
                f"{where} has no {name}; it can be left out only where {other} is (points, coordinates), "
                f"not {found[other].shape}"
            )
    return found


def _refuse_misspelt(arrays: Iterable[str], found: Mapping[str, Stored], where: str) -> None:
    """A mask under a wrong name would be left out in silence."""
    free = [spec.name for spec in LAYOUT if spec.name not in found]
    known = {name for spec in LAYOUT for name in (spec.name, spec.grouped)}
    for name in arrays:
        near = [] if name in known else difflib.get_close_matches(name, free, n=1, cutoff=0.85)
        if near:
            raise FileError(f"{where} has an array {name!r}; rename it to {near[0]!r} if that is meant")


@dataclass(frozen=True)
class Placed:
    """An array whose axes are understood."""

    spec: Spec
    stored: Stored
    by_question: bool
    """Whether its first axis is the questions'; otherwise all share it."""
    widen: bool = False
    """Whether its last axis, of length 1, was left out."""


def place(spec: Spec, stored: Stored, points: int | None, where: str) -> Placed:
    """Which axes an array has. ``points`` is the number of points of its function, for one channel."""
    shape, full = stored.shape, len(spec.axes)
    axes = len(shape)
    allowed = "biuf" if spec.kind == "mask" else "iu" if spec.kind in ("times", "graph") else "iuf"
    if stored.dtype.kind not in allowed:
        raise FileError(f"{where}: {spec.name} holds {_held(stored)}")
    if stored.shared and axes < full:
        return Placed(spec, stored, by_question=False)
    if spec.kind == "graph":
        return Placed(spec, stored, by_question=False)
    if axes == full:
        return Placed(spec, stored, by_question=spec.kind not in ("coords", "times") or shape[0] != 1)
    if spec.kind == "coords" and axes == 1:
        return Placed(spec, stored, by_question=False, widen=True)
    if spec.kind in ("coords", "times") and 1 <= axes < full:
        return Placed(spec, stored, by_question=False)
    if spec.kind in ("values", "mask") and axes == full - 1 and shape[-1] == points:
        return Placed(spec, stored, by_question=True, widen=True)
    raise FileError(f"{where}: {spec.name} is {shape}, but {_wanted(spec, points)}")


def _held(stored: Stored) -> str:
    what = {"U": "text", "S": "text", "O": "text or objects", "c": "complex numbers", "f": "fractions"}
    words = what.get(stored.dtype.kind, str(stored.dtype))
    return f"{words}, not {'whole numbers' if stored.dtype.kind == 'f' else 'numbers'}"


def _wanted(spec: Spec, points: int | None) -> str:
    if spec.kind not in ("values", "mask"):
        return f"{spec.shape} is wanted, or a shape without the first axes where all share it"
    one = f"({', '.join(spec.axes[:-1])})"
    size = "" if points is None else f" with {points} points"
    return f"{spec.shape} is wanted{size}, the questions first, or {one} for one channel"


def axes_of(notes: Mapping[str, Any], where: str) -> tuple[tuple[str, float | None], ...] | None:
    """Names and periods of the coordinates as the file gives them, None if it does not.

    The note ``axes`` reads like ``"t, x=1"``: names in order, a period behind those that have one.
    """
    if notes.get("format") == GENERATED:
        given = json.loads(_text(notes["settings"])).get("axes")
        return None if given is None else tuple((str(name), period) for name, period in given)
    if "axes" not in notes:
        return None
    found = []
    for part in _text(notes["axes"]).split(","):
        name, equals, period = (word.strip() for word in part.partition("="))
        try:
            found.append((name, float(period) if equals else None))
        except ValueError:
            raise FileError(f"{where}: axes reads like 't, x=1', not {_text(notes['axes'])!r}") from None
    return tuple(found)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


__all__ = [
    "GENERATED",
    "LAYOUT",
    "REQUIRED",
    "SPECS",
    "STAND_IN",
    "Placed",
    "Spec",
    "axes_of",
    "named",
    "place",
]
