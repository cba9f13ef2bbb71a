"""How long `lbnn explore` takes from a move of a slider to the painted answer, in Chromium.

    python -m benchmarks.explore_latency --moves 200 --out latency.json
    python -m benchmarks.explore_latency --moves 200 --server  # processor time of the server alone

Needs Chromium, chromedriver and Selenium. Sliders take a random walk, so that answers are not found in a
cache; the clock runs from the event of the slider to the second frame after the answer. The server's own time
for the numbers is measured beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

#: Where the page stands, and which sliders are moved.
CASES = {
    "scale, one output, p = 40": ("", ("beta", "widths", "depth", "size")),
    "scale, one output, p = 200": ("examples=200&inputs=400", ("beta", "widths", "depth", "size")),
    "function": ("view=function", ("beta", "widths", "depth", "variances")),
    "features, one output, p = 200": (
        "view=features&examples=200&inputs=400&depth=2",
        ("beta", "widths", "size", "noise"),
    ),
    "scale, three outputs, p = 40": ("outputs=3", ("beta", "widths", "size", "noise")),
}

WALK = """
const [names, moves, done] = arguments;
const frame = () => new Promise(requestAnimationFrame), pause = ms => new Promise(r => setTimeout(r, ms));
const section = document.querySelector(".view:not([hidden])");
const answered = (after, began) => new Promise(resolve => {
  const look = () => Number(section.dataset.number) > after || performance.now() - began > 20000;
  const watch = new MutationObserver(() => { if (look()) { watch.disconnect(); resolve(); } });
  watch.observe(section, { attributes: true });
});
(async () => {
  const total = [], server = [];
  let seed = 7;
  for (let move = 0; move < moves; move++) {
    const slider = document.querySelector(`[data-slides="${names[move % names.length]}"]`);
    const most = Number(slider.max), edge = Math.floor(most / 6);
    seed = (seed * 1103515245 + 12345) % 2147483648;
    let position = Number(slider.value) + (((seed >> 16) % 7) - 3 || 1);
    if (position < edge || position > most - edge) position = Math.floor(most / 2) + (seed >> 8) % 3;
    slider.focus();
    slider.value = position;
    const after = Number(section.dataset.number), began = performance.now();
    const answer = answered(after, began);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await answer;
    await frame();
    await frame();
    total.push(performance.now() - began);
    server.push(Number(section.dataset.milliseconds));
    await pause(80);
  }
  done([total, server]);
})();
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--server", action="store_true", help="the server's stages without a browser")
    arguments = parser.parse_args()
    results = stages(arguments.moves) if arguments.server else measure(arguments.moves)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def stages(moves: int) -> dict[str, dict[str, dict[str, float]]]:
    """Processor time of each stage on the server: numbers, and what is sent of them."""
    import lbnn

    warnings.simplefilter("ignore", lbnn.AccuracyWarning)
    results = {}
    for name, (query, sliders) in CASES.items():
        rows = np.array(_stages(query, sliders, moves))
        results[name] = {"numbers": _summary(rows[:, 0]), "figures": _summary(rows[:, 1])}
        print(
            name + ": " + "; ".join(f"{kind} {_row(times)}" for kind, times in results[name].items()),
            flush=True,
        )
    return results


def _stages(query: str, sliders: tuple[str, ...], moves: int) -> list[tuple[float, float]]:
    from bokeh.document import Document

    from lbnn.explore.code import code
    from lbnn.explore.controls import CONTROLS
    from lbnn.explore.document import Pages
    from lbnn.explore.session import NUMBERS
    from lbnn.explore.state import State

    stops = {control.name: control.stops for control in CONTROLS if control.name in sliders}
    places = {name: len(stops[name]) // 2 for name in sliders}
    rng, pages, rows = np.random.default_rng(7), Pages(ThreadPoolExecutor(1)), []
    pages(Document())
    for move in range(moves):
        name = sliders[move % len(sliders)]
        most = len(stops[name]) - 1
        places[name] += int(rng.integers(-3, 4)) or 1
        if not most // 6 <= places[name] <= most - most // 6:
            places[name] = most // 2 + int(rng.integers(3))
        moved = "&".join(f"{each}={stops[each][place]}" for each, place in places.items())
        state = State.from_address("&".join(filter(None, (query, moved))))
        began = time.thread_time()
        numbers = next(iter(NUMBERS[state.view](state, None)))
        done = time.thread_time()
        pages.open[0]._show(move + 1, state, numbers, 0.0, code(state, None, numbers))
        rows.append((1e3 * (done - began), 1e3 * (time.thread_time() - done)))
    return rows


def measure(moves: int) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds in the browser, and those of the server for the numbers."""
    command = [sys.executable, "-m", "lbnn.cli", "explore", "--no-browser", "--port", "0"]
    single = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    results = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=single) as server:
        address = server.stdout.readline().split()[2]
        for name, (query, sliders) in CASES.items():
            results[name] = _walk(f"{address}?{query}", sliders, moves)
            rows = [f"{kind} {_row(times)}" for kind, times in results[name].items()]
            print(f"{name}: {'; '.join(rows)}", flush=True)
        server.terminate()
    return results


def _walk(address: str, sliders: tuple[str, ...], moves: int) -> dict[str, dict[str, float]]:
    driver = _chromium()
    try:
        driver.get(address)
        while not driver.execute_script(
            "return document.querySelector('.view:not([hidden])').dataset.number"
        ):
            time.sleep(0.2)
        time.sleep(2)
        driver.execute_async_script(WALK, sliders, 8)  # warm
        total, server = driver.execute_async_script(WALK, sliders, moves)
    finally:
        driver.quit()
    return {"browser": _summary(total), "server": _summary(server)}


def _summary(milliseconds: Sequence[float]) -> dict[str, float]:
    values = {
        "best": min(milliseconds),
        "median": np.median(milliseconds),
        "p95": np.percentile(milliseconds, 95),
    }
    return {name: round(float(value), 1) for name, value in values.items()}


def _row(times: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.0f} ms" for name, value in times.items())


def _chromium():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser")
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--window-size=1280,900",
    ):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_script_timeout(1200)
    return driver


if __name__ == "__main__":
    main()
