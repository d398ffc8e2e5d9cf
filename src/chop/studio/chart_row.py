"""Some pictures side by side, of which there may be more or fewer the next time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui


class ChartRow:
    """Charts that are kept and filled anew: making one takes the browser far longer than filling it."""

    def __init__(self, test_id: str, height: str = "260px") -> None:
        self._row = ui.element("div").classes("studio-charts").props(f"data-testid={test_id}")
        self._height = height
        self._charts: list[ui.echart] = []

    def show(self, options: Sequence[dict[str, Any]]) -> None:
        """These pictures, and no others."""
        for i, option in enumerate(options):
            if i == len(self._charts):
                with self._row:
                    chart = ui.echart(option).style(f"height: {self._height}").classes("studio-chart")
                self._charts.append(chart)
            else:
                chart = self._charts[i]
                chart.options.clear()
                chart.options.update(option)
                chart.update()
        for chart in self._charts[len(options) :]:
            chart.delete()
        del self._charts[len(options) :]
