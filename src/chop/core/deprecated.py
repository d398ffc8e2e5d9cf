"""Names of 0.1.0 that have others now: they work for one more release and say what to write instead."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED: Mapping[str, str] = {
    "chop.catalog": "chop.core.programs",
    "chop.counting": "chop.core.counting",
    "chop.declare": "chop.core.parameters",
    "chop.errors": "chop.core.errors",
    "chop.fields": "chop.core.fields",
    "chop.forecast": "chop.core.forecast",
    "chop.grids": "chop.core.grids",
    "chop.metrics": "chop.core.metrics",
    "chop.model": "chop.core.model",
    "chop.named": "chop.core.catalog",
    "chop.program": "chop.core.program",
    "chop.prompt": "chop.core.prompt",
    "chop.running": "chop.core.running",
    "chop.tasks": "chop.core.tasks",
    "chop.text": "chop.core.text",
    "chop.trace": "chop.core.trace",
    "chop.units": "chop.core.units",
    "chop.pool": "chop.runs.pool",
    "chop.evolution.errors": "chop.core.errors",
    "chop.files.errors": "chop.core.errors",
    "chop.problems.errors": "chop.core.errors",
    "chop.problems.expression": "chop.numerics.formulas",
    "chop.problems.flux": "chop.problems.conservation.flux",
    "chop.problems.random_field": "chop.numerics.random_field",
    "chop.problems.solver": "chop.problems.conservation.solver",
    "chop.problems.storage": "chop.files.cases",
}
"""Modules by their old names, and where their contents are now."""

_SHOWN_BY_CHOP = {
    "chop.catalog": "programs",
    "chop.errors": "ChopError, PromptError, ...",
    "chop.forecast": "rollout, Rollout",
    "chop.metrics": "metrics",
    "chop.model": "from_torch, from_numpy, from_jax",
    "chop.prompt": "Prompt, Field, Axis, Graph",
    "chop.running": "Result",
    "chop.text": "parse, registry",
    "chop.trace": "Trace",
}
"""Old modules whose public names are best imported from `chop` itself."""


def _warn(message: str, stacklevel: int = 3) -> None:
    """Say to whoever wrote the old name what to write."""
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def _module_now(old: str, stacklevel: int) -> ModuleType:
    new = MOVED[old]
    public = f" (public names: from chop import {_SHOWN_BY_CHOP[old]})" if old in _SHOWN_BY_CHOP else ""
    _warn(f"the module {old} goes with the next release: write {new}{public}", stacklevel)
    return import_module(new)


def moved_attribute(package: str, name: str) -> ModuleType | None:
    """The module that was ``package.name``, for a package's ``__getattr__``; None if there was none."""
    old = f"{package}.{name}"
    return _module_now(old, stacklevel=5) if old in MOVED else None


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """``__getattr__`` of a module some of whose names have others now."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name} is called {names[name]} now; the old name goes with the next release")
        return getattr(sys.modules[module], names[name])

    return get


class _MovedModules:
    """Finds a module of 0.1.0 where it is now; both names mean one module.

    By its methods a finder and a loader; importing their base classes would take as long as the library.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        loader: Any = self
        return ModuleSpec(name, loader) if name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> None:
        """A plain module, which `exec_module` puts another in the place of."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = _module_now(module.__name__, stacklevel=4)


def find_moved_modules() -> None:
    """Let old names be imported; what really exists is found first."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
