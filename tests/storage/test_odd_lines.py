"""Lines with the right checksum and odd content: one sentence from whoever reads them, never a traceback."""

import json
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.bench.air import AirSuite
from chop.bench.functions import FunctionSuite
from chop.bench.store import Store
from chop.core.errors import BenchError, EvolutionError
from chop.evolution.journal import JOURNAL_FILE, Journal, stored_verdict
from chop.evolution.language_agents import TRANSCRIPT, tokens_spent
from chop.evolution.report import write_report
from chop.evolution.search import evolve
from chop.storage.log import decode_line, encode_line

TOY = str(Path(__file__).parents[1] / "assets" / "toy_task.py")
DEEP = "[" * 10_000 + "]" * 10_000


def raw(text):
    data = text.encode()
    return b"%08x %b\n" % (zlib.crc32(data), data)


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    return evolve(TOY, 13, out=tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def lines(evolved):
    return [decode_line(line) for line in (evolved.out / JOURNAL_FILE).read_bytes().splitlines()]


ODD = [
    None, True, -1, 10**30, 1e308, "many", "", [], [[]], [None], ["x"], {}, {"a": {}},
    json.loads("[" * 400 + "]" * 400),
]  # fmt: skip


def said(kind, read):
    """What a reader says, None if it takes what it finds; any other error passes."""
    try:
        read()
    except kind as error:
        return str(error)
    return None


def told(folder):
    """What is said about a journal by whoever reads it or goes on with it."""
    return said(EvolutionError, lambda: Journal(folder, None).close()) or said(
        EvolutionError, lambda: evolve(TOY, 13, out=folder)
    )


def test_every_value_of_a_journal_may_be_odd(lines, tmp_path):
    kinds = {}
    for number, record in enumerate(lines):
        kinds.setdefault(record.get("kind", "head"), number)
    assert kinds.keys() == {"head", "candidate", "race"}
    for number in kinds.values():
        for name in lines[number]:
            for value in ODD:
                odd = [*lines[:number], {**lines[number], name: value}, *lines[number + 1 :]]
                (tmp_path / JOURNAL_FILE).write_bytes(b"".join(map(encode_line, odd)))
                words = said(EvolutionError, lambda: Journal(tmp_path, None).close())
                assert words is None or "use another folder" in words or "this version reads" in words
            missing = {key: value for key, value in lines[number].items() if key != name}
            (tmp_path / JOURNAL_FILE).write_bytes(b"".join(map(encode_line, [*lines[:number], missing])))
            if name not in ("stream", "data", "model"):
                with pytest.raises(EvolutionError):
                    Journal(tmp_path, None)


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"candidate"}', '{"kind":"wizard"}', '{"kind":[]}', "[]", "7", '"hello"', '{"kind":"said"}',
        '{"kind":"head","format":"chop-evolution-2"}',
        '{"kind":"race","iteration":1e400,"references":[],"winner":0,"best":0,"value":0,"ratings":{},"born":[]}',
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_is_said_with_its_number(lines, tmp_path, line):
    good = b"".join(map(encode_line, lines[:3]))
    (tmp_path / JOURNAL_FILE).write_bytes(good + raw(line))
    assert "use another folder" in (told(tmp_path) or "")
    if "head" not in line:
        assert f"{JOURNAL_FILE}, line 4" in told(tmp_path)


@pytest.mark.parametrize("line", [DEEP, '{"kind":NaN}', '{"kind":-Infinity}', "9" * 5000, '{"a":', "\ud800"])
def test_a_line_that_is_no_json_is_a_damaged_line(lines, tmp_path, line):
    data = line.encode("utf-8", "surrogatepass")
    bad = b"%08x %b\n" % (zlib.crc32(data), data)
    (tmp_path / JOURNAL_FILE).write_bytes(b"".join(map(encode_line, lines[:3])) + bad)
    with Journal(tmp_path, None) as journal:
        assert journal.damaged == 1
    assert told(tmp_path) is None, "it is judged again"


def test_numbers_of_errors_must_agree(lines, tmp_path):
    for number in (1, 2, 3):
        for change in (lambda e: e[:-3], lambda e: [*e, 1.0], lambda e: []):
            odd = [dict(line) for line in lines]
            odd[number] |= {"errors": change(odd[number]["errors"]), "status": "done"}
            (tmp_path / JOURNAL_FILE).write_bytes(b"".join(map(encode_line, odd)))
            told(tmp_path)  # taken or refused, but never a traceback


