"""What was asked about each question of a batch: candidates with their answers, here and at the examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from chop.core.program import Program
from chop.core.prompt import Prompt
from chop.operators.evidence import judge


@dataclass(frozen=True, eq=False)
class CandidateAnswer:
    """A candidate's answer to one query ``(m, c)`` and at its examples ``(D, m, c)``."""

    values: Tensor
    held_out: Tensor


@dataclass(frozen=True, eq=False)
class QuestionRows:
    """A batch of prompts, and parts of it: rows that want the same are asked together."""

    prompt: Prompt

    @cached_property
    def count(self) -> int:
        return self.prompt.batch.numel()

    @cached_property
    def _flat(self) -> Prompt:
        return self.prompt.flat()

    @cached_property
    def _parts(self) -> dict[tuple[int, ...], Prompt]:
        return {tuple(range(self.count)): self.prompt}

    def part(self, rows: Sequence[int]) -> Prompt:
        """The prompts of some rows, the same object each time; of all rows the batch itself."""
        key = tuple(rows)
        if key not in self._parts:
            index = torch.tensor(key, device=self.prompt.device)
            self._parts[key] = self._flat[index]
        return self._parts[key]


def rows_of(values: Tensor, batch: torch.Size) -> tuple[Tensor, ...]:
    """What belongs to each query of a batch."""
    return values.reshape(batch.numel(), *values.shape[len(batch) :]).unbind()


def mean_trial(trials: Sequence[CandidateAnswer]) -> CandidateAnswer:
    """The plain mean of several."""
    if len(trials) == 1:
        return trials[0]
    return CandidateAnswer(
        torch.stack([one.values for one in trials]).mean(dim=0),
        torch.stack([one.held_out for one in trials]).mean(dim=0),
    )


def mean_log(prompt: Prompt, values: Tensor, held_out: Tensor) -> list[float]:
    """For each prompt one number: the mean over channels and examples that count."""
    logs, counted = judge(prompt.outputs, [values], [held_out])
    number = counted.sum(dim=(-1, -2)).clamp(min=1)
    found: list[float] = (logs[..., 0].sum(dim=(-1, -2)) / number).flatten().tolist()
    return found


Candidates = dict[Program, CandidateAnswer]
