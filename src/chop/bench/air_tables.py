"""The tables of air quality: our numbers beside the paper's. The same results give the same bytes.

Times differ from run to run and are kept apart (`times`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from chop.bench import paper
from chop.bench.air import WRITTEN, Forecast, forecasts
from chop.bench.air_directions import HOME_LEADS, REGIONS, SELECTIONS, Direction
from chop.bench.air_figures import air_captions, air_figures, candidates, mean_weights, measured_directions
from chop.bench.air_questions import LEADS, YearSplit
from chop.bench.methods import AIR, AIR_LABELS, AIR_METHODS, PERSISTENCE, RAW, label_of
from chop.bench.report import Report
from chop.bench.results import Comparison, Results, comparison
from chop.bench.suite import SuiteEntry
from chop.bench.tables import MISSING, REACHED, Claim, Rows, Table, claims_table, number_cell, yes
from chop.problems.air import POLLUTANTS
from chop.storage.schema import Record

ONE_HOUR = "CHOP(Air) at 1 h is not worse than the better of Raw ICON and persistence"
PRINTED = "paper: reduction"
WHERE = ("direction", "examples", "", "lead (h)")
"""Heads of the columns that say which forecast a row is about."""


def _tables(results: Results) -> list[Table]:
    """Everything that was measured, main results first; what was not measured has no row."""
    halves = [(d, selection) for d in measured_directions(results, carried=True) for selection in SELECTIONS]
    return [
        claims_table(air_claims(results), "claim", "holds in", "wanted", "reached"),
        *(_main(results, *half) for half in halves),
        _increases(results),
        _first_hour(results),
        _worth_freezing(results),
        _similarity(results),
        *(_baselines(results, *half) for half in halves),
        _programs_of_ones_own(results),
        _weights(results),
        _counts(results),
    ]


def measured_forecasts(results: Results) -> list[Forecast]:
    """Those of the paper's 88 that were measured, and those of other networks and regions."""
    return list(forecasts(measured_directions(results)))


def at_home_and_carried(results: Results) -> list[Forecast]:
    """Where a network must beat persistence to be worth being frozen: random examples, four leads."""
    return [
        Forecast(direction, "random", lead, pollutant)
        for direction in measured_directions(results)
        for pollutant in POLLUTANTS
        for lead in HOME_LEADS
    ]


def _by_selection(results: Results, forecast: Forecast) -> Comparison:
    """Raw ICON with similar examples against Raw ICON with random ones on the same questions."""
    random, similar = (results.errors(forecast._replace(selection=s).name, RAW) for s in SELECTIONS)
    assert random is not None
    assert similar is not None
    return comparison(random, similar)


def air_claims(results: Results) -> list[Claim]:
    """What is claimed of the program and of the networks; where nothing was measured the total is 0."""
    every = measured_forecasts(results)
    whole = {forecast.name for forecast in every} == paper.AIR_QUALITY.keys()
    lower = [_lower(results.reduction(forecast.name, AIR)) for forecast in every]
    similar = [_by_selection(results, f).paired for f in every if f.selection == "similar"]
    frozen = [results.reduction(f.name, RAW, PERSISTENCE) for f in at_home_and_carried(results)]
    text = "CHOP(Air) lowers the mean error against Raw ICON"
    enough = paper.LOWERED if whole else len(every)
    wanted = f"{paper.LOWERED}, as in the paper" if whole else "all"
    return [
        Claim(text, sum(lower), len(every), enough, wanted=wanted),
        _in_all(ONE_HOUR, [_one_hour(results, forecast) for forecast in every if forecast.lead == 1]),
        _in_all(
            "Similar examples lower the mean error of Raw ICON",
            [paired is not None and paired.reduction > 0 for paired in similar],
        ),
        _in_all(
            "Raw ICON with random examples beats persistence at 6, 12, 24 and 48 h, at home and carried",
            map(_lower, frozen),
        ),
    ]


