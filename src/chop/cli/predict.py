"""``chop predict``, ``chop explain`` and ``chop info``: programs on files as users have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chop.core.catalog import NAMED

if TYPE_CHECKING:
    from chop.core.program import Program
    from chop.core.trace import Trace
    from chop.files.predicting import Summary

PROGRAMS = tuple(NAMED)
"""The catalog's names: help and completion need the texts alone, not the programs."""


def _networks() -> list[str]:
    weights = Path(__file__).parents[1] / "icon" / "weights"
    return sorted(path.stem for path in weights.glob("*.safetensors"))


def _beginning(known: Callable[[], list[str]]) -> Callable[[str], list[str]]:
    """Completion: those that begin with what is typed."""
    return lambda incomplete: [name for name in known() if name.startswith(incomplete)]


MODEL_HELP = (
    "A bundled network (conservation, mfc, air_bthsa, air_yrd), a .safetensors file, or FILE.py:NAME, a "
    "callable in a Python file of yours, which is run."
)
PROGRAM_HELP = (
    "auto, which decides question by question; the text of a program, a .txt file with it, or one of "
    f"{', '.join(PROGRAMS)}."
)

_Questions = Annotated[Path, typer.Argument(help="The questions: .h5, .nc or .npz.", metavar="QUESTIONS")]
MODEL_OPTION: Any = typer.Option("--model", "-m", help=MODEL_HELP, autocompletion=_beginning(_networks))
_Program = Annotated[
    str,
    typer.Option("--program", "-p", help=PROGRAM_HELP, autocompletion=_beginning(lambda: list(PROGRAMS))),
]


