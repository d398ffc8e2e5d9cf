"""``chop bench``: the paper's tables and figures from one command, resumable."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from chop.cli.bench_air import air
from chop.cli.terminal import console as terminal
from chop.cli.terminal import examples

bench_app = typer.Typer(
    no_args_is_help=True,
    help="The paper's results on your network: tables, figures and a report beside the paper's own numbers.",
)


SUITES = {
    "conservation": "Conservation laws with three fluxes outside the training family.",
    "mfc": "Mean-field control, fifteen conditions.",
    "transfer": "CHOP(MFC), unchanged, around the conservation network.",
    "all": "The three of them.",
}


class Executor(StrEnum):
    """Who does the work."""

    processes = "processes"
    inline = "inline"
    ray = "ray"


_Programs = Annotated[
    list[str] | None,
    typer.Option(
        "--programs", "-p",
        help="Which methods: main, best, evolved, rollout, ablations, baselines, finetuning, or the text "
        "of a program of your own. Repeat it for several. All but finetuning if left out.",
    ),
]  # fmt: skip


def _command(suite: str) -> Callable[..., None]:
    """The command of one of the paper's experiments; all have the same options."""

    def bench(
        cases: Annotated[
            int | None, typer.Option(help="Questions of each condition; the paper's if left out.")
        ] = None,
        programs: _Programs = None,
        condition: Annotated[
            list[str] | None, typer.Option(help="Only this condition, such as mfc/g_1to1/0.1. Repeatable.")
        ] = None,
        model: Annotated[
            list[str] | None,
            typer.Option(help="Weights of your own instead of the bundled ones. Repeatable."),
        ] = None,
        out: Annotated[
            Path, typer.Option("--out", "-o", help="Folder of the results; the same folder continues.")
        ] = Path("chop-bench"),
        seed: Annotated[int, typer.Option(min=0, help="Seed of the questions.")] = 0,
        workers: Annotated[int, typer.Option(min=0, help="Worker processes; 0 means one for each core.")] = 0,
        executor: Annotated[Executor, typer.Option(help="Where the work is done.")] = Executor.processes,
        finetuning: Annotated[
            bool, typer.Option("--finetuning", help="Also fine-tune the network on each prompt (slow).")
        ] = False,
        report_only: Annotated[
            bool, typer.Option("--report-only", help="Measure nothing; write tables and figures anew.")
        ] = False,
    ) -> None:
        from chop.bench.conditions import DEFAULT_GROUPS, GROUPS, Selection
        from chop.bench.conditions import SUITES as EVERY
        from chop.bench.report import write
        from chop.bench.runner import Run, run

        console = terminal()
        named = [item for item in programs or [] if item in GROUPS]
        own = [item for item in programs or [] if item not in GROUPS]
        groups = tuple(named) if named or own else DEFAULT_GROUPS
        selection = Selection(
            suites=EVERY if suite == "all" else (suite,),
            groups=(*groups, *(("finetuning",) if finetuning and "finetuning" not in groups else ())),
            programs=tuple(own),
            conditions=tuple(condition or ()),
            cases=cases,
        )
        asked = Run(selection, out, tuple(model or ()), seed, workers, executor.value)
        if not report_only:
            try:
                run(asked, console.print, bar=console.is_terminal)
            except KeyboardInterrupt:
                console.print(f"stopped; everything finished is in {out} and the same command continues")
                raise typer.Exit(130) from None
        with console.status("writing tables and figures"):
            made = write(asked)
        for path in made:
            console.print(str(path))

    bench.__doc__ = f"""{SUITES[suite]}

    Every case is kept as it is finished. Ctrl-C, a crash or a full disk lose nothing: the same command
    continues.
    """
    return bench


_EXAMPLES = {
    "conservation": ("chop bench conservation --cases 20 --out quick",),
    "mfc": ("chop bench mfc --condition mfc/g_1to1/0.1", "chop bench mfc --programs 'correct(icon)'"),
    "transfer": ("chop bench transfer --model weights.safetensors",),
    "all": ("chop bench all --out results", "chop bench all --out results --report-only"),
}
for _suite in SUITES:
    bench_app.command(_suite, epilog=examples(*_EXAMPLES[_suite]))(_command(_suite))
bench_app.command("air", epilog=examples("chop bench air --data folder --cases 50 --out quick"))(air)

__all__ = ["bench_app"]
