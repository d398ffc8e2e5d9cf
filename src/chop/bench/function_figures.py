"""Figures of errors of functions: boxes by condition, rollouts with bands, what each operator carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.bench.figures import (
    BOXES,
    GRID,
    INK,
    PROGRAM_LOOK,
    RAW_LOOK,
    Look,
    draw_box,
    label_axis,
    legend,
    new_figure,
    write_change,
)  # fmt: skip
from chop.bench.function_fields import field_figures
from chop.bench.function_overview import overview_figure
from chop.bench.functions import (
    COST,
    DENSITY,
    FLUXES,
    LENGTHS,
    FunctionSuite,
    control_of,
    rollout_of,
    single_step_of,
)
from chop.bench.methods import (
    ABLATED,
    BEST_EVOLVED,
    CONSERVATION,
    CORR,
    DENSITIES,
    FLAT,
    LAW,
    LINE,
    MFC,
    RAW,
    label_of,
)  # fmt: skip
from chop.bench.results import Results
from chop.bench.suite import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST_LOOK = Look("best of the grid", "#009e73", "....", "-.")
EVOLVED_LOOK = Look("evolved", "#cc79a7", "xxxx", (0, (4, 1, 1, 1, 1, 1)))
HAND_LOOK = Look("by hand", "#e69f00", "\\\\\\\\", (0, (1, 1)))
LAW_LOOK = Look("law, no network", "#56b4e9", "", (0, (6, 2)))
FLAT_LOOK = Look("the query's mean, no network", "#666666", "", ":")
WORST_SHOWN = -150
"""Reductions (percent) below this are told in words: they would squeeze all others together."""


FUNCTION_CAPTIONS = {
    "overview": "All conditions: the bare network, the paper's program, auto.",
    "conservation_boxes": "Single-step errors of the three fluxes; percentages are changes of the mean.",
    "rollout": "Median error along the rollout; the band spans the quartiles.",
    "rollout_fields": "Space–time fields of one typical rollout of each flux.",
    "mfc_boxes": "Mean-field control, fifteen conditions.",
    "corr_boxes": "The residual correction alone where the input is a cost.",
    "transfer_boxes": "CHOP(MFC), unchanged, around the conservation network.",
    "ablation": "What is left of the reduction when an operator is removed.",
    "mfc_peaks": "Density peaks that the bare network smooths.",
    "mfc_g_1to2": "Space–time densities from ρ(0,x), with absolute errors.",
    "mfc_g_2to2": "Space–time densities from early densities, with absolute errors.",
    "mfc_rho_1to2": "Space–time densities from costs, with absolute errors.",
    "trace_conservation": "What CHOP(Conservation) does to one question, stage by stage.",
    "trace_mfc": "What CHOP(MFC) does to one question, stage by stage.",
}


def function_figures(results: Results, setting: Setting | None) -> dict[str, Figure]:
    """Every figure for which there are results, by the name of its file."""
    return error_figures(results) | ({} if setting is None else field_figures(results, setting))


def error_figures(results: Results) -> dict[str, Figure]:
    """Those that show errors alone."""
    chosen = results.chosen
    made: dict[str, Figure | None] = {
        "overview": overview_figure(results),
        "conservation_boxes": _boxes(
            results,
            [("", [(label, single_step_of(flux)) for flux, label in FLUXES.items()])],
            _methods(results, CONSERVATION, chosen.get("conservation"), BEST_EVOLVED["conservation"], LINE),
            "One step of conservation laws outside the training family",
        ),
        "rollout": _rollouts(results),
        "mfc_boxes": _boxes(
            results,
            [
                (_family(f), [(f"ℓ = {ell:g}", control_of(f, ell)) for ell in LENGTHS])
                for f in (*DENSITY, *COST)
            ],
            _methods(results, MFC, chosen.get("mfc"), BEST_EVOLVED["mfc"], DENSITIES),
            "Mean-field control at shorter length scales",
        ),
        "corr_boxes": _boxes(
            results,
            [(_family(f), [(f"ℓ = {ell:g}", control_of(f, ell)) for ell in LENGTHS]) for f in COST],
            _methods(results, CORR),
            "Cost to density: the residual correction alone",
        ),
        "transfer_boxes": _boxes(
            results,
            [("", [(label, single_step_of(flux)) for flux, label in FLUXES.items()])],
            _methods(results, MFC),
            "CHOP(MFC) transferred to the conservation network",
        )
        if isinstance(results.suite, FunctionSuite) and "transfer" in results.suite.suites
        else None,
        "ablation": _ablation(results),
    }
    return {name: figure for name, figure in made.items() if figure is not None}


def _family(name: str) -> str:
    kind, _, shape = name.partition("_")
    return f"{'cost g' if kind == 'g' else 'density ρ(0)'} hidden, {shape.replace('to', ' → ')}"


def _methods(
    results: Results,
    program: str,
    best: str | None = None,
    evolved: str | None = None,
    hand: str | None = None,
) -> list[tuple[str, Look]]:
    found = {RAW: RAW_LOOK, program: replace(PROGRAM_LOOK, label=label_of(program))}
    by_hand = replace(HAND_LOOK, label=f"{label_of(hand)}, by hand") if hand is not None else HAND_LOOK
    for method, look in ((best, BEST_LOOK), (evolved, EVOLVED_LOOK), (hand, by_hand)):
        if method is not None and any(other == method for _, other in results.entries):
            found.setdefault(method, look)
    return list(found.items())


_Panels = Sequence[tuple[str, Sequence[tuple[str, str]]]]


def _boxes(
    results: Results, panels: _Panels, methods: Sequence[tuple[str, Look]], title: str
) -> Figure | None:
    """Panels of grouped boxes; percentages are the change of the mean against the bare model."""
    shown = [
        (name, [(label, condition) for label, condition in groups if _has(results, condition, methods)])
        for name, groups in panels
    ]
    shown = [(name, groups) for name, groups in shown if groups]
    if not shown:
        return None
    widths = [len(groups) for _, groups in shown]
    width = max(8.0, 0.62 * len(methods) * sum(widths) + 0.5 * len(shown) + 1.0)
    figure = new_figure(min(width, 16.0), 4.4)
    axes: Any = figure.subplots(1, len(shown), sharey=True, squeeze=False, width_ratios=widths)[0]
    for ax, (name, groups) in zip(axes, shown, strict=True):
        counts = set()
        for place, (_, condition) in enumerate(groups):
            counts |= _group(ax, results, condition, methods, place)
        ax.set_yscale("log")
        below = f"n = {', '.join(map(str, sorted(counts)))} each"
        label_axis(ax, [label for label, _ in groups], name, below)
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(low, high * (high / low) ** (0.2 if len(methods) > 2 else 0.1))
    axes[0].set_ylabel("relative L² error (no unit)")
    figure.suptitle(title, fontsize=11, color=INK)
    legend(figure, [look for _, look in methods], BOXES)
    return figure


def _has(results: Results, condition: str, methods: Sequence[tuple[str, Look]]) -> bool:
    return all(results.errors(condition, method) is not None for method, _ in methods[:2])


def _group(
    ax: Any, results: Results, condition: str, methods: Sequence[tuple[str, Look]], place: int
) -> set[int]:
    """The boxes of one condition; returns how many questions there were."""
    step = 0.8 / len(methods)
    counts = set()
    for i, (method, look) in enumerate(methods):
        errors = results.errors(condition, method)
        if errors is None or not np.isfinite(errors).any():
            continue
        x = place + (i - (len(methods) - 1) / 2) * step
        draw_box(ax, errors[np.isfinite(errors)], x, 0.82 * step, look)
        reduction = results.reduction(condition, method)
        if method != RAW and reduction is not None:
            write_change(ax, x, reduction, 0, look.color, 90 if len(methods) > 2 else 0)
        counts.add(len(errors))
    return counts


def _rollouts(results: Results) -> Figure | None:
    """Median error of every step with the quartiles as a band, one panel a flux."""
    fluxes = [flux for flux in FLUXES if results.curve(rollout_of(flux), CONSERVATION) is not None]
    if not fluxes:
        return None
    best = results.chosen.get("rollout")
    methods = _methods(results, CONSERVATION, best, BEST_EVOLVED["conservation"], LINE)
    for method, look in ((LAW, LAW_LOOK), (FLAT, FLAT_LOOK)):
        if results.curve(rollout_of(fluxes[0]), method) is not None:
            methods.append((method, look))
    figure = new_figure(4.3 * len(fluxes) + 0.6, 3.9)
    axes: Any = figure.subplots(1, len(fluxes), sharey=True, squeeze=False)[0]
    for ax, flux in zip(axes, fluxes, strict=True):
        said: list[str] = []
        counts: dict[int, list[str]] = {}
        for method, look in methods:
            curve = results.curve(rollout_of(flux), method)
            if curve is None:
                continue
            steps = np.arange(1, curve.shape[1] + 1)
            low, half, high = (_quantile(curve, q) for q in (0.25, 0.5, 0.75))
            ax.plot(steps, half, color=look.color, linestyle=look.dash, linewidth=1.8)
            if method != FLAT:
                ax.fill_between(steps, low, high, color=look.color, alpha=0.18, linewidth=0)
            counts.setdefault(len(curve), []).append(look.label)
            lost = int((~np.isfinite(curve[:, -1])).sum())
            said += [f"{look.label}: {lost} not finite"] * (lost > 0)
        ax.set_yscale("log")
        ax.set_title(f"f(u) = {FLUXES[flux]}", fontsize=10, color=INK)
        n = ", ".join(
            str(count) if i == 0 else f"{count} ({'; '.join(counts[count])})"
            for i, count in enumerate(counts)
        )
        ax.set_xlabel(f"rollout step (Δt = 0.1), n = {n}", fontsize=9)
        ax.grid(color=GRID, linewidth=0.6)
        if said:
            ax.text(0.02, 0.02, "\n".join(said), transform=ax.transAxes, fontsize=7.5, va="bottom")
    axes[0].set_ylabel("relative L² error (no unit)")
    words = "Rollouts: median error and interquartile range at every step"
    figure.suptitle(words, fontsize=11, color=INK)
    legend(figure, [look for _, look in methods])
    return figure


def _quantile(curve: Any, q: float) -> Any:
    """Of each step, answers that are not finite counted as the worst."""
    worst = np.where(np.isfinite(curve), curve, np.inf)
    with np.errstate(invalid="ignore"):
        return np.quantile(worst, q, axis=0, method="nearest")


def _ablation(results: Results) -> Figure | None:
    """Reduction of the mean error with each operator removed, one row a variant, one mark a condition."""
    panels = []
    for program, table in ABLATED.items():
        names = [single_step_of(flux) for flux in FLUXES] if program == CONSERVATION else []
        if program == MFC:
            names = [control_of(family, ell) for family in (*DENSITY, *COST) for ell in LENGTHS]
        variants = {program: f"{label_of(program)}, complete", **table}
        values = {
            label: [value for name in names if (value := results.reduction(name, method)) is not None]
            for method, label in variants.items()
        }
        if sum(bool(found) for found in values.values()) > 1:
            panels.append((label_of(program), {k: v for k, v in values.items() if v}))
    if not panels:
        return None
    figure = new_figure(max(8.0, 6.8 * len(panels)), 3.8)
    axes: Any = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, values) in zip(axes, panels, strict=True):
        for row, found in enumerate(values.values()):
            color = PROGRAM_LOOK.color if row == 0 else "#56606b"
            shown = [value for value in found if value >= WORST_SHOWN]
            ax.plot(shown, [row] * len(shown), "o", color=color, markersize=5, alpha=0.6)
            if np.mean(found) >= WORST_SHOWN:
                ax.plot([np.mean(found)], [row], "|", color=INK, markersize=16, markeredgewidth=2)
            if len(shown) < len(found):
                words = f"◂ {len(found) - len(shown)} more, down to {min(found):.0f} %"
                ax.text(
                    0.01, row - 0.22, words, fontsize=7.5, color=color, transform=ax.get_yaxis_transform()
                )
        ax.axvline(0, color=INK, linewidth=0.8)
        ax.set_yticks(range(len(values)), list(values))
        ax.invert_yaxis()
        ax.set_xlabel("reduction of the mean error (%); mark: a condition, bar: their mean", fontsize=9)
        ax.set_title(name, fontsize=10, color=INK)
        ax.grid(axis="x", color=GRID, linewidth=0.6)
    figure.suptitle("What carries the gain: each operator removed in turn", fontsize=11, color=INK)
    return figure
