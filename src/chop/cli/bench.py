"""``chop bench``: the paper's tables and figures from one command, resumable."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chop.cli.terminal import console as terminal
from chop.cli.terminal import examples
from chop.core.errors import BenchError

if TYPE_CHECKING:
    from chop.bench.suite import Suite

bench_app = typer.Typer(
    no_args_is_help=True,
    help="The paper's results on your network: tables, figures and a report beside the paper's own numbers.",
)


class BenchExecutor(StrEnum):
    """Who does the work."""

    processes = "processes"
    inline = "inline"
    ray = "ray"


_Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the results; the same folder continues.")]
_Device = Annotated[
    str | None,
    typer.Option(help="Where networks work, such as cuda; the CPU if left out. One worker suits it."),
]
_Workers = Annotated[int, typer.Option(min=0, help="Worker processes; 0 means one for each core.")]


def _run_and_write(
    suite: Suite, out: Path, workers: int, executor: str, report_only: bool, draws: bool = True
) -> None:
    """Measure what is missing and write it down; ``draws``: a report alone has what its figures need."""
    from chop.bench.report import write_results
    from chop.bench.runner import Run, run_benchmark

    console = terminal()
    asked = Run(suite, out, workers, executor)
    if report_only:
        setting = suite.setting(out) if draws else None
    else:
        try:
            setting = run_benchmark(asked, console.print, bar=console.is_terminal)
        except KeyboardInterrupt:
            console.print(f"stopped; everything finished is in {out} and the same command continues")
            raise typer.Exit(130) from None
    with console.status("writing tables and figures"):
        made = write_results(asked, setting)
    for path in made:
        console.print(str(path))


def _command(suite: str, about: str) -> Callable[..., None]:
    """The command of one of the paper's experiments with functions; all have the same options."""

    def bench(
        cases: Annotated[
            int | None, typer.Option(help="Questions of each condition; the paper's if left out.")
        ] = None,
        programs: Annotated[
            list[str] | None,
            typer.Option(
                "--programs",
                "-p",
                help="Methods: main, best, evolved, hand, rollout, ablations, baselines, finetuning, or "
                "the text of a program of your own. Repeat it for several. All but finetuning if left out.",
            ),
        ] = None,
        condition: Annotated[
            list[str] | None, typer.Option(help="Only this condition, such as mfc/g_1to1/0.1. Repeatable.")
        ] = None,
        model: Annotated[
            list[str] | None,
            typer.Option(
                help="Weights of your own instead of the bundled ones, such as FILE or mfc=FILE. Repeatable."
            ),
        ] = None,
        out: _Out = Path("chop-bench"),
        seed: Annotated[int, typer.Option(min=0, help="Seed of the questions.")] = 0,
        device: _Device = None,
        workers: _Workers = 0,
        executor: Annotated[
            BenchExecutor, typer.Option(help="Where the work is done.")
        ] = BenchExecutor.processes,
        finetuning: Annotated[
            bool, typer.Option("--finetuning", help="Also fine-tune the network on each prompt (slow).")
        ] = False,
        report_only: Annotated[
            bool, typer.Option("--report-only", help="Measure nothing; write tables and figures anew.")
        ] = False,
    ) -> None:
        from chop.bench.functions import DEFAULT_GROUPS, GROUPS, SUITES, FunctionSuite

        named = [item for item in programs or [] if item in GROUPS]
        own = [item for item in programs or [] if item not in GROUPS]
        groups = tuple(named) if named or own else DEFAULT_GROUPS
        asked = FunctionSuite(
            suites=SUITES if suite == "all" else (suite,),
            groups=(*groups, *(("finetuning",) if finetuning and "finetuning" not in groups else ())),
            programs=tuple(own),
            conditions=tuple(condition or ()),
            cases=cases,
            models=tuple(model or ()),
            seed=seed,
            device=device,
        )
        _run_and_write(asked, out, workers, executor.value, report_only)

    bench.__doc__ = f"""{about}

    Every case is kept as it is finished. Ctrl-C, a crash or a full disk lose nothing: the same command
    continues.
    """
    return bench


def air(
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="CHOP_AIR_DATA",
            help="Folder with dataset_REGION.nc and stations_REGION.csv of every region.",
        ),
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A network to ask, such as air_bthsa, FILE or NAME=FILE. Repeatable; the bundled ones if "
            "left out.",
        ),
    ] = None,
    region: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A region to ask every network about: the NAME of dataset_NAME.nc. Repeatable; bthsa and "
            "yrd, each also the other's network, if left out.",
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
        list[str] | None,
        typer.Option(help="Of the two usual ones, only bthsa-yrd or yrd-bthsa (network, then region)."),
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
    out: _Out = Path("chop-bench-air"),
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the questions' order and the random examples.")
    ] = 0,
    device: _Device = None,
    workers: _Workers = 0,
    executor: Annotated[str, typer.Option(help="processes, inline or ray.")] = "processes",
    report_only: Annotated[
        bool,
        typer.Option(
            "--report-only", help="Measure nothing; write tables and figures anew (maps need --data)."
        ),
    ] = False,
) -> None:
    """Air quality: networks trained in one region and carried to another, 44 conditions a direction.

    Every piece of work is kept as it is finished. Ctrl-C, a crash or a full disk lose nothing: the same
    command continues.
    """
    from chop.bench.air import AirSuite

    asked = AirSuite(
        data=data, models=tuple(map(_of_region, model or ())), programs=tuple(programs or ()),
        directions=tuple(direction or ()), every=every, cases=cases, year=year, seed=seed,
        device=device, networks=tuple(network or ()), regions=tuple(region or ()),
    )  # fmt: skip
    _run_and_write(asked, out, workers, executor, report_only, draws=data is not None)


def _of_region(model: str) -> tuple[str, str]:
    region, equals, path = model.partition("=")
    if not (region and equals and path):
        raise BenchError(f"say which region a network was trained in: --model bthsa={model}")
    return region, path


_SUITES = {
    "conservation": "Conservation laws with three fluxes outside the training family.",
    "mfc": "Mean-field control, fifteen conditions.",
    "transfer": "CHOP(MFC), unchanged, around the conservation network.",
    "all": "The three of them.",
}
_EXAMPLES = {
    "conservation": ("chop bench conservation --cases 20 --out quick",),
    "mfc": ("chop bench mfc --condition mfc/g_1to1/0.1", "chop bench mfc --programs 'correct(icon)'"),
    "transfer": ("chop bench transfer --model weights.safetensors",),
    "all": (
        "chop bench all --out results",
        "chop bench all --out results --report-only",
        "chop bench all --model conservation=a.safetensors --model mfc=b.safetensors --out published",
    ),
    "air": (
        "chop bench air --data folder --cases 50 --out quick",
        "chop bench air --data folder --network air_bthsa --network mine=my.safetensors --region north",
    ),
}
for _name, _lines in _EXAMPLES.items():
    _made = _command(_name, _SUITES[_name]) if _name in _SUITES else air
    bench_app.command(_name, epilog=examples(*_lines))(_made)
