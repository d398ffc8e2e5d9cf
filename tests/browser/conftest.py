"""A real server and real browsers. Only where CHOP_BROWSER=1 asks for them and they are installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

HERE = Path(__file__).parent
JOURNALS = HERE.parents[1] / "docs" / "results" / "evolution"
WIDE, PHONE = (1280, 900), (400, 800)


def missing() -> str:
    """Why there can be no browser; empty if there can."""
    if os.environ.get("CHOP_BROWSER") != "1":
        return "browser tests run with CHOP_BROWSER=1"
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    lacking += [name for name in ("selenium", "nicegui") if importlib.util.find_spec(name) is None]
    return f"browser tests need {', '.join(lacking)}" if lacking else ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if reason := missing():
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(eq=False)
class Studio:
    """A server process of its own, in a folder of its own."""

    home: Path
    process: subprocess.Popen[str]
    address: str
    token: str

    @property
    def work(self) -> Path:
        return self.home / "work"

    @property
    def log(self) -> str:
        return (self.home / "studio.log").read_text()

    @property
    def port(self) -> int:
        port = urlsplit(self.address).port
        assert port is not None
        return port

    @property
    def cookie(self) -> str:
        return f"chop_studio_{self.port}={self.token}"

    def stop(self, seconds: float = 15) -> int:
        """Ctrl-C, and how it ended."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def start_studio(home: Path, port: int = 0) -> Studio:
    """Start one, and wait until it says where it is."""
    command = [
        sys.executable,
        "-m",
        "chop.cli",
        "studio",
        "--no-browser",
        "--port",
        str(port),
        "--work",
        "work",
    ]
    said = home / "studio.out"
    with said.open("w") as out, (home / "studio.log").open("a") as log:
        process = subprocess.Popen(
            command, cwd=home, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=out, stderr=log, text=True
        )
    end = time.monotonic() + 60
    while "token=" not in said.read_text() or not said.read_text().endswith("\n"):
        alive = process.poll() is None and time.monotonic() < end
        assert alive, (home / "studio.log").read_text()
        time.sleep(0.1)
    whole = urlsplit(said.read_text().split("CHOP Studio: ")[1].split()[0])
    return Studio(home, process, f"{whole.scheme}://{whole.netloc}", parse_qs(whole.query)["token"][0])


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A server for the tests of one file, with a kept search to look at."""
    home = tmp_path_factory.mktemp("studio")
    for name in ("conservation-0",):
        if (JOURNALS / name).is_dir():
            shutil.copytree(JOURNALS / name, home / "work" / "searches" / name)
    started = start_studio(home)
    yield started
    started.stop()
    assert "Traceback" not in started.log, started.log


def _browser(folder: Path, size: tuple[int, int]) -> Any:
    from browser.studio_page import start_browser

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium
    assert driver
    started = start_browser(chromium, driver, folder, *size)
    started.downloads = folder / "downloads"
    return started


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A window on a desk."""
    started = _browser(tmp_path_factory.mktemp("browser"), WIDE)
    yield started
    started.quit()


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A window as narrow as a telephone."""
    started = _browser(tmp_path_factory.mktemp("phone"), PHONE)
    yield started
    started.quit()


@pytest.fixture
def open_page(studio: Studio) -> Any:
    """Opens the studio's page in a browser."""
    from browser.studio_page import StudioPage

    return lambda driver: StudioPage(driver, studio.address, studio.token, driver.downloads)


@pytest.fixture(params=["browser", "phone"])
def page(request: pytest.FixtureRequest, open_page: Any) -> Any:
    """The page as it begins, at both widths."""
    return open_page(request.getfixturevalue(request.param))


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts servers that end with the test."""
    started: list[Studio] = []

    def one(home: Path, port: int = 0) -> Studio:
        started.append(start_studio(home, port))
        return started[-1]

    yield one
    for studio in started:
        if studio.process.poll() is None:
            studio.stop()
