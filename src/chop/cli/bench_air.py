"""``chop bench air``: the transfer between regions on your data, resumable; ``chop demo air``: a taste."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chop.core.errors import BenchError


def air(
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="CHOP_AIR_DATA", help="Folder with dataset_bthsa.nc, dataset_yrd.nc and their stations."
        ),
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="One question every so many hours.")] = 6,
    cases: Annotated[
        int | None, typer.Option(min=1, help="At most so many questions, spread over the year.")
    ] = None,
    year: Annotated[
        int, typer.Option(help="Year of the questions; examples are from the two before.")
    ] = 2024,
    direction: Annotated[
        list[str] | None, typer.Option(help="Only bthsa-yrd or yrd-bthsa (network, then region).")
    ] = None,
    programs: Annotated[
        list[str] | None,
        typer.Option(
            "--programs", "-p", help="The text of a program to measure beside the others. Repeatable."
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Weights of your own, such as bthsa=FILE, instead of the bundled ones. Repeatable."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the results; the same folder continues.")
    ] = Path("chop-bench-air"),
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the questions' order and the random examples.")
    ] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Worker processes; 0 means one for each core.")] = 0,
    executor: Annotated[str, typer.Option(help="processes, inline or ray.")] = "processes",
    report_only: Annotated[
        bool,
        typer.Option(
            "--report-only", help="Measure nothing; write tables and figures anew (maps need --data)."
        ),
    ] = False,
) -> None:
    """Air quality: networks trained in one region and carried to another, 88 conditions.

    Every piece of work is kept as it is finished. Ctrl-C, a crash or a full disk lose nothing: the same
    command continues.
    """
    from chop.bench.air.report import write
    from chop.bench.air.runner import Run, run
    from chop.cli.terminal import console as terminal

    console = terminal()
    asked = Run(
        out=out, data=data, models=tuple(map(_named, model or ())), programs=tuple(programs or ()),
        directions=tuple(direction or ()), every=every, cases=cases, year=year, seed=seed, workers=workers,
        executor=executor,
    )  # fmt: skip
    setting = None
    if not report_only:
        try:
            setting = run(asked, console.print, bar=console.is_terminal)
        except KeyboardInterrupt:
            console.print(f"stopped; everything finished is in {out} and the same command continues")
            raise typer.Exit(130) from None
    elif data is not None:
        setting = asked.setting()
    with console.status("writing tables and figures"):
        made = write(out, setting)
    for path in made:
        console.print(str(path))


def demo_air(
    n: Annotated[int, typer.Option("--n", min=2, help="How many questions.")] = 24,
    model: Annotated[str | None, typer.Option(help="A station network of your own.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the invented data and the pictures.")
    ] = Path("chop-demo-air"),
) -> None:
    """Air quality in an invented region that a network has never seen: bare, and with a program around it."""
    import torch
    from rich.table import Table

    from chop.bench.air.demo import demonstrate, pictures
    from chop.bench.air.demo import model as frozen
    from chop.cli.terminal import console as terminal

    torch.set_num_threads(1)  # at this size a second thread gains nothing
    console = terminal()
    network = frozen(model)
    with console.status("inventing two regions, then asking the network"):
        shown = demonstrate(network, out, n, seed)
    table = Table(title=f"mean RMSE in µg/m³, n = {n}")
    for column in ("", "lead (h)", "Raw ICON", "CHOP(Air)", "persistence", "change by CHOP(Air)"):
        table.add_column(column)
    for row in shown.rows():
        table.add_row(*row)
    console.print(table)
    console.print(shown.sentence())
    with console.status("drawing"):
        made = pictures(shown)
    console.print(f"pictures: {', '.join(map(str, made))}")


def _named(model: str) -> tuple[str, str]:
    region, equals, path = model.partition("=")
    if not (region and equals and path):
        raise BenchError(f"say which region a network was trained in: --model bthsa={model}")
    return region, path


__all__ = ["air", "demo_air"]
