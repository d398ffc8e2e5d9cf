"""Which likeness suits a bank: that whose nearest neighbour predicts best, on a sample of its own pairs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chop.bank.likeness import Framed, Likeness, Way, likeness, ways
from chop.bank.pairs import Pairs
from chop.bank.sources import PairSource
from chop.numerics import Array
from chop.runs.fingerprint import feed_bytes, quick_digest

ASKED = 256
SHOWN = 4096
RUN = 16
BETTER = 0.95
"""What is not better than plain by this factor is not worth its assumptions."""


def fitting_likeness(source: PairSource) -> Likeness:
    """The likeness that suits the pairs there are; ``plain`` where nothing is clearly better."""
    form = source.form
    assert form is not None
    sample = source.take(_sampled(len(source)))
    candidates = {way: likeness(way, form, sample.inputs) for way in ways(form)}
    errors = {way: _errors(candidate, sample) for way, candidate in candidates.items()}
    plain = errors["plain"]
    better = [way for way in errors if _clearly_better(errors[way], plain)]
    best: Way = min(better, key=lambda way: float(np.median(errors[way])), default="plain")
    return candidates[best]


def _clearly_better(errors: Array, plain: Array) -> bool:
    """By more than a little in the middle, and for more pairs than chance would favour."""
    differ = errors != plain
    wins = int((errors[differ] < plain[differ]).sum())
    lead = wins - differ.sum() / 2
    return bool(len(errors) and lead >= np.sqrt(max(1, differ.sum())) and _median_is_lower(errors, plain))


def _median_is_lower(errors: Array, plain: Array) -> bool:
    return float(np.median(errors)) < BETTER * float(np.median(plain))


def _sampled(total: int) -> Tensor:
    """At most `SHOWN` rows, evenly over all; of many, short runs that lie in one place of a file."""
    if total <= RUN * SHOWN:
        return _evenly(total, SHOWN)
    return (_evenly(total - RUN, SHOWN // RUN)[:, None] + torch.arange(RUN)).reshape(-1)


def _evenly(total: int, most: int) -> Tensor:
    """At most so many rows, evenly over all."""
    count = min(total, most)
    return torch.arange(count) * total // count


def _errors(candidate: Likeness, sample: Pairs) -> Array:
    """The relative errors of predictions by the nearest other pair, of pairs that have another."""
    framed = candidate.framed(sample.inputs)
    outputs = sample.outputs.values.double().numpy()
    observed = sample.outputs.observed.numpy()
    frames = _frames(sample)
    errors = []
    asked = _evenly(len(sample), ASKED).numpy()
    # Products of all at once: what that rounds away decides nothing here.
    keys = framed.keys - candidate.origin
    distances = np.square(keys).sum(axis=1) - 2 * keys[asked] @ keys.T
    for row, distance in zip(asked.tolist(), distances, strict=True):
        # Neither itself nor what shares a frame with it.
        others = np.flatnonzero(~np.isin(frames, frames[row]).any(axis=1))
        seen = observed[row]
        if len(others) and np.abs(outputs[row][seen]).max(initial=0.0) > 0:
            near = int(others[distance[others].argmin()])
            guess = candidate.predicted(outputs[near : near + 1], _row(framed, near), _row(framed, row))[0]
            errors.append(_relative_error(guess[seen], outputs[row][seen]))
    return np.array(errors)


def _relative_error(guess: Array, truth: Array) -> float:
    largest = np.abs(truth).max()
    return float(np.linalg.norm((guess - truth) / largest) / np.linalg.norm(truth / largest))


def _row(framed: Framed, row: int) -> Framed:
    turn = None if framed.turn is None else framed.turn[row : row + 1]
    return Framed(framed.keys[row : row + 1], framed.centre[row : row + 1], framed.size[row : row + 1], turn)


def _frames(sample: Pairs) -> Array:
    """A number for the content of each input and of each output ``(B, 2)``: equal arrays have equal ones."""
    found = np.empty((len(sample), 2), dtype=np.uint64)
    for column, part in enumerate((sample.inputs.values, sample.outputs.values)):
        for row, values in enumerate(part):
            digest = quick_digest()
            feed_bytes(digest, values)
            found[row, column] = int.from_bytes(digest.digest()[:8], "little")
    return found
