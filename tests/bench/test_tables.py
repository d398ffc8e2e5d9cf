"""Numbers of the tables against hand computations, and the file they come from."""

import math

import pytest

from chop.bench import paper
from chop.bench.function_tables import FUNCTION_REPORT
from chop.bench.functions import CONDITIONS, FunctionSuite
from chop.bench.methods import (
    AUTO,
    BEST_EVOLVED,
    CONSERVATION,
    CORR,
    EVOLVED,
    FLAT,
    HAND,
    LAW,
    LINE,
    MFC,
    RAW,
)
from chop.bench.report import markdown
from chop.bench.results import Results
from chop.bench.store import FILE, About, Store
from chop.bench.suite import SuiteEntry
from chop.core.errors import BenchError
from chop.storage.log import decode_line, encode_line

ABOUT = About("1.0", 0)


def records(condition, method, errors, batch=None, **more):
    batch = batch or [0, len(errors)]
    return [
        {"condition": condition, "method": method, "batch": batch, "index": batch[0] + i, "error": error,
         "calls": 1, "ms": 1.0, **more}
        for i, error in enumerate(errors)
    ]  # fmt: skip


@pytest.fixture
def results(tmp_path):
    """Four questions a condition with errors that are easy to average."""
    with Store(tmp_path, FunctionSuite.layout, ABOUT) as store:
        for name in ("conservation/sin_cos", "conservation/tanh"):
            store.append(records(name, RAW, [0.1, 0.2, 0.3, 0.4]))
        store.append(records("conservation/sin_cos", CONSERVATION, [0.05, 0.1, 0.1, 0.15]))
        store.append(records("conservation/tanh", CONSERVATION, [0.1, None, 0.6, 0.4]))
        store.append(records("conservation/sin_cos", MFC, [0.08, 0.16, 0.24, 0.32]))
        store.append(records("conservation/tanh/rollout", RAW, [2.0] * 4, curve=[2.0] * 144))
        store.append(records("conservation/tanh/rollout", CONSERVATION, [1.0] * 4, curve=[1.0] * 144))
        for method, errors in ((RAW, [4, 4, 4, 4]), (MFC, [4, 4, 4, 5]), (CORR, [2, 4, 3, 3])):
            store.append(records("mfc/rho_1to1/0.5", method, [0.01 * value for value in errors]))
    with Store(tmp_path, FunctionSuite.layout) as store:
        yield Results(store, FunctionSuite(("conservation", "mfc", "transfer"), cases=4))


def row_with(results, title, *words):
    (table,) = (t for t in FUNCTION_REPORT.tables(results) if t.title == title)
    (row,) = (row for row in table.rows if list(words) == row[: len(words)])
    return dict(zip(table.head, row, strict=True))


def test_means_deviations_and_reductions_by_hand(results):
    row = row_with(results, "Conservation laws", "sin u − cos u", "single step")
    deviation = math.sqrt(sum((x - 0.25) ** 2 for x in (0.1, 0.2, 0.3, 0.4)) / 3)
    assert row["Raw ICON"] == f"0.2500 ± {deviation:.4f}"
    deviation = math.sqrt(sum((x - 0.1) ** 2 for x in (0.05, 0.1, 0.1, 0.15)) / 3)
    assert row["CHOP(Conservation)"] == f"0.1000 ± {deviation:.4f}"
    assert row["reduction"] == "60.00 %"
    assert row["n"] == "4"
    assert row["paper: Raw ICON"] == "0.0451 ± 0.0312"
    assert row["paper: reduction"] == "50.68 %"


def test_what_is_not_finite_is_counted_and_left_out_of_both_means(results):
    row = row_with(results, "Conservation laws", "tanh u", "single step")
    # Question 2 is left out: Raw (0.1 + 0.3 + 0.4) / 3, program (0.1 + 0.6 + 0.4) / 3.
    assert row["Raw ICON"].startswith(f"{0.8 / 3:.4f}")
    assert row["CHOP(Conservation)"].startswith(f"{1.1 / 3:.4f}")
    assert row["CHOP(Conservation)"].endswith("(1 of 4 not finite)")
    assert row["reduction"] == f"{100 * (1 - 1.1 / 0.8):.2f} %"


