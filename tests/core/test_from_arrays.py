"""Prompts from plain and labelled arrays are those made of fields; what is not clear is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import chop
from chop import Axis, Field, Graph, Prompt, PromptError

xarray = pytest.importorskip("xarray")
from_arrays = Prompt.from_arrays
DICE = np.random.default_rng(0)


def same(one, other):
    """Whether two prompts hold the same, axes and what was said about them included."""
    facts = [
        (p.axes, p.assumed, p.batch, [axis.stated for axis in p.axes], p.times.tolist(), p.dtype)
        for p in (one, other)
    ]
    tensors = [list(p.tensors()) for p in (one, other)]
    return (
        facts[0] == facts[1]
        and len(tensors[0]) == len(tensors[1])
        and all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(*tensors, strict=True))
    )


@st.composite
def questions(draw):
    """Arrays of any layout whose sizes all differ, with the coordinates along their axes of points."""
    sizes = draw(st.permutations(range(2, 9)))
    rank = draw(st.integers(1, 3))
    batch = tuple(sizes[: draw(st.integers(0, 2))])
    d, rest = sizes[2], sizes[3:]
    grid, channels = tuple(rest[:rank]), draw(st.booleans())
    c = (rest[3],) if channels else ()
    shapes = (*batch, d, *grid, *c), (*batch, *grid, *c)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    inputs, query = (DICE.normal(size=shape).astype(dtype) for shape in shapes)
    along = [np.sort(DICE.random(n)).astype(dtype) for n in grid]
    return inputs, 2 * inputs, query, along, len(batch), channels


def by_fields(inputs, outputs, query, coords, batch, rank, channels, **more):
    """The same prompt, one field after the other."""

    def flat(values, lead):
        shape = values.shape
        end = len(shape) - channels
        return values.reshape(*shape[:lead], -1, shape[-1] if channels else 1)[
            ..., : int(np.prod(shape[lead:end])), :
        ]

    parts = [
        Field(coords, flat(v, lead))
        for v, lead in ((inputs, batch + 1), (outputs, batch + 1), (query, batch))
    ]
    return Prompt(*parts, at=coords, **more)


@given(questions())
def test_gridded_arrays_are_fields_on_the_points_of_the_grid(question):
    inputs, outputs, query, along, batch, channels = question
    mesh = np.stack([part.reshape(-1) for part in np.meshgrid(*along, indexing="ij")], axis=-1)
    expected = by_fields(inputs, outputs, query, mesh, batch, len(along), channels)
    assert same(from_arrays(inputs, outputs, query, coords=tuple(along)), expected)


@given(questions())
def test_numpy_torch_lists_and_xarray_give_equal_prompts(question):
    inputs, outputs, query, along, batch, channels = question
    names = ["z", "y", "x"][-len(along) :]
    axes = tuple(Axis(name) for name in names)
    plain = from_arrays(inputs, outputs, query, coords=tuple(along), axes=axes)
    tensors = (torch.from_numpy(part) for part in (inputs, outputs, query))
    assert same(from_arrays(*tensors, coords=[torch.from_numpy(part) for part in along], axes=axes), plain)
    assert same(
        from_arrays(inputs, outputs, query, coords=dict(zip(names, along, strict=True)), axes=names), plain
    )
    lead, last = [f"q{i}" for i in range(batch)], ["channel"] * channels

    def labelled(values, *example):
        dims = [*lead, *example, *names, *last]
        return xarray.DataArray(values, dict(zip(names, along, strict=True)), dims)

    shuffled = labelled(query).transpose(*reversed(labelled(query).dims))
    made = from_arrays(labelled(inputs, "example"), labelled(outputs, "example"), shuffled, axes=axes)
    assert same(made, plain)


@given(st.integers(1, 3), st.integers(9, 12), st.booleans())
def test_scattered_points(k, n, channels):
    points = DICE.random((n, k))
    inputs, query = (DICE.normal(size=(*lead, n, *[2] * channels)) for lead in ((5,), ()))
    expected = by_fields(inputs, -inputs, query, points, 0, 1, channels)
    assert same(from_arrays(inputs, -inputs, query, coords=points), expected)
    assert same(from_arrays(inputs, -inputs, query, coords=points.tolist()), expected)


def test_the_shortest_way():
    u = DICE.random((6, 64))
    prompt = from_arrays(u[:5], 2 * u[:5], u[5])
    x = np.linspace(0, 1, 64)[:, None]
    assert torch.equal(prompt.at, torch.from_numpy(x))
    assert torch.equal(prompt.query.values, torch.from_numpy(u[5])[:, None])
    assert prompt.assumed == "x without a period, evenly spaced points along x"
    assert f"axes x, assumed: {prompt.assumed};" in repr(prompt)
    batched = from_arrays(u.reshape(2, 3, 8, 8), u.reshape(2, 3, 8, 8), u[:2, :64].reshape(2, 8, 8), axes="x")
    assert batched.query.values.shape == (2, 8, 8)


def test_what_was_made_up_is_not_stated():
    """Points that nobody gave show no period, and do not make stated axes unstated."""
    u = DICE.random((6, 64))
    with pytest.raises(chop.ProgramError, match="needs the period of a coordinate"):
        chop.parse("moving_frame | mean_output").run(print, from_arrays(u[:5], u[:5], u[5]))
    circle = from_arrays(u[:5], u[:5], u[5], axes=Axis("x", period=2.0))
    assert torch.equal(circle.at[:, 0], torch.arange(64) / 32.0)
    assert circle.axes_stated
    assert circle.assumed == "evenly spaced points along x"
    assert chop.parse("moving_frame | mean_output").run(print, circle).values.shape == (64, 1)
    assert from_arrays(u[:5], u[:5], u[5], coords=np.arange(64) / 64, axes=("x",)).assumed is None


def test_outputs_and_answers_on_points_of_their_own():
    u, v = DICE.random((5, 4, 6)), DICE.random((5, 3, 2))
    y, x, m = np.arange(4.0), np.arange(6.0), DICE.random((3, 2))
    prompt = from_arrays(u, v, u[0], coords=(y, x), out_coords=m)
    assert prompt.answer_shape == (3, 2)
    assert torch.equal(prompt.at, torch.from_numpy(m))
    elsewhere = from_arrays(u, v, u[0], coords=(y, x), out_coords=m, at=(y, x))
    assert elsewhere.answer_shape == (24, 2)
    each = DICE.random((7, 6, 1))
    grids = from_arrays(np.ones((7, 5, 6)), np.ones((7, 5, 6)), np.ones((7, 6)), coords=each)
    assert torch.equal(grids.inputs.coords[:, 3], torch.from_numpy(each))


def test_gaps():
    u = DICE.random((6, 12))
    mask = DICE.random((5, 12)) < 0.8
    x = np.linspace(0, 1, 12)[:, None]
    prompt = from_arrays(u[:5], u[:5], u[5], coords=x, mask=mask)
    expected = Prompt(
        Field(x, u[:5, :, None]), Field(x, u[:5, :, None], mask[..., None]), Field(x, u[5, :, None]), x
    )
    assert same(prompt, expected)
    holes = np.where(mask, u[:5], np.nan)
    for made in (
        from_arrays(u[:5], holes, u[5], coords=x, mask="nan"),
        from_arrays(u[:5], holes, u[5], coords=x, mask=mask),
        from_arrays(u[:5], np.ma.masked_invalid(holes), u[5], coords=x),
        from_arrays(u[:5], holes, u[5], coords=x, mask={"outputs": mask}),
    ):
        hidden = np.ma.masked_array(u[:5, :, None], ~mask[..., None])
        assert same(made, Prompt(Field(x, u[:5, :, None]), Field(x, hidden), Field(x, u[5, :, None]), x))
        assert made.inputs.mask is None


def test_graphs_and_times_go_along():
    u = DICE.random((4, 9))
    edges = np.array([[0, 1], [1, 2]])
    made = from_arrays(u[:3], u[:3], u[3], graph=edges, times=[3, 1, 5, 9])
    assert made.graph.size == 9
    assert made.times.tolist() == [3, 1, 5, 9]
    assert from_arrays(u[:3], u[:3], u[3], graph=Graph(edges, 9)).graph.edges.tolist() == edges.tolist()


def test_names_of_dimensions_are_axes():
    t, x = np.arange(3.0), np.linspace(0, 1, 8)
    u = xarray.DataArray(DICE.random((5, 3, 8)), {"time": t, "x": x}, ("example", "time", "x"))
    prompt = from_arrays(u, u, u[0])
    assert [axis.name for axis in prompt.axes] == ["t", "x"]
    assert prompt.assumed is None
    stations = xarray.DataArray(DICE.random((5, 4)), {"station": list("abcd")}, ("example", "station"))
    placed = from_arrays(stations, stations, stations[0], coords=DICE.random((4, 2)))
    assert placed.dimensions == 2


ones = np.ones
u, v, q = ones((5, 8)), ones((5, 8)), ones(8)
BAD = {
    "a grid without coords": (
        lambda: from_arrays(*[ones((5, 8, 9, 2))] * 2, ones((8, 9, 2))),
        r"coords=\(y, x\)",
    ),
    "an image without coords": (
        lambda: from_arrays(ones((5, 64, 64)), ones((5, 64, 64)), ones((64, 64))),
        r"64 points with 64 channels or a grid of 64 x 64 .* coords=\(y, x\)",
    ),
    "as many questions as examples": (
        lambda: from_arrays(ones((5, 5, 3)), ones((5, 5, 3)), ones((5, 3))),
        r"two ways, 5 questions of 5 examples on 3 points or 5 examples on 5 points and 3 channels: give",
    ),
    "no axis of examples": (lambda: from_arrays(q, q, q), r"one axis of examples more"),
    "other points": (lambda: from_arrays(ones((5, 8)), ones((5, 8)), ones(7)), r"do not fit together"),
    "outputs elsewhere": (lambda: from_arrays(u, ones((5, 7)), q, coords=q), r"give out_coords"),
    "other coords": (lambda: from_arrays(u, v, q, coords=ones(9)), r"do not fit coords of 9"),
    "meshgrid": (
        lambda: from_arrays(*[ones((5, 4, 3))] * 2, ones((4, 3)), coords=np.meshgrid(q[:3], q[:4])),
        r"one-dimensional arrays, not \(4, 3\), \(4, 3\)",
    ),
    "NaN": (lambda: from_arrays(ones((5, 8)), np.full((5, 8), np.nan), ones(8)), r'40 NaN; write mask="nan"'),
    "mask of another shape": (lambda: from_arrays(u, v, q, mask=ones(8, bool)), r"mask of outputs"),
    "mask of a stranger": (
        lambda: from_arrays(u, v, q, mask={"target": ones(8, bool)}),
        r"not 'target'",
    ),
    "mask in a word": (lambda: from_arrays(u, v, q, mask="holes"), r'"nan"'),
    "axes": (lambda: from_arrays(u, v, q, axes=3), r"axes must be chop\.Axis"),
    "integers": (lambda: from_arrays(ones((5, 8), int), ones((5, 8)), ones(8)), r"floating point"),
    "names that do not fit": (
        lambda: from_arrays(*[xarray.DataArray(ones((5, 8)), dims=("e", "x"))] * 3),
        r"one of examples",
    ),
    "times that are no numbers": (
        lambda: from_arrays(
            *[xarray.DataArray(ones((5, 3)), {"t": np.arange(3).astype("M8[h]")}, ("e", "t"))] * 2,
            xarray.DataArray(ones(3), dims=("t",)),
        ),
        r"'t' needs coordinates that are numbers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_clear_is_refused_with_what_to_write(case):
    make, words = BAD[case]
    with pytest.raises(PromptError, match=words) as raised:
        make()
    assert "\n" not in str(raised.value)


def test_answers_come_back_with_names():
    y, x = np.arange(4.0), np.linspace(0, 1, 6)
    u = xarray.DataArray(DICE.random((2, 5, 4, 6)), {"y": y, "x": x}, ("question", "example", "y", "x"))
    prompt = from_arrays(u, 2 * u, u[:, 0])
    answer = chop.parse("correct(copy_query)").run(print, prompt).to_xarray()
    assert answer.dims == ("question", "y", "x")
    assert np.array_equal(answer["x"], x)
    assert answer["error"].dims == ("question",)
    assert not answer["rejected"].any()
    np.testing.assert_allclose(answer.sel(y=2.0), answer.to_numpy()[:, 2])
    values = chop.parse("copy_query").run(print, prompt)
    np.testing.assert_array_equal(values.to_xarray().to_numpy(), u[:, 0].to_numpy())
    np.testing.assert_array_equal(values.numpy()[..., 0], u[:, 0].to_numpy().reshape(2, 24))


def test_answers_at_scattered_points_and_with_channels_come_back_with_names():
    points = DICE.random((7, 2))
    u = DICE.random((5, 7, 3))
    scattered = chop.parse("copy_query").run(
        print, from_arrays(u, u, u[0], coords=points, axes=("lon", "lat"))
    )
    named = scattered.to_xarray()
    assert named.dims == ("point", "channel")
    assert np.array_equal(named["lat"], points[:, 1])
    own = DICE.random((2, 7, 2))
    many = from_arrays(ones((2, 5, 7)), ones((2, 5, 7)), ones((2, 7)), coords=own, axes=("lon", "lat"))
    assert chop.parse("copy_query").run(print, many).to_xarray()["lon"].dims == ("question", "point")


def test_without_xarray_it_is_said(monkeypatch):
    result = chop.parse("copy_query").run(print, from_arrays(u, v, q))
    monkeypatch.setitem(__import__("sys").modules, "xarray", None)
    with pytest.raises(chop.ChopError, match="pip install"):
        result.to_xarray()
