"""What tests of operators share: the notes of a run, and prompts with other values."""

import dataclasses

from chop.testing import toy_model
from chop.text import parse


def notes(text, prompt, model=toy_model):
    return parse(text).run(model, prompt).trace.root.notes


def fill(prompt, **values):
    """The prompt with other values in some of its fields."""
    return dataclasses.replace(
        prompt, **{name: getattr(prompt, name).with_values(new) for name, new in values.items()}
    )
