"""The texts of programs that have a name: the paper's, others by hand, and what `chop evolve` found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

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

BY_HAND: Mapping[str, str] = MappingProxyType(
    {
        "line": (
            'moving_frame(shift="spectral") | rescale(center="mean", target=0.8) | '
            "views(krige(icon), turns=3, step=3)"
        ),
        "densities": "views(krige(icon), turns=3, step=3, mirror=True) | nonnegative",
        "anything": "views(select(krige(icon), icon), turns=3, step=3)",
    }
)
"""For who wants one fixed program: consecutive frames on a periodic line, densities, any prompt."""


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
        "conservation", 0, 1000, 55.9,
        'combine(reflect | rescale(target=0.811) | moving_frame(shift="spectral") | correct(icon, '
        'magnitude=0.558, gate=False), rescale(center="mean", target=0.778) | '
        'combine(moving_frame(shift="spectral") | correct(icon, magnitude=0.421, gate=False), normalize |'
        ' moving_frame(shift="spectral") | correct(icon, magnitude=0.558, gate=False)), pad=True)',
    ),
    Found(
        "conservation", 1, 1000, 59.1,
        "average(moving_frame | nearest_examples | correct(correct(icon, magnitude=0.172), magnitude=0.5,"
        ' gate=False), rescale(target=0.805) | moving_frame(shift="spectral") | nearest_examples(k=2) | '
        'moving_frame(shift="spectral") | correct(correct(icon, gate=False), magnitude=0.257, gate=False,'
        " pad=False))",
    ),
    Found(
        "conservation", 2, 1000, 51.2,
        'combine(rescale(target=0.833) | combine(query_mean, moving_frame(shift="spectral") | '
        'rescale(target=0.823) | moving_frame(shift="spectral") | correct(icon, magnitude=0.497, '
        'pad=False), moving_frame | icon, gap=1), normalize | reflect | moving_frame(shift="spectral") | '
        "icon, pad=True, gap=1)",
    ),
    Found(
        "mfc", 0, 1000, 77.2,
        "correct(combine(correct(reflect | select(icon, icon | unit_mass, pad=False)), "
        "correct(select(icon, correct(icon, magnitude=0.787, pad=False), pad=False)) | unit_mass), "
        "magnitude=1.0, gate=False, gap=1)",
    ),
    Found(
        "mfc", 1, 1000, 77.9,
        "correct(debias(combine(correct(correct(correct(icon, magnitude=0.175, pad=False), pad=False), "
        "pad=False), reflect | correct(icon, pad=False))) | unit_mass, magnitude=1.0, gate=False, "
        "pad=False, gap=3)",
    ),
    Found(
        "mfc", 2, 1000, 73.9,
        "combine(ridge(strength=0.000247), combine(correct(correct(rescale(target=0.959) | icon, "
        "magnitude=0.662) | conserve_mean, gap=1), reflect | correct(correct(correct(icon, "
        "magnitude=0.355, pad=False), magnitude=0.193, gap=1), gap=1) | unit_mass), pad=True)",
    ),
    Found(
        "air", 0, 300, 1.8,
        "rescale(target=1.44) | icon",
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

NAMED: Mapping[str, str] = MappingProxyType({**TEXTS, **BY_HAND, **EVOLVED})
"""All of them."""
