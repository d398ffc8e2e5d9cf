"""What goes wrong ends in a sentence, and the studio goes on: each wrong use is followed by a run."""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chop.studio.questions import LawQuestion, Page

LIMIT = 64 * 2**20


@pytest.fixture
def page(open_page: Callable[[Any], Any], browser: Any) -> Iterator[Any]:
    """The page; afterwards it must still answer."""
    opened = open_page(browser)
    yield opened
    opened.go()
    opened.wait_for_question()
    assert "program" in opened.run()


def _ask(studio: Any, method: str, path: str, headers: dict[str, str], known: bool = True) -> tuple[int, str]:
    """The status and the page of a bare request."""
    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=20)
    cookie = {"Cookie": studio.cookie} if known else {}
    try:
        connection.request(method, path, headers={**cookie, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _upload(page: Any, path: Path) -> None:
    page.question("file")
    page.find("file-upload", "input[type=file]").send_keys(str(path))


def _upload_address(page: Any) -> str:
    """Where the page sends its uploads."""
    page.question("file")
    number = page.find("file-upload").get_attribute("id").removeprefix("c")
    client = page.driver.execute_script("return window.clientId")
    return f"/_nicegui/client/{client}/upload/{number}"


# Questions


@pytest.mark.parametrize(
    ("flux", "words"),
    [("u**", "flux"), ("import_os(u)", "import_os"), ("u + y", "y")],
    ids=["broken", "call", "name"],
)
def test_a_bad_flux(page: Any, flux: str, words: str) -> None:
    page.write("law-flux", flux)
    page.until_text("question-error", words)
    page.shot("flux")


def test_a_number_that_is_too_large(page: Any) -> None:
    page.write("law-number", "99999999")
    page.until(
        lambda: "from 0 to" in page.text("question-error") or page.value("law-number") == "1000000",
        "a sentence, or the largest number",
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [("one, two", "numbers"), ("1, 2", "25 values"), (", ".join(["9"] * 25), "from -3 to 3")],
)
def test_drawn_values_that_cannot_be(page: Any, values: str, words: str) -> None:
    page.click("law-draw", ".q-item")
    page.until(lambda: page.find("law-drawn").is_displayed(), "the field")
    page.write("law-drawn", values)
    page.until_text("question-error", words)


@pytest.mark.parametrize("hour", ["yesterday", "1999-01-01T00", "2024-13-45T99"])
def test_an_impossible_hour(page: Any, hour: str) -> None:
    page.question("air")
    page.until_text("question-words", "PM2.5", 120)
    page.write("air-hour", hour)
    page.until(lambda: page.text("question-error"), "a sentence", 60)


# Programs


@pytest.mark.parametrize(
    ("text", "words"),
    [("rescale | (icon", "^"), ("nosuch | icon", "nosuch"), ("", ""), ("rescale(nosuch=1) | icon", "nosuch")],
    ids=["broken", "unknown", "empty", "parameter"],
)
def test_a_wrong_program(page: Any, text: str, words: str) -> None:
    page.write("program", text)
    page.until(lambda: page.text("program-error") and words in page.text("program-error"), "the sentence")
    page.click("run")
    page.until(lambda: page.text("run-error"), "the sentence at Run")


def test_a_program_that_does_not_suit(page: Any) -> None:
    page.write("program", "nearest_examples(k=20) | turn | icon")
    page.click("run")
    page.until(
        lambda: page.text("run-error") or page.text("program-error") or page.rows(), "a sentence or an answer"
    )
    page.go(f"?s={Page(LawQuestion(), 'air_yrd', 'rescale | icon').link()}")
    page.until(lambda: page.text("question-words") or page.text("question-error"), "the page")
    page.click("run")
    page.until(lambda: page.text("run-error"), "a sentence", 60)


# Files


@pytest.mark.parametrize("name", ["noise.npz", "text.h5", "other.npz", "empty.nc"])
def test_a_file_that_holds_no_questions(page: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "other.npz":
        np.savez(path, something=np.zeros(3))
    else:
        content = {"noise.npz": os.urandom(2000), "text.h5": b"no numbers here\n" * 9, "empty.nc": b""}
        path.write_bytes(content[name])
    _upload(page, path)
    sentence = page.until(lambda: page.text("question-error"), "a sentence")
    assert "Traceback" not in sentence


@pytest.mark.parametrize("name", ["/etc/passwd", "../../../../etc/passwd", "missing.npz", "~/.bashrc"])
def test_a_file_that_is_not_ours(page: Any, name: str) -> None:
    page.question("file")
    page.write_choice("file-name", name)
    page.until_text("question-error", "there is no file")


def test_a_question_that_a_file_does_not_have(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "one.npz"
    np.savez(
        path, input_values=np.ones((1, 3, 8)), output_values=np.ones((1, 3, 8)), query_values=np.ones((1, 8)),
        input_coords=np.arange(8)[:, None] / 8,
    )  # fmt: skip
    _upload(page, path)
    page.until_text("question-words", "question 0 of 1")
    page.write("file-index", "5")
    page.until_text("question-error", "not 5")


def test_an_upload_that_is_too_large(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.npz"
    with path.open("wb") as file:
        file.truncate(LIMIT + 6 * 2**20)
    _upload(page, path)
    page.until_text("question-error", "larger than 64 MB")


def test_a_request_that_claims_too_much(page: Any, studio: Any) -> None:
    status, told = _ask(studio, "POST", _upload_address(page), {"Content-Length": str(2 * 2**30)})
    assert status == 413
    assert "MB" in told


def test_a_stream_without_end(page: Any, studio: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=30)
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.npz"\r\n\r\n'
        while sent < 4 * LIMIT:
            sent += 2**20
            yield b"\0" * 2**20

    headers = {"Cookie": studio.cookie, "Content-Type": "multipart/form-data; boundary=x"}
    try:
        connection.request("POST", _upload_address(page), pieces(), headers, encode_chunked=True)
        assert connection.getresponse().status >= 400
    except (OSError, http.client.HTTPException):
        pass  # ended while it was sent
    finally:
        connection.close()
    assert not list(studio.work.glob("uploads/*/a.npz"))


# Who may come in


def test_no_token_and_a_wrong_one(page: Any, studio: Any) -> None:
    for path, headers in (
        ("/", {}),
        ("/?token=wrong", {}),
        ("/", {"Cookie": f"chop_studio_{studio.port}=wrong"}),
    ):
        status, told = _ask(studio, "GET", path, headers, known=False)
        assert status == 401
        assert "the token is missing or wrong" in told


def test_another_site(page: Any, studio: Any) -> None:
    status, told = _ask(studio, "POST", _upload_address(page), {"Origin": "http://elsewhere.example"})
    assert status == 403
    assert "another page may not use the studio" in told


@pytest.mark.parametrize("origin", [{"Origin": "http://elsewhere.example"}, {}], ids=["foreign", "none"])
def test_a_websocket_of_another_site(page: Any, studio: Any, origin: dict[str, str]) -> None:
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    assert _ask(studio, "GET", path, {**upgrade, **origin})[0] == 403


def test_another_name_of_this_machine(page: Any, studio: Any) -> None:
    status, told = _ask(studio, "GET", "/", {"Host": f"elsewhere.example:{studio.port}"})
    assert status == 403
    assert "not a name of the studio" in told


# Links


def test_a_damaged_link(page: Any) -> None:
    page.go("?s=garbage")
    page.until_text("page-error", "damaged")
    page.wait_for_question()


def test_a_link_of_a_model_that_is_not_here(page: Any) -> None:
    page.go(f"?s={Page(LawQuestion(), 'nosuch.pt').link()}")
    page.until_text("page-error", "there is no model 'nosuch.pt'")
    page.wait_for_question()


# Tabs, reloads and the end


def test_two_tabs(page: Any) -> None:
    page.write("law-horizon", "144")
    page.write("law-flux", "u**3/3")
    page.until_text("question-words", "u**3/3")
    page.write("program", "views(krige(icon), turns=3, step=3)")
    page.until(lambda: page.all("drawing", '[aria-label^="views"]'), "the drawing")
    page.click("rollout")
    page.until(lambda: page.find("cancel").is_displayed(), "the long rollout to begin")
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    page.go()
    page.wait_for_question()
    assert "sin(u)-cos(u)" in page.text("question-words")
    assert "program" in page.run()
    page.driver.close()
    page.driver.switch_to.window(first)
    assert "u**3/3" in page.text("question-words")
    if page.find("cancel").is_displayed():
        page.click("cancel")


def test_reloading_and_going_back(page: Any) -> None:
    page.write("law-flux", "u**3/3")
    page.until_text("question-words", "u**3/3")
    page.write("program", "rescale | icon")
    page.until(lambda: page.all("drawing", '[aria-label="rescale | icon"]'), "the drawing")

    def restored() -> None:
        page.until_text("question-words", "u**3/3")
        assert page.value("program") == "rescale | icon"

    page.driver.refresh()
    restored()
    page.driver.get("about:blank")
    page.driver.back()
    restored()
    page.driver.forward()
    page.driver.back()
    restored()


def test_the_end_of_the_server(tmp_path: Path, browser: Any, start: Callable[..., Any]) -> None:
    from browser.studio_page import StudioPage

    first = start(tmp_path)
    page = StudioPage(browser, first.address, first.token, browser.downloads)
    began = time.monotonic()
    first.stop(10)
    assert time.monotonic() - began < 10
    page.until(
        lambda: "connection" in page.driver.find_element("tag name", "body").text.lower(), "NiceGUI's words"
    )
    page.shot("lost")
    second = start(tmp_path, first.port)
    for words in ("", f"?token={first.token}"):
        page.go(words)
        assert "the token is missing or wrong" in page.driver.find_element("tag name", "body").text
    page.go(f"?token={second.token}")
    page.wait_for_question()
    assert "program" in page.run()
    assert "Traceback" not in second.log
