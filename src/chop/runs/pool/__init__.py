"""Workers with one contract: this process, worker processes, or a Ray cluster. Loaded when first used."""

from __future__ import annotations

from chop.runs.pool.contract import EXECUTORS, Lost, Make, Pool, Site, in_order, pool_named

__all__ = ["EXECUTORS", "Lost", "Make", "Pool", "Site", "in_order", "pool_named"]
