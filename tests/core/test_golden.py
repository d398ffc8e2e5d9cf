"""The catalog's programs give the answers they have always given."""

import json
from pathlib import Path

import pytest

import chop
from chop.testing import toy_model
from golden.regenerate import QUESTIONS, answer_of, prompt_of

HERE = Path(__file__).parents[1] / "golden"


def test_every_program_has_its_golden_answer():
    assert set(QUESTIONS) == set(chop.programs)
    assert {path.stem for path in HERE.glob("*.json")} == set(QUESTIONS)


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_golden(name):
    expected = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    got = answer_of(name)
    assert got["prompt"] == pytest.approx(expected["prompt"], rel=1e-12), (
        "another prompt, not another program"
    )
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        if key in ("program", "calls", "rounds", "shape"):
            assert got[key] == value
        elif key != "prompt":
            assert _flat(got[key]) == pytest.approx(_flat(value), rel=1e-12, abs=1e-12), key


def _flat(value):
    return [x for part in value for x in _flat(part)] if isinstance(value, list) else [value]


def test_the_golden_cases_decide_both_ways():
    """A golden answer says little if its gates are all shut."""
    gates, branches = set(), set()
    for name in ("mfc", "corr"):
        trace = chop.programs[name].run(toy_model, prompt_of(name)).trace
        for step in trace.stages():
            for key, found in (("gate open", gates), ("chose branch", branches)):
                if key in step.stage.notes:
                    found |= set(step.stage.notes[key].flatten().tolist())
    assert gates == {True, False}
    assert branches == {1, 2}
    weights = chop.programs["air"].run(toy_model, prompt_of("air")).trace.root.notes["weights"]
    assert ((weights > 0.01).sum(dim=-1) > 1).all()
