"""Every array of a file in its place: first the values, whose sizes tell how all others are meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from chop.core.errors import FileError
from chop.files.gridded import Grid, grids
from chop.files.layout import FUNCTIONS, SPECS, Function, Spec, absent, axes_of, named
from chop.files.masks import place_masks
from chop.files.readings import Placed, read_shared, read_values, refuse_text
from chop.files.sources import Source, Stored


@dataclass(frozen=True)
class Arrangement:
    """A file that is understood: its arrays, and the grids of functions that have no array of points."""

    arrays: Mapping[str, Placed]
    grids: Mapping[str, Grid]
    axes: tuple[tuple[str, float | None], ...] | None
    questions: int

    def points(self, function: Function) -> tuple[int, int]:
        """How many points a function is known at, and how many coordinates each has."""
        grid = self.grids.get(function.name)
        if grid is not None:
            return grid.points, len(grid.axes)
        points, coordinates = self.arrays[function.coords].shape[-2:]
        return points, coordinates


def arrange(source: Source) -> Arrangement:
    """What a file holds, by the layout."""
    where = str(source.path)
    found = named(source.arrays, source.notes, where)
    made = grids(source.arrays, found, source.notes, where)
    axes = axes_of(source.notes, where)
    values = {
        name: read_values(SPECS[name], found[name], made.get(function.name), _near(function, found), where)
        for function in FUNCTIONS
        if (name := function.values) in found
    }
    sizes = {"N": _questions(values, where), "D": values["input_values"].shape[1]}
    coords = _coordinates(source, found, values, made, sizes, None if axes is None else len(axes))
    arrays = {**values, **coords, **place_masks(source, found, {**values, **coords}, made, sizes["N"])}
    if "times" in found:
        times = {"N": sizes["N"], "D+1": sizes["D"] + 1}
        arrays["times"] = read_shared(SPECS["times"], found["times"], times, None, where)
    if "graph" in found:
        refuse_text(SPECS["graph"], found["graph"], where)
        arrays["graph"] = Placed(SPECS["graph"], found["graph"], found["graph"].shape, by_question=False)
    if axes is None and "input" in made:
        axes = made["input"].stated_axes()
    return Arrangement(arrays, made, axes, sizes["N"])


def _near(function: Function, found: Mapping[str, Stored]) -> tuple[int, ...] | None:
    """The shape of a function's coordinates, or of those that stand in for them."""
    while function.coords not in found and function.stand_in is not None:
        function = _called(function.stand_in)
    return found[function.coords].shape if function.coords in found else None


def _called(name: str) -> Function:
    return next(function for function in FUNCTIONS if function.name == name)


def _questions(values: Mapping[str, Placed], where: str) -> int:
    counts = {name: array.shape[0] for name, array in values.items() if array.by_question}
    if not counts:
        raise FileError(f"{where}: no array has an axis of questions")
    name, questions = next(iter(counts.items()))
    for other, count in counts.items():
        if count != questions:
            raise FileError(f"{where}: {name} has {questions} questions, but {other} has {count}")
    if not questions:
        raise FileError(f"{where} holds no questions: {name} is {values[name].stored.shape}")
    return questions


def _coordinates(
    source: Source,
    found: Mapping[str, Stored],
    values: Mapping[str, Placed],
    made: Mapping[str, Grid],
    sizes: Mapping[str, int],
    named: int | None,
) -> dict[str, Placed]:
    """Where each function is known, for those that have no grid."""
    where, placed = str(source.path), dict[str, Placed]()
    coordinates = next((len(grid.axes) for grid in made.values()), None)
    for function in FUNCTIONS:
        spec = SPECS[function.coords]
        if function.name in made:
            continue
        if spec.name in found:
            points = values[function.values].shape[-2] if function.values in values else None
            known = {**sizes, spec.axes[-2]: points, "k": coordinates}
            placed[spec.name] = read_shared(spec, found[spec.name], known, named, where)
            coordinates = placed[spec.name].shape[-1]
        elif function.stand_in is None:
            raise FileError(absent(source.arrays, [spec.name], where))
        else:
            placed[spec.name] = _stand_in(spec, placed[_called(function.stand_in).coords], where)
    return placed


def _stand_in(spec: Spec, other: Placed, where: str) -> Placed:
    """The points of another function, which all of its examples must share."""
    if "D" in other.spec.axes:
        if other.shape[1] != 1:
            raise FileError(
                f"{where} has no {spec.name}; it can be left out only where all examples share "
                f"{other.spec.name}, not where that is {other.stored.shape}"
            )
        if "D" not in spec.axes:
            return replace(other, spec=spec, shape=(other.shape[0], *other.shape[2:]))
    return replace(other, spec=spec)


__all__ = ["Arrangement", "arrange"]
