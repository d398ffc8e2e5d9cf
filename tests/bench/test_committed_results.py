"""The committed results, read back: the same store gives the same tables, byte for byte where that can be."""

import json
import re
from pathlib import Path

import pytest

from chop.bench.air import AirSuite
from chop.bench.air_directions import CHUNK
from chop.bench.functions import CONDITIONS, GROUPS, SUITES, FunctionSuite
from chop.bench.methods import AIR
from chop.bench.report import markdown
from chop.bench.results import Results
from chop.bench.store import FILE, Store
from chop.storage.log import encode_line

ROOT = Path(__file__).parents[2] / "docs" / "results"


def committed(folder):
    """``results.json`` and ``table.md`` of a folder."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return results, (folder / "table.md").read_text(encoding="utf-8")


def table(folder, suite, lines, facts):
    """The table of a store that holds these lines."""
    (folder / FILE).write_bytes(b"".join(map(encode_line, lines)))
    with Store(folder, suite.layout) as store:
        assert store.damaged == 0
        return markdown(suite.report(), Results(store, suite), facts)


def lines_of_functions(results):
    yield {"format": "chop-bench-1", "version": results["version"], "seed": int(results["seed"])}
    for entry in results["measured"]:
        n, chunk = entry["n"], CONDITIONS[entry["condition"]].chunk
        for index in range(n):
            first = index - index % chunk
            columns = {
                name: entry[name][index] for name in ("error", "ms", "in_context", "curve") if name in entry
            }
            said = {name: value for name, value in columns.items() if value is not None or name == "error"}
            about = {name: entry[name] for name in ("condition", "method", "calls")}
            yield {**about, "batch": [first, min(n, first + chunk)], "index": index, **said}


def test_the_committed_table_comes_from_the_committed_numbers(tmp_path):
    results, wanted = committed(ROOT)
    facts = {
        name: results[name]
        for name in ("version", "networks", "seed", "experiments", "questions of each condition")
    }
    suite = FunctionSuite(SUITES, groups=GROUPS)
    assert table(tmp_path, suite, lines_of_functions(results), facts) == wanted


def lines_of_air(results):
    hours = results["hours since 1970 of the questions"]
    yield {"format": "chop-bench-air-1", "version": results["version"], "seed": 0, "year": 2024}
    for direction, asked in hours.items():
        yield {"asked": direction.partition("-")[2], "every": 6, "hours": asked}
    for entry in results["measured"]:
        about = {name: entry[name] for name in ("direction", "selection", "lead", "method", "calls")}
        weights = {"weights": {name: [0.0] * 7 for name in ("PM2.5", "O3")}} if entry["method"] == AIR else {}
        for first in range(0, len(entry["O3"]), CHUNK):
            part = slice(first, first + CHUNK)
            errors = {name: entry[name][part] for name in ("PM2.5", "O3")}
            yield {**about, **weights, **errors, "hours": hours[entry["direction"]][part], "ms": 1.0}


def test_the_committed_table_of_air_quality_comes_from_the_committed_numbers(tmp_path):
    """Errors were committed with three digits and weights not at all; the rest agrees to the last digit."""
    results, wanted = committed(ROOT / "air")
    facts = {name: results[name] for name in ("version", "networks", "data", "seed", "split")}
    ours = table(tmp_path, AirSuite(), lines_of_air(results), facts)
    without_weights = [
        re.sub(r"## Mean weights.*?(?=\n## )", "", text, flags=re.S) for text in (ours, wanted)
    ]
    lines = [text.splitlines() for text in without_weights]
    assert len(lines[0]) == len(lines[1])
    number, share = r"-?\d+\.\d+", r"\b\d+ %"  # a share of questions is another where rounded errors tie
    for mine, theirs in zip(*lines, strict=True):
        words = [re.sub(share, "", re.sub(number, "#", line)) for line in (mine, theirs)]
        assert words[0] == words[1]
        found, expected = ([float(value) for value in re.findall(number, line)] for line in (mine, theirs))
        assert found == pytest.approx(expected, abs=0.11)
