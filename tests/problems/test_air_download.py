"""Downloads against a server on this machine that breaks, lies, and forgets."""

import hashlib
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from chop.cli.data import data_app
from chop.core.errors import DataError
from chop.problems.air import download
from chop.problems.air.download import KNOWAIR, ZENODO, fetch

BODY = bytes(range(256)) * 40
MD5 = hashlib.md5(BODY).hexdigest()
FILES = {"dataset_a.nc": MD5}


@pytest.fixture(autouse=True)
def straight(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


@contextmanager
def server(behave):
    """``behave(handler, number of the request)`` answers; yields the address and the requests' ranges."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.headers.get("Range"))
            behave(self, len(asked))

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_address[1]}/files", asked
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


def send(handler, status=200, body=BODY, length=None, **headers):
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def with_ranges(handler, number):
    """A server as it should be."""
    match = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range") or "")
    if not match:
        return send(handler)
    start = int(match[1])
    if start >= len(BODY):
        return send(handler, 416, b"")
    return send(handler, 206, BODY[start:], Content_Range=f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")


def breaks_first(handler, number):
    """The first transfer promises everything and stops in the middle; then as it should be."""
    if number == 1:
        send(handler, body=BODY[:3000], length=len(BODY))
    else:
        with_ranges(handler, number)


def get(folder, address, **options):
    (path,) = fetch(folder, address, FILES, **{"pause": 0.0, "timeout": 5.0, **options})
    return path


def test_a_whole_file(tmp_path):
    heard = []
    with server(with_ranges) as (address, asked):
        path = get(tmp_path / "new", address, progress=lambda *now: heard.append(now))
        assert path.read_bytes() == BODY
        assert heard[-1] == ("dataset_a.nc", len(BODY), len(BODY))
        get(tmp_path / "new", address)
        assert asked == [None], "what is there and right is not asked for again"
    assert [file.name for file in path.parent.iterdir()] == ["dataset_a.nc"]


def test_a_truncated_transfer_is_continued(tmp_path):
    with server(breaks_first) as (address, asked):
        assert get(tmp_path, address).read_bytes() == BODY
        assert asked == [None, "bytes=3000-"]


def test_a_later_call_continues(tmp_path):
    with server(breaks_first) as (address, asked):
        with pytest.raises(DataError, match=r"3000 of 10240 bytes .*3000 bytes are kept"):
            get(tmp_path, address, tries=1)
        assert (tmp_path / "dataset_a.nc.part").read_bytes() == BODY[:3000]
        assert not (tmp_path / "dataset_a.nc").exists()
        assert get(tmp_path, address, tries=1).read_bytes() == BODY
        assert asked == [None, "bytes=3000-"]
        assert not (tmp_path / "dataset_a.nc.part").exists()


def test_a_server_without_ranges_sends_all_again(tmp_path):
    def no_ranges(handler, number):
        send(handler, body=BODY[:3000] if number == 1 else BODY, length=len(BODY))

    with server(no_ranges) as (address, asked):
        assert get(tmp_path, address).read_bytes() == BODY
        assert asked == [None, "bytes=3000-"]


def test_a_server_that_continues_elsewhere_is_not_believed(tmp_path):
    def elsewhere(handler, number):
        if number == 2:
            send(handler, 206, BODY[100:], Content_Range=f"bytes 100-{len(BODY) - 1}/{len(BODY)}")
        else:
            breaks_first(handler, number)

    with server(elsewhere) as (address, asked):
        assert get(tmp_path, address).read_bytes() == BODY
        assert asked == [None, "bytes=3000-", None]


def test_a_broken_connection(tmp_path):
    def hangs_up(handler, number):
        if number == 1:
            handler.connection.close()  # not a word
        else:
            with_ranges(handler, number)

    with server(hangs_up) as (address, _):
        assert get(tmp_path, address).read_bytes() == BODY


def test_a_wrong_checksum_is_never_kept(tmp_path):
    with server(lambda handler, number: send(handler, body=BODY[::-1])) as (address, asked):
        with pytest.raises(DataError, match="checksum of what arrived is wrong"):
            get(tmp_path, address, tries=2)
        assert asked == [None, None]
    assert list(tmp_path.iterdir()) == []


def test_a_rotten_partial_file_is_thrown_away(tmp_path):
    (tmp_path / "dataset_a.nc.part").write_bytes(b"?" * 500)
    with server(with_ranges) as (address, asked):
        assert get(tmp_path, address).read_bytes() == BODY
        assert asked == ["bytes=500-", None]


def test_a_partial_file_that_is_whole(tmp_path):
    (tmp_path / "dataset_a.nc.part").write_bytes(BODY)
    with server(with_ranges) as (address, asked):
        assert get(tmp_path, address).read_bytes() == BODY
        assert asked == [f"bytes={len(BODY)}-"]


def test_a_busy_server_is_asked_again_and_a_refusal_is_final(tmp_path):
    def busy(handler, number):
        send(handler, 503, b"") if number < 3 else with_ranges(handler, number)

    with server(busy) as (address, asked):
        assert get(tmp_path, address).read_bytes() == BODY
        assert len(asked) == 3
    with server(lambda handler, number: send(handler, 404, b"no")) as (address, asked):
        with pytest.raises(DataError, match="answered 404"):
            get(tmp_path / "other", address)
        assert len(asked) == 1


def test_no_network(tmp_path):
    with server(with_ranges) as (address, _):
        pass  # and now nobody listens there
    with pytest.raises(DataError, match=r"in 2 tries: ConnectionRefusedError.*is there a network\?"):
        get(tmp_path, address, tries=2)


def test_somebody_elses_file_is_left_alone(tmp_path):
    (tmp_path / "dataset_a.nc").write_text("mine")
    with pytest.raises(DataError, match="not the file of the record"):
        get(tmp_path, "http://127.0.0.1:9")
    assert (tmp_path / "dataset_a.nc").read_text() == "mine"
    with pytest.raises(DataError, match="cannot make the folder"):
        get(tmp_path / "dataset_a.nc" / "below", "http://127.0.0.1:9")


def test_the_command(tmp_path, monkeypatch):
    assert set(KNOWAIR) == {"dataset_bthsa.nc", "dataset_yrd.nc", "stations_bthsa.csv", "stations_yrd.csv"}
    assert ZENODO == "https://zenodo.org/records/15614907/files"
    with server(breaks_first) as (address, asked):
        monkeypatch.setattr(download.fetch, "__kwdefaults__", {**fetch.__kwdefaults__, "pause": 0.0})
        monkeypatch.setattr(download.fetch, "__defaults__", (address, FILES))
        done = CliRunner().invoke(data_app, ["air", "--fetch", str(tmp_path / "d")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "d" / "dataset_a.nc").read_bytes() == BODY
    assert asked == [None, "bytes=3000-"]
