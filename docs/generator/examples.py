"""One small program around each operator, the questions it is shown on, and the pictures of its traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Literal

import torch

from chop.core.errors import ChopError
from chop.core.model import FrozenModel
from chop.core.prompt import Prompt
from chop.core.text import parse
from chop.storage.atomic import write_bytes

DPI = 80
COLORS = 64
"""Few enough that a picture is small enough to be kept beside the text."""

SceneName = Literal["conservation", "densities", "stations", "broken"]


@dataclass(frozen=True)
class Example:
    """A program's text and the scene it runs in."""

    text: str
    scene: SceneName = "conservation"


SCENES: Mapping[SceneName, str] = MappingProxyType(
    {
        "conservation": "the conservation network, asked for one step of a flux it never saw, sin u − cos u",
        "densities": "the mean-field-control network, from density to density at a length scale of 0.3",
        "stations": "the BTHSA network, six hours ahead in an invented region",
        "broken": "a function that answers log u, which a negative u does not have",
    }
)

EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {
        "icon": Example("icon"),
        "last_frame": Example("last_frame", "stations"),
        "first_frame": Example("first_frame", "stations"),
        "mean_frame": Example("mean_frame", "stations"),
        "mean_output": Example("mean_output", "densities"),
        "nearest_output": Example("nearest_output", "densities"),
        "copy_query": Example("copy_query"),
        "query_mean": Example("query_mean"),
        "ridge": Example("ridge", "densities"),
        "law": Example("law"),
        "auto": Example("auto(budget=6, leaves=False)", "densities"),
        "moving_frame": Example("moving_frame | icon"),
        "rescale": Example('rescale(center="mean") | icon'),
        "normalize": Example("normalize | icon"),
        "minmax": Example("minmax | icon"),
        "increment": Example("increment | mean_output"),
        "flip": Example("flip | icon"),
        "reflect": Example("reflect | icon"),
        "turn": Example("turn(cells=25) | icon"),
        "nearest_examples": Example("nearest_examples(k=2) | icon", "densities"),
        "conserve_mean": Example("icon | conserve_mean"),
        "nonnegative": Example("ridge | nonnegative"),
        "unit_mass": Example("icon | unit_mass", "densities"),
        "within_examples": Example("increment | icon | within_examples"),
        "bound_variation": Example("ridge | bound_variation"),
        "finite": Example("icon | finite", "broken"),
        "correct": Example("correct(icon)", "densities"),
        "krige": Example("krige(icon)", "densities"),
        "debias": Example('debias(icon, smooth="graph")', "stations"),
        "select": Example("select(correct(icon), icon)", "densities"),
        "combine": Example("combine(icon, ridge)", "densities"),
        "weigh": Example("weigh(icon, krige(icon), ridge)", "densities"),
        "average": Example("average(icon, reflect | icon)"),
        "views": Example("views(icon, turns=2, step=5)"),
    }
)


def scene(name: SceneName) -> tuple[FrozenModel, Prompt]:
    """The frozen model and one question of a scene, both in float64.

    In float32 the last bits of an answer depend on the processor and the number of threads, and a few
    pixels and digits of its picture with them.
    """
    model, prompt = _MAKERS[name]()
    return model, prompt.to(torch.float64)


@cache
def _conservation() -> tuple[FrozenModel, Prompt]:
    from chop.icon.weights import load
    from chop.problems import conservation

    return load("conservation").double(), conservation.sample("sin(u)-cos(u)", n=1, seed=0).prompt


@cache
def _densities() -> tuple[FrozenModel, Prompt]:
    from chop.icon.weights import load
    from chop.problems import mfc

    return load("mfc").double(), mfc.sample("g_1to1", 0.3, n=1, seed=0).prompt


@cache
def _stations() -> tuple[FrozenModel, Prompt]:
    from chop.icon.weights import load
    from chop.problems import air

    model: Any = load("air_bthsa").double()
    with TemporaryDirectory() as folder:
        air.make_world(folder, hours=24 * 120)
        case = air.sample("yrd", n=1, lead=6, data=folder, channels=model.config.channels)
    return model, case.prompt


@cache
def _broken() -> tuple[FrozenModel, Prompt]:
    return lambda prompt: prompt.query.values.log(), _conservation()[1]


_MAKERS: Mapping[SceneName, Callable[[], tuple[FrozenModel, Prompt]]] = MappingProxyType(
    {"conservation": _conservation, "densities": _densities, "stations": _stations, "broken": _broken}
)


def write_pictures(folder: Path) -> list[Path]:
    """One PNG for each example, named after its operator: the same bytes on every processor."""
    return [write_picture(name, folder) for name in EXAMPLES]


def write_picture(name: str, folder: Path) -> Path:
    """The picture of one operator's example, whatever style matplotlib is told to use elsewhere."""
    from matplotlib import style

    from chop.pictures import trace_figure
    from chop.pictures.rendering import small_png

    example = EXAMPLES[name]
    model, prompt = scene(example.scene)
    trace = parse(example.text).run(model, prompt).trace
    with style.context("default"):
        picture = small_png(trace_figure(trace, 0), DPI, COLORS)
    return write_bytes(folder / f"{name}.png", picture, ChopError, overwrite=True)
