"""What the studio is for, done by hand in a real browser, from the first click to the exported file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import chop
from chop.files import QuestionFile


def _finish(page: Any, name: str) -> None:
    page.shot(name)
    page.assert_fits()
    page.assert_quiet()


def _wave_file(path: Path) -> Path:
    x = np.arange(40) / 40
    shift = np.random.default_rng(0).random((1, 6, 1))
    waves = np.sin(2 * np.pi * (x - shift))
    np.savez(
        path, input_values=waves[:, :5], output_values=2 * waves[:, :5], query_values=waves[:, 5],
        input_coords=x[:, None],
    )  # fmt: skip
    return path


# 1. The question


def test_another_law(page: Any) -> None:
    before = page.until_drawn("question-charts", 2)
    page.write("law-flux", "u**3/3")
    page.until_text("question-words", "u_t + (u**3/3)_x = 0")
    page.until(lambda: page.picture("question-charts") != before, "other charts")
    page.write("law-number", "7")
    page.until_text("question-words", "initial condition number 7")
    page.until_drawn("question-charts", 2)
    _finish(page, "law")


def test_a_drawn_initial_condition(page: Any) -> None:
    page.click("law-draw", ".q-item")
    page.draw("law-pad", [(0.05, 0.5), (0.2, 0.2), (0.4, 0.3), (0.6, 0.8), (0.8, 0.7), (0.95, 0.5)])
    page.until_value("law-drawn", ",")
    assert len(page.value("law-drawn").split(",")) == 25
    page.until_text("question-words", "drawn by hand")
    page.until_drawn("question-charts", 2)
    assert {"raw", "program", "auto"} <= set(page.run())
    _finish(page, "drawn")


def test_mean_field_control(page: Any) -> None:
    page.question("control")
    page.until_text("question-words", "mean-field control")
    page.choose("control-family", "g_1to1")
    page.until_text("question-words", "g_1to1")
    page.write("control-length", "0.8")
    page.until_text("question-words", "length scale 0.8")
    page.until_drawn("question-charts")
    assert page.rows() == {}
    assert {"raw", "program", "auto"} <= set(page.run())
    page.until_drawn("answer-charts")
    _finish(page, "control")


def test_air_quality(page: Any) -> None:
    page.question("air")
    page.until_text("question-words", "PM2.5 in yrd", 120)
    page.until_drawn("question-charts")
    page.write("air-lead", "6")
    page.until_text("question-words", "6 h ahead", 60)
    page.choose("air-pollutant", "O3")
    page.until_text("question-words", "O3 in yrd", 60)
    page.until_drawn("question-charts")
    assert "raw" in page.run()
    page.until_drawn("answer-charts", 3)
    _finish(page, "air")


def test_a_file_of_ones_own(page: Any, tmp_path: Path) -> None:
    page.question("file")
    page.find("file-upload", "input[type=file]").send_keys(str(_wave_file(tmp_path / "waves.npz")))
    page.until_text("question-words", "waves.npz, question 0 of 1")
    page.until_drawn("question-charts")
    assert "raw" in page.run()
    page.until_drawn("answer-charts")
    _finish(page, "file")


# 2. The program


def test_the_text_of_a_program(page: Any) -> None:
    page.write("program", "resc")
    page.until_text("completions", "rescale")
    words = page.driver.find_elements("css selector", '[data-testid="completions"] button')
    page.press(next(word for word in words if word.text.startswith("rescale")))
    page.until_value("program", "rescale")
    page.write("program", "rescale | icn")
    page.until(
        lambda: "icn" in page.text("program-error") and "^" in page.text("program-error"), "the column"
    )
    page.shot("wrong")
    for name in ("auto", "conservation", "mfc"):
        page.click(f"catalog-{name}")
        page.until(lambda: not page.text("program-error"), "no error")
        chop.parse(page.value("program"))
    _finish(page, "text")


def test_the_drawing_of_a_program(page: Any) -> None:
    page.until_value("program", "rescale")
    page.open_box("rescale")
    page.choose("edit-insert", "normalize")
    _changed(page, "normalize")
    page.open_box("normalize")
    page.choose("edit-replace", "minmax")
    assert "normalize" not in _changed(page, "minmax")
    page.shot("editor")
    page.open_box("minmax")
    page.click("edit-remove")
    page.until(lambda: "minmax" not in page.value("program"), "minmax to go")
    chop.parse(page.value("program"))
    box = page.box("rescale")
    page.driver.execute_script("arguments[0].focus()", box)
    page.press_keys(box, "ENTER")
    page.until_text("editor", "rescale")
    page.click("edit-close")
    page.until(lambda: not page.text("editor"), "the editor to close")
    _finish(page, "drawing")


def test_the_slider_of_a_parameter(page: Any) -> None:
    page.write("program", "views(icon, turns=2)")
    page.until(lambda: page.all("drawing", '[aria-label^="views"]'), "the drawing")
    page.open_box("views")
    page.slide("param-turns", "ARROW_RIGHT")
    _changed(page, "turns=3")
    _finish(page, "slider")


def _changed(page: Any, words: str) -> str:
    text: str = page.until_value("program", words)
    chop.parse(text)
    return text


# 3. The run


def test_a_run(page: Any) -> None:
    rows = page.run()
    assert list(rows) == ["raw", "program", "auto"]
    for row in rows.values():
        assert float(row[1]) >= 0
        assert int(row[5]) > 0
        assert float(row[6]) > 0
    page.until_drawn("answer-charts")
    page.hover(page.box("rescale"))
    page.until_text("stage-words", "rescale")
    page.until_drawn("stage-charts")
    page.shot("stage")
    page.click("evidence", ".q-item")
    page.until_text("told", "built:")
    _finish(page, "run")


def test_a_rollout(page: Any) -> None:
    page.write("law-horizon", "6")
    page.until(lambda: page.find("rollout").is_enabled(), "a question that can be rolled out")
    page.until_drawn("question-charts")
    page.click("rollout")
    page.until_text("status", "6 steps by", 60)
    page.until_text("frame-words", "step 6")
    first = page.until_drawn("movie-charts", 2)
    page.slide("frame", "ARROW_LEFT", 2)
    page.until_text("frame-words", "step 4")
    page.until(lambda: page.picture("movie-charts") != first, "another frame")
    page.click("play")
    page.until(lambda: page.text("frame-words") != "step 4", "the movie to go on")
    page.click("play")
    _finish(page, "rollout")


def test_a_run_that_is_cancelled(page: Any) -> None:
    page.write("law-horizon", "144")
    page.write("program", "views(krige(icon), turns=3, step=3)")
    page.until_drawn("question-charts")
    page.click("rollout")
    page.until(lambda: page.find("cancel").is_displayed(), "the cancel button")
    page.click("cancel")
    page.until_text("status", "cancelled")
    page.click("catalog-conservation")
    assert {"raw", "program", "auto"} <= set(page.run())
    _finish(page, "cancelled")


# 4. Comparing and keeping


def test_pins_and_copies(page: Any) -> None:
    page.run()
    page.click("pin-program")
    page.until(lambda: "pin 1" in page.rows(), "the pin")
    page.write("program", "rescale | icon")
    page.until(lambda: page.all("drawing", '[aria-label="rescale | icon"]'), "the drawing")
    rows = page.run()
    assert {"raw", "program", "auto", "pin 1"} <= set(rows)
    assert rows["program"][-1] == "rescale | icon" != rows["pin 1"][-1]
    page.click("copy-python")
    compile(page.until_value("copied", "import chop"), "copied", "exec")
    page.click("copy-command")
    page.until_value("copied", "chop explain")
    page.write("law-flux", "u**3/3")
    page.until_text("question-words", "u**3/3")
    page.click("copy-link")
    link = page.until_value("copied", "?s=")
    page.assert_quiet()
    old = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    page.driver.get(link)
    page.until_text("question-words", "u**3/3")
    assert page.value("program") == "rescale | icon"
    page.assert_quiet()
    page.driver.close()
    page.driver.switch_to.window(old)
    _finish(page, "pins")


def test_exports(page: Any) -> None:
    page.run()
    assert page.export("png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in page.export("html").read_text()[:500].lower()
    assert str(chop.Program.load(page.export("txt"))) == page.value("program")
    with QuestionFile(page.export("h5")) as file:
        assert len(file) == 1
    assert json.loads(page.export("json").read_text())
    _finish(page, "exports")


# 5. The search


def test_a_search(page: Any, studio: Any) -> None:
    page.click("tab-search")
    page.find("search-start")
    seed = "1" if page.driver.get_window_size()["width"] > 500 else "2"
    page.write("search-seed", f"{seed}{time.monotonic_ns() % 1000}")
    page.write("search-budget", "13")
    page.until(lambda: seed in page.text("search-where"), "where it would begin")
    page.click("search-start")
    page.until_text("search-status", "candidates", 90)
    page.until_drawn("search-progress")
    page.click("search-stop")
    page.until(
        lambda: any(word in page.text("search-status") for word in ("stopped", "finished")), "its end", 60
    )
    _finish(page, "search")


def test_a_kept_search(page: Any) -> None:
    page.click("tab-search")
    page.write_choice("search-journal", "conservation-0")
    page.until_text("search-status", "best score")
    for name in ("progress", "ratings", "family"):
        page.until_drawn(f"search-{name}")
    page.shot("journal")
    page.click("search-candidates", "button[aria-label^='use program']")
    page.until(lambda: page.find("program").is_displayed(), "the program")
    chop.parse(page.until_value("program", "|"))
    _finish(page, "used")
