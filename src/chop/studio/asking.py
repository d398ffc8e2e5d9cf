"""A question of the page as a prompt with its truth, made by the library's own problems and files."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from chop import ChopError, Field, Prompt
from chop.files import QuestionFile
from chop.problems import air, conservation, mfc
from chop.problems.air.history import EXAMPLE_PERIOD
from chop.studio.questions import (
    KNOTS,
    AirQuestion,
    ControlQuestion,
    FileQuestion,
    LawQuestion,
    Question,
)

POINTS = 100
"""Of the circle on which a drawn initial condition is solved."""


@dataclass(frozen=True)
class Folders:
    """Where a worker finds data: files of one's own, the invented world, station data if there is some."""

    work: Path
    data: Path | None = None
    home: Path = field(default_factory=Path.cwd)
    """Where the studio was started: paths that are typed are those of files below it."""

    @property
    def uploads(self) -> Path:
        """Where uploads go."""
        return self.work / "uploads"


@dataclass(frozen=True)
class Channel:
    """The channel that is looked at, and how its numbers are told: ``offset + factor * value``."""

    index: int = -1
    offset: float = 0.0
    factor: float = 1.0
    unit: str = "value"

    def of(self, values: Tensor) -> Tensor:
        """``(..., n, c) -> (..., n, 1)``, as it is told."""
        return self.offset + self.factor * values[..., self.index : self.index + 1 or None]

    def seen(self, mask: Tensor | None) -> Tensor | None:
        """Where it was observed."""
        return None if mask is None else mask[..., self.index : self.index + 1 or None]


@dataclass(frozen=True, eq=False)
class AskedQuestion:
    """One question with all that is known about it."""

    prompt: Prompt
    words: str
    target: Tensor | None = None
    mask: Tensor | None = None
    frames: Tensor | None = None
    """``(steps, m, c)``: the truth of a rollout."""
    channel: Channel = field(default_factory=Channel)
    stations: tuple[str, ...] = ()

    def shown(self) -> Prompt:
        """The prompt of the channel that is looked at, as it is told: to be drawn, not to be asked."""
        if self.prompt.query.channels == self.prompt.outputs.channels:
            parts = {name: self._part(getattr(self.prompt, name)) for name in ("inputs", "outputs", "query")}
        else:
            parts = {"outputs": self._part(self.prompt.outputs)}
        return self.prompt.mapped(**parts)

    def _part(self, part: Field) -> Field:
        return Field(part.coords, self.channel.of(part.values), self.channel.seen(part.mask))


def ask_question(question: Question, folders: Folders, model: Any) -> AskedQuestion:
    """What a question of the page means. ``model`` says which channels a network of stations wants."""
    match question:
        case LawQuestion():
            return _law(question)
        case ControlQuestion():
            return _control(question)
        case AirQuestion():
            return _air(question, folders, model)
        case FileQuestion():
            return _file(question, folders)


def _law(question: LawQuestion) -> AskedQuestion:
    frames = _drawn_frames(question) if question.drawn else _sampled_frames(question)
    shown = question.examples + 1
    later = frames[shown:, :, None]
    how = "drawn by hand" if question.drawn else f"number {question.number}"
    return AskedQuestion(
        conservation.window(frames[:shown]),
        f"u_t + ({question.flux})_x = 0, initial condition {how}",
        target=later[0],
        frames=later,
        channel=Channel(unit="u"),
    )


def _sampled_frames(question: LawQuestion) -> Tensor:
    case = conservation.sample(
        question.flux, 1, first=question.number, steps=question.horizon, examples=question.examples,
        step=question.step, mean=question.mean, scale=question.scale,
    )  # fmt: skip
    assert case.trajectory is not None
    return case.trajectory[0]


def _drawn_frames(question: LawQuestion) -> Tensor:
    from scipy.interpolate import CubicSpline

    # A periodic spline: what a hand draws has corners that no smooth initial condition has.
    knots = np.append(question.drawn, question.drawn[0])
    curve = CubicSpline(np.arange(KNOTS + 1) / KNOTS, knots, bc_type="periodic")
    start = np.clip(curve(np.arange(POINTS) / POINTS), -3, 3)
    frames = question.examples + 1 + question.horizon
    solution = conservation.solve(question.flux, start, question.step * np.arange(frames))
    if solution.failures:
        raise ChopError(f"this initial condition cannot be solved: {solution.failures[0]}")
    return torch.from_numpy(solution.values[0]).float()


