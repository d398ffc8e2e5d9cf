"""Air quality: hourly station observations as prompts, carried from one region to another.

`load_region` reads the files, `prepare` normalises and fills them without looking ahead, `case` makes
prompts of 24 h windows, and `sample` does all of it in one call. `make_world` writes two invented regions
in the same layout, for everybody who has no data.
"""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.problems.air.dataset import open_dataset
    from chop.problems.air.download import fetch
    from chop.problems.air.eligibility import eligible
    from chop.problems.air.graph import StationGraph, station_graph
    from chop.problems.air.history import History, Scaling, prepare
    from chop.problems.air.region import Region, load_region
    from chop.problems.air.retrieval import SimilarityIndex, similarity_index
    from chop.problems.air.sampling import data_folder, sample
    from chop.problems.air.selection import random_examples, similar_examples
    from chop.problems.air.windows import WINDOW, case, rmse
    from chop.problems.air.world import make_world

__all__ = [
    "WINDOW", "History", "Region", "Scaling", "SimilarityIndex", "StationGraph", "case", "data_folder",
    "eligible", "fetch", "load_region", "make_world", "open_dataset", "prepare", "random_examples", "rmse",
    "sample", "similar_examples", "similarity_index", "station_graph",
]  # fmt: skip

__getattr__, __dir__ = attach(
    __name__,
    {
        "chop.problems.air.dataset": ("open_dataset",),
        "chop.problems.air.download": ("fetch",),
        "chop.problems.air.eligibility": ("eligible",),
        "chop.problems.air.graph": ("StationGraph", "station_graph"),
        "chop.problems.air.history": ("History", "Scaling", "prepare"),
        "chop.problems.air.region": ("Region", "load_region"),
        "chop.problems.air.retrieval": ("SimilarityIndex", "similarity_index"),
        "chop.problems.air.sampling": ("data_folder", "sample"),
        "chop.problems.air.selection": ("random_examples", "similar_examples"),
        "chop.problems.air.windows": ("WINDOW", "case", "rmse"),
        "chop.problems.air.world": ("make_world",),
    },
)
