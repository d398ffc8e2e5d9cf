"""``chop bank``: pairs of files kept in a bank, and questions that are shown its pairs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chop.cli.predict import MODEL_OPTION
from chop.cli.terminal import examples, print_json

if TYPE_CHECKING:
    from chop.bank.segments import DiskPairs

bank_app = typer.Typer(no_args_is_help=True, help="Keep example pairs in a bank, and ask with them.")


class Choice(StrEnum):
    """Which pairs of a bank are shown."""

    similar = "similar"
    random = "random"
    recent = "recent"
    spread = "spread"


_Bank = Annotated[Path, typer.Argument(help="The bank, a folder.", metavar="BANK")]
_Files = Annotated[
    list[Path],
    typer.Argument(
        help="Question files, or files with arrays inputs and outputs: .h5, .nc or .npz.", metavar="FILE..."
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


@bank_app.command(
    epilog=examples(
        "chop bank build questions.h5 --out pairs.bank", "chop bank build 2023.npz 2024.npz --out record.bank"
    )
)
def build(
    files: _Files,
    out: Annotated[Path, typer.Option("--out", "-o", help="The bank, a folder to be made.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the bank if it exists.")] = False,
    as_json: _Json = False,
) -> None:
    """Make a bank of all pairs of some files.

    Of a question file these are its example pairs and, where the truth is there, each query with it. Files
    may be larger than memory. What is stored stays: after Ctrl-C, a crash or a full disk the same command
    goes on.
    """
    from chop.bank.segments import DiskPairs
    from chop.core.errors import BankError
    from chop.files.banks import goes_on

    if (out / "bank.jsonl").is_file() and not force:
        bank = DiskPairs(out, writing=True)
        if not goes_on(bank, files):
            bank.close()
            raise BankError(f"{out} is a bank with other pairs; use chop bank add, or --force to replace it")
    else:
        _check_readable(files)
        bank = DiskPairs.create(out, overwrite=force)
    _add(bank, files, as_json)


@bank_app.command(epilog=examples("chop bank add record.bank today.npz"))
def add(bank: _Bank, files: _Files, as_json: _Json = False) -> None:
    """Add all pairs of some files to a bank.

    What it has of the very same file already is left out, so the same command goes on after an interruption.
    """
    from chop.bank.segments import DiskPairs

    _add(DiskPairs(bank, writing=True), files, as_json)


@bank_app.command(epilog=examples("chop bank info pairs.bank", "chop bank info pairs.bank --json"))
def info(bank: _Bank, as_json: _Json = False) -> None:
    """What is in a bank: how many pairs, of what form, from when to when, out of which files."""
    from chop.bank.segments import DiskPairs
    from chop.storage.json_text import printable

    source = DiskPairs(bank)
    with _closing(source):
        found = _facts(source)
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        if value is not None and value != []:
            words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            typer.echo(printable(f"{name.replace('_', ' '):12} {words}"))


@bank_app.command(
    epilog=examples(
        "chop bank ask pairs.bank queries.npz --out questions.h5",
        "chop bank ask record.bank today.npz --k 8 --by recent --out questions.h5",
        "chop predict questions.h5 --model conservation --out answers.h5",
    )
)
def ask(
    bank: _Bank,
    queries: Annotated[
        Path, typer.Argument(help="A file with an array queries (N, n): .h5, .nc or .npz.", metavar="QUERIES")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The questions: .h5.")],
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Pairs that each question shows.")] = 5,
    by: Annotated[Choice, typer.Option("--by", help="Which pairs.")] = Choice.similar,
    seed: Annotated[int, typer.Option(min=0, help="Of random pairs.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the questions if they exist.")] = False,
) -> None:
    """Write a question file that shows each query pairs of the bank; chop predict answers it.

    Where the bank has times, a file of queries may have an array times: a query is shown only what was known
    by then.
    """
    from chop.bank.bank import Bank
    from chop.core.errors import FileError
    from chop.files.banks import ask_bank, read_queries
    from chop.runs.progress import passing_bar
    from chop.storage.atomic import check_writable

    check_writable(out, FileError, force)
    with Bank.open(bank) as opened:
        asked, times = read_queries(queries, opened.form)
        with passing_bar(len(asked.values), out.name) as shown:
            count = ask_bank(
                opened, asked, times if opened.form.timed else None, out, k=k, by=by.value, seed=seed,
                overwrite=force, progress=shown.update,
            )  # fmt: skip
    typer.echo(f"{out}: {count} questions with {k} pairs each")


@bank_app.command(
    epilog=examples(
        "chop bank calibrate pairs.bank --model conservation",
        "chop bank calibrate record.bank -m air_yrd -p 'average(icon, normalize | icon, last_frame)' --fast",
        "chop predict today.npz --bank pairs.bank --model conservation --out answers.npz",
    )
)
def calibrate(
    bank: _Bank,
    model: Annotated[str, MODEL_OPTION],
    program: Annotated[
        str,
        typer.Option(
            "--program",
            "-p",
            help="auto, a mixture whose parts are weighed, or any other program; or a .txt.",
        ),
    ] = "auto",
    questions: Annotated[int, typer.Option(min=12, help="Past questions that are asked.")] = 200,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Pairs that each question shows.")] = 5,
    by: Annotated[Choice, typer.Option("--by", help="Which pairs.")] = Choice.similar,
    lead: Annotated[
        int | None, typer.Option(help="Only pairs whose output is known so long after the input.")
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(metavar="QUERIES", help="Ask the past questions that resemble those of a file."),
    ] = None,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="Do not ask at each question's own examples, which takes k times as long."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the questions drawn.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The calibration; BANK/calibration.json if left out.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the calibration if it exists.")] = False,
    as_json: _Json = False,
) -> None:
    """Weigh a program's parts on past questions of the bank, and measure how far to trust the mixture.

    Nothing is trained. The result is a small readable file that chop predict --bank finds in the bank. What
    is answered is kept: after Ctrl-C or a crash the same command goes on.
    """
    import shutil

    from chop.bank.bank import Bank
    from chop.bank.calibration import CALIBRATION, UNFINISHED
    from chop.cli.exit_codes import STOPPED
    from chop.core.errors import BankError
    from chop.files.banks import read_queries
    from chop.files.models_and_programs import choose_model, choose_program
    from chop.runs.progress import passing_bar
    from chop.storage.atomic import check_writable

    with Bank.open(bank) as opened:
        target = bank / CALIBRATION if out is None else out
        check_writable(target, BankError, force)
        wanted = None if like is None else read_queries(like, opened.form)[0]
        folder = target.parent / UNFINISHED
        try:
            with passing_bar(questions, "past questions") as shown:
                found = opened.calibrate(
                    choose_program(program), choose_model(model), k=k, by=by.value, questions=questions,
                    like=wanted, lead=lead, examples=not fast, seed=seed, folder=folder,
                    progress=lambda done, total: shown.update(done, total=total),
                )  # fmt: skip
        except KeyboardInterrupt:
            typer.echo(f"chop: stopped; answers are kept in {folder}, and the same command goes on", err=True)
            raise typer.Exit(STOPPED) from None
    found.save(target, overwrite=force)
    shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        print_json({"calibration": str(target), **found.to_dict()})
        return
    typer.echo(found.told())
    typer.echo(str(target))


@contextmanager
def _closing(source: DiskPairs) -> Iterator[None]:
    try:
        yield
    finally:
        source.close()


def _check_readable(files: list[Path]) -> None:
    """Before a bank is made of them."""
    from chop.files.pair_files import open_pairs

    for file in files:
        open_pairs(file).close()


def _add(bank: DiskPairs, files: list[Path], as_json: bool) -> None:
    from chop.cli.exit_codes import STOPPED
    from chop.files.banks import add_file
    from chop.runs.progress import passing_bar
    from chop.storage.json_text import readable

    added = 0
    with _closing(bank), passing_bar() as shown:
        try:
            for file in files:
                name = readable(file.name)

                def progress(done: int, total: int, name: str = name) -> None:
                    shown.update(done, total=total, row=name)

                added += add_file(bank, file, progress)
        except KeyboardInterrupt:
            kept = f"{len(bank):,} pairs are kept in {bank.folder}, and the same command goes on"
            typer.echo(f"chop: stopped; {kept}", err=True)
            raise typer.Exit(STOPPED) from None
        if as_json:
            print_json({"bank": str(bank.folder), "pairs": len(bank), "added": added})
        else:
            typer.echo(f"{bank.folder}: {len(bank):,} pairs, {added:,} of them new")


def _facts(bank: DiskPairs) -> dict[str, Any]:
    """A bank in plain values."""
    form, known, asked = bank.form, bank.known, bank.asked
    files = bank.ledger.segments
    return {
        "bank": str(bank.folder),
        "pairs": len(bank),
        "form": None if form is None else form.words(),
        "coordinates": None if form is None else form.input_coords.shape[-1],
        "axes": None if form is None or form.axes is None else [str(axis) for axis in form.axes],
        "dtype": None if form is None else str(form.dtype).removeprefix("torch."),
        "asked": None if asked is None or not len(asked) else [int(asked.min()), int(asked.max())],
        "known": None if known is None or not len(known) else [int(known.min()), int(known.max())],
        "files": len(files),
        "bytes": sum(segment.stored.bytes for segment in files),
        "sources": list(dict.fromkeys(str(note.get("source", "?")) for note in bank.notes)),
    }
