"""A real browser on the studio's page: what a person does there, and what can be seen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement

PATIENCE = 30.0
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)
# Whether every chart below an element has a size and more than one colour. One chart may be several canvases,
# of which that for what is pointed at is empty.
_DRAWN = """
const charts = new Map();
for (const one of arguments[0].querySelectorAll('canvas')) {
  const drawn = one.width && one.height && (() => {
    const seen = one.getContext('2d').getImageData(0, 0, one.width, one.height).data.buffer;
    const pixels = new Uint32Array(seen);
    return pixels.some(pixel => pixel !== pixels[0]);
  })();
  charts.set(one.parentElement, charts.get(one.parentElement) || drawn);
}
return charts.size >= arguments[1] && [...charts.values()].every(Boolean);
"""
_PICTURE = "return [...arguments[0].querySelectorAll('canvas')].map(one => one.toDataURL()).join('|')"


def start_browser(chromium: str, driver: str, folder: Path, width: int, height: int) -> Chrome:
    """A fresh browser that downloads into ``folder/downloads``; narrow ones are phones."""
    options = Options()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    downloads = folder / "downloads"
    downloads.mkdir(parents=True)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if width < 500:  # no window of the new headless mode is narrower
        metrics = {"width": width, "height": height, "pixelRatio": 1.0, "touch": False, "mobile": True}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    browser = Chrome(options=options, service=Service(driver))
    behaviour = {"behavior": "allow", "downloadPath": str(downloads), "eventsEnabled": False}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    return browser


class StudioPage:
    """One tab on one studio."""

    def __init__(self, driver: Chrome, address: str, token: str, downloads: Path) -> None:
        self.driver, self.address, self.downloads = driver, address, downloads
        driver.get_log("browser")  # what others caused
        driver.get(f"{address}/?token={token}")
        self.wait_for_question()

    def go(self, words: str = "") -> None:
        """The page anew, by a link or as it always begins."""
        self.driver.get(f"{self.address}/{words}")

    def wait_for_question(self) -> None:
        """Until the page is connected and its question is drawn."""
        self.until(lambda: "examples" in self.text("question-words"), "the question to be drawn", 60)

    # Finding

    def all(self, test_id: str, inside: str = "") -> list[WebElement]:
        return self.driver.find_elements("css selector", f'[data-testid="{test_id}"] {inside}'.strip())

    def find(self, test_id: str, inside: str = "") -> WebElement:
        """The element of that name that is seen, or the first."""
        found: list[WebElement] = []

        def there() -> bool:
            found[:] = self.all(test_id, inside)
            return bool(found)

        self.until(there, f"{test_id} {inside} to be there")
        return next((one for one in found if one.is_displayed()), found[0])

    def text(self, test_id: str) -> str:
        """The words of an element; empty where it is unseen or away."""
        with suppress(StaleElementReferenceException):
            return " ".join(one.text for one in self.all(test_id) if one.is_displayed())
        return ""

    def value(self, test_id: str) -> str:
        """What a field holds."""
        return str(self.find(test_id).get_property("value") or "")

    # Waiting

    def until(self, seen: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
        """The first true value of ``seen``."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(StaleElementReferenceException):
                if value := seen():
                    return value
            time.sleep(0.1)
        self.shot("failed")
        told = {name: self.text(name) for name in ("question-error", "program-error", "run-error", "status")}
        raise AssertionError(f"waited {seconds:g} s for {what}; the page says {told}")

    def until_text(self, test_id: str, words: str, seconds: float = PATIENCE) -> str:
        """The text of an element, as soon as it has these words."""
        self.until(lambda: words in self.text(test_id), f"{words!r} in {test_id}", seconds)
        return self.text(test_id)

    def until_value(self, test_id: str, words: str) -> str:
        """What a field holds, as soon as it has these words."""
        self.until(lambda: words in self.value(test_id), f"{words!r} in the field {test_id}")
        return self.value(test_id)

    def until_drawn(self, test_id: str, charts: int = 1) -> str:
        """Until there are charts and none is blank; they as text."""
        self.until(
            lambda: self.driver.execute_script(_DRAWN, self.find(test_id), charts), f"charts in {test_id}"
        )
        return self.picture(test_id)

    def picture(self, test_id: str) -> str:
        """All charts as text, to see whether they changed."""
        return str(self.driver.execute_script(_PICTURE, self.find(test_id)))

    # Doing

    def press(self, element: WebElement) -> None:
        """Click what may be under a message or still moving."""
        end = time.monotonic() + 10
        while True:
            self.driver.execute_script(
                "arguments[0].scrollIntoView({block: 'center', inline: 'center'})", element
            )
            try:
                element.click()
                return
            except (ElementClickInterceptedException, ElementNotInteractableException):
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def click(self, test_id: str, inside: str = "") -> None:
        end = time.monotonic() + 10
        while True:
            try:
                self.press(self.find(test_id, inside))
                return
            except StaleElementReferenceException:
                if time.monotonic() > end:
                    raise

    def write(self, test_id: str, text: str) -> None:
        """Type over what a field holds."""
        field = self.find(test_id)
        if field.tag_name not in ("input", "textarea"):
            field = field.find_element("css selector", "input, textarea")
        self.press(field)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE)
        if text:
            field.send_keys(text)

    def choose(self, test_id: str, option: str) -> None:
        """An option of a menu, by its beginning."""
        self.click(test_id)

        def chosen() -> bool:
            for item in self.driver.find_elements("css selector", ".q-menu .q-item"):
                if item.text.startswith(option):
                    item.click()
                    return True
            return False

        self.until(chosen, f"the option {option!r} of {test_id}")

    def write_choice(self, test_id: str, text: str) -> None:
        """A value of one's own in a menu that takes them."""
        self.write(test_id, text)
        field = self.find(test_id)
        target = field if field.tag_name == "input" else field.find_element("css selector", "input")
        target.send_keys(Keys.ENTER)

    def press_keys(self, element: WebElement, *names: str) -> None:
        """Keys by their names."""
        for name in names:
            element.send_keys(getattr(Keys, name))

    def slide(self, test_id: str, key: str, times: int = 1) -> None:
        """Move a slider by keys."""
        found = self.find(test_id)
        thumbs = found.find_elements("css selector", "[tabindex='0']") or [found]
        self.driver.execute_script(
            "arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", thumbs[0]
        )
        self.press_keys(thumbs[0], *[key] * times)

    def draw(self, test_id: str, points: list[tuple[float, float]]) -> None:
        """A stroke of the mouse, in parts of an element's width and height."""
        pad = self.find(test_id)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", pad)
        self.until(lambda: pad.is_displayed() and pad.size["height"] > 30, "the pad to be open")
        time.sleep(0.4)  # it is still unfolding, and a moving pad is drawn on elsewhere
        width, height = pad.size["width"], pad.size["height"]
        places = [(round((x - 0.5) * width), round((y - 0.5) * height)) for x, y in points]
        actions = ActionChains(self.driver, duration=60).move_to_element_with_offset(pad, *places[0])
        actions = actions.click_and_hold()
        for place in places[1:]:
            actions = actions.move_to_element_with_offset(pad, *place)
        actions.release().perform()

    def hover(self, element: WebElement) -> None:
        """Point at something, coming from elsewhere."""
        self.driver.execute_script(
            "arguments[0].scrollIntoView({block: 'center', inline: 'center'})", element
        )
        ActionChains(self.driver, duration=50).move_to_element(element).perform()

    def box(self, name: str) -> WebElement:
        """A box of the program's drawing."""
        return self.find("drawing", f'[data-path][aria-label^="{name}"]')

    def open_box(self, name: str) -> None:
        """Its editor, made anew: buttons of one that is about to be replaced are heard by nobody."""
        if self.text("editor"):
            self.click("edit-close")
            self.until(lambda: not self.text("editor"), "the editor to close")
        self.press(self.box(name))
        self.until_text("editor", name)

    def question(self, kind: str) -> None:
        """Another kind of question."""
        self.click(f"kind-{kind}")

    def run(self) -> dict[str, list[str]]:
        """Press Run and wait for its end; the rows of the table."""
        before = self.text("status")
        self.click("run")
        self.until(
            lambda: self.text("status") != before and self.text("status").startswith("run "), "the run", 60
        )
        return self.rows()

    def rows(self) -> dict[str, list[str]]:
        """The table of answers, by its rows' names."""
        found = self.driver.find_elements("css selector", '[data-testid="results"] tr[data-row]')
        return {
            row.get_attribute("data-row") or "": [
                cell.text for cell in row.find_elements("css selector", "td")
            ]
            for row in found
        }

    def export(self, suffix: str) -> Path:
        """Press the button of an export; the file that came."""
        before = set(self.downloads.iterdir())
        self.click(f"export-{suffix}")

        def come() -> Path | None:
            new = [p for p in set(self.downloads.iterdir()) - before if p.suffix == f".{suffix}"]
            return new[0] if new and new[0].stat().st_size else None

        found = self.until(come, f"the download of a .{suffix} file", 60)
        assert isinstance(found, Path)
        return found

    # Judging

    def assert_quiet(self) -> None:
        """Nothing went wrong in the browser itself."""
        loud = [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not loud, loud

    def assert_fits(self) -> None:
        """Nothing sticks out of the page to the right."""
        script = "return [document.documentElement.scrollWidth, window.innerWidth]"
        wide, seen = self.driver.execute_script(script)
        assert wide <= seen + 1, f"the page is {wide} wide where {seen} are seen"

    def shot(self, name: str) -> None:
        """A picture of the whole page into the folder that CHOP_SCREENSHOTS names, if it does."""
        folder = os.environ.get("CHOP_SCREENSHOTS")
        if not folder:
            return
        Path(folder).mkdir(parents=True, exist_ok=True)
        test = os.environ.get("PYTEST_CURRENT_TEST", "page").split("::")[-1].split(" ")[0]
        clean = "".join(c if c.isalnum() or c in "-_" else "_" for c in f"{test}-{name}")
        import base64

        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        (Path(folder) / f"{clean}.png").write_bytes(base64.b64decode(taken["data"]))
