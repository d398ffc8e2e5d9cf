"""The named programs, as text: what the paper evaluates."""

from __future__ import annotations

from collections.abc import Mapping
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

programs: Mapping[str, Program] = MappingProxyType({name: parse(text) for name, text in TEXTS.items()})
