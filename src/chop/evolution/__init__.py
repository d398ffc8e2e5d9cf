"""Evolution: an ensemble of agents that finds programs for a frozen model and a set of questions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chop.evolution.chat import Chat
    from chop.evolution.errors import EvolutionError
    from chop.evolution.language import LanguageModel
    from chop.evolution.run import Evolved, evolve
    from chop.evolution.task import Limits, Task, relative_error
    from chop.evolution.tasks import TASKS, load_task
    from chop.problems.case import Case

_HOME = {
    "chop.evolution.chat": ("Chat",),
    "chop.evolution.errors": ("EvolutionError",),
    "chop.evolution.language": ("LanguageModel",),
    "chop.evolution.run": ("Evolved", "evolve"),
    "chop.evolution.task": ("Limits", "Task", "relative_error"),
    "chop.evolution.tasks": ("TASKS", "load_task"),
    "chop.problems.case": ("Case",),
}
_NAMES = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "TASKS", "Case", "Chat", "EvolutionError", "Evolved", "LanguageModel", "Limits", "Task", "evolve",
    "load_task", "relative_error",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
