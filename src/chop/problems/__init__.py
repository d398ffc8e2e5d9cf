"""Operators with truth that can be trusted: conservation laws and mean-field control.

`chop.problems.conservation` and `chop.problems.mfc` have one shape: ``sample(...)`` gives a `Case` (a
batched prompt, its target and how it was made) and ``stream(...)`` endless training batches.
Modules load when they are first used, so that a command line that only prints its help pays nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = ("air", "conservation", "gallery", "mfc", "storage")
_NAMES = {
    "Case": "case",
    "Flux": "flux",
    "ProblemError": "errors",
    "FluxError": "errors",
    "SolveError": "errors",
    "DataError": "errors",
}


def __getattr__(name: str) -> Any:
    try:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name in _NAMES:
            return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *_NAMES])
