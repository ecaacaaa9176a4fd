# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Measures the viewer in headless Chromium, on a file of benchmarks/viewer_file.py.

    python benchmarks/viewer_actions.py BIG.vis.db

First picture, then every action many times, as the page does it: the time from the key or click until the
page is at rest, and how much of it the server and the page were at work (medians of the time of a processor:
what other programs take meanwhile is not in it). Also the largest answer, frames per second while panning,
and the memory of the server."""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests/python"
sys.path += [str(TESTS), str(TESTS / "viewer")]
ViewerPage: Any = importlib.import_module("viewer_page").ViewerPage  # the driver of the tests

ROUNDS = 8
REST = "document.querySelector('main')?.getAttribute('aria-busy') === 'false'"
# Payloads: what each answer holds when unpacked.
WATCH = """
window.answers = [];
const ask = window.fetch;
window.fetch = async (...words) => {
  const begin = performance.now();
  const answer = await ask(...words);
  answer.clone().text().then(t => answers.push([String(words[0]), t.length, performance.now() - begin]));
  return answer;
};
return 1
"""


def memory(process: int) -> tuple[float, float]:
    """Of the server, in MiB: now and at its peak, without what it started."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    return tuple(int(values[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


def timed(page: Any, script: str) -> float:
    """Milliseconds from an action until the page is at rest and drawn, measured in the page."""
    return float(
        page.run(
            f"const begin = performance.now(); {script};"
            "await new Promise(d => setTimeout(d, 0));"
            f"while (!({REST})) await new Promise(d => setTimeout(d, 2));"
            "await new Promise(d => requestAnimationFrame(() => setTimeout(d, 0)));"
            "return performance.now() - begin"
        )
    )


def server_time(process: int) -> float:
    """Milliseconds of a processor that the server has taken, with its threads."""
    parts = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(part.read_text().split()[0]) for part in parts) / 1e6


def page_time(page: Any) -> float:
    """The same of the page, without its worker and without what puts the pictures on the screen."""
    metrics = page.cdp.send("Performance.getMetrics")["metrics"]
    return 1e3 * next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def key(name: str) -> str:
    event = f"new KeyboardEvent('keydown', {{key: {json.dumps(name)}, bubbles: true}})"
    return f"document.body.dispatchEvent({event})"


def line(name: str, values: list[float]) -> str:
    """How often, the median and the 95th percentile."""
    values = sorted(values)
    count = len(values)
    return f"{name:32}{count:6}{values[count // 2]:10.0f}{values[int(count * 0.95)]:10.0f}"


def typed(text: str) -> str:
    return (
        "{ const s = document.getElementById('search'); "
        f"s.value = {json.dumps(text)}; s.dispatchEvent(new Event('input', {{bubbles: true}})) }}"
    )


def chosen(selects: str, at: int, value: object) -> str:
    """Another entry of one of the select elements that a selector finds."""
    return (
        f"{{ const s = [...document.querySelectorAll({json.dumps(selects)})].at({at}); "
        f"s.value = {json.dumps(str(value))}; s.dispatchEvent(new Event('change', {{bubbles: true}})) }}"
    )


