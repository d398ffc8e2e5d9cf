"""The tables of conservation laws, mean-field control and transfer: our numbers beside the paper's.

The same results give the same bytes; wall times differ from run to run and are kept apart.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from chop.bench import paper
from chop.bench.function_answers import PROMPTS_VALIDATED
from chop.bench.function_figures import FUNCTION_CAPTIONS, function_figures
from chop.bench.function_overview import OVERVIEW, overview, suite_of
from chop.bench.functions import (
    CONDITIONS,
    COST,
    FAMILIES,
    FLUXES,
    LENGTHS,
    SEARCHES,
    STEPS,
    control_of,
    rollout_of,
    single_step_of,
)  # fmt: skip
from chop.bench.methods import (
    ABLATED,
    AGENTS,
    BASELINES,
    BEST_EVOLVED,
    CONSERVATION,
    CORR,
    EVOLVED,
    FINE_TUNING,
    FINE_TUNING_STEPS,
    FLAT,
    HAND,
    LAW,
    LINE,
    MFC,
    RAW,
    label_of,
)  # fmt: skip
from chop.bench.report import Report
from chop.bench.results import Comparison, Results, comparison
from chop.bench.suite import SuiteEntry
from chop.bench.tables import (
    MISSING,
    Rows,
    Table,
    base_cell,
    counts_cell,
    mean_cell,
    reduction_cell,
    spread_cell,
)  # fmt: skip
from chop.core.catalog import BY_HAND
from chop.storage.schema import Record

TRANSFERRED = "best of the MFC grid, transferred"
MILESTONES = (1, 10, 36, 72, STEPS)
"""Steps of a rollout that are shown in the table."""
MAIN_TITLES = (
    OVERVIEW, "Programs by hand: conservation", "Programs by hand: mfc",
    "Conservation laws", "Along the rollouts", "Mean-field control",
    "Cost to density: the correction alone",
    "Transfer: CHOP(MFC) on the conservation network, single step",
)  # fmt: skip


def _tables(results: Results) -> list[Table]:
    """Everything that was measured, main results first; what was not measured has no row."""
    return [
        overview(results),
        *_by_hand(results),
        _conservation(results),
        _along_rollouts(results),
        _mean_field_control(results),
        _components(results),
        _transfer(results),
        *_evolved(results),
        *_ablations(results),
        _in_context(results),
        *_baselines(results),
        _fine_tuning(results),
        *_searches(results),
    ]


_PaperRow = tuple[tuple[str, ...], str, paper.Published, str]
"""First cells, condition, what was published, and the search whose best program stands beside."""


def _beside_paper(
    results: Results, title: str, note: str, head: tuple[str, ...], method: str, given: Iterable[_PaperRow],
    best_words: str = "best of the grid",
) -> Table:  # fmt: skip
    """Our numbers, the paper's, and those of the best program of a search."""
    rows: Rows = []
    for cells, condition, published, search in given:
        ours = results.compare(condition, method)
        if ours is None:
            continue
        best = results.chosen.get(search)
        other = None if best is None else results.compare(condition, best)
        others = [MISSING, MISSING]
        if other is not None:
            fewer = "" if other.n == ours.n else f" (n = {other.n})"
            others = [mean_cell(other) + fewer, reduction_cell(other)]
        measured = [str(ours.n), base_cell(ours), mean_cell(ours), reduction_cell(ours)]
        theirs = zip((published.raw, published.chop), published.deviations, strict=True)
        printed = [*(spread_cell(*pair) for pair in theirs), f"{published.reduction:.2f} %"]
        rows.append([*cells, *measured, *printed, *others])
    name = label_of(method)
    head = (
        *head, "n", "Raw ICON", name, "reduction", "paper: Raw ICON", f"paper: {name}", "paper: reduction",
        best_words, "its reduction",
    )  # fmt: skip
    return Table(title, note, head, rows)


def _conservation(results: Results) -> Table:
    """One step and 144 steps, three fluxes."""
    given: list[_PaperRow] = []
    for flux, label in FLUXES.items():
        given.append(((label, "single step"), single_step_of(flux), paper.SINGLE_STEP[flux], "conservation"))
        given.append(((label, f"step {STEPS}"), rollout_of(flux), paper.STEP_144[flux], "rollout"))
    note = _best_note(results, {"conservation": "single step", "rollout": "rollouts"})
    head = ("flux", "evaluation")
    return _beside_paper(results, "Conservation laws", note, head, CONSERVATION, given)


