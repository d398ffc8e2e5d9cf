"""The tables: our numbers, the paper's, both reductions. The same results give the same bytes.

Times differ from run to run and are kept apart (`times`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from chop.bench.air import paper
from chop.bench.air.claims import ONE_HOUR, claims, one_hour
from chop.bench.air.conditions import (
    CHOP,
    LEADS,
    METHODS,
    PERSISTENCE,
    POLLUTANTS,
    RAW,
    SELECTIONS,
    WRITTEN,
    Condition,
    Direction,
    label_of,
)
from chop.bench.air.results import Results
from chop.bench.cells import MISSING, Rows, Table
from chop.bench.results import Comparison
from chop.core.program import Program
from chop.core.text import parse

INTRO = (
    "Error of one question: the root mean square over the stations observed at the target hour, in µg/m³. "
    "Tables give its mean over n questions. A reduction is that of the mean against Raw ICON on the same "
    "questions; a negative one is an increase. A question whose target was observed nowhere has no error and "
    "is left out for every method. The paper's numbers are of other stations and another year: they "
    "show what pattern to expect, not which values."
)


def tables(results: Results) -> list[Table]:
    """Everything that was measured, main results first; what was not measured has no row."""
    carried = [direction for direction in results.directions if direction.carried]
    made = [
        reached(results),
        *(main(results, d, selection) for d in carried for selection in SELECTIONS),
        increases(results),
        first_hour(results),
        frozen(results),
        similarity(results),
        *(baselines(results, d, selection) for d in carried for selection in SELECTIONS),
        own(results),
        weights(results),
        counts(results),
    ]
    return [table for table in made if table.rows]


def main_tables(results: Results) -> list[Table]:
    """Those that stand before the figures."""
    return [table for table in tables(results) if table.title == REACHED or table.title.startswith("RMSE")]


def markdown(results: Results, about: Mapping[str, str]) -> str:
    """The file ``table.md``."""
    facts = "\n".join(f"- {name}: {value}" for name, value in about.items())
    body = "\n".join(table.markdown() for table in tables(results))
    return f"# Benchmark: air quality\n\n{facts}\n\n{INTRO}\n\n{body}"


REACHED = "What is reached"


def reached(results: Results) -> Table:
    """What is claimed, and what was found."""
    rows = [
        [claim.text, f"{claim.held} of {claim.total}", claim.wanted, "yes" if claim.reached else "no"]
        for claim in claims(results)
        if claim.total
    ]
    return Table(REACHED, "", ("claim", "holds in", "wanted", "reached"), rows)


def main(results: Results, direction: Direction, selection: str) -> Table:
    """One half of one of the paper's tables."""
    rows: Rows = []
    for pollutant in POLLUTANTS:
        for lead in LEADS:
            condition = Condition(direction, selection, lead, pollutant)
            found, published = results.compare(condition), paper.TABLE[condition]
            row = [WRITTEN[pollutant], str(lead), *_cells(found), _share(found)]
            rows.append(
                [*row, f"{published.raw:.2f}", f"{published.chop:.2f}", f"{published.reduction:.1f} %"]
            )
    head = (
        "", "lead (h)", "n", "Raw ICON", "CHOP(Air)", "reduction", "lower in", "paper: Raw", "paper: CHOP",
        "paper: reduction",
    )  # fmt: skip
    return Table(f"RMSE, {direction.label}, {_examples(selection)}", "", head, rows)


def increases(results: Results) -> Table:
    """Every condition in which the program does not lower the mean."""
    rows: Rows = []
    for condition in results.conditions:
        found = results.compare(condition)
        if found.paired is not None and not found.paired.reduction > 0:
            published = paper.TABLE[condition].reduction
            rows.append([*_where(condition), *_cells(found), _share(found), f"{published:.1f} %"])
    head = (
        "direction", "examples", "", "lead (h)", "n", "Raw ICON", "CHOP(Air)", "reduction", "lower in",
        "paper: reduction",
    )  # fmt: skip
    return Table("Every increase", "Conditions in which CHOP(Air) does not lower the mean.", head, rows)


def first_hour(results: Results) -> Table:
    """One hour ahead persistence is hard to beat."""
    rows: Rows = [
        [
            *_where(condition)[:3],
            *(f"{results.mean(condition, method):.2f}" for method in (RAW, PERSISTENCE, CHOP)),
            "yes" if one_hour(results, condition) else "no",
        ]
        for condition in results.conditions
        if condition.lead == 1
    ]
    head = ("direction", "examples", "", "Raw ICON", "persistence", "CHOP(Air)", "not worse than both")
    return Table("One hour ahead", f"{ONE_HOUR}.", head, rows)


def frozen(results: Results) -> Table:
    """Whether the bare network beats persistence, at home and carried."""
    rows: Rows = []
    for condition in results.frozen():
        found = results.compare(condition, RAW, PERSISTENCE)
        if found.paired is not None:
            row = [condition.direction.label, WRITTEN[condition.pollutant], str(condition.lead)]
            rows.append([*row, *_cells(found), "yes" if found.paired.reduction > 0 else "no"])
    head = ("network", "", "lead (h)", "n", "persistence", "Raw ICON", "lower by", "beats persistence")
    said = "Raw ICON with random examples against persistence, in the network's own region and carried."
    return Table("Is the network worth being frozen?", said, head, rows)