def test_a_report_on_an_odd_journal_is_a_sentence(evolved, lines, tmp_path):
    from dataclasses import replace

    odd = [*lines[:-1], {**lines[-1], "ratings": {"1": "high"}}]
    (tmp_path / JOURNAL_FILE).write_bytes(b"".join(map(encode_line, odd)))
    with pytest.raises(EvolutionError, match="is no race: it has an odd ratings"):
        write_report(replace(evolved, out=tmp_path))


def test_a_verdict_is_read_from_a_candidate_only(lines):
    assert stored_verdict(lines[1]).status == "done"
    for record in ({}, {**lines[1], "errors": [float("nan")]}, {**lines[1], "status": ["done"]}, None, []):
        with pytest.raises(EvolutionError, match="a stored line is no candidate"):
            stored_verdict(record)


@pytest.mark.parametrize("value", [None, "many", 1e400, 10**30, [], True, 0.5])
def test_a_transcript_with_odd_tokens_is_a_sentence(tmp_path, value):
    path = tmp_path / TRANSCRIPT
    text = json.dumps({"tokens": value}).replace("Infinity", "1e400")
    path.write_bytes(encode_line({"tokens": 100}) + raw(DEEP) + raw(text))
    with pytest.raises(EvolutionError, match="line 3 is no answer: it has an odd tokens"):
        tokens_spent(path)
    path.write_bytes(encode_line({"tokens": 100}) + raw(DEEP) + encode_line({"tokens": 11}))
    assert tokens_spent(path) == 111, "a damaged line says nothing"


CASE = {"condition": "c", "method": "icon", "batch": [0, 2], "index": 0, "error": 0.5, "calls": 1, "ms": 2.0}
BENCH = [
    {"format": "chop-bench-1", "version": "0.1.0", "seed": 0},
    {"model": "mfc", "sha256": "ab", "file": "f"},
    {**CASE, "curve": [0.5, None], "in_context": 0.1},
    {**CASE, "index": 1, "curve": [0.5, 0.6]},
]
AIR = [
    {"format": "chop-bench-air-1", "version": "0.1.0", "seed": 0, "year": 2023},
    {"used": "data", "region": "yrd", "sha256": "ab", "name": "f"},
    {"asked": "yrd", "every": 1, "hours": [1, 2]},
    {"direction": "d", "selection": "random", "lead": 1, "method": "icon", "hours": [1, 2], "calls": 1,
     "ms": 1.0, "PM2.5": [1.0, None], "O3": [1.0, 2.0], "weights": {"PM2.5": [0.5], "O3": [0.5]}},
]  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "good"), [(FunctionSuite.layout, BENCH), (AirSuite.layout, AIR)], ids=["bench", "air"]
)
def test_every_value_of_a_benchmark_may_be_odd(layout, good, tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"".join(map(encode_line, good)))
    assert Store(tmp_path, layout).damaged == 0
    for number, record in enumerate(good):
        for name in record:
            for value in ODD:
                odd = [*good[:number], {**record, name: value}, *good[number + 1 :]]
                path.write_bytes(b"".join(map(encode_line, odd)))
                words = said(BenchError, lambda: Store(tmp_path, layout))
                assert words is None or "use another folder" in words or "of format" in words
    path.write_bytes(b"".join(map(encode_line, good[:1])) + raw(DEEP) + raw("[]"))
    with pytest.raises(BenchError, match=r"cases\.jsonl, line 3 is no result: it has no object"):
        Store(tmp_path, layout)


def test_a_case_outside_its_batch_or_with_another_curve_is_said(tmp_path):
    for odd in ({**CASE, "index": 2, "curve": [1.0, 1.0]}, {**CASE, "index": 1, "curve": [1.0]}):
        (tmp_path / "cases.jsonl").write_bytes(b"".join(map(encode_line, [*BENCH[:3], odd])))
        with pytest.raises(BenchError, match="line 4 is no result: it does not fit the others"):
            Store(tmp_path, FunctionSuite.layout)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e308, 1e308) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=30)
@given(st.data())
def test_any_change_of_a_line_is_taken_or_said(lines, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("any")
    number = data.draw(st.integers(0, len(lines) - 1))
    name = data.draw(st.sampled_from(sorted(lines[number])))
    odd = [*lines[:number], {**lines[number], name: data.draw(plain)}, *lines[number + 1 :]]
    (folder / JOURNAL_FILE).write_bytes(b"".join(map(encode_line, odd)))
    told(folder)