def _mean_field_control(results: Results) -> Table:
    """Fifteen conditions."""
    given: list[_PaperRow] = [
        ((label, f"{length:g}"), control_of(family, length), paper.MEAN_FIELD_CONTROL[family, length], "mfc")
        for family, label in FAMILIES.items()
        for length in LENGTHS
    ]
    note = _best_note(results, {"mfc": "all conditions"})
    return _beside_paper(results, "Mean-field control", note, ("operator", "ℓ"), MFC, given)


def _transfer(results: Results) -> Table:
    """CHOP(MFC) on the conservation network."""
    asked = "transfer" in suite_of(results).suites
    given: list[_PaperRow] = [
        ((label,), single_step_of(flux), paper.TRANSFER[flux], "mfc")
        for flux, label in FLUXES.items()
        if asked
    ]
    best = results.chosen.get("mfc")
    note = f"`{best}` was chosen on the evolution set of mean-field control alone." if best else ""
    title = "Transfer: CHOP(MFC) on the conservation network, single step"
    return _beside_paper(results, title, note, ("flux",), MFC, given, TRANSFERRED)


def _best_note(results: Results, searches: Mapping[str, str]) -> str:
    chosen = [f"{words} `{results.chosen[key]}`" for key, words in searches.items() if key in results.chosen]
    return f"Best of the grid, chosen on the evolution set: {'; '.join(chosen)}." if chosen else ""


def _components(results: Results) -> Table:
    """Cost to density: the residual correction alone."""
    rows: Rows = []
    for family in COST:
        for length in LENGTHS:
            condition = control_of(family, length)
            full, alone = results.compare(condition, MFC), results.compare(condition, CORR)
            if full is None or alone is None:
                continue
            published = (paper.MEAN_FIELD_CONTROL[family, length], paper.COST_TO_DENSITY[family, length])
            rows.append(
                [
                    FAMILIES[family],
                    f"{length:g}",
                    base_cell(alone, 6),
                    mean_cell(full, 6),
                    mean_cell(alone, 6),
                    reduction_cell(full),
                    reduction_cell(alone),
                    " / ".join(f"{row.reduction:.2f} %" for row in published),
                    counts_cell(full),
                    counts_cell(alone),
                    " ; ".join("/".join(map(str, row.counts or ())) for row in published),
                ]
            )
    head = (
        "operator", "ℓ", "Raw ICON", "CHOP(MFC)", "CHOP(Corr)", "CHOP(MFC) reduction", "CHOP(Corr) reduction",
        "paper: both reductions", "CHOP(MFC) lower/equal/higher", "CHOP(Corr) lower/equal/higher",
        "paper: both counts",
    )  # fmt: skip
    return Table("Cost to density: the correction alone", "", head, rows)


def _ablations(results: Results) -> Iterable[Table]:
    """Each program without each of its operators."""
    for program, table in ABLATED.items():
        columns = {RAW: "Raw ICON", program: label_of(program), **table}
        note = f"`{program}` with an operator removed: mean error and reduction, single step."
        yield _side_by_side(results, f"Ablation of {label_of(program)}", note, columns, _cell)


def _in_context(results: Results) -> Table:
    """Errors at the examples themselves: what a program can know about itself."""
    columns = {RAW: "Raw ICON", CONSERVATION: "CHOP(Conservation)", MFC: "CHOP(MFC)", CORR: "CHOP(Corr)"}
    columns |= {"rescale | icon": "rescale alone", "moving_frame | icon": "moving_frame alone"}

    def cell(results: Results, condition: str, method: str) -> str:
        records = results.records(condition, method) or []
        values = [record["in_context"] for record in records if record.get("in_context") is not None]
        return f"{np.mean(values):.4f}" if values else MISSING

    note = (
        f"Relative error of held-out answers at the example inputs, mean over the first {PROMPTS_VALIDATED} "
        "questions. It is what `select` and `correct` go by."
    )
    return _side_by_side(results, "In-context errors", note, columns, cell)


def _programs(results: Results, problem: str, *more: str) -> dict[str, str]:
    """Columns of tables: the bare model, the paper's programs, the best of the grid."""
    columns = {method: label_of(method) for method in (RAW, *more)}
    return columns | ({results.chosen[problem]: "best of the grid"} if problem in results.chosen else {})


def _baselines(results: Results) -> Iterable[Table]:
    """The same prompts and examples without a program, or without a network."""
    note = "Mean error and reduction, single step."
    for problem, table in BASELINES.items():
        own = (CONSERVATION, MFC) if problem == "conservation" else (MFC,)
        columns = _programs(results, problem, *own)
        yield from _with_calls(results, f"Baselines: {problem}", note, columns, table, problem)


