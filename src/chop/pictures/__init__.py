"""Everything that is looked at: programs drawn, and runs shown field by field."""

from chop.pictures.drawing import draw_program
from chop.pictures.figure import trace_figure
from chop.pictures.page import trace_page

__all__ = ["draw_program", "trace_figure", "trace_page"]
