"""``chop demo``: a taste of what a program does around a frozen network, in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chop.cli.terminal import console as terminal
from chop.cli.terminal import examples

demo_app = typer.Typer(
    invoke_without_command=True,
    epilog=examples("chop demo", "chop demo --flux 'u**2/2' --steps 20 --out pictures"),
)


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
    from rich.table import Table

    from chop.bench.demo import BARE, PROGRAM, answerer, demonstrate, draw_rollouts
    from chop.problems import conservation

    torch.set_num_threads(1)  # at this size a second thread gains nothing
    console = terminal()
    frozen = answerer(model)
    scale = frozen.scale if amplitude is None else amplitude
    with console.status("solving the conservation law"):
        case = conservation.sample(flux, n, seed=seed, steps=steps, scale=scale, mean=frozen.mean)
    with console.status("asking the model"):
        shown = demonstrate(frozen.model, case, steps)
    console.print(f"u_t + ({flux})_x = 0, {frozen.name}, five examples")
    table = Table(title=f"relative L2 error, n = {n}")
    for column in ("program", "one step: mean", "median", f"step {steps}: median"):
        table.add_column(column)
    for name, label in ((BARE, "raw: the bare model"), (PROGRAM, f"CHOP: program '{PROGRAM}'")):
        one = shown.single[name]
        table.add_row(label, f"{one.mean():.3g}", f"{one.quantile(0.5):.3g}", f"{shown.last(name):.3g}")
    console.print(table)
    console.print(shown.sentence())
    console.print(f"For the question of the pictures it built: {shown.traced.program}")
    out.mkdir(parents=True, exist_ok=True)
    draw_rollouts(shown, out / "rollout.png", f"u_t + ({flux})_x = 0: {frozen.name}, and a program around it")
    trace = shown.traced.trace
    trace.plot(out / "trace.png")
    trace.save(out / "trace.html")
    names = ", ".join(str(out / name) for name in ("rollout.png", "trace.png", "trace.html"))
    console.print(f"pictures: {names}")
    console.print(
        "To try it in the browser: make studio, or pip install 'chain-of-operators[studio]' and chop studio"
    )


@demo_app.command("air", epilog=examples("chop demo air --n 12"))
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

    from chop.bench.demo import demonstrate_air, draw_air, station_network

    torch.set_num_threads(1)  # at this size a second thread gains nothing
    console = terminal()
    network = station_network(model)
    with console.status("inventing two regions, then asking the network"):
        shown = demonstrate_air(network, out, n, seed)
    table = Table(title=f"mean RMSE in µg/m³, n = {n}")
    for column in ("", "lead (h)", "Raw ICON", "CHOP(Air)", "persistence", "change by CHOP(Air)"):
        table.add_column(column)
    for row in shown.rows():
        table.add_row(*row)
    console.print(table)
    console.print(shown.sentence())
    with console.status("drawing"):
        made = draw_air(shown)
    console.print(f"pictures: {', '.join(map(str, made))}")
