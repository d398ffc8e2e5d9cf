"""CHOP: an inference-time harness for frozen in-context operator networks.

The names below are the public API; everything else may change. They are loaded when first used, so
that ``import chop`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chop.core.deprecated import find_moved_modules
from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop import bank, evolution, files, icon, operators, problems, testing
    from chop.bank.bank import Bank
    from chop.bank.estimator import InContextOperator
    from chop.core import metrics
    from chop.core.errors import ChopError, ModelError, ParseError, ProgramError, PromptError
    from chop.core.forecast import Rollout, rollout
    from chop.core.model import from_jax, from_numpy, from_torch
    from chop.core.program import Program
    from chop.core.programs import programs
    from chop.core.prompt import Axis, Field, Graph, Prompt
    from chop.core.running import Result
    from chop.core.stacking import stack
    from chop.core.text import parse, registry
    from chop.core.trace import Trace
    from chop.evolution.search import evolve
    from chop.icon.weights import load
    from chop.operators.inspection.inspecting import inspect

__version__ = "0.1.0"

find_moved_modules()

__all__ = [
    "Axis",
    "Bank",
    "ChopError",
    "Field",
    "Graph",
    "InContextOperator",
    "ModelError",
    "ParseError",
    "Program",
    "ProgramError",
    "Prompt",
    "PromptError",
    "Result",
    "Rollout",
    "Trace",
    "bank",
    "evolution",
    "evolve",
    "files",
    "from_jax",
    "from_numpy",
    "from_torch",
    "icon",
    "inspect",
    "load",
    "metrics",
    "operators",
    "parse",
    "problems",
    "programs",
    "registry",
    "rollout",
    "stack",
    "testing",
]


__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.bank.bank": ("Bank",),
        "chop.bank.estimator": ("InContextOperator",),
        "chop.core.errors": ("ChopError", "ModelError", "ParseError", "ProgramError", "PromptError"),
        "chop.core.forecast": ("Rollout", "rollout"),
        "chop.core.model": ("from_jax", "from_numpy", "from_torch"),
        "chop.core.program": ("Program",),
        "chop.core.programs": ("programs",),
        "chop.core.prompt": ("Axis", "Field", "Graph", "Prompt"),
        "chop.core.running": ("Result",),
        "chop.core.stacking": ("stack",),
        "chop.core.text": ("parse", "registry"),
        "chop.core.trace": ("Trace",),
        "chop.evolution.search": ("evolve",),
        "chop.icon.weights": ("load",),
        "chop.operators.inspection.inspecting": ("inspect",),
    },
    {
        "bank": "chop.bank",
        "evolution": "chop.evolution",
        "files": "chop.files",
        "icon": "chop.icon",
        "metrics": "chop.core.metrics",
        "operators": "chop.operators",
        "problems": "chop.problems",
        "testing": "chop.testing",
    },
)
