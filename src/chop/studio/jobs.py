"""What the page asks of a worker process, and what comes back: plain values only, so that both can travel."""

from __future__ import annotations

from dataclasses import dataclass

from chop.pictures.views import Curve, Numbers, View
from chop.studio.questions import Question


@dataclass(frozen=True)
class ShowJob:
    """Draw a question."""

    question: Question
    model: str


@dataclass(frozen=True)
class RunJob:
    """Answer a question by one program."""

    question: Question
    model: str
    program: str


@dataclass(frozen=True)
class StagesJob:
    """The fields at every stage of such a run."""

    run: RunJob


@dataclass(frozen=True)
class RolloutJob:
    """A forecast of several steps by one program."""

    run: RunJob
    steps: int


@dataclass(frozen=True)
class ExportJob:
    """A run, a question or a program as a file of the kind that the suffix says."""

    run: RunJob
    suffix: str
    """.html and .json are the trace, .png and .svg its figure, .h5 the question, .txt the program."""


Job = ShowJob | RunJob | StagesJob | RolloutJob | ExportJob


@dataclass(frozen=True)
class Refused:
    """The outcome of a job that a user can mend, in a sentence."""

    sentence: str
    column: int | None = None
    """Where in the program text, from 1."""


@dataclass(frozen=True, eq=False)
class Map:
    """Values at stations."""

    places: Numbers
    """``(n, 2)`` longitude and latitude."""
    values: Numbers
    stations: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ShownQuestion:
    """A question as it is drawn."""

    words: str
    examples: int
    points: int
    views: tuple[View, ...]
    truth: Curve | None
    given: Curve | None
    truth_map: Map | None
    labels: tuple[str, ...]
    can_roll: bool


@dataclass(frozen=True, eq=False)
class ProgramAnswer:
    """What one program answered, with everything to judge it by."""

    program: str
    built: str
    """The fixed program behind the answer."""
    curve: Curve
    band: Curve | None
    map: Map | None
    error: float | None
    """Relative L2 error, where the truth is known."""
    context_error: float | None
    """Mean squared error at the held-out examples."""
    half_width: str
    trust: float | None
    reasons: tuple[str, ...]
    calls: int
    """Model evaluations of the program; to judge it by the examples may take more."""
    milliseconds: float
    rejected: bool
    told: tuple[tuple[str, str], ...]
    """What stages say in words: candidates, evidence, the law that was found."""
    found: tuple[View, ...]
    """Functions that stages found."""


@dataclass(frozen=True, eq=False)
class StageShown:
    """One moment of a run: the operator's place in the program, and its fields."""

    path: str | None
    heading: str
    words: str
    views: tuple[View, ...]


@dataclass(frozen=True, eq=False)
class RunStages:
    """All moments of a run."""

    program: str
    stages: tuple[StageShown, ...]
    explained: str


@dataclass(frozen=True, eq=False)
class RolledOut:
    """A forecast: one frame a step, and the truth of each where it is known."""

    program: str
    x: Numbers
    frames: Numbers
    """``(steps, n)``"""
    truth: Numbers | None
    errors: tuple[float | None, ...]
    calls: int
    milliseconds: float


@dataclass(frozen=True)
class Exported:
    """A file."""

    name: str
    content: bytes
