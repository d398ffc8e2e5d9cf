"""What candidates answered to past questions of a bank, whose truth is known; kept batch by batch."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from chop.bank.bank import Bank
from chop.bank.choosing import By
from chop.core.errors import BankError
from chop.core.model import MAX_BYTES, Caller, FrozenModel
from chop.core.program import Program
from chop.core.prompt import Field, Prompt
from chop.core.tasks import Answer, HeldOut, Request, schedule
from chop.operators.evidence import judge
from chop.runs.fingerprint import canonical_json, content_key, of_model, stored_digest
from chop.storage.atomic import atomic_path, make_folder

BATCH = 16
"""Questions asked together."""

Heard = Callable[[int, int], None]
"""Told how many of how many questions are done."""


@dataclass(frozen=True, eq=False)
class PastQuestions:
    """Pairs of a bank that are asked as questions, by their rows, and how their examples are chosen."""

    bank: Bank
    rows: Tensor
    k: int
    by: By
    seed: int = 0

    def part(self, start: int) -> tuple[Prompt, Field]:
        """The prompts and the truth of one batch."""
        return self.bank.question(self.rows[start : start + BATCH], self.k, self.by, self.seed)


@dataclass(frozen=True, eq=False)
class AnsweredBatch:
    """Some questions with the answers ``(K, q, m, c)`` of K candidates, and those at the examples, if any."""

    prompt: Prompt
    truth: Field
    answers: Tensor
    held_out: Tensor | None
    """``(K, q, D, m, c)``"""

    def logs(self) -> tuple[Tensor, Tensor]:
        """Logarithms of squared errors at the examples ``(q, c, D, K)``, and which of them count."""
        assert self.held_out is not None
        return judge(self.prompt.outputs, self.answers.unbind(), self.held_out.unbind())


def answer_past(
    past: PastQuestions,
    candidates: Sequence[Program],
    model: FrozenModel,
    examples: bool,
    folder: Path | None = None,
    heard: Heard = lambda done, total: None,
) -> list[AnsweredBatch]:
    """Every candidate's answers; with ``examples`` also those at the examples of each question.

    With ``folder`` finished batches are kept there, under names made from all that they depend on.
    """
    found = []
    total = len(past.rows)
    for start in range(0, total, BATCH):
        prompt, truth = past.part(start)
        kept = None if folder is None else folder / f"{_key(prompt, candidates, model, examples)}.npz"
        made = None if kept is None else _read(kept, len(candidates), prompt, examples)
        if made is None:
            made = answers_together(candidates, model, prompt, examples)
            if kept is not None:
                _write(kept, *made)
        found.append(AnsweredBatch(prompt, truth, *made))
        heard(min(start + BATCH, total), total)
    return found


def answers_together(
    candidates: Sequence[Program], model: FrozenModel, prompt: Prompt, examples: bool
) -> tuple[Tensor, Tensor | None]:
    """All candidates in one run, so that they share what two of them need."""
    goals: list[Request] = [Answer(program, prompt) for program in candidates]
    if examples:
        goals += [HeldOut(program, prompt, pad=True, gap=0) for program in candidates]
    with torch.inference_mode():
        results = schedule(goals, Caller(model, prompt, MAX_BYTES)).results
        answers = torch.stack([results[goal].values for goal in goals[: len(candidates)]])
        held = [results[goal] for goal in goals[len(candidates) :]]
    return answers.clone(), torch.stack(held).clone() if held else None


def _key(prompt: Prompt, candidates: Sequence[Program], model: FrozenModel, examples: bool) -> str:
    digest = stored_digest()
    digest.update(canonical_json([*map(str, candidates), examples, of_model(model, prompt[:1])]).encode())
    digest.update(content_key(prompt))
    return digest.hexdigest()[:32]


def _read(path: Path, count: int, prompt: Prompt, examples: bool) -> tuple[Tensor, Tensor | None] | None:
    """What was kept; None where it is absent or damaged (the archive has checksums)."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            answers = torch.from_numpy(stored["answers"])
            held = torch.from_numpy(stored["held_out"]) if examples else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    fits = answers.shape == (count, *prompt.answer_shape)
    fits = fits and (held is None or held.shape == (count, *prompt.outputs.values.shape))
    return (answers, held) if fits else None


def _write(path: Path, answers: Tensor, held_out: Tensor | None) -> None:
    make_folder(path.parent, BankError)
    at_examples = answers.new_empty(0) if held_out is None else held_out
    with atomic_path(path, BankError, overwrite=True) as partial, partial.open("wb") as file:
        np.savez(file, answers=answers.cpu().numpy(), held_out=at_examples.cpu().numpy())
