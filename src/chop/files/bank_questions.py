"""Queries of a file asked with a bank: the questions lie hidden beside the answers until those are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from chop.bank.bank import EXAMPLES, Bank
from chop.bank.calibration import CALIBRATION, Calibration
from chop.bank.choosing import By
from chop.core.errors import BankError, FileError
from chop.files.banks import ask_bank, read_queries
from chop.files.resume import partial_folder
from chop.runs.fingerprint import canonical_json, of_file, stored_digest


@dataclass(frozen=True)
class BankQuestions:
    """A file of questions, and what the bank's calibration says of answers to them."""

    path: Path
    calibration: Calibration | None


@contextmanager
def questions_of_bank(
    bank: str | Path, queries: str | Path, out: str | Path, k: int | None, by: str | None
) -> Iterator[BankQuestions]:
    """Queries with examples from a bank, as a file, for as long as they are answered.

    Its name is made from all that it depends on. Where the block is left with some of the answers kept, it
    stays: the same command goes on with it. ``k`` and ``by`` are those of the bank's calibration, if any.
    """
    folder, asked_file, target = (Path(path).expanduser() for path in (bank, queries, out))
    file = folder / CALIBRATION
    calibration = Calibration.load(file) if file.is_file() else None
    if calibration is not None:
        if k not in (None, calibration.k) or by not in (None, calibration.by):
            raise BankError(
                f"{file} was made with {calibration.k} examples by {calibration.by}: ask so, or make it anew"
            )
        k, by = calibration.k, calibration.by
    shown, way = k or EXAMPLES, cast(By, by or "similar")
    with Bank.open(folder) as opened:
        if not asked_file.is_file():
            raise FileError(f"there is no file {asked_file}")
        key = stored_digest()
        about = [str(folder.resolve()), len(opened), of_file(asked_file), shown, way]
        key.update(canonical_json(about).encode())
        path = target.with_name(f".{target.name}.{key.hexdigest()[:16]}.questions.h5")
        if not path.is_file():
            asked, times = read_queries(asked_file, opened.form)
            ask_bank(opened, asked, times if opened.form.timed else None, path, k=shown, by=way)
    try:
        yield BankQuestions(path, calibration)
    finally:
        if not partial_folder(target).exists():
            path.unlink(missing_ok=True)
