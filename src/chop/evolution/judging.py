"""How a candidate is judged: on a growing number of questions, until it is done, hopeless or broken.

Questions come in fixed chunks, always the same and in the same order, so a verdict depends on the program
and on the bar alone, whoever of a pool of workers gives it, except where time or memory ran out.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from chop.core.errors import ChopError, EvolutionError
from chop.core.model import Caller, FrozenModel
from chop.core.prompt import Prompt
from chop.core.text import parse
from chop.core.user_code import describe_error
from chop.evolution.population import Status, err_alike
from chop.evolution.task import Limits, Task
from chop.evolution.tasks import load_task
from chop.runs.fingerprint import content_key
from chop.runs.pool import Lost, Site, pool_named

FRACTIONS = (0.1, 0.25, 0.5, 1.0)
"""Shares of the questions after which a candidate is looked at."""
DOUBT = 0.5
"""Standard errors by which the mean difference to the bar must be bad for a candidate to be given up."""
MAX_REMEMBERED_BYTES = 384 * 2**20


class CachedModel:
    """A frozen model around another: what two candidates both ask is answered once.

    Answers are kept by the content of the question, and every prompt is asked on its own, so an answer is a
    function of its prompt alone: whether it was remembered, in which process, or asked anew after a crash
    makes no difference to a single bit. Beyond ``max_bytes`` what was used longest ago is forgotten.
    """

    def __init__(self, model: FrozenModel, max_bytes: int = MAX_REMEMBERED_BYTES) -> None:
        self._model = model
        self._max_bytes = max_bytes
        self._held = 0
        self._answers: OrderedDict[bytes, Tensor] = OrderedDict()

    def __call__(self, prompt: Prompt, /) -> Tensor:
        """The answer of the model, remembered or new."""
        return self.predict_many([prompt])[0]

    def predict_many(self, prompts: Sequence[Prompt], /) -> list[Tensor]:
        """One answer a prompt, each asked alone."""
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Tensor:
        key = content_key(prompt)
        known = self._answers.get(key)
        if known is not None:
            self._answers.move_to_end(key)
            return known
        root = prompt  # along its batch large questions are cut: the examples of all others are its own
        while root.origin is not None:
            root = root.origin.parent
        answer = Caller(self._model, root)([prompt])[0]
        self._answers[key] = answer
        self._held += answer.nbytes
        while self._held > self._max_bytes and len(self._answers) > 1:
            _, oldest = self._answers.popitem(last=False)
            self._held -= oldest.nbytes
        return answer


@dataclass(frozen=True)
class Submission:
    """A program to be judged, and what it is up against.

    ``bar`` are the errors of a program it should keep up with (None: nothing yet); ``rivals`` those of
    programs that are no longer and no dearer, each with its number: to do the same as one is to fail.
    """

    text: str
    bar: tuple[float, ...] | None = None
    rivals: tuple[tuple[int, tuple[float, ...]], ...] = ()

    def reason_to_stop(self, errors: Sequence[float]) -> str:
        """Why the program is not asked any further; empty if it is."""
        if self.bar is not None and clearly_worse(errors, self.bar):
            return "clearly worse"
        if 4 * len(errors) >= len(self.bar or ()):  # on a few questions many programs agree by chance
            for number, theirs in self.rivals:
                if err_alike(errors, theirs):
                    return f"does what #{number} does"
        return ""


@dataclass(frozen=True)
class Verdict:
    """What came out; ``seconds`` is the only thing that may differ the next time."""

    status: Status
    errors: tuple[float, ...] = ()
    calls: int = 0
    reason: str = ""
    seconds: float = 0.0


def question_chunks(questions: int) -> list[slice]:
    """The questions, cut where candidates are looked at."""
    ends = sorted({max(2, math.ceil(share * questions)) for share in FRACTIONS} | {questions})
    return [slice(low, high) for low, high in zip([0, *ends[:-1]], ends, strict=True)]


def clearly_worse(errors: Sequence[float], bar: Sequence[float]) -> bool:
    """Whether errors are clearly above those of the bar on the same questions (paired)."""
    n = len(errors)
    gaps = [own - other for own, other in zip(errors, bar[:n], strict=True)]
    mean = sum(gaps) / n
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / max(1, n - 1))
    return mean > DOUBT * spread / math.sqrt(n)


class Judge:
    """Judges the candidates of one task, one after the other; remembers the model's answers between them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.model = CachedModel(task.model)
        # Cut once: prompts are known by identity to models that share encodings.
        self._chunks = [task.cases[part] for part in question_chunks(len(task.cases))]

    def warm_up(self) -> None:
        """Do once what is slow the first time (imports, compilation), so that no candidate pays for it."""
        with contextlib.suppress(Exception):  # what goes wrong will be said of the start program
            parse("average(rescale | icon, last_frame)").run(self.model, self._chunks[0].prompt, trace=False)

    def __call__(self, submission: Submission) -> Verdict:
        """The verdict on a candidate. Whatever goes wrong inside a program is a verdict too."""
        begun = time.perf_counter()
        errors: list[float] = []
        calls = 0
        status: Status = "done"
        reason = ""
        try:
            program = parse(submission.text)
            for cases in self._chunks:
                result = program.run(self.model, cases.prompt, trace=False)
                calls = result.calls
                found = self._task.errors(result.values, cases)
                lost = int((~found.isfinite()).sum())
                if lost:
                    status, reason = "failed", f"{lost} of {len(found)} answers are not finite"
                    break
                # What single precision can tell, so that journals stay small.
                errors += [float(f"{float(error):.7g}") for error in found]
                reason = "" if cases is self._chunks[-1] else submission.reason_to_stop(errors)
                if reason:
                    status = "stopped"
                    break
        except ChopError as error:
            status, reason = "failed", str(error)[:300]
        except Exception as error:  # an operator of somebody else may raise anything
            status, reason = "failed", f"it failed {describe_error(error)}"[:300]
        return Verdict(status, tuple(errors), calls, reason, round(time.perf_counter() - begun, 3))


class JudgePool:
    """Workers that give verdicts; to be closed after use, or at the end of its ``with`` block.

    ``source`` is a task, or its name or file, which workers load themselves.
    """

    def __init__(self, executor: str, source: str | Task, workers: int, limits: Limits) -> None:
        make = partial(_make_judge, source, warm=executor != "inline")
        site = Site(make, workers, "the task", EvolutionError, limits.seconds, limits.memory)
        self.pool = pool_named(executor, EvolutionError)(site)

    def run(self, submissions: Sequence[Submission]) -> Iterator[Verdict]:
        """The verdicts, in the order of the submissions; a candidate that was lost has failed."""
        for outcome in self.pool.run(submissions):
            if isinstance(outcome, Lost):
                yield Verdict("failed", reason=outcome.reason, seconds=outcome.seconds)
            else:
                yield outcome

    def __enter__(self) -> JudgePool:
        return self

    def __exit__(self, *about: object) -> None:
        self.pool.close()


def _make_judge(source: str | Task, warm: bool) -> Judge:
    """A judge, in the worker that needs one; warmed up where a clock will run."""
    judge = Judge(load_task(source))
    if warm:
        judge.warm_up()
    return judge