def _control(question: ControlQuestion) -> AskedQuestion:
    case = mfc.sample(question.family, question.length, 1, first=question.number, examples=question.examples)
    words = (
        f"mean-field control {question.family}, length scale {question.length:g}, operator {question.number}"
    )
    return AskedQuestion(case.prompt[0], words, target=case.target[0], channel=Channel(unit="density"))


@lru_cache(maxsize=2)
def _places(folder: Path, region: str) -> tuple[str, ...]:
    return air.load_region(folder, region).stations


def air_folder(question: AirQuestion, folders: Folders) -> Path:
    """The folder of the station data; the invented world is made the first time."""
    if not question.invented:
        if folders.data is None:
            raise ChopError("no folder with station data was given: start with chop studio --data DIR")
        return folders.data
    world = folders.work / "invented"
    folders.work.mkdir(parents=True, exist_ok=True)
    with FileLock(folders.work / "invented.lock"):  # two workers may come at once
        if not (world / "dataset_yrd.nc").exists():
            air.make_world(world, overwrite=True)
    return world


def _air(question: AirQuestion, folders: Folders, model: Any) -> AskedQuestion:
    config = getattr(model, "config", None)
    channels = getattr(config, "channels", None)
    if channels is None:
        raise ChopError("questions about stations need a network of stations: choose air_bthsa or air_yrd")
    folder = air_folder(question, folders)
    if question.hour:
        case = _air_at(question, folder, channels)
    else:
        case = air.sample(
            question.region, 1, lead=question.lead, first=question.number, data=folder, channels=channels,
            selection="similar" if question.selection == "similar" else "random",
        )  # fmt: skip
    names = case.meta["channels"]
    if question.pollutant not in names:
        raise ChopError(f"{question.region} has no {question.pollutant}; it has {', '.join(names)}")
    at = names.index(question.pollutant)
    return AskedQuestion(
        case.prompt[0],
        f"{question.pollutant} in {question.region}{' (invented)' if question.invented else ''}, "
        f"{question.lead} h ahead",
        target=case.target[0],
        mask=None if case.mask is None else case.mask[0],
        channel=Channel(at, case.meta["mean"][at], case.meta["std"][at], "µg/m³"),
        stations=_places(folder, question.region),
    )


@lru_cache(maxsize=2)
def _history(folder: Path, region: str, channels: tuple[str, ...]) -> air.History:
    """Reading and filling three years takes seconds: the last two regions are remembered."""
    return air.load_history(folder, region, channels, EXAMPLE_PERIOD)


def _air_at(question: AirQuestion, folder: Path, channels: Any) -> Any:
    """The question of one hour."""
    period = EXAMPLE_PERIOD
    history = _history(folder, question.region, tuple(channels))
    try:
        wanted = np.datetime64(question.hour, "h")
    except ValueError:
        raise ChopError(f"an hour is written as 2024-03-01T06, not {question.hour!r:.40}") from None
    end = history.index(wanted)
    ends = air.eligible(history, (history.region.times[0], history.region.times[-1]), question.lead)
    if end not in ends:
        later = ends[np.searchsorted(ends, end) : :][:1]
        near = f"; the next that can is {history.region.times[later[0]]}" if len(later) else ""
        raise ChopError(f"{question.hour} cannot be asked: too little was observed then{near}")
    questions = air.RegionQuestions(history, ends, question.lead, period)
    return questions.case(np.array([end]), question.selection, question.lead)


def find_file(folders: Folders, name: str) -> Path:
    """A file by its path below the folder where the studio was started, its uploads or its data.

    Nothing else: a link that somebody sends must not open files all over the machine.
    """
    for folder in filter(None, (folders.uploads, folders.home, folders.data)):
        path = (folder / Path(name).expanduser()).resolve()
        if path.is_relative_to(folder.resolve()) and path.is_file():
            return path
    raise ChopError(
        f"there is no file {name!r:.200} below the folder where the studio was started; "
        "upload it, or start there"
    )


def _file(question: FileQuestion, folders: Folders) -> AskedQuestion:
    with QuestionFile(find_file(folders, question.name)) as file:
        count = len(file)
        if question.index >= count:
            raise ChopError(f"{question.name} has questions 0 to {count - 1}, not {question.index}")
        part = file.question(question.index)
    channels = part.prompt.outputs.channels
    if question.channel > channels:
        raise ChopError(f"its outputs have {channels} channels, not {question.channel}")
    return AskedQuestion(
        part.prompt[0],
        f"{question.name}, question {question.index} of {count}",
        target=None if part.target is None else part.target[0],
        mask=None if part.mask is None else part.mask[0],
        channel=Channel(question.channel - 1),
    )