def _one_hour(results: Results, forecast: Forecast) -> bool:
    """Whether the program's mean is at most the smaller of the other two."""
    raw, persistence, ours = (results.mean(forecast.name, method) for method in (RAW, PERSISTENCE, AIR))
    return ours <= min(raw, persistence)


def _lower(reduction: float | None) -> bool:
    return reduction is not None and reduction > 0


def _in_all(text: str, holds: Iterable[bool]) -> Claim:
    found = list(holds)
    return Claim(text, sum(found), len(found), len(found), wanted="all")


def _main(results: Results, direction: Direction, selection: str) -> Table:
    """One half of one of the paper's tables, or the like of it."""
    rows: Rows = []
    half = _half(direction, selection)
    beside = _in_the_paper(half)
    for forecast in half:
        found, published = results.compare(forecast.name, AIR), paper.AIR_QUALITY.get(forecast.name)
        printed = [] if published is None else [f"{published.raw:.2f}", f"{published.chop:.2f}"]
        reduction = _printed(forecast) if beside else []
        rows.append([*_where(forecast)[2:], *_cells(found), _share(found), *printed, *reduction])
    head = (
        *WHERE[2:], "n", "Raw ICON", "CHOP(Air)", "reduction", "lower in",
        *(("paper: Raw", "paper: CHOP", PRINTED) if beside else ()),
    )  # fmt: skip
    return Table(f"RMSE, {direction.label}, {selection} examples", "", head, rows)


def _increases(results: Results) -> Table:
    """Every forecast of which the program does not lower the mean."""
    rows: Rows = []
    every = measured_forecasts(results)
    beside = _in_the_paper(every)
    for forecast in every:
        found = results.compare(forecast.name, AIR)
        if found is not None and found.paired is not None and not found.paired.reduction > 0:
            printed = _printed(forecast) if beside else []
            rows.append([*_where(forecast), *_cells(found), _share(found), *printed])
    last = (PRINTED,) if beside else ()
    head = (*WHERE, "n", "Raw ICON", "CHOP(Air)", "reduction", "lower in", *last)
    return Table("Every increase", "Conditions in which CHOP(Air) does not lower the mean.", head, rows)


def _in_the_paper(every: Iterable[Forecast]) -> bool:
    """Whether the paper has any of these."""
    return any(forecast.name in paper.AIR_QUALITY for forecast in every)


def _printed(forecast: Forecast) -> list[str]:
    """The paper's reduction, if it has one."""
    published = paper.AIR_QUALITY.get(forecast.name)
    return [MISSING if published is None else f"{published.reduction:.1f} %"]


def _first_hour(results: Results) -> Table:
    """One hour ahead persistence is hard to beat."""
    rows: Rows = [
        [
            *_where(forecast)[:3],
            *(f"{results.mean(forecast.name, method):.2f}" for method in (RAW, PERSISTENCE, AIR)),
            yes(_one_hour(results, forecast)),
        ]
        for forecast in measured_forecasts(results)
        if forecast.lead == 1
    ]
    head = (*WHERE[:3], "Raw ICON", "persistence", "CHOP(Air)", "not worse than both")
    return Table("One hour ahead", f"{ONE_HOUR}.", head, rows)


def _worth_freezing(results: Results) -> Table:
    """Whether the bare network beats persistence, at home and carried."""
    rows: Rows = []
    for forecast in at_home_and_carried(results):
        found = results.compare(forecast.name, RAW, PERSISTENCE)
        if found is not None and found.paired is not None:
            label, _, *rest = _where(forecast)
            rows.append([label, *rest, *_cells(found), yes(found.paired.reduction > 0)])
    head = ("network", "", "lead (h)", "n", "persistence", "Raw ICON", "lower by", "beats persistence")
    note = "Raw ICON with random examples against persistence, in the network's own region and carried."
    return Table("Is the network worth being frozen?", note, head, rows)


