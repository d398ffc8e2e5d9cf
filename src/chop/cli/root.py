"""The command line. Heavy modules are imported inside the commands, so that help is immediate."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chop import __version__
from chop.cli.bank import bank_app
from chop.cli.bench import bench_app
from chop.cli.convert import convert
from chop.cli.data import data_app
from chop.cli.demo import demo_app
from chop.cli.evolve import evolve
from chop.cli.exit_codes import Commands, run_command
from chop.cli.inspecting import inspect as inspect_questions
from chop.cli.predict import explain, info, predict
from chop.cli.studio import studio
from chop.cli.terminal import examples, print_json
from chop.cli.train import train_app
from chop.core.errors import ChopError

if TYPE_CHECKING:
    from chop.core.parameters import Operator

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Chains of explicit operators around a frozen in-context operator network.",
    epilog=examples(
        "chop demo",
        "chop data conservation --out q.h5 --flux 'tanh(u)' --n 20",
        "chop predict q.h5 --model conservation --out answers.h5",
        "chop explain q.h5 --index 3 --model conservation",
        "chop operators rescale",
    ),
)
_GROUPS = {"data": data_app, "train": train_app, "bench": bench_app, "demo": demo_app, "bank": bank_app}
_COMMANDS: dict[Callable[..., None], tuple[str, ...]] = {
    evolve: (
        "chop evolve --task conservation --budget 300 --out search",
        "chop evolve --task my_task.py --export winner.txt",
    ),
    predict: (
        "chop predict questions.npz --model conservation --out answers.npz",
        "chop predict questions.npz -m conservation -p 'auto(budget=48, leaves=False)' -o answers.npz",
        "chop predict questions.h5 -m weights.safetensors -p 'correct(icon)' -o answers.h5 --validate --json",
        "chop predict questions.nc -m my_model.py:net -p winner.txt -o answers.nc --batch 16",
        "chop predict today.npz --bank pairs.bank -m conservation -o answers.npz",
    ),
    explain: (
        "chop explain --program 'select(correct(rescale | icon), icon)'",
        "chop explain --program mfc --out program.svg",
        "chop explain questions.h5 --index 3 --model conservation",
        "chop explain questions.h5 -i 3 -m conservation -p conservation --out trace.html",
    ),
    inspect_questions: (
        "chop inspect questions.h5",
        "chop inspect questions.npz --index 3",
        "chop inspect questions.h5 --model conservation",
        "chop inspect questions.h5 -i 3 -m conservation --out facts.png",
        "chop inspect questions.nc --json",
    ),
    convert: (
        "chop convert conservation.ckpt conservation-icon.safetensors --origin icon-chop",
        "chop convert mfc.ckpt mfc-icon.safetensors --origin 'our group, 2026' --licence CC-BY-4.0 --heads 4",
    ),
    info: ("chop info questions.h5", "chop info answers.npz --json"),
    studio: (
        "chop studio",
        "chop studio --data folder --model my_model.py:net",
        "chop studio --port 9000 --no-browser",
    ),
}
"""What each command does, with commands to copy below its help."""
for _name, _group in _GROUPS.items():
    app.add_typer(_group, name=_name)
for _command, _lines in _COMMANDS.items():
    app.command(epilog=examples(*_lines))(_command)


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


@app.command(epilog=examples("chop operators", "chop operators rescale", "chop operators --json"))
def operators(
    name: Annotated[str | None, typer.Argument(help="One operator; all of them if left out.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """What operators there are, and what their parameters mean."""
    from chop.core.text import registry

    known = registry()
    if name is not None and name not in known:
        raise ChopError(f"there is no operator {name!r}; known are {', '.join(sorted(known))}")
    if as_json:
        print_json([_operator_record(known[key]) for key in ([name] if name is not None else known)])
        return
    for key, operator in known.items():
        if name is None:
            typer.echo(f"{key:18} {operator.role:11} {operator.summary()}")
        elif key == name:
            typer.echo(f"{key} ({operator.role})\n\n{inspect.getdoc(operator)}\n\nLaw: {operator.law}")
            if operator.helps:
                typer.echo(f"Helps {operator.helps}.")
            for option, param in operator.params().items():
                typer.echo(f"  {option:12} {param.doc} ({param.allowed})")


def _operator_record(operator: type[Operator]) -> dict[str, Any]:
    """An operator as plain values."""
    params = operator.params().items()
    return {
        "name": operator.name,
        "role": operator.role,
        "summary": operator.summary(),
        "law": operator.law,
        "options": [
            {"name": key, "kind": param.kind, "meaning": param.doc, "allowed": param.allowed}
            for key, param in params
        ],
    }


def main() -> None:
    """Run a command; what a user can cause is one sentence and exit code 2."""
    sys.exit(run_command(app))


if __name__ == "__main__":
    main()
