"""Air quality: hourly station observations as prompts, carried from one region to another.

`load_region` reads the files, `prepare` normalises and fills them without looking ahead, `case` makes
prompts of 24 h windows, and `sample` does all of it in one call. `make_world` writes two invented regions
in the same layout, for everybody who has no data. Parts load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "Region": "region",
    "load_region": "region",
    "open_dataset": "dataset",
    "History": "history",
    "Scaling": "history",
    "prepare": "history",
    "StationGraph": "graph",
    "station_graph": "graph",
    "WINDOW": "windows",
    "case": "windows",
    "rmse": "windows",
    "eligible": "eligibility",
    "random_examples": "selection",
    "similar_examples": "selection",
    "SimilarityIndex": "retrieval",
    "similarity_index": "retrieval",
    "sample": "sampling",
    "data_folder": "sampling",
    "make_world": "world",
    "fetch": "download",
}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
