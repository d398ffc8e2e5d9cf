"""Who may come in to the studio, and who may not."""

import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from chop import ChopError
from chop.studio.guard import Guard
from chop.studio.server import DEFAULT_PORT, listening_socket
from chop.studio.settings import Settings

with warnings.catch_warnings():  # it would like another client than the one that comes with the extra
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

TOKEN = "right"
HOME = "http://127.0.0.1:8765"
WS = "ws://127.0.0.1:8765/ws"


async def hello(request):
    return PlainTextResponse("hello")


async def upload(request):
    return PlainTextResponse(str(len(await request.body())))


async def talk(socket):
    await socket.accept()
    await socket.send_text("hello")
    await socket.close()


@pytest.fixture
def client():
    routes = [Route("/", hello), Route("/up", upload, methods=["POST"]), WebSocketRoute("/ws", talk)]
    settings = Settings(8765, TOKEN, Path("work"), upload_bytes=1000)
    return TestClient(Guard(Starlette(routes=routes), settings), base_url=HOME, follow_redirects=False)


@pytest.fixture
def known(client):
    client.get(f"/?token={TOKEN}")
    return client


@pytest.mark.parametrize("address", ["/", "/?token=wrong", "/?token=", "/anything/else"])
def test_without_the_token_there_is_a_sentence(client, address):
    answer = client.get(address)
    assert answer.status_code == 401
    assert "open the address that chop studio printed" in answer.text


def test_the_token_becomes_a_cookie_and_leaves_the_address(client):
    answer = client.get(f"/?s=abc&token={TOKEN}&x=1+2")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?s=abc&x=1+2")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert client.get("/").text == "hello"


def test_a_token_leads_to_no_other_host(client):
    for path in ("//evil.example/", "/%5Cevil.example", "/%0d%0aset-cookie:x"):
        there = client.get(f"{HOME}{path}?token={TOKEN}").headers["location"]
        assert there[0] == "/"
        assert there[1] not in "/\\\r"


def test_a_foreign_name_is_refused(known):
    assert known.get("/", headers={"host": "evil.example:8765"}).status_code == 403
    assert known.get("/", headers={"host": "127.0.0.1:9999"}).status_code == 403


def test_a_foreign_page_cannot_post(known):
    assert known.post("/up", content=b"x", headers={"origin": "http://evil.example"}).status_code == 403
    assert known.post("/up", content=b"x", headers={"origin": "null"}).status_code == 403
    assert known.post("/up", content=b"x", headers={"origin": HOME}).text == "1"


@pytest.mark.parametrize("origin", [None, "http://evil.example", "http://127.0.0.1:1", "null"])
def test_a_foreign_page_cannot_talk(known, origin):
    headers = {} if origin is None else {"origin": origin}
    with pytest.raises(WebSocketDisconnect), known.websocket_connect(WS, headers=headers):
        pass


def test_the_page_itself_can_talk(known):
    with known.websocket_connect(WS, headers={"origin": HOME}) as socket:
        assert socket.receive_text() == "hello"


def test_nobody_talks_without_the_cookie(client):
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(WS, headers={"origin": HOME}):
        pass


def test_large_bodies_are_refused_before_they_are_read(known):
    answer = known.post("/up", content=b"", headers={"origin": HOME, "content-length": str(2 * 2**30)})
    assert answer.status_code == 413
    assert "use a path" in answer.text


def test_a_body_that_goes_on_is_cut_off(known):
    read = []

    def endless():
        for _ in range(100):
            read.append(1)
            yield b"x" * 2**17

    answer = known.post("/up", content=endless(), headers={"origin": HOME})
    assert answer.status_code == 413
    assert "use a path" in answer.text


def test_headers_that_protect(known):
    headers = known.get("/").headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"


def test_ports():
    with listening_socket("127.0.0.1", 0) as first:
        taken = first.getsockname()[1]
        with pytest.raises(ChopError, match="--port"):
            listening_socket("127.0.0.1", taken)
    with listening_socket("127.0.0.1", None) as one, listening_socket("127.0.0.1", None) as two:
        ports = {one.getsockname()[1], two.getsockname()[1]}
        assert len(ports) == 2
        assert min(ports) >= DEFAULT_PORT


@pytest.mark.slow
def test_the_real_server(tmp_path):
    command = [sys.executable, "-m", "chop.cli", "studio", "--no-browser", "--port", "0"]
    server = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        address = re.search(r"http\S+", server.stdout.readline()).group()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address.split("?")[0])
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with opener.open(address) as page:
            assert b"CHOP Studio" in page.read()
    finally:
        server.send_signal(signal.SIGINT)
        begun = time.monotonic()
        said = server.communicate(timeout=30)
    assert time.monotonic() - begun < 15
    assert "Traceback" not in said[1]
    assert [path.name for path in tmp_path.iterdir()] == ["chop-studio"], "nothing else is left behind"
