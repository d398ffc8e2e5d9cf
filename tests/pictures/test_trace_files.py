"""Traces as files: the suffix says what is written, it is whole, and the same bytes every time."""

import hashlib
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from chop.core.errors import ChopError
from chop.core.prompt import Axis
from chop.core.text import parse
from chop.pictures.saving import trace_record
from chop.testing import make_prompt, toy_model

BEGINNINGS = {
    ".html": b"<!DOCTYPE html>",
    ".png": b"\x89PNG",
    ".pdf": b"%PDF",
    ".svg": b"<?xml",
    ".json": b"{",
}


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def trace():
    prompt = replace(make_prompt(1, batch=(3,)), axes=(Axis("x", 1.0),))
    return parse("correct(icon)").run(toy_model, prompt).trace


@pytest.mark.parametrize("suffix", BEGINNINGS)
@pytest.mark.parametrize("spelt", [str.lower, str.upper])
def test_the_suffix_says_what_is_written(trace, tmp_path, suffix, spelt):
    path = trace.save(tmp_path / f"t{spelt(suffix)}", query=1)
    assert path.read_bytes().startswith(BEGINNINGS[suffix])
    assert names_in(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["t.jpg", "t.htm", "t.mmd", "t", "t.html.txt"])
def test_other_suffixes_are_an_error(trace, tmp_path, name):
    known = r"\.html, \.png, \.pdf, \.svg, \.json files, not to "
    with pytest.raises(ChopError, match=known + name):
        trace.save(tmp_path / name)
    assert not names_in(tmp_path)


def test_a_figure_is_saved_as_its_suffix_says(trace, tmp_path):
    trace.plot(tmp_path / "t.svg")
    assert ElementTree.parse(tmp_path / "t.svg").getroot().tag.endswith("svg")
    trace.plot(str(tmp_path / "t.png"), query=2)
    assert (tmp_path / "t.png").read_bytes() == trace.save(tmp_path / "u.png", query=2).read_bytes()
    for name in ("t.html", "t.json", "t.jpg", "t"):
        with pytest.raises(ChopError, match=rf"\.png, \.pdf, \.svg files, not to {name}"):
            trace.plot(tmp_path / name)
    assert names_in(tmp_path) == ["t.png", "t.svg", "u.png"]


def test_json_is_what_explain_says(trace, tmp_path):
    told = json.loads(trace.save(tmp_path / "t.json", query=2).read_text())
    assert told == trace_record(trace, 2)
    assert told["query"] == 2
    assert told["axes"] == [{"name": "x", "period": 1.0}]
    assert told["stages"][0]["operator"] == "correct"
    assert told["error"] == float(trace.error[2])


def test_a_file_is_replaced_whole_or_stays(trace, tmp_path, monkeypatch):
    path = tmp_path / "t.html"
    path.write_text("old")

    def fails(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("chop.pictures.page._fields", fails)
        with pytest.raises(KeyboardInterrupt):
            trace.save(path)
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["t.html"]
    assert trace.save(path).read_text().startswith("<!DOCTYPE")


def test_where_nothing_can_be_written(trace, tmp_path):
    with pytest.raises(ChopError, match="there is no folder"):
        trace.save(tmp_path / "nowhere" / "t.html")
    (tmp_path / "t.png").mkdir()
    with pytest.raises(ChopError, match="is a folder"):
        trace.plot(tmp_path / "t.png")
    with pytest.raises(ChopError, match="query 3 does not exist"):
        trace.save(tmp_path / "t.html", query=3)


DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = """
import sys
from pathlib import Path

folder = Path(sys.argv[1])
sys.path.append(sys.argv[2])
from generator.examples import scene, write_picture
from chop.core.text import parse

write_picture("icon", folder)
trace = parse("icon").run(*scene("conservation")).trace
for suffix in (".html", ".png", ".pdf", ".svg"):
    trace.save(folder / f"t{suffix}")
"""
MACHINES = (
    {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"},
    # Another order of hashing, other kernels and another number of threads: other last bits.
    {"PYTHONHASHSEED": "2", "OMP_NUM_THREADS": "2", "ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "AVX2"},
)


def test_pictures_are_the_same_bytes_on_every_machine(tmp_path):
    """What stands in the repository must not change because somebody else makes it."""
    runs = []
    for number, machine in enumerate(MACHINES):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = [sys.executable, "-c", SCRIPT, str(folder), str(DOCS)]
        runs.append((folder, subprocess.Popen(command, env={**os.environ, **machine})))
    for _, run in runs:
        assert run.wait(timeout=300) == 0
    first, second = (
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        for folder, _ in runs
    )
    assert first == second
    assert len(first) == 5
