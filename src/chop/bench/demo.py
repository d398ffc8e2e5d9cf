"""Demonstrations: questions outside a model's range, answered by the bare model and by a program around it.

One is a conservation law with a flux that was not trained on, the other air quality in an invented region
that a network has never seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chop import metrics
from chop.bench.air import INDEX, WRITTEN, Remembering, measured
from chop.bench.air_directions import FORWARD, REGIONS
from chop.bench.air_questions import RegionSource, YearSplit
from chop.bench.methods import AIR, PERSISTENCE, RAW
from chop.core.errors import BenchError, ChopError
from chop.core.forecast import rollout
from chop.core.model import FrozenModel
from chop.core.prompt import Prompt
from chop.core.running import Result
from chop.core.text import parse
from chop.icon.stations.network import StationIcon
from chop.icon.weights import bundled, load
from chop.problems.air import POLLUTANTS
from chop.storage.atomic import atomic_path, write_bytes

if TYPE_CHECKING:
    from chop.problems.case import Case

BARE, PROGRAM, NETWORK = "raw", "auto", "conservation"


def spectral_model(prompt: Prompt, /) -> Tensor:
    """An analytic stand-in for a network: the linear translation-invariant map the examples show.

    Fitted mode by mode in Fourier space with a fixed regularisation, which is its "training range":
    it is at home with functions of spread 1 and a mean of 0, and damps what is smaller.
    """
    inputs = torch.fft.rfft(prompt.inputs.values, dim=-2)
    outputs = torch.fft.rfft(prompt.outputs.values, dim=-2)
    n = prompt.query.points
    size = inputs.abs().square().sum(dim=-3) + 1e-3 * n
    gain = (outputs * inputs.conj()).sum(dim=-3) / size
    answer: Tensor = torch.fft.irfft(torch.fft.rfft(prompt.query.values, dim=-2) * gain, n=n, dim=-2)
    return answer


@dataclass(frozen=True, eq=False)
class Answerer:
    """A frozen model, what it is, and the size and mean of initial conditions that suit the demonstration."""

    model: FrozenModel
    name: str
    scale: float
    mean: float


def answerer(weights: str | None = None) -> Answerer:
    """A network of the user's own, the bundled conservation network, or else the analytic stand-in."""
    if weights is not None or NETWORK in bundled():
        return Answerer(
            load(weights or NETWORK), "frozen conservation ICON, trained on cubic fluxes", 1.0, 0.0
        )
    return Answerer(spectral_model, "analytic frozen model", 0.05, 0.5)


@dataclass(frozen=True, eq=False)
class FluxDemo:
    """Errors of the bare model and of the program on the same questions."""

    case: Case
    steps: int
    single: dict[str, Tensor]
    """Relative L2 error of one step, ``(n)`` for each program."""
    rollouts: dict[str, Tensor]
    """Predicted trajectories ``(n, steps, points)`` for each program."""
    errors: dict[str, Tensor]
    """Relative L2 error of every rollout step, ``(n, steps)`` for each program."""
    traced: Result
    """The program's run on the typical question alone."""

    def summary(self) -> metrics.Paired:
        """The gain after one step, where both answers are finite."""
        raw, program = self.single[BARE], self.single[PROGRAM]
        both = torch.isfinite(raw) & torch.isfinite(program)
        return metrics.paired(raw[both], program[both])

    def last(self, name: str) -> float:
        """Median error of the last step; answers that are not finite count as the worst."""
        return float(_ranked(self.errors[name][:, -1]).quantile(0.5))

    def typical(self) -> int:
        """The question whose bare rollout has the median error."""
        return _median_question(self.errors[BARE])

    def sentence(self) -> str:
        """What was seen, in words."""
        one = self.summary()
        raw, chop = self.last(BARE), self.last(PROGRAM)
        lost = {name: int((~torch.isfinite(errors[:, -1])).sum()) for name, errors in self.errors.items()}
        verdict = "lowers" if one.mean < one.base_mean else "does not lower"
        return (
            f"On {one.cases} questions outside the model's range the program {verdict} the mean error of one "
            f"step: {one.base_mean:.3g} bare, {one.mean:.3g} with it ({-one.reduction:+.0f} %, lower in "
            f"{one.lower} of {one.cases}); the median error after {self.steps} steps is {raw:.3g} bare and "
            f"{chop:.3g} with it ({100 * (chop / raw - 1):+.0f} %), with no weight changed."
            + "".join(f" Rollouts of {name} that are not finite: {n}." for name, n in lost.items() if n)
        )


