"""The kinds of network there are: functions of (t, x), and stations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chop.core.errors import ModelError
from chop.icon.functions.config import IconConfig
from chop.icon.functions.network import Icon
from chop.icon.stations.config import StationConfig
from chop.icon.stations.network import StationIcon

Config = IconConfig | StationConfig
Network = Icon | StationIcon


def build(config: Config) -> Network:
    """A network of a shape, with fresh weights."""
    return StationIcon(config) if isinstance(config, StationConfig) else Icon(config)


def config_from(values: Mapping[str, Any]) -> Config:
    """The shape that a header or a plan describes: station networks have hours, others none."""
    if not isinstance(values, Mapping):
        raise ModelError(f"the configuration of a network is a table, not {type(values).__name__}")
    return StationConfig.from_dict(values) if "hours" in values else IconConfig.from_dict(values)


__all__ = ["Config", "Network", "build", "config_from"]