def _with_calls(
    results: Results, title: str, note: str, known: Mapping[str, str], table: Mapping[str, str], problem: str
) -> Iterable[Table]:
    """The methods of a table beside known ones, with what they cost; nothing if none was measured."""
    columns = {**known, **table}
    made = _side_by_side(results, title, note, columns, _cell, problem)
    if set(table.values()) & set(made.head):
        shown = [method for method, label in columns.items() if label in made.head]
        calls = ["model evaluations", *(_calls(results, problem, method) for method in shown)]
        yield Table(made.title, note, made.head, [*made.rows, calls])


def _by_hand(results: Results) -> Iterable[Table]:
    """Programs that learn from the examples, and at home too; what they are made of, and the law itself."""
    for problem, table in HAND.items():
        own = (CONSERVATION,) if problem == "conservation" else (MFC, CORR)
        columns = _programs(results, problem, *own) | {
            BEST_EVOLVED[problem]: "best evolved",
            "ridge": "ridge",
        }
        named = "; ".join(f"{name} `{text}`" for name, text in BY_HAND.items() if text in table)
        note = f"Mean error and reduction, single step. {named}."
        yield from _with_calls(results, f"Programs by hand: {problem}", note, columns, table, problem)


def _evolved(results: Results) -> Iterable[Table]:
    """What `chop evolve` found from the bare model, every run, beside the programs above."""
    for problem, runs in EVOLVED.items():
        own = (CONSERVATION,) if problem == "conservation" else (MFC, CORR)
        columns = _programs(results, problem, *own) | runs
        written = "; ".join(f"{label.removeprefix('evolved, ')} `{text}`" for text, label in runs.items())
        note = f"Mean error and reduction, single step. Found on the evolution set alone: {written}."
        made = _side_by_side(results, f"Evolved programs: {problem}", note, columns, _cell, problem)
        if set(runs.values()) & set(made.head):
            yield made


def _fine_tuning(results: Results) -> Table:
    """Test-time fine-tuning, the best setting of each condition."""
    rows: Rows = []
    for name, condition in CONDITIONS.items():
        best = _best_tuned(results, name)
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
    note = (
        "Adam on leave-one-out episodes of the five examples, all weights, anew for each question; the best "
        "of three rates and three numbers of steps is chosen on the test questions themselves, in its favour."
    )
    return Table("Baseline: test-time fine-tuning", note, head, rows)


def _best_tuned(results: Results, condition: str) -> tuple[float, int, Comparison] | None:
    """The best of the fine-tuning settings on a condition: (rate, steps, against the bare model)."""
    base = results.errors(condition, RAW)
    options = []
    for method in FINE_TUNING:
        curve = results.curve(condition, method)
        if base is None or curve is None:
            return None  # the best of some of the rates is not the best of them
        for i, steps in enumerate(FINE_TUNING_STEPS):
            against = comparison(base[: len(curve)], curve[: len(base), i])
            if against.paired is not None:
                options.append((against.paired.mean, float(method[10:-1]), steps, against))
    if not options:
        return None
    _, rate, steps, against = min(options, key=lambda option: option[:3])
    return rate, steps, against


def _along_rollouts(results: Results) -> Table:
    """Mean errors on the way to the last step, where a flat answer is hard to beat."""
    methods = _programs(results, "rollout", CONSERVATION)
    methods |= {
        BEST_EVOLVED["conservation"]: "evolved",
        LINE: "line",
        **AGENTS,
        LAW: label_of(LAW),
        FLAT: label_of(FLAT),
    }
    rows: Rows = []
    for flux, label in FLUXES.items():
        for method, words in methods.items():
            curve = results.curve(rollout_of(flux), method)
            if curve is not None:
                # A trajectory that is lost has no mean error from there on.
                seen = [curve[np.isfinite(curve[:, step - 1]), step - 1] for step in MILESTONES]
                cells = [f"{values.mean():.4f}" if values.size else MISSING for values in seen]
                rows.append([label, words, str(len(curve)), *cells])
    head = ("flux", "method", "n", *(f"step {step}" for step in MILESTONES))
    note = "Mean over the trajectories still finite. The query's mean is a flat answer, without any network."
    return Table("Along the rollouts", note, head, rows)


