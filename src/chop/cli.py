"""The command line. Heavy modules are imported inside the commands, so that help is immediate."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated

import typer

from chop import __version__
from chop.bench.air.commands import demo_air
from chop.bench.commands import bench_app
from chop.errors import ChopError, ParseError
from chop.evolution.commands import evolve
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
app.add_typer(bench_app, name="bench")
demo_app = typer.Typer(invoke_without_command=True)
app.add_typer(demo_app, name="demo")
demo_app.command("air")(demo_air)
app.command("evolve")(evolve)


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


@demo_app.callback()
def demo(
    context: typer.Context,
    flux: Annotated[str, typer.Option(help="A flux as a formula in u.")] = "sin(u)-cos(u)",
    n: Annotated[int, typer.Option("--n", min=2, help="How many questions.")] = 24,
    steps: Annotated[int, typer.Option(min=1, help="Rollout steps.")] = 50,
    amplitude: Annotated[
        float | None, typer.Option(help="Size of the initial conditions; that of the training if left out.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Weights of your own.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pictures.")] = Path("chop-demo"),
) -> None:
    """A flux outside a model's training: the bare model against a program around it."""
    if context.invoked_subcommand is not None:
        return
    import torch
    from rich.console import Console
    from rich.table import Table

    from chop.demo import PROGRAM, RAW, answerer, demonstrate, picture
    from chop.problems import conservation

    torch.set_num_threads(1)  # at this size a second thread gains nothing
    console = Console()
    frozen = answerer(model)
    scale = frozen.scale if amplitude is None else amplitude
    with console.status("solving the conservation law"):
        case = conservation.sample(flux, n, seed=seed, steps=steps, scale=scale, mean=frozen.mean)
    with console.status("asking the model"):
        shown = demonstrate(frozen.model, case, steps)
    console.print(f"u_t + ({flux})_x = 0, {frozen.name}, five examples", highlight=False)
    table = Table(title=f"relative L2 error, n = {n}")
    for column in ("program", "one step: mean", "median", f"step {steps}: median"):
        table.add_column(column)
    for name, label in ((RAW, "raw: the bare model"), (PROGRAM, f"CHOP: program '{PROGRAM}'")):
        one = shown.single[name]
        table.add_row(label, f"{one.mean():.4f}", f"{one.quantile(0.5):.4f}", f"{shown.last(name):.4f}")
    console.print(table)
    console.print(shown.sentence(), highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    picture(shown, out / "rollout.png", f"u_t + ({flux})_x = 0: {frozen.name}, and a program around it")
    trace = shown.traced.trace
    assert trace is not None
    trace.plot(out / "trace.png", query=shown.typical())
    trace.save(out / "trace.html", query=shown.typical())
    names = ", ".join(str(out / name) for name in ("rollout.png", "trace.png", "trace.html"))
    console.print(f"pictures: {names}", highlight=False)


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
            typer.echo(f"{key} ({operator.role})\n\n{inspect.getdoc(operator)}\n\nLaw: {operator.law}")
            if operator.helps:
                typer.echo(f"Helps {operator.helps}.")
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
