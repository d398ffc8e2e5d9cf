"""Similar windows of the past, found without ever writing a window down.

The similarity of two 24 h windows is the cosine of all their normalised values. Its numerator is a sum of
24 products of single frames, so one Gram matrix of frames holds the products of all windows: they are the
sums of 24 entries along its diagonals. Frames are multiplied block by block in single precision, and only
what rounding could put in the wrong order is computed again in double precision: the answers are those of
stacking all windows, ties going to the earlier one.

One index serves every lead. It keeps each question's most similar windows; the lead decides which of them
may be shown (their target hour must be usable, inside the period, and before the first question).
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chop.problems.air.eligibility import usable_windows
from chop.problems.air.history import History, Period
from chop.problems.air.windows import WINDOW
from chop.problems.errors import DataError, ProblemError

KEPT = 128  # windows remembered for each question: enough for what 72 h of lead may forbid
_FORMAT = 1
_TOLERANCE = 4e-6  # more than single precision can be off by in a cosine
_HOURS_AT_A_TIME = 256
_EXAMPLES_AT_A_TIME = 4096

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class SimilarityIndex:
    """For each question of ``queries`` ``(Q,)`` the ends of its most similar windows ``(Q, K)``, best first.

    ``similarity`` ``(Q, K)`` are their cosines; -1 in ``ends`` stands where there are not as many.
    """

    history: History
    period: Period
    queries: Array
    ends: Array
    similarity: Array


def similarity_index(
    history: History, period: Period, queries: Any, folder: str | Path | None = None, kept: int = KEPT
) -> SimilarityIndex:
    """Find the windows of a period that are most similar to those ending at ``queries``.

    With ``folder`` the index is kept there under a name made from everything it depends on; a file that
    cannot be read is made again.
    """
    asked = np.unique(np.asarray(queries, dtype=np.int64))
    if not asked.size or asked[0] < WINDOW - 1 or asked[-1] >= len(history.values):
        raise ProblemError(
            f"questions are ends of whole windows in the record, {WINDOW - 1} .. {len(history.values) - 1}"
        )
    if kept < 1:
        raise ProblemError(f"an index keeps 1 window or more for each question, not {kept}")
    cache = None if folder is None else Path(folder) / f"similarity_{_key(history, period, asked, kept)}.npz"
    found = None if cache is None else _read(cache, (len(asked), kept))
    if found is None:
        found = most_similar(history, _candidates(history, period, asked), asked, kept)
        if cache is not None:
            _write(cache, *found)
    return SimilarityIndex(history, period, asked, *found)


def _candidates(history: History, period: Period, asked: Array) -> Array:
    """``(T,)`` bool: usable windows that could be shown at the shortest lead."""
    rows = history.range(*period)
    allowed = np.zeros(len(history.values), dtype=bool)
    ends = np.arange(rows.start + WINDOW - 1, min(rows.stop, asked[0]) - 1)
    allowed[ends] = usable_windows(history)[ends]
    return allowed


def most_similar(history: History, allowed: Array, asked: Array, kept: int) -> tuple[Array, Array]:
    """The best ``kept`` of the allowed windows for each question: ends ``(Q, kept)`` and cosines."""
    ends = np.full((len(asked), kept), -1, dtype=np.int32)
    cosines = np.full((len(asked), kept), -np.inf, dtype=np.float64)
    pool = np.flatnonzero(allowed)
    if not pool.size:
        return ends, cosines
    frames = _frames(history)
    size = _window_norms(frames)
    reach = slice(int(pool[0]) - WINDOW + 1, int(pool[-1]) + 1)
    forbidden = ~allowed[reach]
    for rows in _blocks(asked):
        scores = _products(frames, asked[rows], reach)
        scores /= size[asked[rows], None]
        scores /= size[reach]
        scores[:, forbidden] = -np.inf
        best = min(kept, len(pool))
        least = np.partition(scores, scores.shape[1] - best, axis=1)[:, -best]
        for i, row in enumerate(range(rows.start, rows.stop)):
            near = np.flatnonzero(scores[i] >= least[i] - _TOLERANCE)
            found, cosine = _settled(frames, size, int(asked[row]), near + reach.start, scores[i, near])
            ends[row, :best], cosines[row, :best] = found[:best], cosine[:best]
    return ends, cosines


def _products(frames: Array, asked: Array, reach: slice) -> Array:
    """Inner products ``(q, e)`` of windows: sums of 24 along the diagonals of the Gram matrix of frames.

    ``asked`` are ends close together, ``reach`` the hours of the other windows; there the first 23
    columns are no whole windows and stay 0.
    """
    first = int(asked[0]) - WINDOW + 1
    own = frames[first : int(asked[-1]) + 1]
    products = np.zeros((len(asked), reach.stop - reach.start), dtype=np.float32)
    skip = WINDOW - 1
    for start in range(reach.start, reach.stop - skip, _EXAMPLES_AT_A_TIME):
        stop = min(start + _EXAMPLES_AT_A_TIME + skip, reach.stop)
        sums = own @ frames[start:stop].T
        for step in (1, 2, 4):  # afterwards entry (i, j) is the sum of the 8 that begin there
            sums = sums[:-step, :-step] + sums[step:, step:]
        width, row = stop - start - skip, asked - asked[0]
        total = sums[row, :width] + sums[row + 8, 8 : 8 + width] + sums[row + 16, 16 : 16 + width]
        at = start - reach.start + skip
        products[:, at : at + width] = total
    return products


def _settled(frames: Array, size: Array, query: int, ends: Array, cosine: Array) -> tuple[Array, Array]:
    """Windows from the most to the least similar; close ones are compared in double precision."""
    order = np.argsort(-cosine, kind="stable")
    ends, cosine = ends[order], cosine[order].astype(np.float64)
    close = -np.diff(cosine) <= _TOLERANCE
    doubtful = np.flatnonzero(np.append(close, False) | np.append(False, close))
    if not doubtful.size:
        return ends, cosine
    own = frames[query - WINDOW + 1 : query + 1].astype(np.float64)
    for i in doubtful:  # one way of adding up for all, so that equal windows tie exactly
        other = frames[ends[i] - WINDOW + 1 : ends[i] + 1]
        cosine[i] = np.einsum("tp,tp->", own, other, dtype=np.float64) / (size[query] * size[ends[i]])
    order = np.lexsort((ends, -cosine))
    return ends[order], cosine[order]


def _frames(history: History) -> Array:
    """Rows ``(T, P)`` whose inner products are those of whole frames.

    The hour is the same at all S stations: one column, sqrt(S) times as long, stands for S.
    """
    hours, stations, _ = history.values.shape
    measured = [i for i, name in enumerate(history.region.channels) if name != "hour"]
    parts = [history.values[:, :, measured].reshape(hours, -1)]
    if "hour" in history.region.channels:
        clock = history.region.channel("hour")
        parts.append(history.values[:, :1, clock] * np.float32(np.sqrt(stations)))
    return np.concatenate(parts, axis=1)


def _window_norms(frames: Array) -> Array:
    """The length of the window that ends at each row ``(T,)``; 1 where there is none or it is all zero."""
    squares = np.einsum("tp,tp->t", frames, frames, dtype=np.float64)
    norms = np.ones(len(frames))
    norms[WINDOW - 1 :] = np.sqrt(np.lib.stride_tricks.sliding_window_view(squares, WINDOW).sum(axis=1))
    return np.where(norms > 0, norms, 1.0)


def _blocks(asked: Array) -> Iterator[slice]:
    """Questions in pieces whose windows lie close together, in their order."""
    start = 0
    for i in range(1, len(asked) + 1):
        last = i == len(asked)
        far = not last and (asked[i] - asked[i - 1] > WINDOW or asked[i] - asked[start] >= _HOURS_AT_A_TIME)
        if last or far:
            yield slice(start, i)
            start = i


def _key(history: History, period: Period, asked: Array, kept: int) -> str:
    """A name for everything the answer depends on."""
    digest = hashlib.blake2b(digest_size=16)
    about = [_FORMAT, kept, [str(part) for part in period], list(history.region.channels), WINDOW]
    digest.update(json.dumps(about).encode())
    for array in (history.region.times.astype(np.int64), history.values, history.observed, asked):
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _read(path: Path, shape: tuple[int, int]) -> tuple[Array, Array] | None:
    """What was stored, or None where it is absent or damaged (the archive has check sums)."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            ends, similarity = stored["ends"], stored["similarity"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return (ends, similarity) if ends.shape == similarity.shape == shape else None


def _write(path: Path, ends: Array, similarity: Array) -> None:
    """Under another name first: a reader sees a whole file or none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".similarity_", suffix=".npz")
    except OSError as error:
        raise DataError(f"cannot keep the similarity index in {path.parent}: {error.strerror}") from None
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, ends=ends, similarity=similarity)
        partial.replace(path)
    except OSError as error:
        raise DataError(f"cannot keep the similarity index in {path.parent}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


__all__ = ["KEPT", "SimilarityIndex", "most_similar", "similarity_index"]
