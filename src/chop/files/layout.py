"""The names and shapes of the arrays in a question file: one layout for HDF5, NetCDF-4 and npz.

N questions, D examples of each, n points of an input and m of an output, k coordinates, c channels.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal

from chop.core.errors import FileError
from chop.files.sources import Stored, as_flag

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
    """Every axis it can have; what all questions or examples share may leave out theirs."""
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


@dataclass(frozen=True)
class Function:
    """One of the functions a question is made of, and the arrays that tell it."""

    name: str
    values: str
    coords: str
    mask: str
    stand_in: str | None
    """The function whose points are taken where its own are left out, if all examples share them."""


FUNCTIONS = (
    Function("input", "input_values", "input_coords", "input_mask", None),
    Function("output", "output_values", "output_coords", "output_mask", "input"),
    Function("query", "query_values", "query_coords", "query_mask", "input"),
    Function("target", "target", "at", "target_mask", "output"),
)
REQUIRED = ("input_values", "output_values", "query_values")


def noted_grids(notes: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The axes that the notes name: ``grid`` for all functions, ``output_grid`` for one."""
    names = ["grid", *(f"{function.name}_grid" for function in FUNCTIONS)]
    given = {name: text(notes[name]).split(",") for name in names if name in notes}
    return {name: tuple(word.strip() for word in words) for name, words in given.items()}


def named(arrays: Mapping[str, Stored], notes: Mapping[str, Any], where: str) -> dict[str, Stored]:
    """The arrays of the layout under their plain names; clear words about what is missing or misspelt."""
    found: dict[str, Stored] = {}
    for spec in LAYOUT:
        spellings = [name for name in dict.fromkeys((spec.name, spec.grouped)) if name in arrays]
        if len(spellings) > 1:
            raise FileError(f"{where} has both {spec.name} and {spec.grouped}; keep one of them")
        if spellings:
            found[spec.name] = arrays[spellings[0]]
    axes = {name for stored in found.values() for name in stored.dims}.union(*noted_grids(notes).values())
    _refuse_misspelt(arrays, found, axes, where)
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        raise FileError(absent(arrays, missing, where))
    return found


def absent(arrays: Mapping[str, Stored], missing: list[str], where: str) -> str:
    """What a file lacks, beside what it has."""
    there = ", ".join(sorted(arrays)[:12]) or "no arrays at all"
    return (
        f"{where} has no {' and no '.join(missing)}; questions need {', '.join(REQUIRED)} and input_coords, "
        f"or coordinates along each axis (it has {there})"
    )


def _refuse_misspelt(
    arrays: Mapping[str, Stored], found: Mapping[str, Stored], axes: Set[str | None], where: str
) -> None:
    """A mask under a wrong name would be left out in silence. An axis ``time`` is no misspelt ``times``."""
    free = [spec.name for spec in LAYOUT if spec.name not in found]
    known = {name for spec in LAYOUT for name in (spec.name, spec.grouped)}
    for name in arrays:
        near = [] if name in known | axes else difflib.get_close_matches(name, free, n=1, cutoff=0.85)
        if near:
            raise FileError(f"{where} has an array {name!r}; rename it to {near[0]!r} if that is meant")


def axes_of(notes: Mapping[str, Any], where: str) -> tuple[tuple[str, float | None], ...] | None:
    """Names and periods of the coordinates as the file gives them, None if it does not.

    The note ``axes`` reads like ``"t, x=1"``: names in order, a period behind those that have one.
    """
    if kind_of(notes) == GENERATED:
        return _generated_axes(notes.get("settings"), where)
    if "axes" not in notes:
        return None
    found = []
    for part in text(notes["axes"]).split(","):
        name, equals, period = (word.strip() for word in part.partition("="))
        try:
            found.append((name, float(period) if equals else None))
        except ValueError:
            raise FileError(f"{where}: axes reads like 't, x=1', not {text(notes['axes'])[:60]!r}") from None
    return tuple(found)


def _generated_axes(settings: Any, where: str) -> tuple[tuple[str, float | None], ...] | None:
    try:
        given = json.loads(text(settings)).get("axes")
        return None if given is None else tuple((str(name), period) for name, period in given)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise FileError(f"{where}: its settings cannot be read; make it again with chop data") from None


def kind_of(notes: Mapping[str, Any]) -> str:
    """How a file calls itself; empty if it does not."""
    return text(notes.get("format", ""))


def complete(notes: Mapping[str, Any]) -> bool:
    """Whether a generated file says that it was written to its end."""
    return bool(as_flag(notes.get("complete", False)))


def text(value: Any) -> str:
    """What a note says."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


__all__ = [
    "FUNCTIONS",
    "GENERATED",
    "LAYOUT",
    "REQUIRED",
    "SPECS",
    "Function",
    "Spec",
    "absent",
    "axes_of",
    "complete",
    "kind_of",
    "named",
    "noted_grids",
    "text",
]
