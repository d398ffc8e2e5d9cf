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

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chop.core.errors import DataError, ProblemError
from chop.numerics import Array
from chop.numerics.nearest import BestRows, Exact
from chop.problems.air.history import History, Period
from chop.problems.air.windows import WINDOW, usable_windows
from chop.runs.fingerprint import canonical_json, feed_bytes, quick_digest
from chop.storage.atomic import atomic_path, make_folder

KEPT = 64  # windows remembered for each question: enough unless a long lead forbids nearly all of them
_FORMAT = 1
_TOLERANCE = 2e-6  # more than single precision can be off by in a cosine
_WIDTH = np.array(_TOLERANCE, dtype=np.float32)
_HOURS_AT_A_TIME = 512
_EXAMPLES_AT_A_TIME = 1024
_WINDOWS_AT_A_TIME = 16


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
    best = min(kept, len(pool))
    frames = _frames(history)
    size = _window_norms(frames)
    first, stop = int(pool[0]), int(pool[-1]) + 1
    for rows in _blocks(asked):
        scores = _products(frames, asked[rows], first, stop)
        scores /= size[first:stop].astype(np.float32)
        scores /= size[asked[rows], None].astype(np.float32)
        scores[:, ~allowed[first:stop]] = -np.inf
        found = BestRows(len(scores), best, _cosines(frames, size, asked[rows]))
        found.offer(first, scores, _tolerance)
        ends[rows, :best], cosines[rows, :best] = found.found()
    return ends, cosines


def similar_to_windows(
    history: History, windows: Array, ends: Array, kept: int, hide: Callable[[Array, slice], None]
) -> Array:
    """The best ``kept`` of the windows ending at ``ends`` ``(N,)`` for others ``(Q, 24, S, C)``: places.

    ``hide`` writes -inf into the scores ``(q, N)`` of some queries where a window may not be shown. The
    similarity is that of `most_similar`; the queries need not be windows of the record.
    """
    frames = _frames(history)
    size = _window_norms(frames)[ends]
    asked = np.stack([_as_frames(history, window) for window in windows])
    norms = np.sqrt(np.square(asked.astype(np.float64)).sum(axis=(1, 2)))
    norms = np.where(norms > 0, norms, 1.0)

    def exact(query: Array, place: Array) -> Array:
        found = np.empty(len(place))
        for i, (own, at) in enumerate(zip(query, place, strict=True)):
            other = frames[ends[at] - WINDOW + 1 : ends[at] + 1].astype(np.float64)
            found[i] = np.vdot(asked[own].astype(np.float64), other) / (norms[own] * size[at])
        return found

    best = BestRows(len(asked), kept, exact)
    for start in range(0, len(asked), _WINDOWS_AT_A_TIME):
        some = slice(start, start + _WINDOWS_AT_A_TIME)
        products = asked[some].reshape(-1, frames.shape[1]) @ frames.T
        products = products.reshape(-1, WINDOW, len(frames))
        scores = sum(products[:, hour, ends - (WINDOW - 1) + hour] for hour in range(WINDOW))
        scores = np.asarray(scores / (size.astype(np.float32) * norms[some, None].astype(np.float32)))
        hide(scores, some)
        best.offer(0, scores, _tolerance, start)
    return best.found()[0]


def _tolerance(query: Array, window: Array) -> Array:
    """How far cosines in single precision may be off, for all alike."""
    return _WIDTH


def _products(frames: Array, asked: Array, first: int, stop: int) -> Array:
    """Inner products ``(q, stop - first)`` of the windows ending at ``asked`` and at first .. stop - 1.

    Each is the sum of 24 entries along a diagonal of the Gram matrix of frames: 2, 4, 8 of them by
    adding the matrix to itself, shifted, and then three eights. Small pieces stay in the cache.
    """
    skip = WINDOW - 1
    own = frames[int(asked[0]) - skip : int(asked[-1]) + 1]
    products = np.empty((len(asked), stop - first), dtype=np.float32)
    row = asked - asked[0]
    space = np.empty((2, len(own) * (_EXAMPLES_AT_A_TIME + skip)), dtype=np.float32)
    for start in range(first, stop, _EXAMPLES_AT_A_TIME):
        end = min(start + _EXAMPLES_AT_A_TIME, stop)
        height, width = len(own), end - start + skip
        sums = space[0, : height * width].reshape(height, width)
        np.matmul(own, frames[start - skip : end].T, out=sums)
        for step, target in ((1, 1), (2, 0), (4, 1)):
            height, width = height - step, width - step
            shifted = space[target, : height * width].reshape(height, width)
            sums = np.add(sums[:-step, :-step], sums[step:, step:], out=shifted)
        height, width = len(own) - skip, end - start
        total = space[0, : height * width].reshape(height, width)
        np.add(sums[:height, :width], sums[8 : 8 + height, 8 : 8 + width], out=total)
        total += sums[16 : 16 + height, 16 : 16 + width]
        products[:, start - first : end - first] = total[row]
    return products


def _cosines(frames: Array, size: Array, asked: Array) -> Exact:
    """Cosines in double precision of the windows of some questions, by their numbers, and others."""

    def exact(query: Array, ends: Array) -> Array:
        found = np.empty(len(ends))
        for i, (end, other_end) in enumerate(zip(asked[query], ends, strict=True)):
            # One way of adding up for all, so that equal windows tie exactly.
            own = frames[end - WINDOW + 1 : end + 1].astype(np.float64)
            other = frames[other_end - WINDOW + 1 : other_end + 1].astype(np.float64)
            found[i] = np.vdot(own, other) / (size[end] * size[other_end])
        return found

    return exact


def _frames(history: History) -> Array:
    """Rows ``(T, P)`` whose inner products are those of whole frames."""
    return _as_frames(history, history.values)


def _as_frames(history: History, values: Array) -> Array:
    """The same of any hours ``(T, S, C)`` with the channels of a history.

    The hour is the same at all S stations: one column, sqrt(S) times as long, stands for S.
    """
    hours, stations, _ = values.shape
    measured = [i for i, name in enumerate(history.region.channels) if name != "hour"]
    parts = [values[:, :, measured].reshape(hours, -1)]
    if "hour" in history.region.channels:
        clock = history.region.channel("hour")
        parts.append(values[:, :1, clock] * np.float32(np.sqrt(stations)))
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
    digest = quick_digest()
    about = [_FORMAT, kept, [str(part) for part in period], list(history.region.channels), WINDOW]
    digest.update(canonical_json(about).encode())
    for array in (history.region.times.astype(np.int64), history.values, history.observed, asked):
        digest.update(str(array.shape).encode())
        feed_bytes(digest, array)
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
    """A reader sees a whole file or none."""
    try:
        make_folder(path.parent, DataError)
        with atomic_path(path, DataError, overwrite=True) as partial, partial.open("wb") as file:
            np.savez(file, ends=ends, similarity=similarity)
    except DataError as error:
        raise DataError(f"cannot keep the similarity index: {error}") from None
