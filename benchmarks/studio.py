"""From click to drawn answer on the page of `chop studio`, as a multiple of the programs' own time.

A real Chromium presses Run again and again: the bare model, the program and `auto` are run, and the clock
stops when the picture of the answers is finished in the browser. Own time is what the programs took,
one after the other, as the page tells it. Needs chromium and chromedriver; says so where there are none.
"""

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 50
KINDS = {"law": "conservation law", "control": "mean-field control", "air": "air quality"}
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1280,1200",
)  # fmt: skip

# The picture is finished when ECharts says so after the status has changed; a frame later it is seen.
MEASURE = """
const done = arguments[0];
const row = document.querySelector('[data-testid="answer-charts"]');
const status = document.querySelector('[data-testid="status"]');
const before = status.textContent;
const chart = getElement(row.firstElementChild.id.slice(1)).chart;
const start = performance.now();
const finished = () => {
  if (status.textContent === before || !status.textContent.startsWith('run')) return;
  chart.off('finished', finished);
  requestAnimationFrame(() => done([performance.now() - start, status.textContent]));
};
chart.on('finished', finished);
document.querySelector('[data-testid="run"]').click();
"""


def main():
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("studio: no chromium and chromedriver here, nothing measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "chop.cli", "studio", "--no-browser", "--port", "0"]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            address = re.search(r"http\S+", server.stdout.readline()).group()
            measure(address, Path(folder))
        finally:
            server.terminate()
            server.communicate(timeout=30)


def measure(address, folder):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.set_script_timeout(60)
        driver.get(address)
        print(f"| question | own time (ms) | click to drawn (ms) | multiple, median of {RUNS} | 90 % below |")
        print("|---|---|---|---|---|")
        for kind, name in KINDS.items():
            print(f"| {name} | {one_kind(driver, kind)} |", flush=True)
    finally:
        driver.quit()


def one_kind(driver, kind):
    press(driver, f"kind-{kind}")
    time.sleep(6)  # the first question of a kind loads its network, and the invented world is made
    for _ in range(3):  # both workers have seen everything, and the picture is there
        press(driver, "run")
        time.sleep(3)
    own, drawn = [], []
    for _ in range(RUNS):
        milliseconds, status = driver.execute_async_script(MEASURE)
        drawn.append(milliseconds)
        own.append(float(re.search(r"programs (\d+) ms", status).group(1)))
        time.sleep(0.3)  # what the page does after an answer is not part of the next one
    ratios = [d / o for d, o in zip(drawn, own, strict=True)]
    high = statistics.quantiles(ratios, n=10)[-1]
    return (
        f"{statistics.median(own):.0f} | {statistics.median(drawn):.0f} | "
        f"{statistics.median(ratios):.2f} | {high:.2f}"
    )


def press(driver, mark):
    def there():
        return driver.find_elements("css selector", f'[data-testid="{mark}"]')

    end = time.monotonic() + 30
    while not there() and time.monotonic() < end:
        time.sleep(0.1)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].click()", there()[0])


if __name__ == "__main__":
    main()