def test_counts_transfer_and_the_last_step(results):
    row = row_with(results, "Cost to density: the correction alone", "g(x) → ρ(1,x)", "0.5")
    assert row["CHOP(MFC) lower/equal/higher"] == "0/3/1"
    assert row["CHOP(Corr) lower/equal/higher"] == "3/1/0"
    assert row["CHOP(Corr) reduction"] == "25.00 %"
    assert row["paper: both counts"] == "0/100/0 ; 45/34/21"
    transfer = row_with(results, "Transfer: CHOP(MFC) on the conservation network, single step")
    assert transfer["reduction"] == "20.00 %"
    assert row_with(results, "Conservation laws", "tanh u", "step 144")["reduction"] == "50.00 %"


def test_the_first_table_goes_condition_by_condition(results):
    first, *_ = FUNCTION_REPORT.tables(results)
    assert first.title == "Condition by condition"
    row = row_with(results, first.title, "sin u − cos u")
    assert (row["the paper's program"], row["its reduction"]) == ("CHOP(Conservation)", "60.00 %")
    assert (row["auto"], row["paper: reduction"]) == ("–", "50.68 %")
    with Store(results.store.folder, FunctionSuite.layout, ABOUT) as store:
        raw = results.errors("conservation/sin_cos", RAW)
        store.append(
            records("conservation/sin_cos", AUTO, [0.5 * raw[0], 0.5 * raw[1], 0.5 * raw[2], 2 * raw[3]])
        )
        more = Results(store, FunctionSuite(("conservation", "mfc", "transfer"), cases=4))
        row = row_with(more, first.title, "sin u − cos u")
        assert "overview" in FUNCTION_REPORT.figures(more, None)
    assert row["questions with auto more than 10 % worse than Raw"] == "25.0 %"
    assert row["auto"] != "–"


def test_evidence_of_transfer_comes_from_the_mfc_search(tmp_path, monkeypatch):
    best = "correct(icon) | nonnegative"
    monkeypatch.setattr("chop.bench.functions.grid_programs", lambda problem: (RAW, best))
    with Store(tmp_path, FunctionSuite.layout, ABOUT) as store:
        store.append(records("evolution/mfc", RAW, [0.2] * 4))
        store.append(records("evolution/mfc", best, [0.1] * 4))
        for name in ("evolution/conservation", "conservation/tanh"):
            store.append(records(name, RAW, [0.2] * 4))
            store.append(records(name, best, [0.3] * 4))
        store.append(records("conservation/tanh", MFC, [0.18] * 4))
    with Store(tmp_path, FunctionSuite.layout) as store:
        results = Results(store, FunctionSuite(("conservation", "mfc", "transfer"), cases=4))
        assert results.chosen == {"conservation": RAW, "mfc": best}
        row = row_with(results, "Transfer: CHOP(MFC) on the conservation network, single step", "tanh u")
    assert row["best of the MFC grid, transferred"].startswith("0.3")
    assert "best of the grid" not in row
    assert row["its reduction"] == "-50.00 %"


def test_evolved_programs_stand_beside_the_others(results):
    text = BEST_EVOLVED["conservation"]
    label = EVOLVED["conservation"][text]
    with Store(results.store.folder, FunctionSuite.layout, ABOUT) as store:
        store.append(records("conservation/sin_cos", text, [0.05] * 4))
        more = Results(store, FunctionSuite(("conservation", "mfc", "transfer"), cases=4))
        row = row_with(more, "Evolved programs: conservation", "sin u − cos u")
    assert row["CHOP(Conservation)"] == "0.1000 (60 %)"
    assert row[label] == "0.0500 (80 %)"
    assert "Evolved" not in markdown(FUNCTION_REPORT, results, {})


