"""What inspection found, as a file: the picture, plain values, or a page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from types import MappingProxyType
from typing import Any

from chop.operators.inspection.fact import Facts
from chop.pictures.facts import facts_figure, states_of
from chop.pictures.html import document, html_table, section, table_row, wide_figure
from chop.pictures.rendering import small_png
from chop.pictures.saving import FIGURE_FORMS
from chop.storage.json_text import json_text

_DPI = 130


def facts_page(facts: Facts) -> str:
    """The picture and every fact in a table; no script, nothing to fetch."""
    rows = []
    for fact in facts:
        found = states_of(fact)
        state = max(found, key=lambda item: item[1])[0].word if fact.claims else "number"
        rows.append(table_row((escape(cell), "") for cell in (fact.name, state, fact.text())))
    picture = wide_figure(small_png(facts_figure(facts), _DPI, colors=128), "The facts as a picture")
    table = section("Every fact", html_table(("fact", "state", "evidence"), rows))
    title = "What the examples show"
    return document(title, "Facts of a prompt", escape(title), [picture, table])


def _figure(facts: Facts, more: Mapping[str, Any], suffix: str) -> bytes:
    return FIGURE_FORMS[suffix](facts_figure(facts))


FACTS_FORMS: Mapping[str, Callable[[Facts, Mapping[str, Any]], bytes]] = MappingProxyType(
    {
        **{suffix: partial(_figure, suffix=suffix) for suffix in FIGURE_FORMS},
        ".html": lambda facts, more: facts_page(facts).encode(),
        ".json": lambda facts, more: json_text({**more, "facts": facts.to_json()}).encode(),
    }
)
"""Facts as bytes, by suffix; what else is to be told of them stands in the .json."""
