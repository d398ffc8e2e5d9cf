"""``chop train``: pretrain a network, continue, export its weights, draw its learning curve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from chop.cli.terminal import examples

train_app = typer.Typer(
    help="Pretrain an in-context operator network; the same command continues an interrupted run.",
    no_args_is_help=True,
)

_Minutes = Annotated[float, typer.Option(help="Length of the run; the rate is planned to end with it.")]
_Steps = Annotated[int | None, typer.Option(help="Length in steps instead: then the run is reproducible.")]
_Seed = Annotated[int, typer.Option(help="Seed of weights and data.")]
_Workers = Annotated[int, typer.Option(help="Worker processes, one thread each; 0 means one for each core.")]
_Size = Annotated[int, typer.Option(help="Operators in one step of one worker (six predictions each).")]
_Rate = Annotated[float, typer.Option(help="Largest learning rate.")]
_From = Annotated[str | None, typer.Option("--from", help="Start from a bundled network or weights file.")]
_Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="Folder of the run; the same folder continues.",
        show_default="runs/train/PROBLEM-sSEED",
    ),
]
_Folder = Annotated[Path | None, typer.Option("--folder", hidden=True)]
_Export = Annotated[
    Path | None, typer.Option(help="Also write the finished weights here; a file that is there is replaced.")
]


def _add_command(problem: str, about: str, *lines: str) -> None:
    """The command of a problem whose data are made while training runs."""

    @train_app.command(problem, help=about, epilog=examples(*lines))
    def command(
        minutes: _Minutes = 60.0, seed: _Seed = 0, steps: _Steps = None, workers: _Workers = 0,
        size: _Size = 16, rate: _Rate = 2e-3, start: _From = None, out: _Out = None,
        folder: _Folder = None, export: _Export = None,
    ) -> None:  # fmt: skip
        place = _place(out, folder, f"{problem}-s{seed}")
        _train(
            problem, place, workers, export, start, minutes=minutes, steps=steps, seed=seed, size=size,
            rate=rate,
        )  # fmt: skip


_add_command(
    "conservation",
    "Conservation laws: cubic fluxes with coefficients in [-1, 1]^3.",
    "chop train conservation --minutes 75 --out run --export my.safetensors",
    "chop train conservation --steps 200 --from conservation --rate 1e-4",
)
_add_command(
    "mfc",
    "Mean-field control: five families of operators at length scale 1.",
    "chop train mfc --minutes 75 --workers 2 --out run",
)


@train_app.command("air", epilog=examples("chop train air --region bthsa --data folder --minutes 60"))
def air(
    region: Annotated[str, typer.Option(help="The region to learn: the REGION of dataset_REGION.nc.")],
    data: Annotated[
        Path, typer.Option(help="Folder with dataset_REGION.nc and stations_REGION.csv (chop data air).")
    ],
    minutes: _Minutes = 60.0, seed: _Seed = 0, steps: _Steps = None, workers: _Workers = 1,
    size: _Size = 6, rate: _Rate = 2e-3, start: _From = None, out: _Out = None,
    folder: _Folder = None, export: _Export = None,
    period: Annotated[
        tuple[str, str], typer.Option(help="First day, and the day after the last, to learn from.")
    ] = ("2022-01-01", "2024-01-01"),
    channels: Annotated[
        str, typer.Option(help="Channels, the hour first and the scored pollutants last.")
    ] = "hour,NO2,PM2.5,O3",
    stations: Annotated[int, typer.Option(min=1, help="Stations in one step, drawn anew each time.")] = 96,
) -> None:  # fmt: skip
    """Air quality: hourly observations of one region's stations, leads of 1 to 24 h."""
    from chop.problems.air.dataset import check_region_name, locate

    with _errors_as_sentences():  # before a folder of that name is made
        check_region_name(region)
        locate(data, region)
    settings = {
        "folder": str(data), "region": region, "period": list(period),
        "channels": [name.strip() for name in channels.split(",")], "stations": stations,
    }  # fmt: skip
    place = _place(out, folder, f"air-{region}-s{seed}")
    _train(
        "air", place, workers, export, start, minutes=minutes, steps=steps, seed=seed, size=size, rate=rate,
        data=settings,
    )  # fmt: skip


@train_app.command("export", epilog=examples("chop train export run my.safetensors"))
def export_run(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, finished or not.")],
    path: Annotated[Path, typer.Argument(help="The weights file to write; one that is there is replaced.")],
) -> None:
    """Write the averaged weights of a run's last checkpoint."""
    from chop.icon.training import export_weights

    with _errors_as_sentences():
        typer.echo(export_weights(folder, path))


@train_app.command("curve", epilog=examples("chop train curve run --picture curve.png"))
def curve(
    folders: Annotated[list[Path], typer.Argument(help="Runs that continue each other, in order.")],
    picture: Annotated[
        Path, typer.Option(help="The picture to write; one that is there is replaced.")
    ] = Path("curve.png"),
    title: Annotated[str, typer.Option(help="Printed above it.")] = "",
) -> None:  # fmt: skip
    """Draw the learning curve."""
    from chop.icon.curve import draw_curve

    with _errors_as_sentences():
        typer.echo(draw_curve(folders, picture, title))


def _place(out: Path | None, folder: Path | None, usual: str) -> Path:
    """The folder of a run; ``--folder`` is what ``--out`` was called in 0.1."""
    if folder is not None:
        if out is not None:
            raise typer.BadParameter("--folder is the old name of --out; give --out alone")
        typer.echo(f"chop train: --folder is now --out and will be dropped: write --out {folder}", err=True)
    return out or folder or Path("runs") / "train" / usual


def _train(
    problem: str, place: Path, workers: int, export: Path | None, start: str | None, **settings: Any
) -> None:
    """Train as `TrainingPlan` says (its fields are ``settings``), then write weights and picture."""
    import os

    from chop.core.errors import ChopError
    from chop.icon.config import StationConfig
    from chop.icon.curve import draw_curve
    from chop.icon.launch import progress_printer, run_training
    from chop.icon.training import TrainingPlan
    from chop.icon.weights import find
    from chop.storage.atomic import write_bytes

    with _errors_as_sentences():
        data = settings.get("data")
        plan = TrainingPlan(
            problem=problem,
            folder=str(place),
            start=None if start is None else str(find(start)),
            # The shape of a station network depends on the data: as many channels as there are.
            config=None if data is None else StationConfig(channels=data["channels"]),
            **settings,
        )
        place.mkdir(parents=True, exist_ok=True)  # refused here, not once in every worker
        run_training(plan, workers or os.cpu_count() or 1, progress_printer(plan))
        if int(os.environ.get("RANK", "0")) == 0:
            weights = place / "weights.safetensors"
            if export is not None:
                write_bytes(export, weights.read_bytes(), ChopError, overwrite=True)
            picture = draw_curve([place], place / "curve.png", problem)
            typer.echo(f"{export or weights}\n{picture}")


@contextmanager
def _errors_as_sentences() -> Iterator[None]:
    """Errors a user can cause are one sentence and exit code 2."""
    from chop.core.errors import ChopError

    try:
        yield
    except ChopError as error:
        typer.echo(f"chop train: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("stopped; the same command continues", err=True)
        raise typer.Exit(130) from None