def test_rollouts_are_chosen_by_the_last_step_and_a_lost_one_disqualifies(tmp_path, monkeypatch):
    late, lost = "icon | conserve_mean", "icon | nonnegative"
    monkeypatch.setattr("chop.bench.functions.grid_programs", lambda problem: (RAW, late, lost))
    name = "evolution/conservation/rollout"
    with Store(tmp_path, FunctionSuite.layout, ABOUT) as store:
        store.append(records(name, RAW, [0.4] * 4, curve=[0.1, 0.4]))
        store.append(records(name, late, [0.3] * 4, curve=[0.9, 0.3]))
        store.append(records(name, lost, [0.1, 0.1, 0.1, None], curve=[0.1, 0.1]))
        results = Results(store, FunctionSuite(("conservation",), cases=4))
    assert results.chosen == {"rollout": late}


def test_errors_along_rollouts(results):
    with Store(results.store.folder, FunctionSuite.layout, ABOUT) as store:
        curve = [0.1 * step for step in range(1, 145)]
        for method in (RAW, FLAT):
            name = "conservation/sin_cos/rollout"
            store.append(records(name, method, [14.4] * 4, curve=curve))
        made = Results(store, FunctionSuite(("conservation",), cases=4))
        row = row_with(made, "Along the rollouts", "sin u − cos u", "the query's mean")
    assert [row[f"step {k}"] for k in (1, 10, 36, 72, 144)] == [
        f"{0.1 * k:.4f}" for k in (1, 10, 36, 72, 144)
    ]


def test_the_text_is_a_function_of_the_results(results):
    text = markdown(FUNCTION_REPORT, results, {"version": "1"})
    assert text == markdown(FUNCTION_REPORT, results, {"version": "1"})
    assert "\\|" in text or "`icon`" not in text
    assert "nan" not in text


def test_the_papers_numbers_are_all_there():
    assert len(paper.MEAN_FIELD_CONTROL) == 15
    assert len(paper.COST_TO_DENSITY) == 6
    for table in (
        paper.SINGLE_STEP,
        paper.STEP_144,
        paper.TRANSFER,
        paper.MEAN_FIELD_CONTROL,
        paper.COST_TO_DENSITY,
    ):
        for row in table.values():
            # Reductions were computed from more digits than are printed.
            printed = 100 * (1 - row.chop / row.raw)
            assert row.reduction == pytest.approx(printed, abs=0.6)
            assert row.counts is None or sum(row.counts) == 100
    assert set(paper.SINGLE_STEP) == {"sin_cos", "tanh", "buckley_leverett"}


def test_lines_carry_their_checksum():
    line = encode_line({"a": 1, "b": "ρ"})
    assert decode_line(line.rstrip(b"\n")) == {"a": 1, "b": "ρ"}
    for i in range(len(line) - 1):
        damaged = line[:i] + bytes([line[i] ^ 1]) + line[i + 1 : -1]
        assert decode_line(damaged) is None
    with pytest.raises(ValueError, match=r"Out of range|not JSON"):
        encode_line({"a": math.nan})


def test_a_damaged_line_is_measured_again_and_the_others_stay(tmp_path):
    with Store(tmp_path, FunctionSuite.layout, ABOUT) as store:
        store.append(records("mfc/g_1to1/0.5", RAW, [0.1, 0.2, 0.3]))
    path = tmp_path / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"0.2", b"0.9")
    path.write_bytes(b"".join(lines))
    with Store(tmp_path, FunctionSuite.layout, ABOUT) as store:
        assert store.damaged == 1
        entry = SuiteEntry(CONDITIONS["mfc/g_1to1/0.5"], RAW, range(3))
        assert store.records(entry) is None
        store.append(records("mfc/g_1to1/0.5", RAW, [0.1, 0.2, 0.3]))
        assert [r["error"] for r in store.records(entry)] == [0.1, 0.2, 0.3]
    assert path.read_bytes().startswith(b"".join(lines))
    assert path.read_bytes().count(b"\n") == len(lines) + 1


