"""The numbers in README's result tables are those of docs/results, recomputed from every single error."""

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from chop.bench import paper
from chop.bench.functions import COST, DENSITY, FLUXES, LENGTHS, control_of, rollout_of, single_step_of
from chop.bench.methods import ANYTHING, AUTO, AUTO_WITHOUT_LEAVES, BEST_EVOLVED, DENSITIES, LAW, LINE
from chop.bench.results import comparison
from chop.core.catalog import BY_HAND, TEXTS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FLUX_NAMES = {**{label: name for name, label in FLUXES.items()}, "Buckley–Leverett": "buckley_leverett"}
MFC = [(family, length) for family in DENSITY for length in LENGTHS]
CORR = [(family, length) for family in COST for length in LENGTHS]
NUMBER = r"[-−]?\d+(?:\.\d+)?"


class Subject(NamedTuple):
    """What a row is about."""

    conditions: list[str]
    """names of conditions in results.json"""
    program: str
    """which of the paper's programs, by its name in the catalog"""
    problem: str
    """whose search the best and the evolved program come from"""
    paper: list[float]
    """the paper's reductions"""
    hand: str = DENSITIES
    """the text of the program by hand"""


def subject(label):
    """What the first cell of a row says it is about."""
    for words, flux in FLUX_NAMES.items():
        if label == f"{words}, one step":
            return Subject(
                [single_step_of(flux)],
                "conservation",
                "conservation",
                [paper.SINGLE_STEP[flux].reduction],
                LINE,
            )
        if label == f"{words}, step 144":
            reductions = [paper.STEP_144[flux].reduction]
            return Subject([rollout_of(flux)], "conservation", "rollout", reductions, LINE)
    if label.startswith("density → density"):
        return Subject(
            [control_of(*key) for key in MFC],
            "mfc",
            "mfc",
            [paper.MEAN_FIELD_CONTROL[key].reduction for key in MFC],
        )
    if label.startswith("cost → density"):
        reductions = [paper.COST_TO_DENSITY[key].reduction for key in CORR]
        return Subject([control_of(*key) for key in CORR], "corr", "mfc", reductions)
    if label.startswith("CHOP(MFC) on the conservation network"):
        reductions = [row.reduction for row in paper.TRANSFER.values()]
        return Subject([single_step_of(flux) for flux in FLUXES], "mfc", "mfc", reductions, ANYTHING)
    raise AssertionError(f"README has a row {label!r} that this test cannot check: teach it")


@cache
def measured():
    """Errors of every (condition, method), and the programs chosen from the grid."""
    results = json.loads((ROOT / "docs" / "results" / "results.json").read_text(encoding="utf-8"))
    errors = {(entry["condition"], entry["method"]): floats(entry["error"]) for entry in results["measured"]}
    return errors, results["chosen"]


def floats(values):
    return np.array([np.nan if value is None else value for value in values])


def compared(condition, method):
    """A method against the bare model, as the benchmark's tables do it."""
    errors, _ = measured()
    assert (condition, method) in errors, f"docs/results/results.json has no {method!r} on {condition}"
    base, other = errors[condition, TEXTS["raw"]], errors[condition, method]
    return comparison(base[: len(other)], other[: len(base)]).paired


def expected(column, about):
    """The numbers that a cell of a column sums up, one for each condition."""

    def reductions(method):
        return [compared(condition, method).reduction for condition in about.conditions]

    _, chosen = measured()
    evolved = "conservation" if about.problem == "rollout" else about.problem
    program = TEXTS[about.program]
    if column.startswith("raw"):
        return [compared(condition, program).base_mean for condition in about.conditions]
    if column.startswith("chop("):
        return [compared(condition, program).mean for condition in about.conditions]
    if column.startswith("paper"):
        return about.paper
    if column.startswith("reduction"):
        return reductions(program)
    if column.startswith("best of"):
        return reductions(chosen[about.problem])
    if column.startswith("evolved"):
        return reductions(BEST_EVOLVED[evolved])
    if column.startswith("by hand"):
        return reductions(about.hand)
    if column.startswith("auto, only the model"):
        return reductions(AUTO_WITHOUT_LEAVES)
    if column.startswith("auto: error"):
        return [compared(condition, AUTO).mean for condition in about.conditions]
    if column.startswith("auto"):
        return reductions(AUTO)
    if column.startswith("law"):
        return [compared(condition, LAW).mean for condition in about.conditions]
    raise AssertionError(f"README has a column {column!r} that this test cannot check: teach it")


def wrong(cell, values):
    """What is wrong with a cell: one number that all round to, or the least and the greatest of them."""
    shown = [number.replace("−", "-") for number in re.findall(NUMBER, cell.partition("(")[0])]
    if len(shown) not in (1, 2):
        return "shows no number, or more than a range"
    wanted = [min(values), max(values)]
    for text, value in zip(shown if len(shown) == 2 else shown * 2, wanted, strict=True):
        digits = len(text.partition(".")[2])
        if abs(float(text) - value) > 0.5 * 10**-digits + 1e-9:
            return f"should show {' to '.join(f'{number:.{digits + 2}f}' for number in wanted)}"
    return None


