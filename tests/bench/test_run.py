"""Benchmark runs: stored as they go, continued after kill -9, the same bytes in the end."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_disk import small_disk

from chop import __version__ as chop_version
from chop.bench.functions import CONDITIONS, FunctionSuite, condition_named
from chop.bench.methods import BAGGING, BASELINES, CONSERVATION, FINE_TUNING, MFC, RAW, grid_programs
from chop.bench.report import write_results
from chop.bench.results import Results
from chop.bench.runner import Run, run_benchmark
from chop.bench.store import FILE, SAME_NUMBERS, Store
from chop.bench.suite import Network, Piece, Setting, fingerprint_of_weights, missing_pieces
from chop.core.errors import BenchError, ChopError
from chop.icon.config import IconConfig, PublishedConfig
from chop.icon.functions.network import Icon
from chop.icon.published.network import PublishedIcon
from chop.icon.weights import save
from chop.storage.log import decode_line

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
    suite = FunctionSuite(suites, **{"cases": 30, "models": models, **selection})
    return Run(suite, out, executor="inline")


def report(bench):
    """The files of a benchmark with its figures."""
    return write_results(bench, bench.suite.setting(bench.out))


SMALL_BATCHES = """
from dataclasses import replace
from chop.bench.functions import CONDITIONS
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
        run_benchmark(asked(weights, out, **groups))
        report(asked(weights, out, **groups))
    after = (broken / FILE).read_bytes()
    assert after.startswith(complete), "nothing paid for is measured again"
    assert len(after.splitlines()) == len((whole / FILE).read_bytes().splitlines()) > len(stored.splitlines())
    assert (broken / "table.md").read_bytes() == (whole / "table.md").read_bytes()
    assert "<img" in (broken / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_worker_processes_give_what_this_process_gives(weights, tmp_path):
    alone = asked(weights, tmp_path / "alone", groups=("main",))
    run_benchmark(alone)
    run_benchmark(replace(alone, out=tmp_path / "workers", executor="processes", workers=1))
    numbers = []
    for out in (alone.out, tmp_path / "workers"):
        with Store(out, FunctionSuite.layout) as store:
            numbers.append(Results(store, alone.suite).errors("conservation/sin_cos", CONSERVATION))
    assert numbers[0].tolist() == numbers[1].tolist()


@pytest.mark.slow
def test_a_local_ray_cluster_gives_what_this_process_gives(weights, tmp_path):
    pytest.importorskip("ray")
    alone = asked(weights, tmp_path / "alone", groups=("main",))
    run_benchmark(alone)
    done = subprocess.run(
        [
            sys.executable, "-m", "chop.cli", "bench", "conservation", "--cases", "30", "-p", "main",
            "--condition", "conservation/sin_cos", "--model", alone.suite.models[0], "--out",
            str(tmp_path / "ray"), "--executor", "ray", "--workers", "2",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report(alone)
    assert (alone.out / "table.md").read_bytes() == (tmp_path / "ray" / "table.md").read_bytes()


def test_without_ray_the_executor_says_what_to_install(weights, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    bench = asked(weights, tmp_path / "out", groups=("main",))
    with pytest.raises(BenchError, match=r"chain-of-operators\[ray\]"):
        run_benchmark(replace(bench, executor="ray"))
    with pytest.raises(BenchError, match="executor must be one of"):
        run_benchmark(replace(bench, executor="magic"))


def test_a_finished_run_measures_nothing_again(weights, tmp_path):
    bench = asked(weights, tmp_path / "out", groups=("main",))
    run_benchmark(bench)
    before = (tmp_path / "out" / FILE).read_bytes()
    run_benchmark(bench)
    assert (tmp_path / "out" / FILE).read_bytes() == before


def test_more_cases_measure_only_what_is_new(weights, tmp_path):
    bench = asked(weights, tmp_path / "out", groups=("main",))
    run_benchmark(bench)
    with Store(bench.out, FunctionSuite.layout) as store:
        # 30 questions were batches of 25 and 5; now the second batch has 25 and there is a third of 10.
        pieces = missing_pieces(replace(bench.suite, cases=60), store)
        assert {piece.questions for piece in pieces} == {range(25, 50), range(50, 60)}


def test_another_network_another_version_another_seed_are_refused(weights, tmp_path, monkeypatch):
    bench = asked(weights, tmp_path / "out", groups=("main",))
    run_benchmark(bench)
    kept = (bench.out / FILE).read_bytes()
    with pytest.raises(BenchError, match="another network of conservation"):
        run_benchmark(asked(weights, bench.out, model="other", groups=("main",)))
    with pytest.raises(BenchError, match=r"seed 0; this is version .* seed 1"):
        run_benchmark(replace(bench, suite=replace(bench.suite, seed=1)))
    monkeypatch.setattr("chop.__version__", "99.0")
    with pytest.raises(BenchError, match=r"this is version 99\.0"):
        run_benchmark(bench)
    assert (bench.out / FILE).read_bytes() == kept


def test_a_version_with_the_same_numbers_continues_and_says_that_it_wrote(weights, tmp_path, monkeypatch):
    bench = asked(weights, tmp_path / "out", groups=("main",))
    run_benchmark(bench)
    begun = (bench.out / FILE).read_bytes()
    monkeypatch.setattr("chop.__version__", "99.0")
    monkeypatch.setattr("chop.bench.store.SAME_NUMBERS", SAME_NUMBERS | {"99.0"})
    more = replace(bench, suite=replace(bench.suite, cases=35))
    run_benchmark(more)
    run_benchmark(more)
    after = (bench.out / FILE).read_bytes()
    assert after.startswith(begun), "what was begun stays as it is"
    said = [decode_line(line) for line in after[len(begun) :].splitlines()]
    assert [line.get("version") for line in said] == ["99.0"] + [None] * 20, "said once, where the network is"
    assert [line.get("condition") for line in said[1:]] == ["conservation/sin_cos"] * 20
    assert said[0]["model"] == "conservation", "a line that version 0.1.0 reads too"
    with Store(bench.out, FunctionSuite.layout) as store:
        assert store.versions == (chop_version, "99.0")
    assert f"- version: {chop_version}, 99.0\n" in report(more)[0].read_text(encoding="utf-8")


def test_this_version_says_whose_numbers_it_continues():
    assert {"0.1.0", chop_version} <= SAME_NUMBERS, "if a number changed, the folders of 0.1.0 are refused"


DYING = """
import os, signal
from pathlib import Path
from chop.bench.functions import FunctionSuite
from chop.bench.runner import Run, run_benchmark
from chop.core.errors import BenchError, ChopError


class Dying(FunctionSuite):
    @staticmethod
    def evaluate(piece, setting):
        marks = Path(os.environ["MARKS"])
        deaths = int(os.environ["DEATHS"])
        if piece.questions[0] == 25 and len(list(marks.iterdir())) < deaths:
            (marks / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return FunctionSuite.evaluate(piece, setting)


if __name__ == "__main__":
    suite = Dying(("conservation",), ("main",), (), ("conservation/tanh",), 30, (os.environ["MODEL"],))
    try:
        run_benchmark(Run(suite, Path(os.environ["OUT"]), workers=1))
    except BenchError as error:
        print(error)
"""


@pytest.mark.parametrize(("deaths", "words"), [(1, ""), (99, "2 worker processes died under it")])
def test_a_piece_whose_worker_dies_is_tried_once_more_and_then_told(weights, tmp_path, deaths, words):
    (tmp_path / "marks").mkdir()
    (tmp_path / "dying.py").write_text(DYING)
    model = str(weights / "conservation.safetensors")
    given = {"MARKS": tmp_path / "marks", "DEATHS": deaths, "OUT": tmp_path / "out", "MODEL": model}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "dying.py")],
        env={**os.environ, **{name: str(value) for name, value in given.items()}},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert words in done.stdout
    with Store(tmp_path / "out", FunctionSuite.layout) as store:
        done = [store.done("conservation/tanh", RAW, batch) for batch in (range(25), range(25, 30))]
    assert done == [True, not words], "what was finished is kept"


def test_two_networks_for_one_problem_are_refused(weights, tmp_path):
    models = tuple(str(weights / f"{name}.safetensors") for name in ("conservation", "other"))
    with pytest.raises(BenchError, match="two networks for conservation"):
        FunctionSuite(("conservation",), models=models).setting(tmp_path)


def test_a_full_disk_is_a_sentence_and_loses_nothing(weights, tmp_path):
    out = tmp_path / "out"
    bench = asked(weights, out, groups=("main",))
    with small_disk(6000), pytest.raises(BenchError, match="everything before is kept"):
        run_benchmark(bench)
    kept = (out / FILE).read_bytes()
    assert len(kept) <= 6000
    assert kept.endswith(b"\n")
    run_benchmark(bench)
    assert (out / FILE).read_bytes().startswith(kept)
    run_benchmark(asked(weights, tmp_path / "whole", groups=("main",)))
    tables = [report(replace(bench, out=path))[0] for path in (out, tmp_path / "whole")]
    assert tables[0].read_bytes() == tables[1].read_bytes()


def test_unknown_things_are_named():
    with pytest.raises(
        BenchError, match="no condition 'conservation/quartic'; known are conservation/sin_cos"
    ):
        condition_named("conservation/quartic")
    with pytest.raises(BenchError, match="no suite 'weather'"):
        FunctionSuite(("weather",))
    with pytest.raises(BenchError, match="no group of methods 'magic'"):
        FunctionSuite(("mfc",), groups=("magic",))
    with pytest.raises(BenchError, match="cases must be 1 or more"):
        FunctionSuite(("mfc",), cases=0)


def test_the_best_program_is_measured_once_the_evolution_set_has_chosen(weights, tmp_path, monkeypatch):
    monkeypatch.setattr("chop.bench.functions.grid_programs", lambda problem: (RAW, "copy_query"))
    bench = asked(weights, tmp_path / "out", groups=("best",))
    run_benchmark(bench)
    with Store(bench.out, FunctionSuite.layout) as store:
        results = Results(store, bench.suite)
        assert results.chosen["conservation"] in (RAW, "copy_query")
        assert results.errors("conservation/sin_cos", results.chosen["conservation"]) is not None
        scores = {method: results.errors("evolution/conservation", method).mean()
                  for method in (RAW, "copy_query")}  # fmt: skip
        assert results.chosen["conservation"] == min(scores, key=scores.get)


@pytest.mark.parametrize("name", ["mfc/g_1to1/0.1", "mfc/rho_1to2/0.5", "conservation/tanh/rollout"])
def test_every_kind_of_condition_is_answered(weights, name):
    condition = CONDITIONS[name]
    path = weights / f"{condition.problem}.safetensors"
    setting = Setting((Network(condition.problem, str(path), fingerprint_of_weights(path)),))
    methods = (RAW, CONSERVATION) if condition.steps > 1 else (RAW, MFC, BAGGING, FINE_TUNING[0])
    piece = Piece(((condition, methods),), range(2), "main", 0, 1.0)
    records, again = (FunctionSuite.evaluate(piece, setting) for _ in range(2))
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
    run_benchmark(bench)
    with Store(bench.out, FunctionSuite.layout) as store:
        results = Results(store, bench.suite)
        compared = results.compare("conservation/sin_cos", CONSERVATION)
        assert (compared.n, compared.lost, compared.paired) == (30, 30, None)
    table = report(bench)[0].read_text(encoding="utf-8")
    assert "none of 30 finite" in table


def test_the_declared_work_is_the_papers():
    every = FunctionSuite(("conservation", "mfc", "transfer")).entries_with({})
    asked = {(entry.condition.name, entry.method): entry for entry in every}
    for flux in ("sin_cos", "tanh", "buckley_leverett"):
        for method in (RAW, CONSERVATION, MFC):
            assert asked[f"conservation/{flux}", method].n == 500
        assert asked[f"conservation/{flux}/rollout", CONSERVATION].condition.steps == 144
    away = [
        e for e in every if not e.condition.name.endswith("/1")
    ]  # at home there are no numbers of the paper's
    mfc = [e for e in away if e.condition.name.startswith("mfc/") and e.method == MFC]
    assert len(mfc) == 15
    assert {entry.n for entry in mfc} == {100}
    groups = [entry.group for entry in every]
    assert groups.index("main") < groups.index("ablations"), "the main tables come first"
    assert len(asked) == len(every)


def test_every_declared_method_is_a_program_or_a_baseline():
    from chop.core.catalog import TEXTS
    from chop.core.text import parse

    texts = {
        *grid_programs("conservation"),
        *grid_programs("mfc"),
        *grid_programs("rollout"),
        *BASELINES["conservation"],
        *BASELINES["mfc"],
    }
    for text in texts:
        assert text.startswith("@") or str(parse(text)) == str(parse(str(parse(text))))
    assert (TEXTS["raw"], TEXTS["conservation"], TEXTS["mfc"]) == (RAW, CONSERVATION, MFC)


def test_published_networks_are_measured_like_ours(tmp_path):
    """By problem, or by what their shape is for; fine-tuned like ours, too."""
    tiny = {"width": 8, "heads": 2, "transformer_layers": 1, "hidden": 8}
    files = {}
    for seed, (name, coordinates) in enumerate({"cons": 1, "control": 2}.items()):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = PublishedIcon(PublishedConfig(coordinates=coordinates, **tiny))
        files[name] = str(save(network, tmp_path / f"{name}.safetensors"))
    models = (f"conservation={files['cons']}", f"mfc={files['control']}")
    chosen = ("conservation/tanh", "mfc/rho_1to2/0.3")
    suite = FunctionSuite(
        ("conservation", "mfc"), groups=("main", "finetuning"), conditions=chosen, cases=1, models=models
    )
    run = Run(suite, tmp_path / "out", executor="inline")
    run_benchmark(run)
    with Store(run.out, suite.layout) as store:
        results = Results(store, suite)
        for name, program in zip(chosen, (CONSERVATION, MFC), strict=True):
            found = [results.errors(name, method) for method in (RAW, program)]
            assert np.isfinite(found).all()
        assert np.isfinite(results.errors(chosen[0], FINE_TUNING[0])).all()
    by_shape = replace(suite, models=tuple(files.values())).setting(tmp_path)
    assert by_shape.networks == suite.setting(tmp_path).networks
    with pytest.raises(BenchError, match="knows functions of x alone"):
        replace(suite, models=(f"mfc={files['cons']}",)).setting(tmp_path)


def test_a_device_that_is_not_there_is_said_at_once(weights, tmp_path):
    bench = asked(weights, tmp_path / "out", device="nonsense")
    with pytest.raises(ChopError, match="cannot be put on device 'nonsense'"):
        run_benchmark(bench)
    run_benchmark(replace(bench, suite=replace(bench.suite, device="cpu", groups=("main",), cases=1)))
