"""Conformance suites and test data for operators and models, ours or a third party's.

Subclass a suite in a test file and run pytest::

    from chop.testing import OperatorConformance

    class TestMyOperator(OperatorConformance):
        operators = [MyOperator(), MyOperator(strength=0.5)]

`make_prompt` gives reproducible prompts; `prompts` and `program_values` are hypothesis strategies
(they need hypothesis installed).
"""

from chop.testing.conformance import ModelConformance, OperatorConformance
from chop.testing.data import make_prompt, toy_model
from chop.testing.strategies import program_values, prompts

__all__ = [
    "ModelConformance",
    "OperatorConformance",
    "make_prompt",
    "program_values",
    "prompts",
    "toy_model",
]
