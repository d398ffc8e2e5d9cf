"""Trace pictures of the operators' examples, small enough to be kept beside the text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chop.core.errors import ChopError
from chop.core.text import parse
from chop.pictures import trace_figure
from chop.pictures.rendering import small_png
from chop.storage.atomic import write_bytes
from generator.examples import EXAMPLES, Example, scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 80
COLORS = 64


def write_pictures(folder: Path) -> list[Path]:
    """One PNG for each example, named after its operator: the same bytes on every processor."""
    return [write_picture(name, folder) for name in EXAMPLES]


def write_picture(name: str, folder: Path) -> Path:
    """The picture of one operator's example, whatever style matplotlib is told to use elsewhere."""
    from matplotlib import style

    with style.context("default"):
        picture = small_png(example_figure(EXAMPLES[name]), DPI, COLORS)
    return write_bytes(folder / f"{name}.png", picture, ChopError, overwrite=True)


def example_figure(example: Example) -> Figure:
    """The figure of one example's trace."""
    model, prompt = scene(example.scene)
    trace = parse(example.text).run(model, prompt).trace
    assert trace is not None
    return trace_figure(trace, 0)


__all__ = ["example_figure", "write_picture", "write_pictures"]
