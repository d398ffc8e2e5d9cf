"""Data sets that ``chop data`` wrote, read back as cases: questions with their truth, and how it was made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import torch

from chop.core.errors import DataError, FileError
from chop.files.layout import settings_of
from chop.files.questions import QuestionFile, Questions
from chop.files.sources import Values, open_source
from chop.problems.case import Case
from chop.problems.question_files import CASES_FORMAT, CASES_VERSION, write_cases


class CaseFile:
    """A data set on disk, open for reading: ``with CaseFile(path) as data: for case in data.batches(50)``."""

    def __init__(self, path: str | Path) -> None:
        with _data_errors(), ExitStack() as opened:
            source = open_source(Path(path))
            opened.callback(source.close)
            self.path = source.path
            if source.text_note("format") != CASES_FORMAT or source.number_note("version") != CASES_VERSION:
                wanted = f"format {CASES_FORMAT!r}, version {CASES_VERSION}"
                raise FileError(f"{self.path} is not a data set of cases ({wanted})")
            self.settings = settings_of(source)
            """How the data were made, in plain values."""
            self.command = source.text_note("command")
            self._questions = QuestionFile(source)
            self._check_rows()
            opened.pop_all()

    def _check_rows(self) -> None:
        """Also of arrays that are no part of a question."""
        source = self._questions.source
        self._questions.check_sizes(source.arrays)
        rows = source.number_note("rows")
        for name, array in source.arrays.items():
            if not array.is_shared() and array.shape[:1] != (rows,):
                raise FileError(f"{self.path}: {name} has not the {rows} rows it should; make it again")
        if rows != len(self) or not self._questions.has_target:
            raise FileError(f"{self.path} is damaged; make it again")

    def __len__(self) -> int:
        return len(self._questions)

    def __enter__(self) -> CaseFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._questions.close()

    def __iter__(self) -> Iterator[Case]:
        return self.batches(1)

    def batches(self, size: int) -> Iterator[Case]:
        """Cases of ``size`` questions (the last may have fewer), one after the other from the disk."""
        with _data_errors():
            for part in self._questions.batches(size):
                yield self._case(part)

    def read(self, start: int = 0, stop: int | None = None) -> Case:
        """Questions ``start`` to ``stop`` (all by default) as one case."""
        with _data_errors():
            return self._case(self._questions.read(start, stop))

    def _case(self, part: Questions) -> Case:
        assert part.target is not None
        arrays = self._questions.source.arrays
        trajectory = self._rows("trajectory", part) if "trajectory" in arrays else None
        rows = {name: self._rows(name, part) for name in arrays if name.startswith("rows/")}
        return Case(
            prompt=part.prompt,
            target=part.target,
            trajectory=None if trajectory is None else torch.from_numpy(np.array(trajectory)),
            meta={name: value for name, value in self.settings.items() if name != "axes"},
            rows={name.removeprefix("rows/"): values for name, values in rows.items()},
            mask=part.mask,
        )

    def _rows(self, name: str, part: Questions) -> Values:
        array = self._questions.source.arrays[name]
        if array.is_shared():
            return np.broadcast_to(array.whole(), (len(part), *array.shape))
        return array.rows(part.first, part.first + len(part))


@contextmanager
def _data_errors() -> Iterator[None]:
    """What is wrong with a file is raised as problems raise it."""
    try:
        yield
    except FileError as error:
        raise DataError(str(error)) from None


__all__ = ["CaseFile", "write_cases"]  # both were in chop.problems.storage
