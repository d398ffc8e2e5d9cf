"""A task whose model hangs, grows or dies, according to how many examples it is shown."""

import os
import time

import torch

from chop.evolution import Limits, Task
from chop.problems.case import Case
from chop.testing import make_prompt

_hoard = []


def model(prompt):
    if prompt.examples == 2:
        while True:
            time.sleep(0.01)
    if prompt.examples == 3:
        while True:
            _hoard.append(torch.ones(2**24))  # 64 MB
    if prompt.examples == 4:
        os._exit(3)
    if prompt.examples == 1:
        raise ZeroDivisionError("somebody else's bug")
    return prompt.query.values * 0.5


prompt = make_prompt(1, batch=(4,), points=8, dtype=torch.float32)
task = Task(
    "broken", model, Case(prompt, prompt.query.values), limits=Limits(seconds=10.0, memory=1200), start="icon"
)
