"""``chop studio``: see, try and understand a program in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def studio(
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Where it listens; the first free one from 8765 if left out, 0: any."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Station data: a folder with dataset_REGION.nc files.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="A frozen model of your own beside the bundled ones: weights or FILE.py:NAME.",
        ),
    ] = None,
    work: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for uploads, searches and the invented world.")
    ] = Path("chop-studio"),
    host: Annotated[str, typer.Option(help="The address it is bound to.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Questions, programs and what they do, on a page in the browser.

    Pick or type a question, change a program as text or by its drawing, compare answers, watch a search. The
    page is served from this machine to this machine; the address carries a token. Ctrl-C ends it.
    """
    import webbrowser

    from chop.core.errors import ChopError
    from chop.files.models_and_programs import model_file
    from chop.studio.server import new_token, serve
    from chop.studio.settings import Settings

    if data is not None and not any(data.glob("dataset_*.nc")):
        raise ChopError(f"{data} holds no station data: it needs files called dataset_REGION.nc")
    for source in model or ():
        model_file(source)
    if host not in ("127.0.0.1", "localhost", "::1"):
        typer.echo(f"chop: at {host} everybody who is told the address can use the studio", err=True)

    def opened(address: str) -> None:
        typer.echo(f"CHOP Studio: {address}\nCtrl-C ends it.")
        if browser:
            webbrowser.open(address)

    settings = Settings(0, new_token(), work, host, data, tuple(model or ()))
    serve(settings, port, opened)
