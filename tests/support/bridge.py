"""Between the library's batched prompts and programs and the oracles' plain numpy ones."""

import numpy as np
import torch

from chop.core.program import Icon, Projected, Wrapped
from oracles.prompt import Question


def questions(prompt):
    """Each prompt of a batch as the oracles' plain question."""
    flat = prompt.flat()
    edges = None if prompt.graph is None else [tuple(edge) for edge in prompt.graph.edges.T.tolist()]
    axes = [(axis.name, axis.period) for axis in prompt.axes]
    found = []
    for i in range(prompt.batch.numel()):
        one = flat[i]
        found.append(
            Question(
                xs=list(one.inputs.values.numpy()),
                x_coords=list(one.inputs.coords.numpy()),
                ys=list(one.outputs.values.numpy()),
                y_coords=list(one.outputs.coords.numpy()),
                y_masks=list(one.outputs.observed.numpy()),
                query=one.query.values.numpy(),
                query_coords=one.query.coords.numpy(),
                at=one.at.numpy(),
                edges=edges,
                times=one.times.tolist(),
                axes=axes,
            )
        )
    return found


def as_model(oracle_model):
    """An oracle's model, question by question, as a frozen model of prompts."""

    def model(prompt):
        answers = np.stack([oracle_model(question) for question in questions(prompt)])
        return torch.from_numpy(answers).reshape(prompt.answer_shape)

    return model


def described(program):
    """A program as the nested tuples the oracles read."""
    if isinstance(program, Icon):
        return ("icon",)
    if isinstance(program, Wrapped):
        return ("wrap", (program.transform.name, _options(program.transform)), described(program.inner))
    if isinstance(program, Projected):
        return ("project", described(program.inner), (program.projection.name, _options(program.projection)))
    parts = [described(part) for part in program.parts()]
    if not parts:
        return (program.name,)
    if "base" in program.params():
        return (program.name, parts[0], _options(program))
    return (program.name, parts, _options(program))


def _options(operator):
    """Parameters under the names both sides use; the oracles know one way to shift and one fill."""
    return {
        name: getattr(operator, name)
        for name, param in operator.params().items()
        if param.kind not in ("program", "programs") and name not in ("shift", "fill")
    }