def main() -> None:
    path = Path(sys.argv[1])
    dice = random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "msprobe", "view", str(path), "--no-browser", "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        server.stdout.readline()
        address = server.stdout.readline().split()[1]
        page = ViewerPage(Path(folder) / "profile")
        page.size(1600, 950)
        page.cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        begin = time.perf_counter()
        page.go(address)
        page.until("document.querySelector('canvas')?.width > 300 && location.hash.includes('f=')")
        first = page.run("return performance.now()")
        print(f"first picture, large file just opened: {first:.0f} ms after the page asks")
        page.until("document.querySelector('.finding')", 400)
        print(f"all values read: {time.perf_counter() - begin:.1f} s")
        page.go("about:blank")
        page.go(address.split("?")[0])
        page.until("document.querySelector('.class b')")
        print(f"first picture, opened again: {page.run('return performance.now()'):.0f} ms")
        page.until("document.querySelector('.finding')")
        page.run(WATCH)
        results: dict[str, list[float]] = {}

        costs: dict[str, list[tuple[float, float]]] = {}

        def measure(name: str, script: str) -> None:
            before = (server_time(server.pid), page_time(page))
            results.setdefault(name, []).append(timed(page, script))
            after = (server_time(server.pid), page_time(page))
            costs.setdefault(name, []).append((after[0] - before[0], after[1] - before[1]))

        measure("first divergence", key("f"))
        for number in range(ROUNDS):
            measure("next suspicious", key("n"))
            measure("walk (arrow)", key("ArrowDown"))
            measure("open / close a layer", key("Enter"))
            page.run("document.querySelectorAll('.side [role=tab]')[1].click()")
            page.until("document.getElementById('search')")
            words = ("matmul.", "softmax.1", "layers.4", "view", "gelu.99")
            measure("search", typed(f"{dice.choice(words)}{number}"))
            page.until("document.querySelector('.node') || document.querySelector('.count')")
            measure("jump to a result", "document.querySelector('.node')?.click()")
        texts = {"regex": r"layers\.{}\d\.mlp", "shape": "float32[4, {}", "stack": "line 7{}"}
        for within, text in texts.items():
            measure("search by something else", chosen(".query select", 0, within))
            for number in range(ROUNDS):
                measure(f"search by {within}", typed(text.format(number)))
        page.run(chosen(".query select", 0, "name") + typed(""))
        page.until(REST)
        for by in ("difference", "MaxRelativeErr", "index", "order"):
            measure("rank by a metric", chosen(".query select", 4, by))
        for number in (4, 3, 2, 5, 4):
            measure("filter by a class", f"document.querySelectorAll('.class')[{number}].click()")
        measure("filter off", "document.querySelectorAll('.legend .quiet')[0]?.click()")
        for by in ("difference", "weights", "MaxRelativeErr", "Mean diff", "overflow", "index", "difference"):
            measure("another colouring", chosen(".top .place select", -1, by))
        for _ in range(3):
            measure("open down to a level", chosen(".top select", -1, 3))
            measure("close all", chosen(".top select", -1, 0))
        print(f"\nload of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        print(f"{'action':32}{'times':>6}{'median':>10}{'95 %':>10}{'server':>10}{'page':>10}  (ms)")
        for name, values in results.items():
            spent = [sorted(one)[len(one) // 2] for one in zip(*costs[name])]
            print(line(name, values) + "".join(f"{one:10.0f}" for one in spent))
        print(line("every action", [v for name, vs in results.items() if "search" not in name for v in vs]))
        print(line("every search", [v for name, vs in results.items() if "search" in name for v in vs]))
        answers = page.run("return answers")
        largest = max(answers, key=lambda one: one[1])
        print(f"\nlargest answer: {largest[1] / 1e6:.2f} MB ({largest[0]}), of {len(answers)}")
        pan(page)
        print("server: {:.0f} MiB, at its peak {:.0f} MiB".format(*memory(server.pid)))
        page.close()
        server.terminate()
        server.wait()


def pan(page: Any) -> None:
    """Everything that may be opened at once, all of it in sight."""
    timed(page, chosen(".top select", -1, 100))
    timed(page, key("0"))
    page.until("[...document.querySelectorAll('canvas')].every(c => c.dataset.boxes > 100)")
    boxes = page.run(
        "return [...document.querySelectorAll('canvas')].reduce((n, c) => n + +c.dataset.boxes, 0)"
    )
    before = page_time(page)
    frames = page.run(
        "const c = document.querySelector('canvas'); let n = 0; const begin = performance.now(); "
        "const work = [];"
        "while (performance.now() - begin < 3000) {"
        " const now = performance.now();"
        " c.dispatchEvent(new WheelEvent('wheel', {deltaY: n % 60 < 30 ? 9 : -9, cancelable: true, "
        "bubbles: true}));"
        " await new Promise(d => requestAnimationFrame(d)); n += 1; work.push(performance.now() - now); }"
        "work.sort((a, b) => a - b);"
        "return [n, work[Math.floor(work.length * 0.95)]]"
    )
    frames = [frames[0] / 3, frames[1], (page_time(page) - before) / frames[0]]
    print(
        f"panning, {boxes} boxes in sight: {frames[0]:.0f} frames/s, 95 % within {frames[1]:.0f} ms; "
        f"drawing one takes {frames[2]:.1f} ms of a processor"
    )


if __name__ == "__main__":
    main()
