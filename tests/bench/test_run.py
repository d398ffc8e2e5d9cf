"""Benchmark runs: stored as they go, continued after kill -9, the same bytes in the end."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from small_disk import small_disk

from chop.bench.conditions import CONDITIONS, Selection, condition_named, entries
from chop.bench.methods import BAGGING, BASELINES, CONSERVATION, FINE_TUNING, MFC, RAW, ROLLOUT_GRID, grid
from chop.bench.report import write
from chop.bench.results import Results
from chop.bench.runner import Run, missing, run
from chop.bench.store import FILE, Store
from chop.bench.work import Job, Setting, evaluate, fingerprint
from chop.core.errors import BenchError
from chop.icon.config import IconConfig
from chop.icon.functions.network import Icon
from chop.icon.weights import save

SMALL = {"width": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Two tiny networks with random weights, one for each problem."""
    folder = tmp_path_factory.mktemp("weights")
    for seed, (name, options) in enumerate(
        {"conservation": {}, "mfc": {"coordinates": 2, "grid": None}, "other": {}}.items()
    ):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = Icon(IconConfig(**SMALL, **options))
            torch.nn.init.normal_(network.head.weight, std=0.05)
        save(network, folder / f"{name}.safetensors")
    return folder


def asked(weights, out, *, suites=("conservation",), model=None, **selection):
    selection = {"groups": ("main", "baselines"), "conditions": ("conservation/sin_cos",), **selection}
    models = (str(weights / f"{model or suites[0]}.safetensors"),)
    return Run(Selection(suites=suites, cases=30, **selection), out, models, executor="inline")


SMALL_BATCHES = """
from dataclasses import replace
from chop.bench.conditions import CONDITIONS
from chop.cli import main
CONDITIONS.update({name: replace(condition, chunk=2) for name, condition in CONDITIONS.items()})
main()
"""