def _searches(results: Results) -> Iterable[Table]:
    """How the grid did on the evolution sets."""
    for problem, condition in SEARCHES.items():
        ranked = suite_of(results).ranking(results.store, problem)
        if not ranked:
            continue
        base = dict(ranked)[RAW]
        rows = [
            [str(place), f"`{text}`", f"{score:.4f}", f"{100 * (1 - score / base):.1f} %"]
            for place, (text, score) in enumerate(ranked, 1)
            if place <= 8 or text in (RAW, CONSERVATION, MFC)
        ]
        n = results.entries[condition, RAW].n
        measure = f"mean error at step {STEPS}" if problem == "rollout" else "mean error"
        note = f"{len(ranked)} programs on {n} questions of the {CONDITIONS[condition].label}: {measure}."
        yield Table(f"The grid: {problem}", note, ("place", "program", "error", "reduction"), rows)


def _times(results: Results) -> Table:
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
    note = "One thread, mean over the single-step conditions measured, in batches of at most 25."
    head = ("network", "method", "model evaluations", "milliseconds a question")
    return Table("Cost of one question", note, head, rows)


def _side_by_side(
    results: Results, title: str, note: str, columns: Mapping[str, str],
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
    return Table(title, note, ("condition", *(columns[method] for method in shown)), rows)


def _cell(results: Results, condition: str, method: str) -> str:
    found = results.compare(condition, method)
    if found is None:
        return MISSING
    if found.paired is None:
        return "not finite"
    lost = f", {found.lost} not finite" if found.lost else ""
    digits = 4 if found.paired.mean >= 1e-3 else 5
    mean = f"{found.paired.mean:.{digits}f}"
    return f"{mean}{lost}" if method == RAW else f"{mean} ({found.paired.reduction:.0f} %{lost})"


def _calls(results: Results, problem: str, method: str) -> str:
    for (name, other), entry in results.entries.items():
        if other == method and entry.condition.problem == problem and entry.condition.steps == 1:
            cost = results.cost(name, method)
            if cost is not None:
                return f"{cost[0]:.0f}"
    return MISSING


def _rollout_csv(results: Results) -> dict[str, str]:
    """Quartiles and mean of every rollout step; what is not finite counts as the worst in quartiles."""
    rows: list[list[object]] = []
    for flux in FLUXES:
        for method in [m for name, m in results.entries if name == rollout_of(flux)]:
            curve = results.curve(rollout_of(flux), method)
            if curve is None:
                continue
            finite = np.isfinite(curve)
            worst = np.where(finite, curve, np.inf)
            for step in range(curve.shape[1]):
                marks = np.quantile(worst[:, step], [0.25, 0.5, 0.75], method="nearest")
                seen = curve[finite[:, step], step]
                mean = f"{seen.mean():.5g}" if seen.size else ""
                lost = int((~finite[:, step]).sum())
                numbers = [f"{mark:.5g}" for mark in marks]
                rows.append([flux, label_of(method), step + 1, len(curve), lost, *numbers, mean])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ["flux", "method", "step", "n", "not finite", "quartile 1", "median", "quartile 3", "mean"]
    writer.writerows([head, *rows])
    return {"rollout.csv": text.getvalue()} if rows else {}


def _facts(results: Results) -> dict[str, str]:
    """What the numbers belong to."""
    used = sorted((whose, found.sha256[:16]) for (_, whose), found in results.store.used.items())
    suite = suite_of(results)
    return {
        "networks": ", ".join(f"{problem} (sha256 {sha256})" for problem, sha256 in used),
        "seed": str(results.store.about.seed),
        "experiments": ", ".join(suite.suites),
        "questions of each condition": "as in the paper" if suite.cases is None else f"at most {suite.cases}",
    }


def _columns(entry: SuiteEntry, records: list[Record]) -> Record:
    """What ``results.json`` holds of an entry."""
    # A grid has many rollouts and only their last error counts; the steps stay in the store.
    names = ("error", "in_context", "ms", *(["curve"] if entry.group != "grid" else []))
    return {
        "condition": entry.condition.name,
        "method": entry.method,
        "group": entry.group,
        "n": entry.n,
        "calls": records[0]["calls"],
        **{
            name: [record.get(name) for record in records]
            for name in names
            if any(name in record for record in records)
        },
    }


FUNCTION_REPORT = Report(
    title="Benchmark",
    heading="Benchmark beside the paper's numbers",
    intro="Relative L² error, mean ± sample standard deviation over n questions. A reduction is that of the "
    "mean against Raw ICON on the same questions; a negative one is an increase. Answers that are not "
    "finite are counted where there are any, and left out of both means.",
    facts=_facts,
    tables=_tables,
    is_main=lambda table: table.title in MAIN_TITLES,
    times=_times,
    columns=_columns,
    chosen=lambda results: {"chosen": results.chosen},
    figures=function_figures,
    captions=lambda results: FUNCTION_CAPTIONS,
    files=_rollout_csv,
)
