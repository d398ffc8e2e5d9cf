"""``chop data``: data sets of conservation laws and mean-field control as HDF5 files, and station data."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from chop.cli.terminal import examples
from chop.core.errors import ProblemError

if TYPE_CHECKING:
    from chop.problems.case import Case

data_app = typer.Typer(no_args_is_help=True, help="Generate or fetch data sets.")

_ROWS_AT_A_TIME = 20


class SplitName(StrEnum):
    """Disjoint streams of random numbers."""

    train = "train"
    evolution = "evolution"
    test = "test"


class FamilyName(StrEnum):
    """The families of mean-field-control operators."""

    g_1to1 = "g_1to1"
    g_1to2 = "g_1to2"
    g_2to2 = "g_2to2"
    rho_1to1 = "rho_1to1"
    rho_1to2 = "rho_1to2"


Out = Annotated[Path, typer.Option("--out", "-o", help="The HDF5 file to write.")]
Count = Annotated[int, typer.Option("--n", "-n", min=1, help="How many questions.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same data, bit for bit.")]
Which = Annotated[SplitName, typer.Option(help="Splits never share a random number.")]
Double = Annotated[bool, typer.Option("--float64", help="Store double precision.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


@data_app.command(
    epilog=examples(
        "chop data air --world invented",
        "chop data air --world invented --names north south",
        "chop data air --fetch folder",
    )
)
def air(
    fetch: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Download KnowAir-V2 (Zenodo 15614907) into a folder.")
    ] = None,
    world: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Invent two regions in the same layout.")
    ] = None,
    hours: Annotated[int | None, typer.Option(min=48, help="Length of the invented record.")] = None,
    stations: Annotated[
        tuple[int, int] | None, typer.Option(help="Stations of the two invented regions.")
    ] = None,
    names: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Names of the two invented regions; bthsa and yrd if left out."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same world.")] = 0,
    weather: Annotated[bool, typer.Option(help="Invent weather too.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace an invented world.")] = False,
) -> None:
    """Hourly air quality at stations: fetch the public data, or invent some."""
    if (fetch is None) == (world is None):
        raise ProblemError("say --fetch DIR to download the public data, or --world DIR to invent some")
    if fetch is not None:
        _fetch(fetch)
        return
    assert world is not None
    from chop.problems.air.synthetic_regions import HOURS, NAMES, STATIONS, make_world

    called = names or NAMES
    make_world(world, hours or HOURS, stations or STATIONS, seed, weather, overwrite=force, names=called)
    typer.echo(f"{world}: two invented regions, {' and '.join(called)}")


@data_app.command(
    epilog=examples(
        "chop data conservation --out tanh.h5 --flux 'tanh(u)' --n 100",
        "chop data conservation --out cubic.h5 --flux cubic --split train --seed 1",
    )
)
def conservation(
    out: Out,
    flux: Annotated[str, typer.Option(help="A formula in u, or a name such as cubic.")] = "sin(u)-cos(u)",
    n: Count = 500,
    seed: Seed = 0,
    split: Which = SplitName.test,
    steps: Annotated[int, typer.Option(min=1, help="Frames after the query.")] = 144,
    length: Annotated[float, typer.Option(help="Length scale of the initial conditions.")] = 1.0,
    mean: Annotated[float, typer.Option(help="Mean of the initial conditions.")] = 0.0,
    scale: Annotated[float, typer.Option(help="Size of the initial conditions.")] = 1.0,
    bound: Annotated[tuple[float, float], typer.Option(help="Range of u.")] = (-3.0, 3.0),
    points: Annotated[int, typer.Option(min=4, help="Grid points.")] = 100,
    drop_failures: Annotated[bool, typer.Option("--drop-failures", help="Leave out what blows up.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Solver threads.")] = 1,
    float64: Double = False,
    force: Force = False,
) -> None:
    """Trajectories of a scalar conservation law on the circle."""
    import torch

    from chop.problems.conservation import sample

    drawn: dict[str, Any] = {
        "seed": seed, "split": split.value, "steps": steps, "length": length, "mean": mean, "scale": scale,
        "bound": bound, "points": points,
    }  # fmt: skip

    def piece(first: int, count: int) -> Case:
        on_failure: Literal["raise", "drop"] = "drop" if drop_failures else "raise"
        dtype = torch.float64 if float64 else torch.float32
        return sample(flux, count, first=first, on_failure=on_failure, threads=threads, dtype=dtype, **drawn)

    options = {"flux": flux, "n": n, **drawn}
    flags = {"drop-failures": drop_failures, "float64": float64}
    _write(out, n, piece, _command("conservation", out, options, flags), force, drop_failures)


@data_app.command(epilog=examples("chop data mfc --out densities.h5 --family g_2to2 --length 0.3"))
def mfc(
    out: Out,
    family: Annotated[FamilyName, typer.Option(help="Which operators.")] = FamilyName.g_2to2,
    length: Annotated[float, typer.Option(help="Length scale of the hidden function.")] = 0.5,
    n: Count = 100,
    seed: Seed = 0,
    split: Which = SplitName.test,
    times: Annotated[int, typer.Option(min=1, help="Times of a function of (t, x).")] = 10,
    points: Annotated[int, typer.Option(min=1, help="Points of a function of (t, x).")] = 50,
    float64: Double = False,
    force: Force = False,
) -> None:
    """Operators of mean-field control."""
    import torch

    from chop.problems.mfc import FAMILIES, even_grid, sample

    kind = FAMILIES[family.value]
    into = even_grid(kind.input_window or (0.0, 0.0), times, points)
    asked = even_grid(kind.output_window, times, points)

    def piece(first: int, count: int) -> Case:
        return sample(
            family.value, length, count, seed=seed, split=split.value, first=first, inputs=into,
            outputs=asked, dtype=torch.float64 if float64 else torch.float32,
        )  # fmt: skip

    options = {
        "family": family.value, "length": length, "n": n, "seed": seed, "split": split.value,
        "times": times, "points": points,
    }  # fmt: skip
    _write(out, n, piece, _command("mfc", out, options, {"float64": float64}), force)


def _command(name: str, out: Path, options: Mapping[str, object], flags: Mapping[str, bool]) -> str:
    """The command line that makes the file again."""
    words = ["chop", "data", name, "--out", out.name]
    for key, value in options.items():
        words += [f"--{key}", *([str(part) for part in value] if isinstance(value, tuple) else [str(value)])]
    words += [f"--{key}" for key, given in flags.items() if given]
    return shlex.join(words)


def _write(
    out: Path, n: int, piece: Callable[[int, int], Case], command: str, force: bool, drop: bool = False
) -> None:
    from chop.core.errors import SolveError
    from chop.problems.question_files import write_cases
    from chop.runs.progress import passing_bar

    def pieces() -> Iterator[Case]:
        for first in range(0, n, _ROWS_AT_A_TIME):
            try:
                yield piece(first, min(_ROWS_AT_A_TIME, n - first))
            except SolveError:
                if not drop:  # with it, only a piece that fails as a whole comes here
                    raise

    written = 0
    with passing_bar(n, out.name) as shown:

        def progress(rows: int) -> None:
            nonlocal written
            written = rows
            shown.update(rows)

        write_cases(out, pieces(), command=command, overwrite=force, progress=progress)
    dropped = f" ({n - written} failed and were left out)" if written < n else ""
    typer.echo(f"{out}: {written} questions{dropped}")


def _fetch(folder: Path) -> None:
    from chop.problems.air.download import fetch
    from chop.runs.progress import passing_bar

    with passing_bar(download=True) as shown:
        files = fetch(folder, progress=lambda name, have, total: shown.update(have, total=total, row=name))
    typer.echo(f"{folder}: {', '.join(file.name for file in files)}")
