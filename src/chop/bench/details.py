"""The tables behind the main ones: ablations, in-context errors, baselines, the grid, wall times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from chop.bench.cells import MISSING, Rows, Table, base_cell, mean_cell, reduction_cell
from chop.bench.conditions import CONDITIONS, FLUXES, PROMPTS_VALIDATED, STEPS, entries, rollout
from chop.bench.methods import (
    ABLATED,
    BASELINES,
    BEST_EVOLVED,
    CONSERVATION,
    CORR,
    EVOLVED,
    FLAT,
    MFC,
    RAW,
    label_of,
)  # fmt: skip
from chop.bench.results import SEARCHES, Results, ranking

MILESTONES = (1, 10, 36, 72, STEPS)
"""Steps of a rollout that are shown in the table."""


def ablations(results: Results) -> Iterable[Table]:
    """Each program without each of its operators."""
    for program, table in ABLATED.items():
        columns = {RAW: "Raw ICON", program: label_of(program), **table}
        said = f"`{program}` with an operator removed: mean error and reduction, single step."
        yield _side_by_side(results, f"Ablation of {label_of(program)}", said, columns, _cell)


def in_context(results: Results) -> Table:
    """Errors at the examples themselves: what a program can know about itself."""
    columns = {RAW: "Raw ICON", CONSERVATION: "CHOP(Conservation)", MFC: "CHOP(MFC)", CORR: "CHOP(Corr)"}
    columns |= {"rescale | icon": "rescale alone", "moving_frame | icon": "moving_frame alone"}

    def cell(results: Results, condition: str, method: str) -> str:
        value = results.in_context(condition, method)
        return MISSING if value is None else f"{value:.4f}"

    said = (
        f"Relative error of held-out answers at the example inputs, mean over the first {PROMPTS_VALIDATED} "
        "questions. It is what `select` and `correct` go by."
    )
    return _side_by_side(results, "In-context errors", said, columns, cell)


def baselines(results: Results) -> Iterable[Table]:
    """The same prompts and examples without a program, or without a network."""
    for problem, table in BASELINES.items():
        columns = {RAW: "Raw ICON"}
        columns |= {CONSERVATION: label_of(CONSERVATION)} if problem == "conservation" else {}
        columns |= {MFC: label_of(MFC)}
        columns |= {results.chosen[problem]: "best of the grid"} if problem in results.chosen else {}
        columns |= table
        said = "Mean error and reduction, single step."
        made = _side_by_side(results, f"Baselines: {problem}", said, columns, _cell, problem)
        if not set(table.values()) & set(made.head):
            continue
        shown = [method for method, label in columns.items() if label in made.head]
        calls = ["model evaluations", *(_calls(results, problem, method) for method in shown)]
        yield Table(made.title, said, made.head, [*made.rows, calls])


def evolved(results: Results) -> Iterable[Table]:
    """What `chop evolve` found from the bare model, every run, beside the programs above."""
    for problem, runs in EVOLVED.items():
        paper = {CONSERVATION: label_of(CONSERVATION)} if problem == "conservation" else {}
        paper |= {MFC: label_of(MFC), CORR: label_of(CORR)} if problem == "mfc" else {}
        chosen = {results.chosen[problem]: "best of the grid"} if problem in results.chosen else {}
        columns = {RAW: "Raw ICON", **paper, **chosen, **runs}
        written = "; ".join(f"{label.removeprefix('evolved, ')} `{text}`" for text, label in runs.items())
        said = f"Mean error and reduction, single step. Found on the evolution set alone: {written}."
        made = _side_by_side(results, f"Evolved programs: {problem}", said, columns, _cell, problem)
        if set(runs.values()) & set(made.head):
            yield made


def fine_tuning(results: Results) -> Table:
    """Test-time fine-tuning, the best setting of each condition."""
    rows: Rows = []
    for name, condition in CONDITIONS.items():
        best = results.tuned(name)
        if best is not None:
            rate, steps, against = best
            row = [
                condition.label,
                str(against.n),
                base_cell(against),
                mean_cell(against),
                reduction_cell(against),
            ]
            rows.append([*row, f"{rate:g}", str(steps)])
    head = ("condition", "n", "Raw ICON", "fine-tuned", "reduction", "best rate", "best steps")
    said = (
        "Adam on leave-one-out episodes of the five examples, all weights, anew for each question; the best "
        "of three rates and three numbers of steps is chosen on the test questions themselves, in its favour."
    )
    return Table("Baseline: test-time fine-tuning", said, head, rows)


def along_rollouts(results: Results) -> Table:
    """Mean errors on the way to the last step, where a flat answer is hard to beat."""
    methods = {RAW: label_of(RAW), CONSERVATION: label_of(CONSERVATION)}
    methods |= {results.chosen["rollout"]: "best of the grid"} if "rollout" in results.chosen else {}
    methods |= {BEST_EVOLVED["conservation"]: "evolved"} if "conservation" in BEST_EVOLVED else {}
    methods |= {FLAT: label_of(FLAT)}
    rows: Rows = []
    for flux, label in FLUXES.items():
        for method, words in methods.items():
            curve = results.curve(rollout(flux), method)
            if curve is not None:
                # A trajectory that is lost has no mean error from there on.
                seen = [curve[np.isfinite(curve[:, step - 1]), step - 1] for step in MILESTONES]
                cells = [f"{values.mean():.4f}" if values.size else MISSING for values in seen]
                rows.append([label, words, str(len(curve)), *cells])
    head = ("flux", "method", "n", *(f"step {step}" for step in MILESTONES))
    said = "Mean over the trajectories still finite. The query's mean is a flat answer, without any network."
    return Table("Along the rollouts", said, head, rows)


def searches(results: Results) -> Iterable[Table]:
    """How the grid did on the evolution sets."""
    asked = {(entry.condition.name, entry.method): entry for entry in entries(results.selection, {})}
    for problem, condition in SEARCHES.items():
        ranked = ranking(results.store, asked, problem)
        if not ranked:
            continue
        base = dict(ranked)[RAW]
        rows = [
            [str(place), f"`{text}`", f"{score:.4f}", f"{100 * (1 - score / base):.1f} %"]
            for place, (text, score) in enumerate(ranked, 1)
            if place <= 8 or text in (RAW, CONSERVATION, MFC)
        ]
        n = asked[condition, RAW].n
        measure = f"mean error at step {STEPS}" if problem == "rollout" else "mean error"
        said = f"{len(ranked)} programs on {n} questions of the {CONDITIONS[condition].label}: {measure}."
        yield Table(f"The grid: {problem}", said, ("place", "program", "error", "reduction"), rows)


def times(results: Results) -> Table:
    """Wall times of one question: what differs from run to run, so it is kept out of the other file."""
    rows: Rows = []
    for problem in ("conservation", "mfc"):
        methods = dict.fromkeys(
            method for (name, method), entry in results.entries.items()
            if entry.condition.problem == problem and entry.group != "grid"
        )  # fmt: skip
        for method in methods:
            found = [
                cost
                for (name, other), entry in results.entries.items()
                if other == method and entry.condition.problem == problem and entry.condition.steps == 1
                and (cost := results.cost(name, method)) is not None
            ]  # fmt: skip
            if found:
                calls, ms = (sum(column) / len(found) for column in zip(*found, strict=True))
                rows.append([problem, label_of(method), f"{calls:.0f}", f"{ms:.1f}"])
    said = "One thread, mean over the single-step conditions measured, in batches of at most 25."
    head = ("network", "method", "model evaluations", "milliseconds a question")
    return Table("Cost of one question", said, head, rows)


def _side_by_side(
    results: Results, title: str, said: str, columns: Mapping[str, str],
    cell: Callable[[Results, str, str], str], problem: str | None = None,
) -> Table:  # fmt: skip
    """Conditions down, methods across; methods that nobody measured are left out."""
    names = [
        condition.name
        for condition in CONDITIONS.values()
        if condition.steps == 1 and condition.split == "test" and problem in (None, condition.problem)
    ]
    cells = {(name, method): cell(results, name, method) for name in names for method in columns}
    # Rows need more than the bare model: a program's ablation belongs where the program was measured.
    kept = [n for n in names if sum(cells[n, m] != MISSING for m in columns) >= 3]
    shown = [m for m in columns if any(cells[n, m] != MISSING for n in kept)]
    rows = [[CONDITIONS[name].label, *(cells[name, method] for method in shown)] for name in kept]
    return Table(title, said, ("condition", *(columns[method] for method in shown)), rows)


def _cell(results: Results, condition: str, method: str) -> str:
    found = results.compare(condition, method)
    if found is None:
        return MISSING
    if found.paired is None:
        return "not finite"
    lost = f", {found.lost} not finite" if found.lost else ""
    if method == RAW:
        return f"{found.paired.mean:.4f}{lost}"
    return f"{found.paired.mean:.4f} ({found.paired.reduction:.0f} %{lost})"


def _calls(results: Results, problem: str, method: str) -> str:
    for (name, other), entry in results.entries.items():
        if other == method and entry.condition.problem == problem and entry.condition.steps == 1:
            cost = results.cost(name, method)
            if cost is not None:
                return f"{cost[0]:.0f}"
    return MISSING


__all__ = [
    "ablations", "along_rollouts", "baselines", "evolved", "fine_tuning", "in_context", "searches", "times",
]  # fmt: skip
