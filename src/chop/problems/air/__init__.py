"""Air quality: hourly station observations as prompts, carried from one region to another.

`load_region` reads the files, `prepare` normalises and fills them without looking ahead, `case` makes
prompts of 24 h windows, `RegionQuestions` says which may be asked and shown, and `sample` does all of it in
one call. `make_world` writes two invented regions in the same layout, for everybody who has no data.
"""

from typing import TYPE_CHECKING

from chop.core.lazy import attach

if TYPE_CHECKING:
    from chop.problems.air.dataset import open_dataset
    from chop.problems.air.download import fetch
    from chop.problems.air.history import History, Scaling, load_history, prepare
    from chop.problems.air.region import POLLUTANTS, Region, StationGraph, load_region, station_graph
    from chop.problems.air.retrieval import SimilarityIndex, similarity_index
    from chop.problems.air.ridges import Altitudes
    from chop.problems.air.sampling import (
        RegionQuestions,
        data_folder,
        random_examples,
        sample,
        similar_examples,
    )
    from chop.problems.air.synthetic_regions import make_world
    from chop.problems.air.windows import WINDOW, case, eligible, epoch_hours, rmse, usable_ends

__all__ = [
    "POLLUTANTS", "WINDOW", "Altitudes", "History", "Region", "RegionQuestions", "Scaling", "SimilarityIndex",
    "StationGraph", "case", "data_folder", "eligible", "epoch_hours", "fetch", "load_history", "load_region",
    "make_world", "open_dataset", "prepare", "random_examples", "rmse", "sample", "similar_examples",
    "similarity_index", "station_graph", "usable_ends",
]  # fmt: skip

_MODULES = {
    "dataset": ("open_dataset",),
    "download": ("fetch",),
    "history": ("History", "Scaling", "load_history", "prepare"),
    "region": ("POLLUTANTS", "Region", "StationGraph", "load_region", "station_graph"),
    "retrieval": ("SimilarityIndex", "similarity_index"),
    "ridges": ("Altitudes",),
    "sampling": ("RegionQuestions", "data_folder", "random_examples", "sample", "similar_examples"),
    "synthetic_regions": ("make_world",),
    "windows": ("WINDOW", "case", "eligible", "epoch_hours", "rmse", "usable_ends"),
}
__getattr__, __dir__ = attach(__name__, {f"{__name__}.{module}": names for module, names in _MODULES.items()})
