"""The named programs as values, to be looked up and gone through."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from chop.named import EVOLVED, FOUND, NAMED, TEXTS, Found, best_found
from chop.program import Program
from chop.text import parse

programs: Mapping[str, Program] = MappingProxyType({name: parse(text) for name, text in NAMED.items()})

__all__ = ["EVOLVED", "FOUND", "TEXTS", "Found", "best_found", "programs"]
