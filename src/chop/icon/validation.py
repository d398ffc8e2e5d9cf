"""The fixed questions a run is judged by while it goes on: training distribution, never trained on."""

from __future__ import annotations

from functools import lru_cache

import torch

from chop.core.metrics import rel_l2
from chop.icon.functions.network import Icon
from chop.problems import Case

_SEED = 20_000_001


@lru_cache(maxsize=8)
def questions(problem: str, small: bool = False) -> dict[str, Case]:
    """Cases by name. Their random streams are others than those of the training batches."""
    if problem == "conservation":
        from chop.problems import conservation

        return {
            "conservation": conservation.sample("cubic", n=8 if small else 200, seed=_SEED, split="train")
        }
    from chop.problems import mfc

    n = 4 if small else 40
    return {name: mfc.sample(name, 1.0, n=n, seed=_SEED, split="train") for name in mfc.FAMILIES}


def validate(network: Icon, problem: str, small: bool = False) -> dict[str, float]:
    """Mean relative L2 error by name of the questions."""
    found = {}
    with torch.inference_mode():
        for name, case in questions(problem, small).items():
            values = network(case.prompt)
            found[name] = round(float(rel_l2(values, case.target).mean()), 6)
    return found


__all__ = ["questions", "validate"]
