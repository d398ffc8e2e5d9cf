"""What a bank's past questions say of a program: which candidates earn how much, and how far to trust it.

The weights of candidates are fitted once, on past questions that were asked as new ones will be. They are a
prior: the examples of each new question multiply it as far as that helped in the past. As truth arrives the
weights go on learning (`chop.numerics.aggregation.Boa`): in the long run no candidate beats the mixture.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from chop.bank.past_answers import answers_together
from chop.core.conformal import ConformalScores
from chop.core.errors import BankError, ChopError
from chop.core.model import FrozenModel
from chop.core.program import Program, Result
from chop.core.prompt import Field, Prompt
from chop.core.text import parse
from chop.core.words import count, representation
from chop.numerics.aggregation import Boa, quadratic_regrets
from chop.operators.mixtures import Average, error_moments
from chop.operators.weighing import Weigh
from chop.storage.atomic import write_text
from chop.storage.json_text import json_text
from chop.storage.schema import (
    Shape,
    boolean,
    checked_record,
    finite,
    list_of,
    optional,
    record_of,
    safe_int,
    string,
)

if TYPE_CHECKING:
    pass

FORMAT = "chop-calibration-1"
CALIBRATION = "calibration.json"
"""What the file is called in the folder of a bank."""
UNFINISHED = ".calibrating"
"""The folder beside it that keeps answers until all are there."""
_LEAST_WEIGHT = 0.005
DIGITS = 4


@dataclass(frozen=True, eq=False)
class LearntWeights:
    """Weights that go on learning, and the size of errors they are told in."""

    state: Boa
    unit: Tensor
    """``(c,)`` mean squared error of the first candidate in the past."""
    outcomes: int = 0
    """How many were heard of since."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """What past questions say of some candidates; the first of them is the bare model."""

    candidates: tuple[Program, ...]
    weights: Tensor
    """``(c, K)``, by channel, in a few digits: what a file tells is what is used."""
    trust: float
    """How much the examples of a question count beside the past."""
    examples: bool
    """Whether candidates are asked at the examples of each question too."""
    kept: Tensor
    """``(c,)``: the part of the fitted mixture that is kept, 0 where the bare model is as good."""
    errors: Tensor
    """``(c, K)``: mean errors of the candidates beside the bare model's."""
    gain: Tensor
    """``(c,)``: by what part the mean error is below the bare model's, each question left out of its fit."""
    questions: int
    k: int
    by: str
    lead: int | None
    """How long after its input an output is known, where all pairs of the bank have the same."""
    scores: ConformalScores
    learnt: LearntWeights

    @property
    def program(self) -> Program:
        """The candidates mixed as the past says, as a fixed program; the bare model where that is best."""
        used = [k for k in range(len(self.candidates)) if bool((self.weights[:, k] >= _LEAST_WEIGHT).any())]
        members = tuple(self.candidates[k] for k in used)
        table = self.weights[:, used].mT
        table = table.where(table >= _LEAST_WEIGHT, 0)
        alike = bool((table == table[:, :1]).all())
        given = tuple((table[:, :1] if alike else table).flatten().tolist())
        if self.examples:
            return Weigh(members, trust=self.trust, prior=given)
        return members[0] if len(members) == 1 else Average(members, weights=given)

    def run(self, model: FrozenModel, prompt: Prompt, *, trace: bool = True) -> Result:
        """The answer of the program, with bands and trust from the past."""
        return self.program.run(model, prompt, trace=trace).calibrated(self.scores)

    def after(
        self, model: FrozenModel, prompt: Prompt, truth: Tensor, mask: Tensor | None = None
    ) -> Calibration:
        """One or more outcomes later: questions of a batch ``(Q,)`` in the order in which truth arrived.

        Weights learn from every outcome. Bands stay those of the past; see `AdaptiveLevel` for streams whose
        errors drift.
        """
        answers, _ = answers_together(self.candidates, model, prompt, examples=False)
        outputs = Field(prompt.at, truth.to(answers.dtype), mask)
        moments, counted = error_moments(answers, outputs)
        state = self.learnt.state
        for question in range(moments.shape[1]):
            told = torch.where(counted[:, question, None, None], moments[:, question], torch.nan)
            scaled = told / self.learnt.unit[:, None, None]
            state = state.after(quadratic_regrets(scaled, state.weights))
        learnt = replace(self.learnt, state=state, outcomes=self.learnt.outcomes + moments.shape[1])
        return replace(self, weights=state.weights.round(decimals=DIGITS), learnt=learnt)

    def told(self) -> str:
        """A few lines: what each candidate earns, and how much better the mixture is."""
        channels = len(self.gain)
        lines = [f"{count(self.questions, 'past question')}, {self.k} examples each, by {self.by}"]
        lines.append("weight (by channel), error beside the bare model's")
        for row in sorted(self.table(), key=lambda row: -sum(row["weights"])):
            weights = " ".join(f"{100 * w:5.1f} %" for w in row["weights"])
            lines.append(f"  {weights}  {' '.join(f'{e:6.3f}' for e in row['error'])}  {row['program']}")
        gains = ", ".join(f"{100 * float(g):.1f} %" for g in self.gain)
        lines.append(f"error below the bare model's{' (by channel)' if channels > 1 else ''}: {gains}")
        if self.examples:
            lines.append(f"the examples of a question count with trust {self.trust:g} beside this")
        lines.append(f"bands: {self.scores.how(simultaneous=False)}")
        return "\n".join(lines)

    def table(self) -> list[dict[str, Any]]:
        """One row for each candidate: its text, its weights and its errors by channel."""
        return [
            {
                "program": str(program),
                "weights": self.weights[:, place].tolist(),
                "error": self.errors[:, place].tolist(),
            }
            for place, program in enumerate(self.candidates)
        ]

    def __repr__(self) -> str:
        gains = ", ".join(f"{100 * float(g):.1f} %" for g in self.gain)
        facts = {
            "candidates": str(len(self.candidates)),
            "questions": str(self.questions),
            "below icon": gains,
        }
        return representation("Calibration", facts)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: readable, and all that `from_dict` needs."""
        state = self.learnt.state
        return {
            "format": FORMAT,
            "about": f"{count(self.questions, 'past question')}, {self.k} examples by {self.by}",
            "program": str(self.program),
            "questions": self.questions,
            "k": self.k,
            "by": self.by,
            "lead": self.lead,
            "trust": self.trust,
            "examples": self.examples,
            "kept": self.kept.tolist(),
            "gain": self.gain.tolist(),
            "candidates": self.table(),
            "bands": self.scores.to_dict(),
            "learning": {
                "outcomes": self.learnt.outcomes,
                "unit": self.learnt.unit.tolist(),
                **{name: getattr(state, name).tolist() for name in _STATE},
            },
        }

    @classmethod
    def from_dict(cls, content: Any, where: str = "this") -> Calibration:
        """What `to_dict` gave; anything else is an error that names ``where``."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise BankError(f"{where} is no calibration; 'chop bank calibrate' writes one")
        read = checked_record(content, _SHAPE, f"{where} is no calibration", BankError)
        rows = read["candidates"]
        try:
            candidates = tuple(parse(row["program"]) for row in rows)
            scores = ConformalScores.from_dict(read["bands"])
        except ChopError as error:
            raise BankError(f"{where} is no calibration: {error}") from None
        channels, members = len(read["kept"]), len(rows)
        tables = [[row[name] for row in rows] for name in ("weights", "error")]
        tables += [read["learning"][name] for name in _STATE]
        widths = [channels] * 2 + [members] * len(_STATE)
        if not members or not all(
            isinstance(row, list) and len(row) == width
            for table, width in zip(tables, widths, strict=True)
            for row in table
        ):
            raise BankError(f"{where} is no calibration: its tables do not fit {members} candidates")
        learning = read["learning"]
        state = Boa(*(torch.tensor(learning[name], dtype=torch.float64) for name in _STATE))
        unit = torch.tensor(learning["unit"], dtype=torch.float64)
        weights, errors = (torch.tensor(table, dtype=torch.float64).mT for table in tables[:2])
        return cls(
            candidates, weights, float(read["trust"]), bool(read["examples"]),
            torch.tensor(read["kept"], dtype=torch.float64), errors,
            torch.tensor(read["gain"], dtype=torch.float64), read["questions"], read["k"], read["by"],
            read["lead"], scores, LearntWeights(state, unit, learning["outcomes"]),
        )  # fmt: skip

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """A small readable JSON file."""
        return write_text(Path(path), json_text(self.to_dict()) + "\n", BankError, overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """What `save` wrote."""
        file = Path(path)
        try:
            if file.stat().st_size > _LARGEST:
                raise BankError(f"{file} is too large for a calibration")
            content = json.loads(file.read_text(encoding="utf-8"))
        except OSError as problem:
            raise BankError(f"{file} cannot be read: {problem.strerror or problem}") from None
        except (ValueError, RecursionError):
            raise BankError(f"{file} is no calibration: it is not JSON") from None
        return cls.from_dict(content, str(file))


_STATE = ("prior", "total", "squares", "largest")
_LARGEST = 64 * 2**20


def _object(value: Any) -> bool:
    return isinstance(value, dict)


_SHAPE: Shape = {
    "questions": safe_int,
    "k": safe_int,
    "by": string,
    "lead": optional(safe_int),
    "trust": finite,
    "examples": boolean,
    "kept": list_of(finite),
    "gain": list_of(finite),
    "candidates": list_of(
        record_of({"program": string, "weights": list_of(finite), "error": list_of(finite)})
    ),
    "bands": _object,
    "learning": record_of(
        {
            "outcomes": safe_int,
            "unit": list_of(finite),
            **{name: list_of(list_of(finite)) for name in _STATE},
        }
    ),
}
