"""CHOP: an inference-time harness for frozen in-context operator networks.

The names below are the public API; everything else may change. They are loaded when first used, so
that ``import chop`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chop import evolution, files, icon, metrics, operators, problems, testing
    from chop.catalog import programs
    from chop.errors import ChopError, ModelError, ParseError, ProgramError, PromptError
    from chop.evolution.run import evolve
    from chop.forecast import Rollout, rollout
    from chop.icon.weights import load
    from chop.model import from_jax, from_numpy, from_torch
    from chop.program import Program
    from chop.prompt import Axis, Field, Graph, Prompt
    from chop.running import Result
    from chop.text import parse, registry
    from chop.trace import Trace

__version__ = "0.1.0"

_HOME = {
    "chop.catalog": ("programs",),
    "chop.errors": ("ChopError", "ModelError", "ParseError", "ProgramError", "PromptError"),
    "chop.evolution.run": ("evolve",),
    "chop.forecast": ("Rollout", "rollout"),
    "chop.icon.weights": ("load",),
    "chop.model": ("from_jax", "from_numpy", "from_torch"),
    "chop.program": ("Program",),
    "chop.prompt": ("Axis", "Field", "Graph", "Prompt"),
    "chop.running": ("Result",),
    "chop.text": ("parse", "registry"),
    "chop.trace": ("Trace",),
}
_MODULES = ("evolution", "files", "icon", "metrics", "operators", "problems", "testing")
_NAMES = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Axis",
    "ChopError",
    "Field",
    "Graph",
    "ModelError",
    "ParseError",
    "Program",
    "ProgramError",
    "Prompt",
    "PromptError",
    "Result",
    "Rollout",
    "Trace",
    "evolution",
    "evolve",
    "files",
    "from_jax",
    "from_numpy",
    "from_torch",
    "icon",
    "load",
    "metrics",
    "operators",
    "parse",
    "problems",
    "programs",
    "registry",
    "rollout",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"chop.{name}")
    else:
        raise AttributeError(f"module 'chop' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
