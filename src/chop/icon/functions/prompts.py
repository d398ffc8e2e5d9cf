"""Which prompts a network of functions can be asked."""

from __future__ import annotations

from chop.core.errors import ModelError
from chop.core.prompt import Prompt


def need_functions(prompt: Prompt, coordinates: int, inputs: int, outputs: int) -> None:
    """A prompt with at most so many coordinates, and exactly so many channels."""
    if prompt.dimensions > coordinates:
        raise ModelError(
            f"this network knows functions of {coordinates} coordinate{'s' * (coordinates > 1)}, "
            f"the prompt has {prompt.dimensions}"
        )
    given = (prompt.query.channels, prompt.outputs.channels)
    if given != (inputs, outputs):
        raise ModelError(
            f"this network maps {inputs} channel(s) to {outputs}, the prompt {given[0]} to {given[1]}"
        )
