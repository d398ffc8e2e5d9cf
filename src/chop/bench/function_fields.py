"""Figures of fields: density peaks, space–time maps with errors, a rollout, the trace of a program.

They are drawn for the question whose Raw error is the median of its condition, not for a chosen one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from chop import metrics
from chop.bench.figures import ERROR_MAP, FIELD_MAP, INK, PROGRAM_LOOK, RAW_LOOK, new_figure
from chop.bench.function_answers import questions
from chop.bench.functions import CONDITIONS, FLUXES, LENGTHS, control_of, rollout_of, single_step_of
from chop.bench.methods import CONSERVATION, CORR, MFC, RAW, label_of
from chop.bench.results import Results
from chop.bench.suite import Setting
from chop.core.forecast import rollout
from chop.core.text import parse

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from chop.problems.case import Case


def field_figures(results: Results, setting: Setting) -> dict[str, Figure]:
    """Every picture of fields for whose conditions there are results."""
    made = {
        "mfc_peaks": _peaks(results, setting),
        "mfc_g_1to2": _maps(results, setting, "g_1to2", MFC),
        "mfc_g_2to2": _maps(results, setting, "g_2to2", MFC),
        "mfc_rho_1to2": _maps(results, setting, "rho_1to2", CORR),
        "rollout_fields": _rollout_fields(results, setting),
        "trace_conservation": _trace(results, setting, single_step_of("sin_cos"), CONSERVATION),
        "trace_mfc": _trace(results, setting, control_of("g_1to1", 0.1), MFC),
    }
    return {name: figure for name, figure in made.items() if figure is not None}


def _typical(results: Results, condition: str, method: str, setting: Setting) -> Case | None:
    """The question with the median Raw error."""
    index = results.typical(condition)
    if index is None or results.errors(condition, method) is None:
        return None
    return questions(CONDITIONS[condition], index, index + 1, setting.seed)


def _answers(case: Case, setting: Setting, problem: str, method: str) -> tuple[Tensor, Tensor]:
    network = setting.network(problem)
    raw, ours = (parse(text).run(network, case.prompt, trace=False).values for text in (RAW, method))
    return raw, ours


def _peaks(results: Results, setting: Setting) -> Figure | None:
    """ρ(1, x): truth, Raw and CHOP(MFC) at three length scales."""
    cases = {
        length: case
        for length in LENGTHS
        if (case := _typical(results, control_of("g_1to1", length), MFC, setting)) is not None
    }
    if not cases:
        return None
    figure = new_figure(4.0 * len(cases) + 0.4, 3.6)
    axes: Any = figure.subplots(1, len(cases), squeeze=False)[0]
    for ax, (length, case) in zip(axes, cases.items(), strict=True):
        raw, ours = _answers(case, setting, "mfc", MFC)
        x = case.prompt.at[0, :, -1]
        for outputs in case.prompt.outputs.values[0, :, :, 0]:
            ax.plot(x, outputs, color="#bbbbbb", linewidth=0.8)
        ax.plot(x, case.target[0, :, 0], color="black", linewidth=2.2, label="truth")
        for values, look, name in ((raw, RAW_LOOK, "Raw ICON"), (ours, PROGRAM_LOOK, label_of(MFC))):
            error = float(metrics.rel_l2(values, case.target)[0])
            ax.plot(
                x, values[0, :, 0], color=look.color, linestyle="--" if look is RAW_LOOK else "-",
                linewidth=1.6, label=f"{name}, error {error:.3f}",
            )  # fmt: skip
        ax.set_title(f"ℓ = {length:g}", fontsize=10, color=INK)
        ax.set_xlabel("x")
        ax.legend(fontsize=7.5, frameon=False)
    axes[0].set_ylabel("density ρ(1, x)")
    figure.suptitle("Density peaks: ρ(0,x) → ρ(1,x); grey: the example outputs", fontsize=11, color=INK)
    return figure


def _maps(results: Results, setting: Setting, family: str, method: str) -> Figure | None:
    """Query, truth, Raw, program and both absolute errors, one row a length scale."""
    cases = {
        length: case
        for length in LENGTHS
        if (case := _typical(results, control_of(family, length), method, setting)) is not None
    }
    if not cases:
        return None
    figure = new_figure(15.0, 2.3 * len(cases) + 0.7)
    axes: Any = figure.subplots(len(cases), 6, squeeze=False)
    for row, (length, case) in zip(axes, cases.items(), strict=True):
        raw, ours = _answers(case, setting, "mfc", method)
        _query(row[0], case)
        fields = {"truth": case.target, "Raw ICON": raw, label_of(method): ours}
        top = float(case.target.max())
        for ax, (name, values) in zip(row[1:4], fields.items(), strict=True):
            error = float(metrics.rel_l2(values, case.target)[0])
            title = name if name == "truth" else f"{name}, error {error:.3f}"
            shown = _map(ax, case, values, 0.0, top, FIELD_MAP, title)
        figure.colorbar(shown, ax=row[3], label="ρ")
        gaps = [(values - case.target).abs() for values in (raw, ours)]
        worst = max(float(gap.max()) for gap in gaps)
        for ax, gap, name in zip(row[4:], gaps, ("Raw ICON", label_of(method)), strict=True):
            shown = _map(ax, case, gap, 0.0, worst, ERROR_MAP, f"|error|, {name}")
        figure.colorbar(shown, ax=row[5], label="|error|")
        row[0].set_ylabel(f"ℓ = {length:g}\n{row[0].get_ylabel()}")
    figure.suptitle(f"{CONDITIONS[control_of(family, 0.5)].label.rpartition(',')[0]}", fontsize=11, color=INK)
    return figure


def _query(ax: Any, case: Case) -> None:
    coords = case.prompt.query.coords[0]
    values = case.prompt.query.values[0, :, 0]
    if len(coords[:, 0].unique()) > 1:
        ax.pcolormesh(*_grid(coords, values), shading="nearest", cmap=FIELD_MAP)
        ax.set_ylabel("t")
    else:
        ax.plot(coords[:, -1], values, color="black")
        ax.set_ylabel("query")
    ax.set_title("query", fontsize=8.5)
    ax.set_xlabel("x")


def _map(ax: Any, case: Case, values: Tensor, low: float, high: float, colors: str, title: str) -> Any:
    shown = ax.pcolormesh(
        *_grid(case.prompt.at[0], values[0, :, 0]), shading="nearest", cmap=colors, vmin=low, vmax=high
    )
    ax.set_title(title, fontsize=8.5)
    ax.set_xlabel("x")
    ax.set_ylabel("t")
    return shown


def _grid(coords: Tensor, values: Tensor) -> tuple[Any, Any, Any]:
    """x, t and the values as a matrix."""
    t, x = coords[:, 0].unique(), coords[:, 1].unique()
    rows = np.searchsorted(t.numpy(), coords[:, 0].numpy())
    columns = np.searchsorted(x.numpy(), coords[:, 1].numpy())
    matrix = np.full((len(t), len(x)), np.nan)
    matrix[rows, columns] = values.numpy()
    return x.numpy(), t.numpy(), matrix


def _rollout_fields(results: Results, setting: Setting) -> Figure | None:
    """Truth and both rollouts in space and time, one row a flux."""
    cases = {
        flux: case
        for flux in FLUXES
        if (case := _typical(results, rollout_of(flux), CONSERVATION, setting)) is not None
    }
    if not cases:
        return None
    figure = new_figure(12.0, 2.4 * len(cases) + 0.6)
    axes: Any = figure.subplots(len(cases), 4, squeeze=False)
    network = setting.network("conservation")
    for row, (flux, case) in zip(axes, cases.items(), strict=True):
        assert case.trajectory is not None
        steps = case.trajectory.shape[1] - case.prompt.examples - 1
        truth = case.trajectory[0, -steps:]
        runs = [
            rollout(parse(text), network, case.prompt, steps).values[0, ..., 0]
            for text in (RAW, CONSERVATION)
        ]
        low, high = float(truth.min()), float(truth.max())
        where: dict[str, Any] = {"origin": "lower", "aspect": "auto", "extent": (0, 1, 0, steps)}
        for ax, values, name in zip(
            row, (truth, *runs), ("truth", "Raw ICON", label_of(CONSERVATION)), strict=False
        ):
            shown = ax.imshow(values, vmin=low, vmax=high, cmap=FIELD_MAP, **where)
            ax.set_title(name, fontsize=9)
        figure.colorbar(shown, ax=row[2], label="u")
        gap = (runs[1] - truth).abs()
        shown = row[3].imshow(gap, vmin=0, vmax=high - low, cmap=ERROR_MAP, **where)
        row[3].set_title(f"|error|, {label_of(CONSERVATION)}", fontsize=9)
        figure.colorbar(shown, ax=row[3], label="|error|")
        row[0].set_ylabel(f"{FLUXES[flux]}\nstep")
        for ax in row:
            ax.set_xlabel("x")
    figure.suptitle("Rollouts of the question with the median Raw error", fontsize=11, color=INK)
    return figure


def _trace(results: Results, setting: Setting, condition: str, method: str) -> Figure | None:
    case = _typical(results, condition, method, setting)
    if case is None:
        return None
    network = setting.network(CONDITIONS[condition].problem)
    trace = parse(method).run(network, case.prompt).trace
    assert trace is not None
    figure: Figure = trace.plot()
    return figure


__all__ = ["field_figures"]
