"""Pretraining: data, the optimiser, resuming after kill -9, several workers, the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from chop.cli.train import train_app
from chop.icon import Icon, IconConfig, load, provenance
from chop.icon.curve import draw_curve
from chop.icon.functions.data import PAIRS, ConservationBatches, MfcBatches, function_loss, visible_pairs
from chop.icon.launch import keep_memory, progress_printer, run_training
from chop.icon.optimizer import Optimizer, orthogonalised
from chop.icon.training import TrainingError, TrainingPlan, export_weights
from chop.problems import conservation

TINY = IconConfig(width=16, heads=2, encoder_layers=1, decoder_layers=1)
TINY_MFC = replace(TINY, coordinates=2, grid=None)
FEW = {"fluxes": 2, "trajectories": 1, "frames": 8, "keep": 4}


def plan(folder: Path, **changes) -> TrainingPlan:
    given = {"problem": "conservation", "folder": str(folder), "steps": 12, "size": 2, "warmup": 4}
    return TrainingPlan(**{**given, "config": TINY, "data": FEW, "small": True, **changes})


def test_visible_pairs() -> None:
    window = np.array([False, True] * 50)
    seen = visible_pairs(np.random.default_rng(0), window, few=0.0)
    assert bool((seen.diagonal(dim1=1, dim2=2) == 0).all())
    following = seen.diagonal(offset=1, dim1=1, dim2=2)
    assert bool((following[1::2] == 0).all())
    assert bool((following[::2] == 1).all())
    few = visible_pairs(np.random.default_rng(0), window, few=1.0).sum(dim=-1)
    assert set(few.unique().tolist()) == {1.0, 2.0, 3.0, 4.0}


def test_batches_are_functions_of_their_number() -> None:
    for batches in (ConservationBatches(size=4, **FEW), MfcBatches(size=4)):
        one, two, other = batches(7), batches(7), batches(8)
        assert torch.equal(one.x, two.x)
        assert torch.equal(one.counts, two.counts)
        assert one.x.shape != other.x.shape or not torch.equal(one.x, other.x)
        assert one.x.shape[1] == PAIRS


def test_guises_of_a_flux_are_solutions_of_another_cubic_flux() -> None:
    """x -> -x with f -> -f, and u -> -u with f(u) -> -f(-u): what the training data rely on."""
    a, b, c = 0.7, -0.4, 0.3
    x = np.arange(100) / 100
    u = np.cos(2 * np.pi * x) + 0.3 * np.sin(4 * np.pi * x + 1)
    times = np.array([0.1, 0.2])

    def solved(start, *numbers):
        return conservation.solve("cubic", start, times, parameters=np.array(numbers)).values[0]

    truth = solved(u, a, b, c)
    mirror = (-np.arange(100)) % 100
    np.testing.assert_allclose(solved(u[mirror], -a, -b, -c), truth[:, mirror], atol=1e-9)
    np.testing.assert_allclose(solved(-u, a, -b, c), -truth, atol=1e-9)
    np.testing.assert_allclose(solved(np.roll(u, 13), a, b, c), np.roll(truth, 13, axis=-1), atol=1e-9)


def test_orthogonalised() -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalised(torch.randn(9, 16, 16)))
    assert float(values.max()) < 1.1
    assert float(values.median()) > 0.9


def test_optimizer_learns_both_kinds_of_parameters() -> None:
    torch.manual_seed(0)
    network = Icon(TINY)
    optimizer = Optimizer(network)
    batch = ConservationBatches(size=4, **FEW)(0)
    losses = []
    for _ in range(25):
        network.zero_grad()
        loss = function_loss(network, batch)
        loss.backward()
        optimizer.step(3e-3)
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load(folder / "weights.safetensors").state_dict()


@pytest.mark.slow
def test_killed_run_continues_to_the_same_weights(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run_training(plan(whole, steps=40))
    interrupted = plan(broken, steps=40, save_every=0.0, validate_every=1e9)
    code = (
        "import sys; from chop.icon.launch import run_training; from chop.icon.training import TrainingPlan; "
    )
    code += "import time; run_training(TrainingPlan.parse(sys.argv[1]), 1, lambda state: time.sleep(0.1))"
    worker = subprocess.Popen([sys.executable, "-c", code, interrupted.dump()])
    deadline = time.monotonic() + 60
    while not (broken / "checkpoint.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    worker.send_signal(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL
    step = torch.load(broken / "checkpoint.pt", weights_only=True)["where"]["step"]
    assert 0 < step < 40
    assert not (broken / "weights.safetensors").exists()
    seen = []
    run_training(plan(broken, steps=40), report=lambda state: seen.append(state["step"]))
    assert seen[0] == step + 1
    one, two = weights(whole), weights(broken)
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_finished_run_stays_finished_and_other_settings_are_refused(tmp_path: Path) -> None:
    run_training(plan(tmp_path / "a", steps=3))
    before = weights(tmp_path / "a")
    seen = []
    run_training(plan(tmp_path / "a", steps=3), report=lambda state: seen.append(state))
    assert all(state.get("validated") for state in seen)
    assert all(torch.equal(value, weights(tmp_path / "a")[name]) for name, value in before.items())
    with pytest.raises(TrainingError, match="other settings"):
        run_training(plan(tmp_path / "a", steps=3, rate=1e-4))
    (tmp_path / "a" / "checkpoint.pt").write_bytes(b"no checkpoint")
    with pytest.raises(TrainingError, match="cannot be continued"):
        run_training(plan(tmp_path / "a", steps=3))
    with pytest.raises(TrainingError, match="conservation or mfc or air"):
        plan(tmp_path, problem="weather")


@pytest.mark.slow
def test_two_workers(tmp_path: Path) -> None:
    run_training(plan(tmp_path, steps=4), workers=2)
    training = provenance(tmp_path / "weights.safetensors").training
    assert (training["workers"], training["operators_per_step"], training["steps"]) == (2, 4, 4)


@pytest.mark.slow
def test_under_torchrun(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "-m", "chop.icon.launch", plan(tmp_path, steps=3).dump()],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert provenance(tmp_path / "weights.safetensors").training["workers"] == 2


def test_continue_from_weights(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    mfc = {"problem": "mfc", "config": TINY_MFC, "data": {"grids": ((10, 10),)}, "steps": 6}
    run_training(plan(first, **mfc))
    start = str(first / "weights.safetensors")
    run_training(plan(second, **mfc, start=start))
    history = provenance(second / "weights.safetensors").training
    assert history["before"]["steps"] == 6
    assert set(history["validation"]) == {"g_1to1", "g_1to2", "g_2to2", "rho_1to1", "rho_1to2"}
    assert draw_curve([first, second], tmp_path / "curve.png", "mfc").stat().st_size > 5000
    with pytest.raises(TrainingError, match="another shape"):
        run_training(plan(tmp_path / "third", start=start))


def test_minutes_end_a_run(tmp_path: Path, capsys) -> None:
    short = plan(tmp_path, steps=None, minutes=0.01)
    run_training(short, report=progress_printer(short, every=0.0))
    last = json.loads((tmp_path / "curve.jsonl").read_text().splitlines()[-1])
    assert last["share"] >= 1
    assert "ends about" in capsys.readouterr().out
    assert export_weights(tmp_path, tmp_path / "again.safetensors").exists()


def test_memory_is_kept_where_there_is_glibc() -> None:
    assert keep_memory() in (True, False)


@pytest.mark.slow
def test_command_line(tmp_path: Path) -> None:
    runner = CliRunner()
    assert "conservation" in runner.invoke(train_app, ["--help"]).output
    missing = runner.invoke(train_app, ["export", str(tmp_path), str(tmp_path / "w.safetensors")])
    assert missing.exit_code == 2
    bad = runner.invoke(train_app, ["mfc", "--minutes", "-1", "--out", str(tmp_path)])
    assert bad.exit_code == 2
    unknown = runner.invoke(train_app, ["mfc", "--from", "nothing", "-o", str(tmp_path)])
    assert unknown.exit_code == 2
    run_training(plan(tmp_path / "run", steps=2))
    out = tmp_path / "w.safetensors"
    assert runner.invoke(train_app, ["export", str(tmp_path / "run"), str(out)]).exit_code == 0
    assert load(out).config == TINY
    picture = tmp_path / "curve.png"
    assert (
        runner.invoke(train_app, ["curve", str(tmp_path / "run"), "--picture", str(picture)]).exit_code == 0
    )
    assert picture.exists()


def test_the_old_name_of_out_works_and_says_so(tmp_path: Path, monkeypatch) -> None:
    begun = []
    monkeypatch.setattr("chop.icon.launch.run_training", lambda plan, *_: begun.append(plan.folder))
    monkeypatch.setattr("chop.icon.curve.draw_curve", lambda folders, picture, title: picture)
    runner = CliRunner()
    old, new = (runner.invoke(train_app, ["mfc", name, str(tmp_path)]) for name in ("--folder", "--out"))
    assert (old.exit_code, new.exit_code) == (0, 0)
    assert begun == [str(tmp_path)] * 2
    assert f"write --out {tmp_path}" in old.stderr
    assert "--folder" not in new.stderr + new.stdout
    both = runner.invoke(train_app, ["mfc", "--folder", str(tmp_path), "--out", str(tmp_path)])
    assert both.exit_code == 2
    assert len(begun) == 2
    assert "--folder" not in runner.invoke(train_app, ["mfc", "--help"]).output
