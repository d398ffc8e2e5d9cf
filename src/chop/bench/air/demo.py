"""Two invented regions, a network carried to one of them: bare, with a program around it, and persistence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chop.bench.air.answers import Remembering
from chop.bench.air.conditions import CHOP, FORWARD, NAMES, PERSISTENCE, POLLUTANTS, RAW, WRITTEN, Split
from chop.bench.air.questions import Source
from chop.bench.air.runner import INDEX
from chop.bench.air.work import measured
from chop.core.errors import BenchError
from chop.icon.stations.network import StationIcon
from chop.icon.weights import bundled, load

LEADS = (1, 3, 6, 12, 24)
SHOWN = (RAW, CHOP, PERSISTENCE)
WORLD = "world"
EVERY = 5
"""Hours between questions: 5 and 24 have no common factor, so every hour of the day is asked."""


@dataclass(frozen=True, eq=False)
class Demo:
    """Errors ``(n)`` of each method by pollutant and lead, and what is needed to draw."""

    network: StationIcon
    source: Source
    out: Path
    hours: tuple[int, ...]
    errors: dict[tuple[str, int, str], NDArray[np.float64]]

    def mean(self, pollutant: str, lead: int, method: str) -> float:
        """Over the questions whose target was observed."""
        return float(np.nanmean(self.errors[pollutant, lead, method]))

    def change(self, pollutant: str, lead: int) -> float:
        """Of the mean error, by the program, in percent."""
        return 100 * (self.mean(pollutant, lead, CHOP) / self.mean(pollutant, lead, RAW) - 1)

    def rows(self) -> list[tuple[str, ...]]:
        """One for each pollutant and lead."""
        return [
            (
                WRITTEN[pollutant],
                str(lead),
                *(f"{self.mean(pollutant, lead, method):.1f}" for method in SHOWN),
                f"{self.change(pollutant, lead):+.0f} %",
            )
            for pollutant in POLLUTANTS
            for lead in LEADS
        ]

    def sentence(self) -> str:
        """What was seen, in words."""
        changes = [self.change(pollutant, lead) for pollutant in POLLUTANTS for lead in LEADS]
        first = ", ".join(f"{WRITTEN[p]} {self.change(p, LEADS[0]):+.0f} %" for p in POLLUTANTS)
        return (
            f"On {len(self.hours)} questions about an invented region that the network has never seen, with "
            f"five random windows of its past as examples, CHOP(Air) lowers the mean error in "
            f"{sum(change < 0 for change in changes)} of {len(changes)} combinations of pollutant and lead "
            f"(between {min(changes):+.0f} and {max(changes):+.0f} %; at {LEADS[0]} h {first}), "
            "with no weight changed."
        )


def model(weights: str | None = None) -> StationIcon:
    """A station network of the user's own, or the bundled one of the first region."""
    name = f"air_{FORWARD.network}"
    if weights is None and name not in bundled():
        raise BenchError("no station network comes with this installation; give one with --model FILE")
    network = load(weights or name)
    if not isinstance(network, StationIcon):
        raise BenchError(f"{weights} is not a network of stations; the demonstration asks only those")
    return network


def demonstrate(network: StationIcon, out: Path, n: int, seed: int) -> Demo:
    """Questions of the second invented region, at a few leads. The world is made once and used again."""
    from chop.problems.air import make_world

    world = out / WORLD
    if not all((world / f"dataset_{region}.nc").exists() for region in NAMES):
        make_world(world, seed=seed, overwrite=True)
    source = Source(
        str(world), FORWARD.region, network.config.channels, Split(), EVERY, seed, str(out / INDEX)
    )
    hours = source.hours()[:n]
    if len(hours) < n:
        raise BenchError(f"the invented region has {len(hours)} questions, fewer than the {n} asked for")
    remembering = Remembering(network)
    errors = {}
    for lead in LEADS:
        case = source.case(hours, "random", lead)
        remembering.forget()
        for method in (CHOP, RAW, PERSISTENCE):
            found = measured(method, remembering, case)
            for pollutant in POLLUTANTS:
                errors[pollutant, lead, method] = np.array(found[pollutant], dtype=np.float64)
    return Demo(network, source, out, hours, errors)


def pictures(demo: Demo) -> list[Path]:
    """Maps of one day, and the errors by lead."""
    from chop.bench.air.maps import one_day
    from chop.bench.page import png, put

    errors = demo.errors[POLLUTANTS[0], 6, RAW]
    typical = int(np.argsort(errors, kind="stable")[len(errors) // 2])
    day = one_day(demo.source, demo.network, (demo.hours[typical] + 6) // 24, "An invented region")
    return [
        put(demo.out / "map.png", png(day)),
        put(demo.out / "errors.png", png(_errors(demo))),
    ]


def _errors(demo: Demo) -> Any:
    from chop.bench.air.figures import UNIT, draw_means, frame
    from chop.bench.figures import INK, new_figure

    figure = new_figure(9.0, 3.8)
    axes: Any = figure.subplots(1, len(POLLUTANTS), squeeze=False)[0]
    for ax, pollutant in zip(axes, POLLUTANTS, strict=True):
        for method in SHOWN:
            draw_means(ax, method, [demo.mean(pollutant, lead, method) for lead in LEADS])
        frame(ax, WRITTEN[pollutant], f"lead (h); n = {len(demo.hours)}", LEADS)
        ax.set_ylim(bottom=0.0)
    axes[0].set_ylabel(f"mean RMSE ({UNIT})")
    axes[0].legend(fontsize=8, frameon=False)
    figure.suptitle("An invented region: a network trained elsewhere, and a program around it", color=INK)
    return figure


__all__ = ["LEADS", "Demo", "demonstrate", "model", "pictures"]