def test_a_torn_line_is_cut_off(tmp_path):
    with Store(tmp_path, FunctionSuite.layout, ABOUT) as store:
        store.append(records("mfc/g_1to1/0.5", RAW, [0.1, 0.2]))
    path = tmp_path / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with Store(tmp_path, FunctionSuite.layout, ABOUT) as store:
        store.append(records("mfc/g_1to1/0.5", RAW, [0.1, 0.2]))
    assert path.read_bytes() == whole


def test_a_folder_of_something_else_is_refused_untouched(tmp_path):
    path = tmp_path / FILE
    path.write_text("name,value\n1,2\n")
    with pytest.raises(BenchError, match="does not begin like a benchmark"):
        Store(tmp_path, FunctionSuite.layout, ABOUT)
    assert path.read_text() == "name,value\n1,2\n"
    with pytest.raises(BenchError, match="holds no benchmark"):
        Store(tmp_path / "nothing", FunctionSuite.layout)


def test_one_process_writes_at_a_time(tmp_path):
    with (
        Store(tmp_path, FunctionSuite.layout, ABOUT),
        pytest.raises(BenchError, match="another process is writing"),
    ):
        Store(tmp_path, FunctionSuite.layout, ABOUT)


def test_conditions_have_distinct_settings():
    assert len({(c.settings, c.split, c.steps) for c in CONDITIONS.values()}) == len(CONDITIONS)


def test_programs_by_hand_stand_beside_what_they_are_made_of(tmp_path):
    with Store(tmp_path, FunctionSuite.layout, ABOUT) as store:
        for name, size in (("conservation/tanh", 1.0), ("conservation/cubic", 0.1)):
            store.append(records(name, RAW, [0.1 * size] * 4))
            store.append(records(name, LINE, [0.05 * size] * 4, calls=18))
            store.append(records(name, LAW, [0.001 * size] * 4, calls=0))
        store.append(records("conservation/tanh/rollout", RAW, [2.0] * 4, curve=[2.0] * 144))
        store.append(records("conservation/tanh/rollout", LAW, [0.5] * 4, curve=[0.5] * 144))
    with Store(tmp_path, FunctionSuite.layout) as store:
        results = Results(store, FunctionSuite(("conservation",), cases=4))
        title = "Programs by hand: conservation"
        assert row_with(results, title, "tanh u") == {
            "condition": "tanh u", "Raw ICON": "0.1000", "line": "0.0500 (50 %)",
            "law, no network": "0.0010 (99 %)",
        }  # fmt: skip
        assert row_with(results, title, "cubic fluxes (at home)")["line"] == "0.0050 (50 %)"
        assert list(row_with(results, title, "model evaluations").values())[1:] == ["1", "18", "0"]
        along = row_with(results, "Along the rollouts", "tanh u", "law, no network")
        assert along["step 144"] == "0.5000"


def test_at_home_the_paper_and_evolution_are_asked_too():
    asked = {
        (entry.condition.name, entry.method): entry
        for entry in FunctionSuite(("mfc",), groups=("hand",)).entries_with({})
    }
    for method in (RAW, MFC, CORR, "ridge", BEST_EVOLVED["mfc"], *HAND["mfc"]):
        assert asked["mfc/g_2to2/1", method].n == 100
    assert ("mfc/g_2to2/0.3", RAW) in asked
    assert ("mfc/g_2to2/0.3", MFC) not in asked
    rolls = FunctionSuite(("conservation",), groups=("hand", "rollout")).entries_with({})
    counts = {entry.method: entry.n for entry in rolls if entry.condition.steps > 1}
    assert (counts[LAW], counts[LINE]) == (500, 100)
