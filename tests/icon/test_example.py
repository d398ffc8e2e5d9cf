"""The documented example of wrapping one's own model."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import torch

import chop
from chop.testing.conformance import ModelConformance
from chop.testing.data import make_prompt


def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "own_model.py"
    spec = importlib.util.spec_from_file_location("own_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestPointTokens(ModelConformance):
    def make_model(self):
        torch.manual_seed(0)
        return chop.from_torch(example().PointTokens(width=16, layers=1, heads=2))

    def prompts(self, dtype=torch.float32):
        return [
            make_prompt(1, batch=(3,), dtype=dtype),
            make_prompt(2, batch=(2, 2), answer_points=7, own_grids=True, dtype=dtype),
        ]


def test_example_runs(capsys) -> None:
    example().main(width=16, layers=1)
    out = capsys.readouterr().out
    assert "correct(icon): 6 evaluations" in out
