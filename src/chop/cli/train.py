"""``chop train``: pretrain a network, continue, export its weights, draw its learning curve."""

from __future__ import annotations

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
_Folder = Annotated[
    Path | None, typer.Option(help="Where the run lives.", show_default="runs/train/PROBLEM-sSEED")
]
_Export = Annotated[Path | None, typer.Option(help="Also write the finished weights here.")]


@train_app.command(
    "conservation",
    epilog=examples(
        "chop train conservation --minutes 75 --folder run --export my.safetensors",
        "chop train conservation --steps 200 --from conservation --rate 1e-4",
    ),
)
def conservation(
    minutes: _Minutes = 60.0, seed: _Seed = 0, steps: _Steps = None, workers: _Workers = 0,
    size: _Size = 16, rate: _Rate = 2e-3, start: _From = None, folder: _Folder = None,
    export: _Export = None,
) -> None:  # fmt: skip
    """Conservation laws: cubic fluxes with coefficients in [-1, 1]^3."""
    _train("conservation", minutes, seed, steps, workers, size, rate, start, folder, export)


@train_app.command("mfc", epilog=examples("chop train mfc --minutes 75 --workers 2 --folder run"))
def mfc(
    minutes: _Minutes = 60.0, seed: _Seed = 0, steps: _Steps = None, workers: _Workers = 0,
    size: _Size = 16, rate: _Rate = 2e-3, start: _From = None, folder: _Folder = None,
    export: _Export = None,
) -> None:  # fmt: skip
    """Mean-field control: five families of operators at length scale 1."""
    _train("mfc", minutes, seed, steps, workers, size, rate, start, folder, export)


@train_app.command("air", epilog=examples("chop train air --region bthsa --data folder --minutes 60"))
def air(
    region: Annotated[str, typer.Option(help="The region to learn, such as bthsa or yrd.")],
    data: Annotated[
        Path, typer.Option(help="Folder with dataset_REGION.nc and stations_REGION.csv (chop data air).")
    ],
    minutes: _Minutes = 60.0, seed: _Seed = 0, steps: _Steps = None, workers: _Workers = 1,
    size: _Size = 6, rate: _Rate = 2e-3, start: _From = None, folder: _Folder = None,
    export: _Export = None,
    period: Annotated[
        tuple[str, str], typer.Option(help="First day, and the day after the last, to learn from.")
    ] = ("2022-01-01", "2024-01-01"),
    channels: Annotated[
        str, typer.Option(help="Channels, the hour first and the scored pollutants last.")
    ] = "hour,NO2,PM2.5,O3",
    stations: Annotated[int, typer.Option(min=1, help="Stations in one step, drawn anew each time.")] = 96,
) -> None:  # fmt: skip
    """Air quality: hourly observations of one region's stations, leads of 1 to 24 h."""
    named = [name.strip() for name in channels.split(",")]
    settings = {
        "folder": str(data), "region": region, "period": list(period), "channels": named,
        "stations": stations,
    }  # fmt: skip
    folder = folder or Path("runs") / "train" / f"air-{region}-s{seed}"
    _train("air", minutes, seed, steps, workers, size, rate, start, folder, export, settings)


@train_app.command("export", epilog=examples("chop train export run my.safetensors"))
def export_run(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, finished or not.")],
    path: Annotated[Path, typer.Argument(help="The weights file to write.")],
) -> None:
    """Write the averaged weights of a run's last checkpoint."""
    _guarded(lambda: _export(folder, path))


@train_app.command("curve", epilog=examples("chop train curve run --picture curve.png"))
def curve(
    folders: Annotated[list[Path], typer.Argument(help="Runs that continue each other, in order.")],
    picture: Annotated[Path, typer.Option(help="The picture to write.")] = Path("curve.png"),
    title: Annotated[str, typer.Option(help="Printed above it.")] = "",
) -> None:
    """Draw the learning curve."""
    from chop.icon.curve import draw_curve

    _guarded(lambda: typer.echo(draw_curve(list(folders), picture, title)))


def _train(
    problem: str, minutes: float, seed: int, steps: int | None, workers: int, size: int, rate: float,
    start: str | None, folder: Path | None, export: Path | None, data: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    def work() -> None:
        import os

        from chop.core.errors import ChopError
        from chop.icon.curve import draw_curve
        from chop.icon.launch import progress_printer, run_training
        from chop.icon.training import TrainingPlan
        from chop.icon.weights import find
        from chop.storage.atomic import write_bytes

        plan = TrainingPlan(
            problem=problem,
            folder=str(folder or Path("runs") / "train" / f"{problem}-s{seed}"),
            minutes=minutes,
            steps=steps,
            seed=seed,
            size=size,
            rate=rate,
            start=None if start is None else str(find(start)),
            config=_config(data),
            data=data,
        )
        Path(plan.folder).mkdir(parents=True, exist_ok=True)  # refused here, not once in every worker
        run_training(plan, workers or os.cpu_count() or 1, progress_printer(plan))
        if int(os.environ.get("RANK", "0")) == 0:
            weights = Path(plan.folder) / "weights.safetensors"
            if export is not None:
                write_bytes(export, weights.read_bytes(), ChopError, overwrite=True)
            picture = draw_curve([plan.folder], Path(plan.folder) / "curve.png", problem)
            typer.echo(f"{export or weights}\n{picture}")

    _guarded(work)


def _config(data: dict[str, Any] | None) -> Any:
    """The network's shape where it depends on the data: as many channels as there are."""
    from chop.icon.config import StationConfig

    return None if data is None else StationConfig(channels=data["channels"])


def _export(folder: Path, path: Path) -> None:
    from chop.icon.training import export_weights

    typer.echo(export_weights(folder, path))


def _guarded(work: object) -> None:
    """Errors a user can cause are one sentence and exit code 2."""
    from chop.core.errors import ChopError

    assert callable(work)
    try:
        work()
    except ChopError as error:
        typer.echo(f"chop train: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("stopped; the same command continues", err=True)
        raise typer.Exit(130) from None


__all__ = ["train_app"]
