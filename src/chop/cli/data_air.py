"""``chop data air``: the public station data downloaded, or two invented regions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chop.core.errors import ProblemError


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
    from chop.problems.air.synthetic_regions import HOURS, STATIONS, make_world

    make_world(world, hours or HOURS, stations or STATIONS, seed, weather, overwrite=force)
    typer.echo(f"{world}: two invented regions, bthsa and yrd")


def _fetch(folder: Path) -> None:
    from chop.problems.air.download import fetch
    from chop.runs.progress import passing_bar

    with passing_bar(download=True) as shown:
        files = fetch(folder, progress=lambda name, have, total: shown.update(have, total=total, row=name))
    typer.echo(f"{folder}: {', '.join(file.name for file in files)}")


__all__ = ["air"]