def _ranked(errors: Tensor) -> Tensor:
    """Errors whose quantiles can be taken: one that is not finite is the worst there is."""
    return torch.nan_to_num(errors, nan=1e6, posinf=1e6)


def demonstrate(model: FrozenModel, case: Case, steps: int) -> FluxDemo:
    """Both programs on the same case, one step and a rollout."""
    assert case.trajectory is not None
    truth = case.trajectory[:, -steps:]
    single, rollouts, errors = {}, {}, {}
    for name in (BARE, PROGRAM):
        program = parse(name)
        single[name] = metrics.rel_l2(program.run(model, case.prompt, trace=False).values, case.target)
        rollouts[name] = rollout(program, model, case.prompt, steps).values[..., 0]
        gap = (rollouts[name] - truth).square().sum(dim=-1).sqrt()
        errors[name] = gap / truth.square().sum(dim=-1).sqrt()
    typical = _median_question(errors[BARE])
    return FluxDemo(case, steps, single, rollouts, errors, parse(PROGRAM).run(model, case.prompt[typical]))


def _median_question(errors: Tensor) -> int:
    """The question whose rollout has the median error."""
    return int(errors[:, -1].argsort()[len(errors) // 2])


def draw_rollouts(demo: FluxDemo, path: Path, title: str) -> None:
    """Truth and both rollouts of one question in space and time, and the errors of all."""
    from matplotlib.figure import Figure

    query = demo.typical()
    assert demo.case.trajectory is not None
    truth = demo.case.trajectory[query, -demo.steps :]
    fields = {
        "truth": truth,
        "bare model": demo.rollouts[BARE][query],
        "program": demo.rollouts[PROGRAM][query],
    }
    spread = float((truth - truth.mean()).abs().max())
    middle = float(truth.mean())
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    axes: Any = figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.25])
    for ax, (name, values) in zip(axes, fields.items(), strict=False):
        shown = ax.imshow(
            values.clamp(middle - 2 * spread, middle + 2 * spread),
            origin="lower",
            aspect="auto",
            extent=(0, 1, 0, demo.steps),
            vmin=middle - spread,
            vmax=middle + spread,
            cmap="cividis",
        )
        ax.set(title=name, xlabel="x")
    axes[0].set_ylabel("step")
    figure.colorbar(shown, ax=axes[2], label="u")
    steps = torch.arange(1, demo.steps + 1)
    for name, label, colour, line in (
        (BARE, "bare model", "#d55e00", "--"),
        (PROGRAM, "program", "#0072b2", "-"),
    ):
        low, half, high = _ranked(demo.errors[name]).quantile(torch.tensor([0.25, 0.5, 0.75]), dim=0)
        axes[3].plot(steps, half, color=colour, linestyle=line, label=label)
        axes[3].fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
    axes[3].set(
        title=f"median and quartiles, n = {len(demo.case)}",
        xlabel="step",
        ylabel="relative L2 error",
        yscale="log",
    )
    axes[3].legend()
    figure.suptitle(title)
    with atomic_path(path, ChopError, overwrite=True) as partial:
        figure.savefig(partial, dpi=130, format="png")


DEMO_LEADS = (1, 3, 6, 12, 24)
SHOWN = (RAW, AIR, PERSISTENCE)
WORLD = "world"
EVERY = 5
"""Hours between questions: 5 and 24 have no common factor, so every hour of the day is asked."""


