"""One question outside a model's range, answered by the bare model and by a program around it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from chop import metrics
from chop.core.errors import ChopError
from chop.core.forecast import rollout
from chop.core.model import FrozenModel
from chop.core.programs import programs
from chop.core.prompt import Prompt
from chop.core.running import Result
from chop.storage.atomic import atomic_path

if TYPE_CHECKING:
    from chop.problems.case import Case

RAW, PROGRAM = "raw", "conservation"


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
    from chop.icon.weights import bundled, load

    if weights is not None or PROGRAM in bundled():
        return Answerer(
            load(weights or PROGRAM), "frozen conservation ICON, trained on cubic fluxes", 1.0, 0.0
        )
    return Answerer(spectral_model, "analytic frozen model", 0.05, 0.5)


@dataclass(frozen=True, eq=False)
class Demo:
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

    def summary(self) -> metrics.Paired:
        """The gain after one step, where both answers are finite."""
        raw, program = self.single[RAW], self.single[PROGRAM]
        both = torch.isfinite(raw) & torch.isfinite(program)
        return metrics.paired(raw[both], program[both])

    def last(self, name: str) -> float:
        """Median error of the last step; answers that are not finite count as the worst."""
        return float(_ranked(self.errors[name][:, -1]).quantile(0.5))

    def typical(self) -> int:
        """The question whose bare rollout has the median error."""
        return int(self.errors[RAW][:, -1].argsort()[len(self.case) // 2])

    def sentence(self) -> str:
        """What was seen, in words."""
        one = self.summary()
        raw, chop = self.last(RAW), self.last(PROGRAM)
        lost = {name: int((~torch.isfinite(errors[:, -1])).sum()) for name, errors in self.errors.items()}
        verdict = "lowers" if one.mean < one.base_mean else "does not lower"
        return (
            f"On {one.cases} questions outside the model's range the program {verdict} the mean error of one "
            f"step: {one.base_mean:.4f} bare, {one.mean:.4f} with it ({-one.reduction:+.0f} %, lower in "
            f"{one.lower} of {one.cases}); the median error after {self.steps} steps is {raw:.3f} bare and "
            f"{chop:.3f} with it ({100 * (chop / raw - 1):+.0f} %), with no weight changed."
            + "".join(f" Rollouts of {name} that are not finite: {n}." for name, n in lost.items() if n)
        )


def _ranked(errors: Tensor) -> Tensor:
    """Errors whose quantiles can be taken: one that is not finite is the worst there is."""
    return torch.nan_to_num(errors, nan=1e6, posinf=1e6)


def demonstrate(model: FrozenModel, case: Case, steps: int) -> Demo:
    """Both programs on the same case, one step and a rollout."""
    assert case.trajectory is not None
    truth = case.trajectory[:, -steps:]
    single, rollouts, errors = {}, {}, {}
    traced = None
    for name in (RAW, PROGRAM):
        traced = programs[name].run(model, case.prompt)
        single[name] = metrics.rel_l2(traced.values, case.target)
        rollouts[name] = rollout(programs[name], model, case.prompt, steps).values[..., 0]
        gap = (rollouts[name] - truth).square().sum(dim=-1).sqrt()
        errors[name] = gap / truth.square().sum(dim=-1).sqrt()
    assert traced is not None
    return Demo(case, steps, single, rollouts, errors, traced)


def picture(demo: Demo, path: Path, title: str) -> None:
    """Truth and both rollouts of one question in space and time, and the errors of all."""
    from matplotlib.figure import Figure

    query = demo.typical()
    assert demo.case.trajectory is not None
    truth = demo.case.trajectory[query, -demo.steps :]
    fields = {
        "truth": truth,
        "bare model": demo.rollouts[RAW][query],
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
        (RAW, "bare model", "#d55e00", "--"),
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
