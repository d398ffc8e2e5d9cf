"""How a candidate is judged: on a growing number of questions, until it is done, hopeless or broken.

Questions come in fixed chunks, always the same and in the same order, so a verdict depends on the program
and on the bar alone.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from chop.core.errors import ChopError
from chop.core.text import parse
from chop.core.user_code import describe_error
from chop.evolution.memory import Remembering
from chop.evolution.population import Status, alike
from chop.evolution.task import Task

FRACTIONS = (0.1, 0.25, 0.5, 1.0)
"""Shares of the questions after which a candidate is looked at."""
DOUBT = 0.5
"""Standard errors by which the mean difference to the bar must be bad for a candidate to be given up."""


@dataclass(frozen=True)
class Job:
    """A program to be judged, and what it is up against.

    ``bar`` are the errors of a program it should keep up with (None: nothing yet); ``rivals`` those of
    programs that are no longer and no dearer, each with its number: to do the same as one is to fail.
    """

    text: str
    bar: tuple[float, ...] | None = None
    rivals: tuple[tuple[int, tuple[float, ...]], ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What came out; ``seconds`` is the only thing that may differ the next time."""

    status: Status
    errors: tuple[float, ...] = ()
    calls: int = 0
    reason: str = ""
    seconds: float = 0.0


def chunks(questions: int) -> list[slice]:
    """The questions, cut where candidates are looked at."""
    ends = sorted({max(2, math.ceil(share * questions)) for share in FRACTIONS} | {questions})
    return [slice(low, high) for low, high in zip([0, *ends[:-1]], ends, strict=True)]


def hopeless(errors: Sequence[float], bar: Sequence[float]) -> bool:
    """Whether errors are clearly above those of the bar on the same questions (paired)."""
    n = len(errors)
    gaps = [own - other for own, other in zip(errors, bar[:n], strict=True)]
    mean = sum(gaps) / n
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / max(1, n - 1))
    return mean > DOUBT * spread / math.sqrt(n)


def given_up(job: Job, errors: Sequence[float]) -> str:
    """Why a candidate is not asked any further; empty if it is."""
    if job.bar is not None and hopeless(errors, job.bar):
        return "clearly worse"
    if 4 * len(errors) >= len(job.bar or ()):  # on a few questions many programs agree by chance
        for number, theirs in job.rivals:
            if alike(errors, theirs):
                return f"does what #{number} does"
    return ""


def _digits(error: float) -> float:
    """What single precision can tell, so that journals stay small."""
    return float(f"{error:.7g}")


class Judge:
    """Judges the candidates of one task, one after the other; remembers the model's answers between them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.model = Remembering(task.model)
        # Cut once: prompts are known by identity to models that share encodings.
        self._chunks = [task.cases[part] for part in chunks(len(task.cases))]

    def warm_up(self) -> None:
        """Do once what is slow the first time (imports, compilation), so that no candidate pays for it."""
        with contextlib.suppress(Exception):  # what goes wrong will be said of the start program
            parse("average(rescale | icon, last_frame)").run(self.model, self._chunks[0].prompt, trace=False)

    def __call__(self, job: Job) -> Verdict:
        """The verdict on a candidate. Whatever goes wrong inside a program is a verdict too."""
        begun = time.perf_counter()
        errors: list[float] = []
        calls = 0
        status: Status = "done"
        reason = ""
        try:
            program = parse(job.text)
            for cases in self._chunks:
                result = program.run(self.model, cases.prompt, trace=False)
                calls = result.calls
                found = self._task.errors(result.values, cases)
                lost = int((~found.isfinite()).sum())
                if lost:
                    status, reason = "failed", f"{lost} of {len(found)} answers are not finite"
                    break
                errors += [_digits(float(error)) for error in found]
                reason = "" if cases is self._chunks[-1] else given_up(job, errors)
                if reason:
                    status = "stopped"
                    break
        except ChopError as error:
            status, reason = "failed", str(error)[:300]
        except Exception as error:  # an operator of somebody else may raise anything
            status, reason = "failed", f"it failed {describe_error(error)}"[:300]
        return Verdict(status, tuple(errors), calls, reason, round(time.perf_counter() - begun, 3))


__all__ = ["Job", "Judge", "Verdict", "chunks", "given_up", "hopeless"]
