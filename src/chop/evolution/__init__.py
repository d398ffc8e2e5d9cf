"""Evolution: an ensemble of agents that finds programs for a frozen model and a set of questions."""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.core.errors import EvolutionError
    from chop.evolution.chat import Chat
    from chop.evolution.history import SearchHistory
    from chop.evolution.language_agents import LanguageModel
    from chop.evolution.search import Evolved, evolve
    from chop.evolution.task import Limits, Task, relative_error
    from chop.evolution.tasks import TASKS, load_task
    from chop.problems.case import Case

__all__ = [
    "TASKS", "Case", "Chat", "EvolutionError", "Evolved", "LanguageModel", "Limits", "SearchHistory",
    "Task", "evolve", "load_task", "relative_error",
]  # fmt: skip

__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.core.errors": ("EvolutionError",),
        "chop.evolution.chat": ("Chat",),
        "chop.evolution.history": ("SearchHistory",),
        "chop.evolution.language_agents": ("LanguageModel",),
        "chop.evolution.search": ("Evolved", "evolve"),
        "chop.evolution.task": ("Limits", "Task", "relative_error"),
        "chop.evolution.tasks": ("TASKS", "load_task"),
        "chop.problems.case": ("Case",),
    },
)
