"""The station network: conformance, any graph, any order, what is shared, what it refuses, training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop.core.errors import ChopError, ModelError
from chop.core.prompt import Field, Graph, Prompt
from chop.icon import StationConfig, StationIcon, load, provenance, save
from chop.icon.launch import run_training
from chop.icon.layers import Kernels, offsets
from chop.icon.stations import data as station_data
from chop.icon.stations import sharing as station_sharing
from chop.icon.training import TrainingPlan
from chop.testing.conformance import ModelConformance
from chop.testing.data import PROMPT_AXES

CHANNELS = ("hour", "PM2.5", "O3")
SMALL = StationConfig(
    channels=CHANNELS, hours=6, width=24, heads=2, window_layers=1, pair_layers=1, asking_layers=2,
    lengths=(30.0, 200.0), each=8,
)  # fmt: skip


def network(config: StationConfig = SMALL, seed: int = 0) -> StationIcon:
    """Random weights whose answer is not the trivial one."""
    torch.manual_seed(seed)
    made = StationIcon(config)
    torch.nn.init.normal_(made.head.weight, std=0.2)
    return made.eval().requires_grad_(False)


def ring(stations: int) -> Graph | None:
    """Every station neighbours the next; one station alone has no edges."""
    index = torch.arange(stations)
    edges = torch.stack([index, (index + 1) % stations])
    return Graph(edges[:, : stations if stations > 2 else stations - 1], stations)


def question(
    seed: int, batch: tuple[int, ...] = (2,), stations: int = 7, examples: int = 3, gaps: float = 0.2,
    dtype: torch.dtype = torch.float32, graph: Graph | None = None,
) -> Prompt:  # fmt: skip
    """A prompt of six-hour windows at random places with random gaps."""
    stream = torch.Generator().manual_seed(seed)
    places = torch.rand(stations, 2, generator=stream, dtype=torch.float64) * 4 + torch.tensor([115.0, 33.0])
    hours, channels = SMALL.hours, len(CHANNELS)
    t = (torch.arange(hours, dtype=torch.float64) - hours + 1) / 24
    window = torch.cat([t.repeat_interleave(stations)[:, None], places.repeat(hours, 1)], dim=-1).to(dtype)
    frame = torch.cat([torch.full((stations, 1), 1 / 24, dtype=torch.float64), places], dim=-1).to(dtype)

    def field(coords, *lead):
        shape = (*batch, *lead, len(coords), channels)
        values = torch.randn(shape, generator=stream, dtype=torch.float64).to(dtype)
        return Field(coords, values, torch.rand(shape, generator=stream) >= gaps)

    return Prompt(
        inputs=field(window, examples), outputs=field(frame, examples), query=field(window), at=frame,
        graph=graph or ring(stations), axes=PROMPT_AXES[3],
    )  # fmt: skip


class TestStations(ModelConformance):
    def make_model(self):
        return network()

    def prompts(self, dtype=torch.float32):
        return [
            question(1, (3,), dtype=dtype),
            question(2, (2, 2), stations=4, examples=2, dtype=dtype),
            question(3, (1,), stations=1, dtype=dtype),
            question(4, (2,), stations=5, gaps=0.0, dtype=dtype),
        ]


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(7)), st.integers(0, 2**31))
def test_order_of_stations_does_not_matter(order: list[int], seed: int) -> None:
    prompt = question(seed, graph=ring(7))
    index = torch.tensor(order)
    back = torch.argsort(index)

    def turned(part: Field) -> Field:
        frames = part.points // 7
        points = (torch.arange(frames)[:, None] * 7 + index).flatten()
        return Field(part.coords[..., points, :], part.values[..., points, :], part.observed[..., points, :])

    graph = Graph(back[prompt.graph.edges], 7)
    other = Prompt(
        inputs=turned(prompt.inputs), outputs=turned(prompt.outputs), query=turned(prompt.query),
        at=prompt.at[..., index, :], graph=graph,
    )  # fmt: skip
    model = network()
    torch.testing.assert_close(model(other), model(prompt)[..., index, :], rtol=1e-4, atol=1e-5)


def test_order_of_examples_does_not_matter() -> None:
    prompt, model = question(5), network()
    order = torch.tensor([2, 0, 1]).expand(*prompt.batch, 3)
    torch.testing.assert_close(model(prompt.choose(order)), model(prompt), rtol=1e-5, atol=1e-5)


def test_a_station_hears_its_neighbours_and_nobody_else() -> None:
    """Two groups without an edge between them: what one group sees does not reach the other."""
    edges = torch.tensor([[0, 1, 3, 4], [1, 2, 4, 5]])
    prompt, model = question(6, stations=6, graph=Graph(edges, 6)), network()
    values = prompt.query.values.clone()
    values.unflatten(-2, (6, 6))[..., 3:, :] += 5.0
    moved = model(replace(prompt, query=Field(prompt.query.coords, values, prompt.query.mask)))
    before = model(prompt)
    torch.testing.assert_close(moved[..., :3, :], before[..., :3, :])
    assert not torch.allclose(moved[..., 3:, :], before[..., 3:, :])
    values = prompt.query.values.clone()
    values.unflatten(-2, (6, 6))[..., 0, :] += 5.0
    moved = model(replace(prompt, query=Field(prompt.query.coords, values, prompt.query.mask)))
    assert not torch.allclose(moved[..., 1, :], before[..., 1, :])


def test_without_a_graph_everybody_is_a_neighbour() -> None:
    full = torch.combinations(torch.arange(5)).T
    prompt = question(7, stations=5, graph=Graph(full, 5))
    torch.testing.assert_close(network()(replace(prompt, graph=None)), network()(prompt))


def test_what_was_not_observed_is_known_to_the_network() -> None:
    prompt, model = question(8, gaps=0.3), network()
    bare = replace(prompt, query=Field(prompt.query.coords, prompt.query.values))
    assert not torch.allclose(model(bare), model(prompt))


def test_held_out_windows_are_encoded_once(monkeypatch) -> None:
    """CHOP(Air) encodes D + 1 windows, as the bare network does, and answers as if each were asked alone."""
    prompt, model = question(9, batch=(2,), examples=4, stations=5), network()
    encoded = []
    plain = StationIcon.encode_windows

    def counting(self, x, *rest):
        encoded.append(len(x))
        return plain(self, x, *rest)

    monkeypatch.setattr(StationIcon, "encode_windows", counting)
    program = chop.parse("combine(icon, last_frame, debias(icon), channels=(-2, -1))")
    together = program.run(model, prompt)
    assert sum(encoded) == 2 * 5
    assert together.calls == 5
    alone = program.run(lambda asked: model(asked), prompt)
    torch.testing.assert_close(together.values, alone.values, rtol=1e-4, atol=1e-5)


def test_slices_of_a_large_batch_share_too(monkeypatch) -> None:
    from chop.core import model as runtime

    prompt, frozen = question(10, batch=(5,), examples=3), network()
    whole = chop.parse("debias(icon)").run(frozen, prompt).values
    monkeypatch.setattr(station_sharing, "WINDOWS", {"cpu": 1})
    encoded = []
    plain = StationIcon.encode_windows
    monkeypatch.setattr(
        StationIcon, "encode_windows", lambda self, x, *rest: encoded.append(len(x)) or plain(self, x, *rest)
    )
    caller = runtime.Caller(frozen, prompt, max_bytes=1)
    held = prompt.held_out(pad=False)
    answers = caller([prompt, held])
    assert sum(encoded) == 5 * 4
    torch.testing.assert_close(answers[0], frozen(prompt), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(answers[1], frozen(held), rtol=1e-4, atol=1e-5)
    assert whole.shape == prompt.answer_shape


def test_prompts_with_different_stations_are_answered_one_by_one() -> None:
    one, two = (question(seed, batch=(1,), graph=ring(7)) for seed in (11, 12))
    graph = one.graph
    both = Prompt(
        **{
            name: Field(
                torch.cat([getattr(p, name).coords for p in (one, two)]),
                torch.cat([getattr(p, name).values for p in (one, two)]),
                torch.cat([getattr(p, name).observed for p in (one, two)]),
            )
            for name in ("inputs", "outputs", "query")
        },
        at=torch.cat([one.at, two.at]),
        graph=graph,
    )
    alone = torch.cat([network()(p) for p in (one, two)])
    torch.testing.assert_close(network()(both), alone, rtol=1e-5, atol=1e-5)


def test_kernels() -> None:
    places = torch.tensor([[116.0, 40.0], [117.0, 40.0], [116.0, 41.0], [130.0, 20.0]])
    neighbours = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
    lengths = (50.0, 150.0)
    plain, east, north = Kernels(lengths)(places, neighbours).detach().chunk(3)
    torch.testing.assert_close(plain.sum(dim=-1), torch.ones(2, 4))
    torch.testing.assert_close(plain[:, 3], torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(2, 4))
    kilometres = 111.195 * np.cos(np.radians(40.0))
    ratio = torch.exp(-torch.tensor(kilometres) / torch.tensor(lengths))
    torch.testing.assert_close(plain[:, 0, 1] / plain[:, 0, 0], ratio.float(), rtol=1e-4, atol=0.0)
    torch.testing.assert_close(east[:, 0, 1], plain[:, 0, 1])
    torch.testing.assert_close(north[:, 0, 2], plain[:, 0, 2])
    assert float(east[:, 0, 2].abs().max()) < 1e-6
    assert float(east[:, 1, 0].max()) < 0


def test_offsets_cross_the_date_line() -> None:
    east, north = offsets(torch.tensor([[179.5, 0.0], [-179.5, 0.0]]))
    assert float(east[0, 1]) == pytest.approx(111.195, rel=1e-5)
    assert float(north[0, 1]) == 0.0


def test_what_it_refuses() -> None:
    model, prompt = network(), question(13)
    with pytest.raises(ModelError, match="functions of"):
        model(chop.problems.conservation.sample("cubic", n=1).prompt)
    cut = Field(prompt.outputs.coords[..., :6, :], prompt.outputs.values[..., :6, :])
    with pytest.raises(ModelError, match="6 frames of the 6 stations"):
        model(replace(prompt, outputs=cut, at=prompt.at[..., :6, :], graph=None))
    backwards = prompt.query.coords.clone()
    backwards[..., 0] *= -1
    with pytest.raises(ModelError, match="oldest first"):
        model(replace(prompt, query=Field(backwards, prompt.query.values)))
    more = [Field(p.coords, torch.cat([p.values, p.values], -1)) for p in (prompt.inputs, prompt.outputs)]
    wide = Field(prompt.query.coords, prompt.query.values.repeat(1, 1, 2))
    with pytest.raises(ModelError, match=r"3 channels hour, PM2\.5, O3"):
        model(replace(prompt, inputs=more[0], outputs=more[1], query=wide))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"channels": ("PM2.5",)}, "the hour"),
        ({"width": 0}, "width"),
        ({"lengths": ()}, "lengths"),
        ({"lengths": (-1.0,)}, "lengths"),
        ({"each": 7}, "kernels of 7"),
        ({"hours": 2.5}, "hours"),
    ],
)
def test_impossible_shapes(changes, words) -> None:
    with pytest.raises(ModelError, match=words):
        replace(SMALL, **changes)


def test_weights_come_back(tmp_path) -> None:
    model = network()
    save(model, tmp_path / "a.safetensors", {"problem": "air"})
    again = load(tmp_path / "a.safetensors")
    assert isinstance(again, StationIcon)
    assert provenance(tmp_path / "a.safetensors").config == SMALL
    assert torch.equal(again(question(14)), model(question(14)))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    pytest.importorskip("xarray")
    from chop.problems.air import make_world

    folder = tmp_path_factory.mktemp("world")
    make_world(folder, hours=24 * 40, stations=(9, 7), seed=0)
    return folder


def settings_of(folder, **changes):
    first, last = "2023-10-01", "2023-11-08"
    given = {"folder": str(folder), "region": "bthsa", "period": [first, last], "stations": 6}
    return {**given, "channels": ["hour", "PM2.5", "O3"], **changes}


def test_batches(world) -> None:
    batches = station_data.AirBatches(**settings_of(world), size=4, seed=1)
    one, two, other = batches(3), batches(3), batches(4)
    assert torch.equal(one.x, two.x)
    assert not torch.equal(one.x, other.x)
    assert one.x.shape == (4, 6, 24, 6, 3)
    assert one.y.shape == (4, 6, 6, 3)
    assert one.counts.diagonal(dim1=1, dim2=2).sum() == 0
    record = station_data._record(str(world), "bthsa", batches.period, batches.channels)
    ends = record.windows(np.random.default_rng(0), alike=True)
    assert (np.diff(np.sort(ends)) >= station_data.APART).all()
    plain = replace(batches, stretch=0.0, shift=0.0)(3)
    factor = (one.x[0, ..., 1].flatten()[0] - one.x[0, ..., 1].flatten()[1]) / (
        plain.x[0, ..., 1].flatten()[0] - plain.x[0, ..., 1].flatten()[1]
    )
    assert factor > 0
    assert torch.equal(one.x[..., 0], plain.x[..., 0]), "the hour keeps its meaning"


def test_likeness_is_the_cosine_of_codes(world) -> None:
    record = station_data._record(str(world), "bthsa", ("2023-10-01", "2023-11-08"), ("hour", "PM2.5", "O3"))
    end = int(record.ends[200])
    found = record._likeness(end)
    window = record.codes[end - 23 : end + 1].ravel()
    for place in (0, 77, 200, len(record.ends) - 1):
        other = record.codes[record.ends[place] - 23 : record.ends[place] + 1].ravel()
        assert found[place] == pytest.approx(window @ other / np.linalg.norm(other), rel=1e-3)


def test_training_learns_and_continues(world, tmp_path) -> None:
    plan = TrainingPlan(
        problem="air", folder=str(tmp_path / "run"), steps=30, size=2, warmup=4, small=True,
        config=replace(SMALL, hours=24), data=settings_of(world),
    )  # fmt: skip
    losses = []
    run_training(plan, report=lambda state: losses.append(state["loss"]))
    assert losses[-1] < losses[0]
    again: list[int] = []
    run_training(replace(plan, steps=32), report=lambda state: again.append(state["step"]))
    assert again[0] == 31
    made = provenance(tmp_path / "run" / "weights.safetensors")
    assert made.training["problem"] == "air"
    assert "--region bthsa" in made.training["command"]


def test_other_channels_are_refused(world) -> None:
    with pytest.raises(ChopError):
        station_data.AirBatches(**settings_of(world, channels=["hour", "soot", "O3"]))(0)
