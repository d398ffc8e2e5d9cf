"""Packages whose names load when they are first used, so that importing one costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from chop.core.deprecated import moved_attribute


def attach(
    package: str, names: Mapping[str, Iterable[str]], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    ``names`` says which module (in full) defines which public names, ``modules`` under which names other
    modules are shown.
    """
    homes = {name: module for module, defined in names.items() for name in defined}
    shown = dict(modules or {})

    def get(name: str) -> Any:
        if name in homes:
            value = getattr(import_module(homes[name]), name)
        elif name in shown:
            value = import_module(shown[name])
        elif (moved := moved_attribute(package, name)) is not None:
            return moved  # not kept: who writes the old name again is told again
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names_of() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *shown})

    return get, names_of


__all__ = ["attach"]