def _similarity(results: Results) -> Table:
    """What choosing similar examples does to the bare network."""
    rows: Rows = []
    every = measured_forecasts(results)
    beside = _in_the_paper(every)
    for forecast in every:
        if forecast.selection == "similar":
            label, _, *rest = _where(forecast)
            printed = [_printed_by_selection(forecast)] if beside else []
            rows.append([label, *rest, *_cells(_by_selection(results, forecast)), *printed])
    last = (PRINTED,) if beside else ()
    head = ("direction", "", "lead (h)", "n", "random", "similar", "reduction", *last)
    return Table("Raw ICON with random and with similar examples", "", head, rows)


def _printed_by_selection(forecast: Forecast) -> str:
    """By how much similar examples lower the paper's Raw ICON."""
    both = [paper.AIR_QUALITY.get(forecast._replace(selection=s).name) for s in SELECTIONS]
    random, similar = (None if published is None else published.raw for published in both)
    return MISSING if random is None or similar is None else f"{100 * (1 - similar / random):.1f} %"


def _baselines(results: Results, direction: Direction, selection: str) -> Table:
    """Every method side by side."""
    shown = (RAW, AIR, *(method for method in AIR_METHODS if method not in (RAW, AIR)))
    rows: Rows = [
        [*_where(forecast)[2:], *(number_cell(results.mean(forecast.name, method)) for method in shown)]
        for forecast in _half(direction, selection)
    ]
    head = (*WHERE[2:], *(label_of(method, AIR_LABELS) for method in shown))
    return Table(f"Baselines, {direction.label}, {selection} examples", "Mean RMSE.", head, rows)


def own_programs(results: Results) -> tuple[str, ...]:
    """Those that were measured beside the paper's."""
    return tuple(method for method in results.store.methods() if method not in AIR_METHODS)


def _programs_of_ones_own(results: Results) -> Table:
    """Programs that were given beside the paper's."""
    own = own_programs(results)
    rows: Rows = []
    for forecast in measured_forecasts(results) if own else ():
        found = [results.compare(forecast.name, method) for method in own]
        cells = [
            MISSING
            if c is None or c.paired is None
            else f"{c.paired.mean:.2f} ({c.paired.reduction:.1f} %, n = {c.paired.cases})"
            for c in found
        ]
        rows.append([*_where(forecast), number_cell(results.mean(forecast.name, RAW)), *cells])
    numbers = [f"({number})" for number in range(1, len(own) + 1)]
    note = "; ".join(f"{number} `{method}`" for number, method in zip(numbers, own, strict=True))
    head = (*WHERE, "Raw ICON", *numbers)
    return Table("Programs of your own", f"{note}. Mean RMSE and its reduction.", head, rows)


def _weights(results: Results) -> Table:
    """What CHOP(Air) leans on at each lead."""
    rows: Rows = []
    for forecast in measured_forecasts(results):
        found = mean_weights(results, forecast)
        if found is not None:
            rows.append([*_where(forecast), *(f"{weight:.2f}" for weight in found)])
    head = (*WHERE, *(f"`{text}`" for text in candidates()))
    return Table("Mean weights of CHOP(Air)'s candidates", "", head, rows)


def _counts(results: Results) -> Table:
    """Questions asked, finished, and without an observed target."""
    rows: Rows = []
    for direction in measured_directions(results):
        names = [condition.name for condition in direction.conditions]
        asked = len(results.store.asked[direction.region].hours)
        row = [direction.label, str(asked), str(results.entries[names[0], RAW].n)]
        for pollutant in POLLUTANTS:
            errors = [results.errors(f"{name}/{pollutant}", RAW) for name in names]
            lost = [int(np.isnan(found).sum()) for found in errors if found is not None]
            row.append(f"{min(lost)} to {max(lost)}")
        rows.append(row)
    left_out = [f"{written}: left out at a lead" for written in WRITTEN.values()]
    note = (
        "Questions are windows of which at least half of every channel was observed. Left out: nothing was "
        "observed at the target hour, or an answer was not finite."
    )
    return Table("Questions", note, ("direction", "questions", "finished", *left_out), rows)


