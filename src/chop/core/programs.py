"""The named programs as values, to be looked up and gone through."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from chop.core.catalog import EVOLVED, FOUND, NAMED, TEXTS, Found, best_found
from chop.core.program import Program
from chop.core.text import parse

programs: Mapping[str, Program] = MappingProxyType({name: parse(text) for name, text in NAMED.items()})

# All but `programs` are here for chop.catalog of 0.1.0, which was this module.
__all__ = ["EVOLVED", "FOUND", "TEXTS", "Found", "best_found", "programs"]