def similarity(results: Results) -> Table:
    """What choosing similar examples does to the bare network."""
    rows: Rows = []
    for condition in results.conditions:
        if condition.selection != "similar":
            continue
        found = results.selections(condition)
        random, similar = (paper.TABLE[condition._replace(selection=s)].raw for s in SELECTIONS)
        where = [condition.direction.label, WRITTEN[condition.pollutant], str(condition.lead)]
        rows.append([*where, *_cells(found), f"{100 * (1 - similar / random):.1f} %"])
    head = ("direction", "", "lead (h)", "n", "random", "similar", "reduction", "paper: reduction")
    return Table("Raw ICON with random and with similar examples", "", head, rows)


def baselines(results: Results, direction: Direction, selection: str) -> Table:
    """Every method side by side."""
    shown = (RAW, CHOP, *(method for method in METHODS if method not in (RAW, CHOP)))
    rows: Rows = [
        [
            WRITTEN[pollutant],
            str(lead),
            *(_number(results.mean(Condition(direction, selection, lead, pollutant), m)) for m in shown),
        ]
        for pollutant in POLLUTANTS
        for lead in LEADS
    ]
    head = ("", "lead (h)", *map(label_of, shown))
    return Table(f"Baselines, {direction.label}, {_examples(selection)}", "Mean RMSE.", head, rows)


def own(results: Results) -> Table:
    """Programs that were given beside the paper's."""
    rows: Rows = []
    for condition in results.conditions if results.own else ():
        found = [results.compare(condition, method) for method in results.own]
        cells = [
            MISSING
            if c.paired is None
            else f"{c.paired.mean:.2f} ({c.paired.reduction:.1f} %, n = {c.paired.cases})"
            for c in found
        ]
        rows.append([*_where(condition), _number(results.mean(condition, RAW)), *cells])
    said = "; ".join(f"({i}) `{method}`" for i, method in enumerate(results.own, 1))
    head = (
        "direction",
        "examples",
        "",
        "lead (h)",
        "Raw ICON",
        *(f"({i + 1})" for i in range(len(results.own))),
    )
    return Table("Programs of your own", f"{said}. Mean RMSE and its reduction.", head, rows)


def candidates() -> tuple[str, ...]:
    """What CHOP(Air) mixes, in order."""
    program: Program = parse(CHOP)
    return tuple(str(part) for part in program.bases)  # type: ignore[attr-defined]


def weights(results: Results) -> Table:
    """What CHOP(Air) leans on at each lead."""
    rows: Rows = []
    for condition in results.conditions:
        found = results.weights(condition)
        if found is not None:
            rows.append([*_where(condition), *(f"{weight:.2f}" for weight in found)])
    head = ("direction", "examples", "", "lead (h)", *(f"`{text}`" for text in candidates()))
    return Table("Mean weights of CHOP(Air)'s candidates", "", head, rows)


def counts(results: Results) -> Table:
    """Questions asked, finished, and without an observed target."""
    rows: Rows = []
    for direction in results.directions:
        done, asked = results.questions(direction)
        lost = []
        for pollutant in POLLUTANTS:
            found = [
                int(np.isnan(results.errors(Condition(direction, *part, pollutant), RAW)).sum())
                for part in direction.parts
            ]
            lost.append(f"{min(found)} to {max(found)}")
        rows.append([direction.label, str(asked), str(done), *lost])
    head = ("direction", "questions", "finished", *(f"{WRITTEN[p]}: left out at a lead" for p in POLLUTANTS))
    said = (
        "Questions are windows of which at least half of every channel was observed. Left out: nothing was "
        "observed at the target hour, or an answer was not finite."
    )
    return Table("Questions", said, head, rows)


def times(results: Results) -> Table:
    """Processor time of one question at one lead."""
    rows: Rows = []
    for direction in results.directions:
        for method in (*direction.methods, *(results.own if direction.carried else ())):
            records = [
                record
                for part in direction.parts
                for record in results.records(Condition(direction, *part, POLLUTANTS[0]), method)
            ]
            if records:
                ms = float(np.mean([record["ms"] for record in records]))
                rows.append([direction.label, label_of(method), str(records[0]["calls"]), f"{ms:.1f}"])
    said = (
        "Processor time of one thread, mean over leads and selections. Where CHOP(Air) is measured, its "
        "evaluations answer Raw ICON too, and windows encoded at one lead are not encoded again at the next."
    )
    head = ("direction", "method", "model evaluations", "milliseconds a question")
    return Table("Cost of one question", said, head, rows)


def _examples(selection: str) -> str:
    return f"{selection} examples"


def _where(condition: Condition) -> list[str]:
    return [
        condition.direction.label, condition.selection, WRITTEN[condition.pollutant], str(condition.lead),
    ]  # fmt: skip


def _cells(found: Comparison) -> list[str]:
    """n, the base's mean, the method's, and the reduction."""
    paired = found.paired
    if paired is None:
        return ["0", MISSING, MISSING, MISSING]
    return [str(paired.cases), f"{paired.base_mean:.2f}", f"{paired.mean:.2f}", f"{paired.reduction:.1f} %"]


def _share(found: Comparison) -> str:
    """Of how many questions the error is lower."""
    paired = found.paired
    return MISSING if paired is None else f"{100 * paired.lower / paired.cases:.0f} %"


def _number(value: float) -> str:
    return MISSING if math.isnan(value) else f"{value:.2f}"


__all__ = ["INTRO", "REACHED", "candidates", "main_tables", "markdown", "tables", "times"]
