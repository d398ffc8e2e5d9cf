"""Files and banks: pairs of files go into a bank on disk, questions that show its pairs into a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from chop.bank.bank import Bank
from chop.bank.choosing import By
from chop.bank.pairs import PairForm, Pairs
from chop.bank.segments import DiskPairs
from chop.core.errors import BankError, FileError, PromptError
from chop.core.fields import Field, filled
from chop.core.prompt import Prompt
from chop.files.pair_files import NamedRows, open_pairs, whole_numbers
from chop.files.question_writing import write_questions
from chop.files.sources import Values, open_source
from chop.runs.fingerprint import of_file
from chop.storage.json_text import readable

ASKED_AT_A_TIME = 512
"""Queries whose examples are in memory at a time."""
_QUERIES = ("queries", "query_values", "query/values", "inputs")


def add_file(
    bank: DiskPairs, path: str | Path, progress: Callable[[int, int], None] = lambda done, total: None
) -> int:
    """Add the pairs of a file to a bank on disk; how many were new is returned.

    What the bank has of the very same file (by its content) is left out, so an addition that was interrupted
    goes on. Numbers are stored in the precision of the pairs that are there already.
    """
    digest = _digest(path)
    done = rows_stored(bank, digest)
    added = 0
    with open_pairs(path) as file:
        progress(done, len(file))
        for first, pairs in file.blocks(done) if done < len(file) else ():
            note = {"source": readable(Path(path).name), "sha256": digest, "rows": first + len(pairs)}
            bank.add(_in_precision(pairs, bank.form), note)
            added += len(pairs)
            progress(first + len(pairs), len(file))
    return added


def _in_precision(pairs: Pairs, form: PairForm | None) -> Pairs:
    if form is None or pairs.inputs.values.dtype == form.dtype:
        return pairs
    cast = pairs.to(form.dtype)
    return Pairs(cast.inputs, cast.outputs, cast.axes, cast.graph, cast.asked, cast.known)


def rows_stored(bank: DiskPairs, digest: str) -> int:
    """How many pairs a bank has of a file with this content."""
    counts = (note.get("rows") for note in bank.notes if note.get("sha256") == digest)
    return max((count for count in counts if isinstance(count, int)), default=0)


def goes_on(bank: DiskPairs, paths: Iterable[str | Path]) -> bool:
    """Whether a bank holds nothing but pairs of these files, and may be built on."""
    digests = {_digest(path) for path in paths}
    return len(bank) == sum(rows_stored(bank, digest) for digest in digests)


def _digest(path: str | Path) -> str:
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileError(f"there is no file {file}" if not file.exists() else f"{file} is no file with pairs")
    try:
        return of_file(file)
    except OSError as problem:
        raise FileError(f"{file} cannot be read: {problem.strerror}") from None


def read_queries(path: str | Path, form: PairForm) -> tuple[Field, Values | None]:
    """What is to be asked, out of a file, and when, where it says so.

    The array is called ``queries``, ``query_values`` or ``inputs``; its points are the bank's unless there
    are ``coords`` or ``query_coords``.
    """
    with ExitStack() as opened:
        source = open_source(path)
        opened.callback(source.close)
        name = next((name for name in _QUERIES if name in source.arrays), None)
        if name is None:
            there = ", ".join(sorted(source.arrays)[:12]) or "no arrays at all"
            raise FileError(f"{source.path} has no {' or '.join(_QUERIES[:2])} (it has {there})")
        where = next(
            (word for word in ("coords", "query_coords", "query/coords") if word in source.arrays), None
        )
        arrays = NamedRows(source, (name,), (where,) if where else ())
        count = arrays.count(name)
        numbers = arrays.rows(0, count)[name].astype(str(form.dtype).removeprefix("torch."))
        points = None if where is None else torch.from_numpy(arrays.shared[where].whole().astype(np.float64))
        times = source.arrays.get("times")
        when = None if times is None or times.shape != (count,) else times.whole()
    grid = form.input_coords if points is None else points.unsqueeze(-1) if points.ndim == 1 else points
    channels = form.input_channels
    if numbers[0].size != grid.shape[-2] * channels:
        raise FileError(
            f"{path}: {name} is {numbers.shape}, but {grid.shape[-2]} points with {channels} channels are "
            "wanted"
        )
    values = torch.from_numpy(numbers.reshape(count, grid.shape[-2], channels))
    seen = ~torch.isnan(values)
    whole = torch.where(seen, values, filled(values, seen))
    try:
        moment = None if when is None else whole_numbers(when, "times")
        return Field(grid, whole, None if bool(seen.all()) else seen), moment
    except (PromptError, BankError) as error:
        raise FileError(f"{path}: {error}") from None


def ask_bank(
    bank: Bank,
    queries: Field,
    times: Values | None,
    path: str | Path,
    *,
    k: int = 5,
    by: By = "similar",
    seed: int = 0,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Questions about queries ``(Q, n, c)``, with examples from a bank, as a file; how many there are."""
    rows = bank.examples(queries, k, by, before=times, seed=seed)

    def prompts() -> Iterator[Prompt]:
        for start in range(0, len(rows), ASKED_AT_A_TIME):
            some = slice(start, start + ASKED_AT_A_TIME)

            def cut(tensor: Tensor, some: slice = some) -> Tensor:
                return tensor[some]

            yield bank.shown(queries.each(cut), rows[some], None if times is None else times[some])
            progress(min(start + ASKED_AT_A_TIME, len(rows)))

    return write_questions(path, prompts(), overwrite)
