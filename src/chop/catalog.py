"""The named programs, as text: what the paper evaluates, and what `chop evolve` found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from chop.program import Program
from chop.text import parse

TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "raw": "icon",
        "conservation": 'moving_frame | rescale(center="mean") | icon | conserve_mean',
        "mfc": "select(correct(rescale | icon), icon)",
        "corr": "correct(icon)",
        "air": (
            "combine(icon, last_frame, first_frame, mean_output, nearest_output, "
            'debias(icon), debias(icon, smooth="graph"), channels=(-2, -1))'
        ),
    }
)
"""The paper's programs."""


@dataclass(frozen=True)
class Found:
    """A program that nobody wrote: the winner of an evolution from the empty program ``icon``.

    Its journal, with every candidate on the way, is ``docs/results/evolution/TASK-SEED/journal.jsonl`` in the
    repository; the same command, ``chop evolve --task TASK --seed SEED --budget BUDGET``, finds it again.
    """

    task: str
    seed: int
    budget: int
    reduction: float
    """Per cent by which the mean error of the bare model falls on the validation set of the task."""
    text: str


FOUND: tuple[Found, ...] = (
    Found(
        "conservation", 0, 1000, 57.1,
        'normalize | moving_frame(shift="spectral") | correct(select(normalize(separate=True) | icon, '
        "combine(reflect | nearest_examples(k=4) | icon, icon, reflect | rescale(target=0.653) | icon, "
        "shrink=False)), magnitude=0.446, gate=False)",
    ),
)  # fmt: skip
"""The winners of all runs, not only of the best ones."""


def best_found(task: str) -> Found:
    """The winner with the largest reduction on the validation set, which no evolution saw."""
    return max((found for found in FOUND if found.task == task), key=lambda found: found.reduction)


EVOLVED: Mapping[str, str] = MappingProxyType(
    {f"{task}_evolved": best_found(task).text for task in dict.fromkeys(found.task for found in FOUND)}
)
"""For each task the best of its runs, by the validation set."""

programs: Mapping[str, Program] = MappingProxyType(
    {name: parse(text) for name, text in {**TEXTS, **EVOLVED}.items()}
)
