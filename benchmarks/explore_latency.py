"""How long `lbnn explore` takes from a move of a slider to the painted answer, in Chromium.

    python -m benchmarks.explore_latency --moves 200 --out latency.json

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
    "scale, three outputs, p = 40": ("outputs=3&size=1", ("beta", "widths", "size", "noise")),
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
    arguments = parser.parse_args()
    results = measure(arguments.moves)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def measure(moves: int) -> dict[str, dict[str, dict[str, float]]]:
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


def _summary(milliseconds: list[float]) -> dict[str, float]:
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