@dataclass(frozen=True, eq=False)
class AirDemo:
    """Errors ``(n)`` of each method by pollutant and lead, and what is needed to draw."""

    network: StationIcon
    source: RegionSource
    out: Path
    hours: tuple[int, ...]
    errors: dict[tuple[str, int, str], NDArray[np.float64]]

    def mean(self, pollutant: str, lead: int, method: str) -> float:
        """Over the questions whose target was observed."""
        return float(np.nanmean(self.errors[pollutant, lead, method]))

    def change(self, pollutant: str, lead: int) -> float:
        """Of the mean error, by the program, in percent."""
        return 100 * (self.mean(pollutant, lead, AIR) / self.mean(pollutant, lead, RAW) - 1)

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
            for lead in DEMO_LEADS
        ]

    def sentence(self) -> str:
        """What was seen, in words."""
        changes = [self.change(pollutant, lead) for pollutant in POLLUTANTS for lead in DEMO_LEADS]
        first = ", ".join(f"{WRITTEN[p]} {self.change(p, DEMO_LEADS[0]):+.0f} %" for p in POLLUTANTS)
        return (
            f"On {len(self.hours)} questions about an invented region that the network has never seen, with "
            f"five random windows of its past as examples, CHOP(Air) lowers the mean error in "
            f"{sum(change < 0 for change in changes)} of {len(changes)} combinations of pollutant and lead "
            f"(between {min(changes):+.0f} and {max(changes):+.0f} %; at {DEMO_LEADS[0]} h {first}), "
            "with no weight changed."
        )


def station_network(weights: str | None = None) -> StationIcon:
    """A station network of the user's own, or the bundled one of the first region."""
    name = f"air_{FORWARD.network}"
    if weights is None and name not in bundled():
        raise BenchError("no station network comes with this installation; give one with --model FILE")
    network = load(weights or name)
    if not isinstance(network, StationIcon):
        raise BenchError(f"{weights} is not a network of stations; the demonstration asks only those")
    return network


def demonstrate_air(network: StationIcon, out: Path, n: int, seed: int) -> AirDemo:
    """Questions of the second invented region, at a few leads. The world is made once and used again."""
    from chop.problems.air import make_world

    world = out / WORLD
    if not all((world / f"dataset_{region}.nc").exists() for region in REGIONS):
        make_world(world, seed=seed, overwrite=True)
    source = RegionSource(
        str(world), FORWARD.region, network.config.channels, YearSplit(), EVERY, seed, str(out / INDEX)
    )
    hours = source.hours()[:n]
    if len(hours) < n:
        raise BenchError(f"the invented region has {len(hours)} questions, fewer than the {n} asked for")
    remembering = Remembering(network)
    errors = {}
    for lead in DEMO_LEADS:
        case = source.case(hours, "random", lead)
        remembering.forget()
        for method in (AIR, RAW, PERSISTENCE):
            found = measured(method, remembering, case)
            for pollutant in POLLUTANTS:
                errors[pollutant, lead, method] = np.array(found[pollutant], dtype=np.float64)
    return AirDemo(network, source, out, hours, errors)


def draw_air(demo: AirDemo) -> list[Path]:
    """Maps of one day, and the errors by lead."""
    from chop.bench.air_figures import DUST, one_day
    from chop.bench.report import png

    errors = demo.errors[DUST, 6, RAW]
    typical = int(np.argsort(errors, kind="stable")[len(errors) // 2])
    day = one_day(demo.source, demo.network, (demo.hours[typical] + 6) // 24, "An invented region")
    return [
        write_bytes(demo.out / name, png(figure), BenchError, overwrite=True)
        for name, figure in (("map.png", day), ("errors.png", _draw_means(demo)))
    ]


def _draw_means(demo: AirDemo) -> Any:
    from chop.bench.air_figures import UNIT, draw_means
    from chop.bench.figures import INK, label_axis, new_figure

    figure = new_figure(9.0, 3.8)
    axes: Any = figure.subplots(1, len(POLLUTANTS), squeeze=False)[0]
    for ax, pollutant in zip(axes, POLLUTANTS, strict=True):
        for method in SHOWN:
            draw_means(ax, method, [demo.mean(pollutant, lead, method) for lead in DEMO_LEADS])
        label_axis(ax, DEMO_LEADS, WRITTEN[pollutant], f"lead (h); n = {len(demo.hours)}")
        ax.set_ylim(bottom=0.0)
    axes[0].set_ylabel(f"mean RMSE ({UNIT})")
    axes[0].legend(fontsize=8, frameon=False)
    figure.suptitle("An invented region: a network trained elsewhere, and a program around it", color=INK)
    return figure
