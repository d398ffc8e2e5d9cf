"""Trace pictures of the operators' examples, small enough to be kept beside the text."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from chop.atomic import write_bytes
from chop.errors import ChopError
from chop.reference.examples import EXAMPLES, Example, scene
from chop.text import parse

DPI = 80
COLORS = 64
"""Line drawings need few colours; a palette makes the files a quarter of the size."""


def write_pictures(folder: Path) -> list[Path]:
    """One PNG for each example, named after its operator."""
    return [
        write_bytes(folder / f"{name}.png", small_png(example_figure(example)), ChopError, overwrite=True)
        for name, example in EXAMPLES.items()
    ]


def example_figure(example: Example) -> Any:
    """The matplotlib figure of one example's trace."""
    model, prompt = scene(example.scene)
    trace = parse(example.text).run(model, prompt).trace
    assert trace is not None
    return trace.plot()


def small_png(figure: Any, dpi: int = DPI, colors: int = COLORS) -> bytes:
    """A figure as a PNG with a palette."""
    from PIL import Image

    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    image = Image.open(drawn).convert("RGB").quantize(colors, dither=Image.Dither.NONE)
    image.save(packed, "PNG", optimize=True)
    return packed.getvalue()


__all__ = ["example_figure", "small_png", "write_pictures"]
