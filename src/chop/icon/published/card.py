"""The page beside converted weights: where they come from, under which licence, what they expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chop.icon.config import GraphConfig, NetworkConfig, PublishedConfig


def card_text(name: str, config: NetworkConfig, facts: Mapping[str, Any], parameters: int) -> str:
    """A model card in Markdown."""
    rows = {**facts, "parameters": f"{parameters:,}, float32"}
    lines = [
        f"# {name}: a published in-context operator network",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key.replace('_', ' ')} | {_cell(value)} |" for key, value in rows.items()),
        "",
        "## What it expects",
        "",
        *(f"- {sentence}" for sentence in expectations(config)),
        "- The order of the examples matters to it.",
        "- What was not observed is shown to it as it is filled in: the network knows no masks.",
        "",
        "## Use",
        "",
        "```python",
        f'model = chop.load("{name}.safetensors")',
        "```",
        "",
        "## Shape",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {_cell(value)} |" for key, value in config.to_dict().items()),
        "",
    ]
    return "\n".join(lines)


def expectations(config: NetworkConfig) -> list[str]:
    """How prompts are laid out for a network, in sentences."""
    if isinstance(config, PublishedConfig):
        return _of_functions(config)
    assert isinstance(config, GraphConfig)
    return _of_stations(config)


def _of_functions(config: PublishedConfig) -> list[str]:
    axes = "(t, x), t first" if config.coordinates == 2 else "x"
    found = [
        f"Functions of {axes}, {config.channels} channel(s) in and out, at any points; published data has x "
        "at j / 100.",
    ]
    if config.coordinates == 2:
        found.append("A function of x alone, such as a terminal cost, stands at t = 0.")
    if config.x_scale != 1:
        found.append(f"x is multiplied by {config.x_scale:g} before the network sees it.")
    if config.most_examples is not None:
        found.append(f"At most {config.most_examples} examples: it tells {config.functions} functions apart.")
    return found


def _of_stations(config: GraphConfig) -> list[str]:
    found = [
        f"Windows of {config.hours} hours at any stations, with the channels {', '.join(config.channels)}, "
        "each normalised over the example period; the answer has all of them.",
        f"It was trained with them in the order {', '.join(config.trained_order)}; prompts need not know.",
        "Edges are those of the prompt's graph, as directed there; their length (km on the ellipsoid) and "
        "direction are worked out from the stations' places.",
    ]
    if config.most_examples:
        found.append(f"At most {config.most_examples} examples.")
    return found


def _cell(value: Any) -> str:
    """A value in a table: what is a list is written as one, and nothing ends the cell."""
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
