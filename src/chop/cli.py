"""The command line. Heavy modules are imported inside the commands, so that help is immediate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from chop import __version__
from chop.bench.commands import bench
from chop.errors import ChopError, ParseError
from chop.icon.commands import train_app
from chop.problems.commands import data_app

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Chains of explicit operators around a frozen in-context operator network.",
)
app.add_typer(data_app, name="data")
app.add_typer(train_app, name="train")
app.command("bench")(bench)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    flux: Annotated[str, typer.Option(help="A flux as a formula in u.")] = "sin(u)-cos(u)",
    amplitude: Annotated[float, typer.Option(help="Size of the initial conditions.")] = 0.05,
    n: Annotated[int, typer.Option("--n", min=2, help="How many questions.")] = 50,
    steps: Annotated[int, typer.Option(min=1, help="Rollout steps.")] = 10,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pictures.")] = Path("chop-demo"),
) -> None:
    """A question outside a model's range: the bare model against a program around it."""
    from rich.console import Console
    from rich.table import Table

    from chop.demo import PROGRAM, RAW, demonstrate, picture, spectral_model
    from chop.problems import conservation

    console = Console()
    with console.status("solving the conservation law"):
        case = conservation.sample(flux, n, seed=seed, steps=steps, scale=amplitude, mean=0.5)
    with console.status("asking the model"):
        shown = demonstrate(spectral_model, case, steps)
    table = Table(title=f"relative L2 error, flux {flux}, initial size {amplitude:g}, n = {n}")
    for column in ("program", "one step: mean", "median", f"step {steps}: median"):
        table.add_column(column)
    for name in (RAW, PROGRAM):
        one, last = shown.single[name], shown.errors[name][:, -1]
        table.add_row(name, f"{one.mean():.4f}", f"{one.median():.4f}", f"{last.median():.4f}")
    console.print(table)
    console.print(shown.sentence(), highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    picture(
        shown, out / "rollout.png", f"u_t + ({flux})_x = 0: an analytic frozen model and a program around it"
    )
    assert shown.traced.trace is not None
    shown.traced.trace.save(out / "trace.html")
    console.print(f"pictures: {out / 'rollout.png'}, {out / 'trace.html'}", highlight=False)


@app.command()
def operators(
    name: Annotated[str | None, typer.Argument(help="One operator; all of them if left out.")] = None,
) -> None:
    """What operators there are, and what their parameters mean."""
    from chop.text import registry

    known = registry()
    if name is not None and name not in known:
        raise ChopError(f"there is no operator {name!r}; known are {', '.join(sorted(known))}")
    for key, operator in known.items():
        if name is None:
            typer.echo(f"{key:18} {operator.role:11} {operator.summary()}")
        elif key == name:
            typer.echo(f"{key} ({operator.role})\n\n{operator.__doc__}\nLaw: {operator.law}")
            for option, param in operator.params().items():
                typer.echo(f"  {option:12} {param.doc} ({param.allowed})")


def main() -> None:
    """Run a command; what a user can cause is one sentence and exit code 2."""
    try:
        app()
    except ChopError as error:
        typer.echo(f"chop: {error}", err=True)
        if isinstance(error, ParseError):
            typer.echo(error.pointer(), err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