def tables(text):
    """(header, rows) of every Markdown table."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        header, _, *rows = (
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block.splitlines()
        )
        yield header, rows


def cells():
    """(table, row, column, cell) of the result tables: those with a column of reductions."""
    for header, rows in tables(README):
        if any(name.lower().startswith("reduction") for name in header):
            for row in rows:
                for name, cell in zip(header[1:], row[1:], strict=True):
                    if name != "program" and cell != "–":
                        yield header[0], row[0], name, cell


CELLS = list(cells())


def test_there_are_result_tables():
    assert len({table for table, *_ in CELLS}) >= 2
    assert {"raw", "conservation"} <= {
        name.lower().removeprefix("chop(").rstrip(")") for _, _, name, _ in CELLS
    }


@pytest.mark.parametrize(("table", "row", "column", "cell"), CELLS, ids=lambda part: part[:40])
def test_results(table, row, column, cell):
    found = wrong(cell, expected(column.lower(), subject(row)))
    assert found is None, f"README, {table!r}, row {row!r}, column {column!r} shows {cell!r}: it {found}"


def test_programs_named_in_rows_are_those_measured():
    for header, rows in tables(README):
        if "program" in header and "reduction" in " ".join(header):
            for row in rows:
                named = row[header.index("program")].removeprefix("CHOP(").rstrip(")").lower()
                assert named == subject(row[0]).program, f"README names {named} in {row[0]!r}"


def test_the_papers_programs_are_told_as_they_are():
    shown = {
        row[0]: row[1]
        for header, rows in tables(README)
        if header[:2] == ["the paper's program", "text"]
        for row in rows
    }
    assert len(shown) == 5
    for name, text in shown.items():
        key = "raw" if name == "Raw ICON" else name.removeprefix("CHOP(").rstrip(")").lower()
        assert text.strip("`").replace("\\|", "|") == TEXTS[key], name


def test_the_programs_by_hand_are_told_as_they_are():
    (rows,) = (rows for header, rows in tables(README) if header[:2] == ["by hand, for", "text"])
    shown = {re.match("`([a-z]+)`", row[0])[1]: row[1].strip("`").replace("\\|", "|") for row in rows}
    assert shown == dict(BY_HAND)


@cache
def lowered():
    """In how many of the 88 conditions each method's mean error is below the bare network's."""
    path = ROOT / "docs" / "results" / "air" / "results.json"
    entries = json.loads(path.read_text(encoding="utf-8"))["measured"]
    found = {}
    for entry in entries:
        for pollutant in ("PM2.5", "O3"):
            key = (entry["direction"], entry["selection"], entry["lead"], pollutant)
            found.setdefault(entry["method"], {})[key] = floats(entry[pollutant])
    raw = found[TEXTS["raw"]]
    counts = {}
    for method, errors in found.items():
        pairs = [
            comparison(raw[key][: len(errors[key])], errors[key]).paired
            for key in errors
            if key[0] in ("bthsa-yrd", "yrd-bthsa")
        ]
        if len(pairs) == 88:
            counts[method] = sum(pair is not None and pair.reduction > 0 for pair in pairs)
    return counts


def test_air_quality():
    (told,) = re.findall(
        r"CHOP\(Air\) lowers their error in (\d+) of 88 conditions", " ".join(README.split())
    )
    assert int(told) == lowered()[TEXTS["air"]]
    with_bank = (ROOT / "docs/results/bank_air.md").read_text(encoding="utf-8")
    told_there = {int(count) for count in re.findall(r"\| (\d+) of 88 \|", with_bank)}
    known = {*lowered().values(), *told_there}
    for count in re.findall(r"(\d+) of 88", README):
        assert int(count) in known, f"README says {count} of 88; found are {known}"
    for count in re.findall(r"the paper's (\d+)\b", README):
        assert int(count) == paper.LOWERED


@pytest.mark.parametrize(
    ("cell", "values", "right"),
    [
        ("39 %", [38.97], True),
        ("39.0 %", [38.97], True),
        ("0.065", [0.0649], True),
        ("58 to 85 %", [58.4, 70.0, 84.97], True),
        ("0 % (as 12 others)", [-0.2, 0.3], True),
        ("−2 to 10 %", [-2.3, 10.1], True),
        ("38 %", [38.97], False),
        ("58 to 84 %", [58.4, 84.97], False),
        ("0 %", [-0.2, 0.7], False),
        ("good", [1.0], False),
    ],
)
def test_what_counts_as_right(cell, values, right):
    assert (wrong(cell, values) is None) == right
