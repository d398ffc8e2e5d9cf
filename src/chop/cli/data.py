"""``chop data``: data sets of conservation laws and mean-field control as HDF5 files, and station data."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chop.cli.data_air import air
from chop.cli.terminal import examples

if TYPE_CHECKING:
    from chop.problems.case import Case

data_app = typer.Typer(no_args_is_help=True, help="Generate or fetch data sets.")
data_app.command(epilog=examples("chop data air --world invented", "chop data air --fetch folder"))(air)

_ROWS_AT_A_TIME = 20


class Split(StrEnum):
    """Disjoint streams of random numbers."""

    train = "train"
    evolution = "evolution"
    test = "test"


class Family(StrEnum):
    """The families of mean-field-control operators."""

    g_1to1 = "g_1to1"
    g_1to2 = "g_1to2"
    g_2to2 = "g_2to2"
    rho_1to1 = "rho_1to1"
    rho_1to2 = "rho_1to2"


Out = Annotated[Path, typer.Option("--out", "-o", help="The HDF5 file to write.")]
Count = Annotated[int, typer.Option("--n", "-n", min=1, help="How many questions.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same data, bit for bit.")]
Which = Annotated[Split, typer.Option(help="Splits never share a random number.")]
Double = Annotated[bool, typer.Option("--float64", help="Store double precision.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


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
    split: Which = Split.test,
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

    def piece(first: int, count: int) -> Case:
        return sample(
            flux, count, seed=seed, split=split.value, first=first, steps=steps, length=length, mean=mean,
            scale=scale, bound=bound, points=points, on_failure="drop" if drop_failures else "raise",
            threads=threads, dtype=torch.float64 if float64 else torch.float32,
        )  # fmt: skip

    options = {
        "flux": flux, "n": n, "seed": seed, "split": split.value, "steps": steps, "length": length,
        "mean": mean, "scale": scale, "bound": bound, "points": points,
    }  # fmt: skip
    flags = {"drop-failures": drop_failures, "float64": float64}
    _write(out, n, piece, _command("conservation", out, options, flags), force, drop_failures)


@data_app.command(epilog=examples("chop data mfc --out densities.h5 --family g_2to2 --length 0.3"))
def mfc(
    out: Out,
    family: Annotated[Family, typer.Option(help="Which operators.")] = Family.g_2to2,
    length: Annotated[float, typer.Option(help="Length scale of the hidden function.")] = 0.5,
    n: Count = 100,
    seed: Seed = 0,
    split: Which = Split.test,
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


__all__ = ["data_app"]
