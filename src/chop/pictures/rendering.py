"""A matplotlib figure as bytes: the same for the same figure, whenever they are made."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Form = Literal["png", "pdf", "svg"]
_UNDATED: dict[Form, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}
"""What would say when, or with which version, a file was made."""


def figure_bytes(figure: Figure, form: Form, dpi: float | Literal["figure"] = "figure") -> bytes:
    """The figure in one of the forms, without dates and random names inside."""
    import matplotlib

    packed = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "chop"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is drawn as an empty box
        figure.savefig(packed, format=form, dpi=dpi, metadata=_UNDATED[form])
    return packed.getvalue()


def small_png(figure: Figure, dpi: float, colors: int) -> bytes:
    """A PNG with a palette: line drawings need few colours, and the file is a quarter of the size."""
    from PIL import Image

    drawn = Image.open(io.BytesIO(figure_bytes(figure, "png", dpi))).convert("RGB")
    packed = io.BytesIO()
    drawn.quantize(colors, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()
