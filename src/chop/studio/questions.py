"""What a person picks on the page, as plain values: small enough for a link, checked like a stranger's.

A question is words and numbers only. The worker process makes the prompt of it (`asking`), so that the page
never waits for a solver or a file.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

from chop import ChopError, programs

KNOTS = 25
"""Values of an initial condition that is drawn by hand, evenly spaced over the circle."""
MOST_TEXT = 20_000
"""Characters that a link may unpack to."""


def _check(name: str, value: Any, low: float, high: float, whole: bool = False) -> None:
    """A number within its range, in a sentence otherwise."""
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        raise ChopError(f"{name} must be {kind} from {low:g} to {high:g}, not {value!r:.60}")


def _check_word(name: str, value: object, longest: int = 200) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= longest:
        raise ChopError(f"{name} must be 1 to {longest} characters of text")


@dataclass(frozen=True)
class LawQuestion:
    """A conservation law: consecutive frames of one trajectory, and the next one is asked for."""

    kind: ClassVar[str] = "law"
    flux: str = "sin(u)-cos(u)"
    number: int = 0
    """Which random initial condition."""
    drawn: tuple[float, ...] = ()
    """One drawn by hand instead: its values at evenly spaced points."""
    mean: float = 0.0
    scale: float = 1.0
    examples: int = 5
    step: float = 0.1
    horizon: int = 20
    """Steps of a rollout."""

    def __post_init__(self) -> None:
        _check_word("the flux", self.flux)
        _check("the initial condition's number", self.number, 0, 10**6, whole=True)
        _check("the mean", self.mean, -3, 3)
        _check("the scale", self.scale, 0, 3)
        _check("the number of examples", self.examples, 1, 20, whole=True)
        _check("the time between frames", self.step, 1e-3, 1.0)
        _check("the horizon", self.horizon, 1, 144, whole=True)
        if self.drawn and len(self.drawn) != KNOTS:
            raise ChopError(f"a drawn initial condition has {KNOTS} values, not {len(self.drawn)}")
        for value in self.drawn:
            _check("a drawn value", value, -3, 3)


@dataclass(frozen=True)
class ControlQuestion:
    """Mean-field control: pairs of densities or costs of one hidden operator."""

    kind: ClassVar[str] = "control"
    family: str = "g_2to2"
    length: float = 0.5
    number: int = 0
    examples: int = 5

    def __post_init__(self) -> None:
        _check_word("the family", self.family)
        _check("the length scale", self.length, 0.05, 5)
        _check("the operator's number", self.number, 0, 10**6, whole=True)
        _check("the number of examples", self.examples, 1, 20, whole=True)


@dataclass(frozen=True)
class AirQuestion:
    """Air quality: a day at the stations of a region, and a later hour is asked for."""

    kind: ClassVar[str] = "air"
    region: str = "yrd"
    pollutant: str = "PM2.5"
    """The channel that is looked at; all are answered."""
    lead: int = 24
    number: int = 0
    """Which hour, in an order drawn at random."""
    hour: str = ""
    """The last hour of the window, such as 2024-03-01T06; empty for the one of the number."""
    selection: str = "random"
    invented: bool = True
    """The invented world, or the folder of ``--data``."""

    def __post_init__(self) -> None:
        _check_word("the region", self.region, 64)
        _check_word("the pollutant", self.pollutant, 64)
        _check("the lead", self.lead, 1, 72, whole=True)
        _check("the hour's number", self.number, 0, 10**6, whole=True)
        if self.selection not in ("random", "similar"):
            raise ChopError("examples are chosen at random or by likeness: random or similar")
        if not isinstance(self.hour, str) or len(self.hour) > 32 or not isinstance(self.invented, bool):
            raise ChopError("an hour is written as 2024-03-01T06")


@dataclass(frozen=True)
class FileQuestion:
    """A question in a file of one's own, uploaded or below the folder where the studio was started."""

    kind: ClassVar[str] = "file"
    name: str = ""
    """Its path there."""
    index: int = 0
    channel: int = 0
    """Which channel is looked at, from 1; 0 for the last."""

    def __post_init__(self) -> None:
        _check_word("the file's name", self.name, 300)
        _check("the question's number", self.index, 0, 10**9, whole=True)
        _check("the channel", self.channel, 0, 10**4, whole=True)


Question = LawQuestion | ControlQuestion | AirQuestion | FileQuestion
KINDS: Mapping[str, type[Question]] = {
    kind.kind: kind for kind in (LawQuestion, ControlQuestion, AirQuestion, FileQuestion)
}

NETWORKS = {"law": "conservation", "control": "mfc", "air": "air_bthsa", "file": "conservation"}
"""The bundled network that is asked first about each kind of question."""
PROGRAMS = {
    kind: str(programs[name])
    for kind, name in {"law": "conservation", "control": "mfc", "air": "air", "file": "mfc"}.items()
}
"""The program that stands there first: the paper's, where it has one."""


@dataclass(frozen=True)
class Page:
    """All that a link restores: the question, who answers it, and the program."""

    question: Question = LawQuestion()
    model: str = NETWORKS["law"]
    program: str = PROGRAMS["law"]

    def about(self, question: Question) -> Page:
        """Another question; one of another kind is asked of another network.

        The program stays, unless nobody has touched it.
        """
        if question.kind == self.question.kind:
            return replace(self, question=question)
        untouched = self.program == PROGRAMS[self.question.kind]
        program = PROGRAMS[question.kind] if untouched else self.program
        return Page(question, NETWORKS[question.kind], program)

    def link(self) -> str:
        """It as the words of an address; `from_link` is the inverse."""
        plain = {"kind": self.question.kind, **asdict(self.question)}
        text = json.dumps({"question": plain, "model": self.model, "program": self.program})
        packed = zlib.compress(text.encode(), 9)
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @staticmethod
    def from_link(words: str) -> Page:
        """The page that a link means; a sentence where it means none."""
        try:
            packed = base64.urlsafe_b64decode(words.encode("ascii") + b"=" * (-len(words) % 4))
            unpacking = zlib.decompressobj()
            text = unpacking.decompress(packed, MOST_TEXT)
            if unpacking.unconsumed_tail:
                raise ValueError("too long")
            plain = json.loads(text)
            return Page(question_of(plain["question"]), _text(plain["model"]), _text(plain["program"]))
        except (ValueError, KeyError, TypeError, UnicodeError, binascii.Error, zlib.error, RecursionError):
            raise ChopError(
                "this link is damaged or of another version; the page begins as it always does"
            ) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def question_of(plain: Mapping[str, Any]) -> Question:
    """The question that plain values mean; ChopError or TypeError where they mean none."""
    kind: type[Any] = KINDS[plain["kind"]]
    known = {field.name for field in fields(kind)}
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    made: Question = kind(**{key: value for key, value in given.items() if key in known})
    return made
