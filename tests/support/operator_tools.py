"""What tests of operators share: the notes of a run, and prompts with other values."""

import dataclasses

from chop.core.text import parse
from chop.testing import toy_model


def notes(text, prompt, model=toy_model):
    return parse(text).run(model, prompt).trace.root.notes


def fill(prompt, **values):
    """The prompt with other values in some of its fields."""
    return dataclasses.replace(
        prompt, **{name: getattr(prompt, name).with_values(new) for name, new in values.items()}
    )