def _times(results: Results) -> Table:
    """Processor time of one question at one lead."""
    rows: Rows = []
    for direction in measured_directions(results):
        for method in (*direction.methods, *own_programs(results)):
            found = [results.records(condition.name, method) for condition in direction.conditions]
            records = [record for part in found for record in part or ()]
            if records:
                ms = float(np.mean([record["ms"] for record in records]))
                calls = str(records[0]["calls"])
                rows.append([direction.label, label_of(method, AIR_LABELS), calls, f"{ms:.1f}"])
    note = (
        "Processor time of one thread, mean over leads and selections. Where CHOP(Air) is measured, its "
        "evaluations answer Raw ICON too, and windows encoded at one lead are not encoded again at the next."
    )
    head = ("direction", "method", "model evaluations", "milliseconds a question")
    return Table("Cost of one question", note, head, rows)


def _half(direction: Direction, selection: str) -> list[Forecast]:
    return [Forecast(direction, selection, lead, pollutant) for pollutant in POLLUTANTS for lead in LEADS]


def _where(forecast: Forecast) -> list[str]:
    pollutant = WRITTEN[forecast.pollutant]
    return [forecast.direction.label, forecast.selection, pollutant, str(forecast.lead)]


def _cells(found: Comparison | None) -> list[str]:
    """n, the base's mean, the method's, and the reduction."""
    paired = None if found is None else found.paired
    if paired is None:
        return ["0", MISSING, MISSING, MISSING]
    return [str(paired.cases), f"{paired.base_mean:.2f}", f"{paired.mean:.2f}", f"{paired.reduction:.1f} %"]


def _share(found: Comparison | None) -> str:
    """Of how many questions the error is lower."""
    paired = None if found is None else found.paired
    return MISSING if paired is None else f"{100 * paired.lower / paired.cases:.0f} %"


def _facts(results: Results) -> dict[str, str]:
    """What the numbers belong to."""
    store = results.store

    def hashes(kind: str) -> str:
        names = dict.fromkeys((*REGIONS, *(whose for _, whose in store.used)))
        used = {name: store.used[kind, name] for name in names if (kind, name) in store.used}
        return ", ".join(f"{name} (sha256 {found.sha256[:16]})" for name, found in used.items())

    every = "/".join(str(e) for e in sorted({asked.every for asked in store.asked.values()}))
    split = YearSplit(store.about.year or YearSplit.year).in_words(every)
    return {
        "networks": hashes("network"),
        "data": hashes("data"),
        "seed": str(store.about.seed),
        "split": f"networks trained on their own region, the bundled ones to the end of 2023; {split}",
    }


def _columns(entry: SuiteEntry, records: list[Record]) -> Record:
    """What ``results.json`` holds of an entry. Errors have three digits."""
    found = {name: records[0][name] for name in ("direction", "selection", "lead", "method", "calls")}
    for name in POLLUTANTS:
        values = [value for record in records for value in record[name]]
        found[name] = [None if value is None else float(f"{value:.3g}") for value in values]
    return found


def _hours(results: Results) -> Record:
    """The questions, which ``results.json`` holds too."""
    found = {
        direction.name: list(results.entries[direction.conditions[0].name, RAW].questions)
        for direction in measured_directions(results)
    }
    return {"hours since 1970 of the questions": found}


AIR_REPORT = Report(
    title="Benchmark: air quality",
    heading="Air quality carried from region to region, beside the paper's numbers",
    intro="Error of one question: the root mean square over the stations observed at the target hour, in "
    "µg/m³. Tables give its mean over n questions. A reduction is that of the mean against Raw ICON on the "
    "same questions; a negative one is an increase. A question whose target was observed nowhere has no "
    "error and is left out for every method. The paper's numbers are of other stations and another year: "
    "they show what pattern to expect, not which values.",
    facts=_facts,
    tables=_tables,
    is_main=lambda table: table.title == REACHED or table.title.startswith("RMSE"),
    times=_times,
    columns=_columns,
    chosen=_hours,
    figures=air_figures,
    captions=air_captions,
)
