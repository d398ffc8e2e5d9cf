"""Bad prompts: one sentence that names what is wrong."""

import numpy as np
import pytest
import torch
from prompt_parts import B, D, M, N, field, made

from chop import Axis, Field, Graph, Prompt, PromptError


def spoiled(part, what, value):
    """A field with one bad entry."""
    values, coords = part.values.clone(), part.coords.clone()
    (values if what == "values" else coords).view(-1)[3] = value
    return Field(coords, values)


BAD = {
    "values as text": (lambda: Field(np.zeros((4, 1)), np.array([["a"]] * 4)), r"values cannot be read"),
    "values None": (lambda: Field(np.zeros((4, 1)), None), r"values cannot be read"),
    "integer values": (lambda: Field(np.zeros((4, 1)), np.zeros((4, 1), int)), r"Field\.values .*int64"),
    "complex values": (
        lambda: Field(np.zeros((4, 1)), np.zeros((4, 1), complex)),
        r"Field\.values .*complex",
    ),
    "values without channels": (lambda: Field(np.zeros((4, 1)), np.zeros(4)), r"values .* and \(4,\)"),
    "coords without dimensions": (lambda: Field(np.zeros(4), np.zeros((4, 1))), r"coords .* not \(4,\)"),
    "coords of no dimension": (
        lambda: Field(np.zeros((4, 0)), np.zeros((4, 1))),
        r"Field\.coords \(4, 0\) .*at least one coordinate",
    ),
    "boolean coords": (lambda: Field(np.zeros((4, 1), bool), np.zeros((4, 1))), r"Field\.coords .*bool"),
    "complex coords": (
        lambda: Field(np.zeros((4, 1), complex), np.zeros((4, 1))),
        r"Field\.coords .*complex",
    ),
    "other points": (lambda: Field(np.zeros((5, 1)), np.zeros((4, 1))), r"coords \(5, 1\) .*values \(4, 1\)"),
    "other batch": (
        lambda: Field(np.zeros((3, 4, 1)), np.zeros((2, 4, 1))),
        r"coords \(3, 4, 1\) .*values \(2, 4, 1\)",
    ),
    "coords with more axes": (
        lambda: Field(np.zeros((2, 4, 1)), np.zeros((4, 1))),
        r"coords \(2, 4, 1\) .*values \(4, 1\)",
    ),
    "mask of numbers": (
        lambda: Field(np.zeros((4, 1)), np.zeros((4, 1)), np.ones((4, 1))),
        r"Field\.mask must be bool .*float64",
    ),
    "mask of another shape": (
        lambda: Field(np.zeros((4, 1)), np.zeros((4, 1)), np.ones((3, 1), bool)),
        r"Field\.mask .*\(4, 1\).*\(3, 1\)",
    ),
    "mask with more axes": (
        lambda: Field(np.zeros((4, 1)), np.zeros((4, 1)), np.ones((2, 4, 1), bool)),
        r"Field\.mask .*\(4, 1\).*\(2, 4, 1\)",
    ),
    "axis with period 0": (lambda: Axis("x", 0.0), r"'x' needs a positive finite period, not 0"),
    "axis with period NaN": (lambda: Axis("x", float("nan")), r"'x' .*not nan"),
    "axis with period inf": (lambda: Axis("x", float("inf")), r"'x' .*not inf"),
    "axis with period text": (lambda: Axis("x", "one"), r"'x' .*period, not 'one'"),
    "edges of one row": (lambda: Graph([[0, 1]], 2), r"Graph\.edges .*\(1, 2\)"),
    "edges flat": (lambda: Graph([0, 1], 2), r"Graph\.edges .*\(2,\)"),
    "edges of floats": (lambda: Graph([[0.0], [1.0]], 2), r"Graph\.edges .*float32 \(2, 1\)"),
    "edges of booleans": (lambda: Graph([[True], [False]], 2), r"Graph\.edges .*bool \(2, 1\)"),
    "edge too high": (lambda: Graph([[0], [2]], 2), r"Graph\.edges .*0\.\.1.*from 0 to 2"),
    "edge negative": (lambda: Graph([[0], [-1]], 2), r"Graph\.edges .*0\.\.1.*from -1 to 0"),
    "graph of fractional size": (lambda: Graph([[0], [1]], 2.5), r"Graph\.size .*not 2\.5"),
    "graph of no points": (lambda: Graph(np.zeros((2, 0), int), 0), r"Graph\.size .*not 0"),
    "inputs no field": (
        lambda: made(inputs=torch.zeros(B, D, N, 2)),
        r"Prompt\.inputs must be a Field, not T",
    ),
    "query no field": (lambda: made(query=None), r"Prompt\.query must be a Field, not NoneType"),
    "no points": (lambda: made(query=field(B, 0, 2)), r"Prompt\.query .*one point.*\(2, 0, 2\)"),
    "no channels": (lambda: made(outputs=field(B, D, M, 0)), r"Prompt\.outputs .*channel.*\(2, 3, 5, 0\)"),
    "inputs without examples axis": (
        lambda: made(inputs=field(B, N, 2)),
        r"Prompt\.inputs values \(2, 4, 2\) need one axis of examples more than query values \(2, 4, 2\)",
    ),
    "outputs without examples axis": (lambda: made(outputs=field(D, M, 1)), r"Prompt\.outputs .*\(3, 5, 1\)"),
    "query with examples axis": (lambda: made(query=field(B, D, N, 2)), r"Prompt\.inputs .*\(2, 3, 4, 2\)"),
    "inputs of another batch": (lambda: made(inputs=field(4, D, N, 2)), r"Prompt\.inputs .*\(4, 3, 4, 2\)"),
    "D = 0": (
        lambda: made(inputs=field(B, 0, N, 2), outputs=field(B, 0, M, 1)),
        r"at least one example pair",
    ),
    "more inputs than outputs": (
        lambda: made(inputs=field(B, D + 1, N, 2)),
        r"4 example inputs but 3 example outputs",
    ),
    "other channels": (lambda: made(query=field(B, N, 1)), r"inputs have 2 channels but the query has 1"),
    "dtypes mixed": (
        lambda: made(outputs=field(B, D, M, 1, dtype=torch.float32)),
        r"Prompt\.outputs is torch\.float32 .*query is torch\.float64",
    ),
    "dimensions mixed": (lambda: made(outputs=field(B, D, M, 1, k=2)), r"coordinates, not 1, 2 and 1"),
    "at missing": (lambda: made(at=None), r"at cannot be read"),
    "at without dimensions": (
        lambda: made(at=torch.zeros(M)),
        r"Prompt\.at must be \(\.\.\., m, 1\).*\(5,\)",
    ),
    "at of other dimensions": (lambda: made(at=torch.zeros(M, 2)), r"Prompt\.at .*\(5, 2\)"),
    "at without points": (lambda: made(at=torch.zeros(0, 1)), r"Prompt\.at .*\(0, 1\)"),
    "at of another batch": (lambda: made(at=torch.zeros(3, M, 1)), r"Prompt\.at .*\(2,\).*\(3, 5, 1\)"),
    "boolean at": (lambda: made(at=torch.ones(M, 1, dtype=torch.bool)), r"Prompt\.at .*bool"),
    "complex at": (lambda: made(at=torch.ones(M, 1, dtype=torch.complex64)), r"Prompt\.at .*complex64"),
    "no graph": (lambda: made(graph=[[0], [1]]), r"Prompt\.graph must be a Graph, not list"),
    "graph of another size": (
        lambda: made(graph=Graph([[0], [1]], 4)),
        r"graph has 4 points, but outputs have 5 and at has 5",
    ),
    "graph and other at": (
        lambda: made(graph=Graph([[0], [1]], M), at=torch.zeros(6, 1)),
        r"graph has 5 points, but outputs have 5 and at has 6",
    ),
    "too many axes": (lambda: made(axes=(Axis("t"), Axis("x"))), r"axes must give 1 .*\['t', 'x'\]"),
    "no axes": (lambda: made(axes=()), r"axes must give 1 .*\[\]"),
    "axes alike": (
        lambda: made(
            inputs=field(B, D, N, 2, k=2),
            outputs=field(B, D, M, 1, k=2),
            query=field(B, N, 2, k=2),
            at=torch.zeros(M, 2),
            axes=(Axis("x"), Axis("x")),
        ),
        r"axes must give 2 different names.*\['x', 'x'\]",
    ),
    "axes as words": (lambda: made(axes=("x",)), r"axes must be .*Axis.*'x'"),
    "axes no sequence": (lambda: made(axes=7), r"axes must be .*Axis.*7"),
    "times of floats": (
        lambda: made(times=torch.arange(4.0)),
        r"Prompt\.times must be integers, not torch\.float",
    ),
    "times of booleans": (
        lambda: made(times=np.ones(4, bool)),
        r"Prompt\.times must be integers, not torch\.bool",
    ),
    "times too few": (lambda: made(times=[0, 1, 2]), r"Prompt\.times must be \(\.\.\., 4\).*\(3,\)"),
    "times of another batch": (lambda: made(times=np.zeros((3, 4), int)), r"Prompt\.times .*\(3, 4\)"),
    "times a number": (lambda: made(times=3), r"Prompt\.times .*\(\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_in_one_sentence(case):
    make, pattern = BAD[case]
    with pytest.raises(PromptError, match=pattern) as caught:
        make()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 250


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("what", ["values", "coords"])
@pytest.mark.parametrize("name", ["inputs", "outputs", "query"])
def test_not_finite(name, what, value):
    good = made()
    with pytest.raises(PromptError, match=rf"Prompt\.{name}\.{what} \(.*\) has 1 non-finite"):
        made(**{name: spoiled(getattr(good, name), what, value)})


def test_not_finite_where_asked():
    at = torch.zeros(M, 1)
    at[2] = float("nan")
    with pytest.raises(PromptError, match=r"Prompt\.at \(.*5, 1\) has 1 non-finite"):
        made(at=at)


def test_not_finite_where_unobserved_is_refused_too():
    mask = torch.ones(B, D, M, 1, dtype=torch.bool)
    mask[0, 0, 3] = False
    bad = spoiled(field(B, D, M, 1), "values", float("nan"))
    with pytest.raises(PromptError, match=r"fill them in and mark them False"):
        made(outputs=Field(bad.coords, bad.values, mask))


# Shapes that fit two readings.


def test_grids_of_questions_or_of_examples():
    """Five questions of five examples: (5, n, k) was taken for the examples' grids without a word."""
    values, grids = torch.ones(5, 5, 8, 1), torch.rand(5, 8, 1)
    with pytest.raises(PromptError, match=r"two ways.*write \(1, 5, 8, 1\) or \(5, 1, 8, 1\)"):
        Field(grids, values)
    of_examples, of_questions = Field(grids[None], values), Field(grids[:, None], values)
    assert torch.equal(of_examples.coords[0], grids)
    assert torch.equal(of_questions.coords[:, 0], grids)


def test_sizes_that_decide_are_read():
    assert Field(torch.rand(5, 8, 1), torch.ones(3, 5, 8, 1)).coords.shape == (3, 5, 8, 1)
    assert Field(torch.rand(8, 1), torch.ones(5, 5, 8, 1)).coords.shape == (5, 5, 8, 1)
    assert Field(torch.rand(1, 8, 1), torch.ones(5, 5, 8, 1)).coords.shape == (5, 5, 8, 1)


def test_other_arrays_of_two_readings():
    values = torch.ones(3, 3, 4, 8, 1)
    grid = torch.rand(8, 1)
    parts = {
        "inputs": Field(grid, values),
        "outputs": Field(grid, values),
        "query": Field(grid, values[:, :, 0]),
    }
    with pytest.raises(PromptError, match=r"Prompt\.at .*two ways"):
        Prompt(**parts, at=torch.rand(3, 8, 1))
    with pytest.raises(PromptError, match=r"Prompt\.times .*write \(1, 3, 5\) or \(3, 1, 5\)"):
        Prompt(**parts, at=grid, times=torch.arange(5).expand(3, 5))
    with pytest.raises(PromptError, match=r"Field\.mask .*two ways"):
        Field(grid, values[:, :, 0], torch.ones(3, 8, 1, dtype=torch.bool))