@pytest.mark.slow
def test_a_killed_run_continues_and_writes_the_same_table(weights, tmp_path, monkeypatch):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    name, model = "conservation/tanh", str(weights / "conservation.safetensors")
    process = subprocess.Popen(
        [
            sys.executable, "-c", SMALL_BATCHES, "bench", "conservation", "--cases", "30", "-p", "main",
            "-p", "ablations", "--condition", name, "--model", model, "--out", str(broken), "--executor",
            "inline",
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if (broken / FILE).exists() and (broken / FILE).read_bytes().count(b"\n") >= 12:
            break
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was to be killed half way"
    stored = (broken / FILE).read_bytes()
    complete = stored[: stored.rindex(b"\n") + 1]
    with (broken / FILE).open("ab") as file:
        file.write(stored.splitlines()[-1][:40])  # what a crash in the middle of a line leaves
    monkeypatch.setitem(CONDITIONS, name, replace(CONDITIONS[name], chunk=2))
    groups = {"groups": ("main", "ablations"), "conditions": (name,)}
    for out in (broken, whole):
        run(asked(weights, out, **groups))
        write(asked(weights, out, **groups))
    after = (broken / FILE).read_bytes()
    assert after.startswith(complete), "nothing paid for is measured again"
    assert len(after.splitlines()) == len((whole / FILE).read_bytes().splitlines()) > len(stored.splitlines())
    assert (broken / "table.md").read_bytes() == (whole / "table.md").read_bytes()
    assert "<img" in (broken / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_worker_processes_give_what_this_process_gives(weights, tmp_path):
    alone = asked(weights, tmp_path / "alone", groups=("main",))
    run(alone)
    run(replace(alone, out=tmp_path / "workers", executor="processes", workers=1))
    numbers = []
    for out in (alone.out, tmp_path / "workers"):
        with Store(out) as store:
            numbers.append(Results(store, alone.selection).errors("conservation/sin_cos", CONSERVATION))
    assert numbers[0].tolist() == numbers[1].tolist()


@pytest.mark.slow
def test_a_local_ray_cluster_gives_what_this_process_gives(weights, tmp_path):
    pytest.importorskip("ray")
    alone = asked(weights, tmp_path / "alone", groups=("main",))
    run(alone)
    done = subprocess.run(
        [
            sys.executable, "-m", "chop.cli", "bench", "conservation", "--cases", "30", "-p", "main",
            "--condition", "conservation/sin_cos", "--model", alone.models[0], "--out", str(tmp_path / "ray"),
            "--executor", "ray", "--workers", "2",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    write(alone)
    assert (alone.out / "table.md").read_bytes() == (tmp_path / "ray" / "table.md").read_bytes()


def test_without_ray_the_executor_says_what_to_install(weights, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    bench = asked(weights, tmp_path / "out", groups=("main",))
    with pytest.raises(BenchError, match=r"chain-of-operators\[ray\]"):
        run(replace(bench, executor="ray"))
    with pytest.raises(BenchError, match="executor must be one of"):
        run(replace(bench, executor="magic"))


def test_a_finished_run_measures_nothing_again(weights, tmp_path):
    bench = asked(weights, tmp_path / "out", groups=("main",))
    run(bench)
    before = (tmp_path / "out" / FILE).read_bytes()
    run(bench)
    assert (tmp_path / "out" / FILE).read_bytes() == before


def test_more_cases_measure_only_what_is_new(weights, tmp_path):
    bench = asked(weights, tmp_path / "out", groups=("main",))
    run(bench)
    more = Run(Selection(("conservation",), ("main",), conditions=("conservation/sin_cos",), cases=60),
               bench.out, bench.models, executor="inline")  # fmt: skip
    with Store(bench.out) as store:
        # 30 questions were batches of 25 and 5; now the second batch has 25 and there is a third of 10.
        assert {(job.first, job.end) for job in missing(store, more.selection)} == {(25, 50), (50, 60)}


def test_another_network_another_version_another_seed_are_refused(weights, tmp_path, monkeypatch):
    bench = asked(weights, tmp_path / "out", groups=("main",))
    run(bench)
    kept = (bench.out / FILE).read_bytes()
    with pytest.raises(BenchError, match="another conservation network"):
        run(asked(weights, bench.out, model="other", groups=("main",)))
    with pytest.raises(BenchError, match=r"seed 0; this is version .* seed 1"):
        run(Run(bench.selection, bench.out, bench.models, seed=1, executor="inline"))
    monkeypatch.setattr("chop.__version__", "99.0")
    with pytest.raises(BenchError, match=r"this is version 99\.0"):
        run(bench)
    assert (bench.out / FILE).read_bytes() == kept


def test_two_networks_for_one_problem_are_refused(weights, tmp_path):
    models = tuple(str(weights / f"{name}.safetensors") for name in ("conservation", "other"))
    with pytest.raises(BenchError, match="two networks for conservation"):
        Run(Selection(("conservation",)), tmp_path, models).setting()


def test_a_full_disk_is_a_sentence_and_loses_nothing(weights, tmp_path):
    out = tmp_path / "out"
    bench = asked(weights, out, groups=("main",))
    with small_disk(6000), pytest.raises(BenchError, match="everything before is kept"):
        run(bench)
    kept = (out / FILE).read_bytes()
    assert len(kept) <= 6000
    assert kept.endswith(b"\n")
    run(bench)
    assert (out / FILE).read_bytes().startswith(kept)
    run(asked(weights, tmp_path / "whole", groups=("main",)))
    tables = [write(Run(bench.selection, path, bench.models))[0] for path in (out, tmp_path / "whole")]
    assert tables[0].read_bytes() == tables[1].read_bytes()


def test_unknown_things_are_named():
    with pytest.raises(BenchError, match="no condition 'conservation/cubic'; known are conservation/sin_cos"):
        condition_named("conservation/cubic")
    with pytest.raises(BenchError, match="no suite 'weather'"):
        Selection(("weather",))
    with pytest.raises(BenchError, match="no group of methods 'magic'"):
        Selection(("mfc",), groups=("magic",))
    with pytest.raises(BenchError, match="cases must be 1 or more"):
        Selection(("mfc",), cases=0)


def test_the_best_program_is_measured_once_the_evolution_set_has_chosen(weights, tmp_path, monkeypatch):
    monkeypatch.setattr("chop.bench.conditions.grid", lambda problem: (RAW, "copy_query"))
    monkeypatch.setattr("chop.bench.results.grid", lambda problem: (RAW, "copy_query"))
    bench = asked(weights, tmp_path / "out", groups=("best",))
    run(bench)
    with Store(bench.out) as store:
        results = Results(store, bench.selection)
        assert results.chosen["conservation"] in (RAW, "copy_query")
        assert results.errors("conservation/sin_cos", results.chosen["conservation"]) is not None
        scores = {method: results.errors("evolution/conservation", method).mean()
                  for method in (RAW, "copy_query")}  # fmt: skip
        assert results.chosen["conservation"] == min(scores, key=scores.get)


@pytest.mark.parametrize("name", ["mfc/g_1to1/0.1", "mfc/rho_1to2/0.5", "conservation/tanh/rollout"])
def test_every_kind_of_condition_is_answered(weights, name):
    condition = CONDITIONS[name]
    path = weights / f"{condition.problem}.safetensors"
    setting = Setting(0, ((condition.problem, str(path), fingerprint(path)),))
    methods = (RAW, CONSERVATION) if condition.steps > 1 else (RAW, MFC, BAGGING, FINE_TUNING[0])
    records = evaluate(Job(condition, methods, 0, 2, "main"), setting)
    again = evaluate(Job(condition, methods, 0, 2, "main"), setting)
    assert [(r["method"], r["index"]) for r in records] == [(m, i) for m in methods for i in range(2)]
    assert [r["error"] for r in records] == [r["error"] for r in again]
    for record in records:
        json.dumps(record, allow_nan=False)
        if condition.steps > 1:
            assert len(record["curve"]) == 144
            assert record["curve"][-1] == pytest.approx(record["error"], rel=1e-3)
        assert record["calls"] == {RAW: 1, MFC: 12, BAGGING: 12, FINE_TUNING[0]: 51}.get(
            record["method"], 1
        ) * (condition.steps if condition.steps > 1 else 1)


def test_answers_that_are_not_finite_are_stored_as_such(weights, tmp_path, monkeypatch):
    def broken(self, prompts):
        return [torch.full(prompt.answer_shape, torch.nan) for prompt in prompts]

    monkeypatch.setattr(Icon, "predict_many", broken)
    bench = asked(weights, tmp_path / "out", groups=("main",))
    run(bench)
    with Store(bench.out) as store:
        results = Results(store, bench.selection)
        compared = results.compare("conservation/sin_cos", CONSERVATION)
        assert (compared.n, compared.lost, compared.paired) == (30, 30, None)
    table = write(bench)[0].read_text(encoding="utf-8")
    assert "none of 30 finite" in table


def test_the_declared_work_is_the_papers():
    every = entries(Selection(("conservation", "mfc", "transfer")), {})
    asked = {(entry.condition.name, entry.method): entry for entry in every}
    for flux in ("sin_cos", "tanh", "buckley_leverett"):
        for method in (RAW, CONSERVATION, MFC):
            assert asked[f"conservation/{flux}", method].n == 500
        assert asked[f"conservation/{flux}/rollout", CONSERVATION].condition.steps == 144
    mfc = [e for e in every if e.condition.name.startswith("mfc/") and e.method == MFC]
    assert len(mfc) == 15
    assert {entry.n for entry in mfc} == {100}
    groups = [entry.group for entry in every]
    assert groups.index("main") < groups.index("ablations"), "the main tables come first"
    assert len(asked) == len(every)


def test_every_declared_method_is_a_program_or_a_baseline():
    from chop.core.programs import TEXTS
    from chop.core.text import parse

    texts = {
        *grid("conservation"),
        *grid("mfc"),
        *ROLLOUT_GRID,
        *BASELINES["conservation"],
        *BASELINES["mfc"],
    }
    for text in texts:
        assert text.startswith("@") or str(parse(text)) == str(parse(str(parse(text))))
    assert (TEXTS["raw"], TEXTS["conservation"], TEXTS["mfc"]) == (RAW, CONSERVATION, MFC)