_Executor = StrEnum("_Executor", ["inline", "processes", "ray"])
_By = StrEnum("_By", ["similar", "random", "recent", "spread"])
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def predict(
    questions: _Questions,
    model: Annotated[str, MODEL_OPTION],
    out: Annotated[Path, typer.Option("--out", "-o", help="The answers: .h5, .nc or .npz.")],
    program: Annotated[
        str | None,
        typer.Option(
            "--program",
            "-p",
            autocompletion=_beginning(lambda: list(PROGRAMS)),
            help=f"{PROGRAM_HELP} If left out auto, or what the bank was calibrated with.",
        ),
    ] = None,
    bank: Annotated[
        Path | None,
        typer.Option(
            metavar="BANK",
            help="QUESTIONS is a file of queries; examples, and bands where it was calibrated, come from "
            "this bank.",
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", "-k", min=1, help="Pairs of the bank that each question shows; 5.")
    ] = None,
    by: Annotated[
        _By | None, typer.Option(help="Which pairs of the bank are shown; similar if left out.")
    ] = None,
    validate: Annotated[
        bool, typer.Option("--validate", help="Also compute the in-context error of every answer.")
    ] = False,
    band: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Level of the bounds beside the answers; 0 for none. If left out 0.9, where the program or "
            "--validate gives errors at the examples.",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Questions a worker has in memory at a time; about 8 MB if left out."),
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Worker processes; 0 means one for each core.")] = 1,
    executor: Annotated[
        _Executor | None,
        typer.Option(help="Where questions are answered; inline for one worker, else processes."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a question that cannot be answered; else it is marked.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the answers if they exist.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew, whatever a run that was stopped has left.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Answer every question of a file with a program around a frozen model.

    The file may be larger than memory. What is answered is kept: after Ctrl-C, a crash or a full disk the
    same command goes on. The answers appear when all questions are done. Those that cannot be answered are
    marked and listed, and the exit code is 3.
    """
    import time
    from contextlib import ExitStack

    from chop.cli.exit_codes import INCOMPLETE, STOPPED
    from chop.cli.terminal import print_json
    from chop.core.errors import FileError
    from chop.files.models_and_programs import choose_program
    from chop.files.predicting import predict as answer
    from chop.files.questions import QuestionFile
    from chop.runs.progress import passing_bar
    from chop.storage.json_text import printable, readable

    begun = time.monotonic()
    answered = 0
    with ExitStack() as opened:
        calibration = None
        asked = questions
        if bank is not None:
            from chop.files.bank_questions import questions_of_bank

            way = None if by is None else by.value
            made = opened.enter_context(questions_of_bank(bank, questions, out, k, way))
            asked, calibration = made.path, None if program is not None else made.calibration
        elif k is not None or by is not None:
            raise FileError("--k and --by choose pairs of a bank: name it with --bank")
        chosen = calibration.program if calibration is not None else choose_program(program or "auto")
        file = opened.enter_context(QuestionFile(asked))
        shown = opened.enter_context(passing_bar(len(file), readable(questions.name)))

        def progress(done: int, total: int) -> None:
            nonlocal answered
            answered = done
            shown.update(done)

        try:
            summary = answer(
                file, chosen, model, out, validate=validate, band=band, batch=batch, overwrite=force,
                workers=workers, executor=None if executor is None else executor.value, strict=strict,
                restart=restart, progress=progress,
                scores=None if calibration is None else calibration.scores, questions_name=questions.name,
            )  # fmt: skip
        except KeyboardInterrupt:
            if not answered:
                raise
            kept = f"{answered} of {len(file)} questions are kept, and the same command goes on"
            typer.echo(f"chop: stopped; {kept}", err=True)
            raise typer.Exit(STOPPED) from None
    seconds = time.monotonic() - begun
    if as_json:
        about = {"out": str(out), "program": str(chosen), "model": model, "seconds": seconds}
        print_json({**summary.to_dict(), **about})
    else:
        typer.echo(_sentence(out, summary, seconds))
        for one in summary.first_rejected:
            typer.echo(f"  question {one.question}: {printable(one.reason)}")
        if summary.rejected > len(summary.first_rejected):
            typer.echo(f"  and {summary.rejected - len(summary.first_rejected)} more, listed in {out}")
    if summary.rejected:
        raise typer.Exit(INCOMPLETE)


def _sentence(out: Path, summary: Summary, seconds: float) -> str:
    from chop.core.words import count, duration

    before = f" ({summary.resumed} from before)" if summary.resumed else ""
    words = [
        f"{count(summary.questions, 'question')}{before}",
        f"{summary.rejected} rejected" if summary.rejected else "none rejected",
        f"{count(summary.calls, 'model evaluation')} each",
    ]
    if summary.error is not None:
        words.append(f"mean in-context error {summary.error:.4g}")
    if summary.rel_l2 is not None:
        over = "" if summary.scored == summary.questions else f" over {summary.scored}"
        words.append(f"mean relative L2 error {summary.rel_l2:.4g}{over}")
    return f"{out}: {', '.join(words)}, {duration(seconds)}"


def explain(
    questions: Annotated[
        Path | None,
        typer.Argument(
            help="The questions; without them the program itself is explained.", metavar="QUESTIONS"
        ),
    ] = None,
    program: _Program = "auto",
    model: Annotated[str | None, MODEL_OPTION] = None,
    index: Annotated[int, typer.Option("--index", "-i", min=0, help="Which question, from 0.")] = 0,
    validate: Annotated[bool, typer.Option("--validate", help="Also compute the in-context error.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="A file instead of text: .html, .png, .pdf, .svg or .json; without questions .svg, .mmd or "
            ".json.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace that file if it exists.")] = False,
    as_json: _Json = False,
) -> None:
    """What a program does with one question, stage by stage; without a file, what the program is.

    With questions: .html, .png, .pdf and .svg show the fields at every stage, .json tells the stages.
    Without: .svg and .mmd (mermaid) draw the program.
    """
    from chop.cli.terminal import print_json
    from chop.core.errors import FileError
    from chop.files.models_and_programs import choose_program
    from chop.pictures.saving import (
        PROGRAM_FORMS,
        TRACE_FORMS,
        form_of,
        program_record,
        program_text,
        save_as,
        trace_record,
    )
    from chop.storage.atomic import check_writable

    chosen = choose_program(program)
    forms: Mapping[str, Callable[..., bytes]] = PROGRAM_FORMS if questions is None else TRACE_FORMS
    if out is not None:
        check_writable(out, FileError, force)
        form_of(out, forms, FileError)
    what: tuple[Any, ...]
    if questions is None:
        if model is not None:
            raise FileError("a model answers questions: name the file with them before --model")
        account, text, what = program_record(chosen), program_text(chosen), (chosen,)
    else:
        if model is None:
            raise FileError("say which model answers: --model conservation, mfc, FILE.safetensors or FILE.py")
        trace, error = _traced(questions, index, model, chosen, validate)
        told = {"question": index, "rel_l2": error}
        account, what = {**trace_record(trace), **told}, (trace, 0, told)
        text = trace.explain() + ("" if error is None else f"\ntruth    relative L2 error {error:.4g}")
    if out is not None:
        save_as(out, forms, *what, error=FileError, overwrite=force)
    if as_json:
        print_json(account)
    else:
        typer.echo(str(out) if out is not None else text)


def _traced(
    questions: Path, index: int, model: str, program: Program, validate: bool
) -> tuple[Trace, float | None]:
    """The run on one question, and its error where the truth is known."""
    from chop.files.models_and_programs import choose_model
    from chop.files.parts import score
    from chop.files.questions import QuestionFile

    with QuestionFile(questions) as file:
        part = file.question(index)
    result = program.run(choose_model(model), part.prompt, validate=validate)
    error = score(result, part)
    return result.trace, None if error is None else float(error)


def info(
    file: Annotated[Path, typer.Argument(help="Questions, answers, or a network's weights.", metavar="FILE")],
    as_json: _Json = False,
) -> None:
    """What is in a file: names, shapes, sizes, and whether questions can be read from it.

    The exit code is 2 where they cannot, and it holds neither answers nor weights.
    """
    from chop.cli.exit_codes import MENDABLE
    from chop.cli.terminal import print_json
    from chop.files.contents import contents, contents_text

    found = contents(file)
    if as_json:
        print_json(found)
    else:
        typer.echo(contents_text(found))
    if found["holds"] == "arrays":
        raise typer.Exit(MENDABLE)
