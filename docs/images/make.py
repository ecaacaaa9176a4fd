# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of the documentation anew: `./dev screenshots`. Needs Chromium.

The viewer shows results of the tests (tests/data/graph/samples); the report of the config check
is that of its example; the pictures of all pages are of tests/python/sample_pages.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
REPOSITORY = FOLDER.parents[1]
sys.path[:0] = [str(REPOSITORY / "tests/python" / name) for name in ("", "viewer", "trend")]

import sample_pages  # noqa: E402
import viewer_actions as way  # noqa: E402  # the same steps that the tests take
from browser import CHROMIUM, MISSING  # noqa: E402
from trend_records import Training, write_alarm, write_record  # noqa: E402
from viewer_page import ViewerPage, serving  # noqa: E402

LONG = {("diagnosis", 1400): 2150, ("diagnosis", 400): 2400}  # pixels of pages that are shown as a whole
_RESTS = 1.5  # seconds until nothing moves any more


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "-o", "--out", type=Path, default=FOLDER, help="folder of the pictures (default: docs/images)"
    )
    parser.add_argument("--only", choices=["pages", "viewer", "config", "trend"], help="no others")
    asked = parser.parse_args()
    out: Path = asked.out
    if CHROMIUM is None:
        print(f"{MISSING}: no picture was made", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = ViewerPage(folder / "profile")
        try:
            parts = {
                "pages": lambda: pages(page, folder, out / "pages"),
                "viewer": lambda: viewer(page, folder, out),
                "config": lambda: config_check(page, folder, out),
                "trend": lambda: trend(page, folder, out),
            }
            for name, make in parts.items():
                if asked.only in (None, name):
                    page.size(1500, 900)
                    make()
        finally:
            page.close()
        for fault in page.faults:
            print(f"the page complained: {fault}", file=sys.stderr)
    return 1 if page.faults else 0


def pages(page: ViewerPage, folder: Path, out: Path) -> None:
    """Every page on a desk and on a phone, light and dark, as docs/pages.md shows them."""
    out.mkdir(parents=True, exist_ok=True)
    for name, path in sample_pages.made(folder).items():
        for width in (1400, 400):
            page.size(width, LONG.get((name, width), 900))
            for dark in (False, True):
                page.open(path, dark=dark)
                page.until("document.querySelector('.finding, h1')")
                take(page, out / f"{name}-{width}-{'dark' if dark else 'light'}.png")
                small(out / f"{name}-{width}-{'dark' if dark else 'light'}.png")


def small(path: Path) -> None:
    """With 256 colours: a third of the size, and no difference to the eye."""
    from PIL import Image  # comes with matplotlib

    with Image.open(path) as picture:
        fewer = picture.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)
    fewer.save(path, optimize=True)


def viewer(page: ViewerPage, folder: Path, out: Path) -> None:
    with tarfile.open(REPOSITORY / "tests/data/graph/samples/results.tar.xz") as archive:
        archive.extractall(folder / "samples")
    with way.shown(page, result(folder, "ranks_cmp"), folder / "state") as address:
        way.open_page(page, address)
        way.tap(page, "f")
        way.tap(page, "ArrowRight")
        take(page, out / "viewer-first-divergence.png")
        tab(page, "Data flow")
        take(page, out / "viewer-data-flow.png")
        tab(page, "Ranks")
        page.until("document.querySelectorAll('.heat').length == 2")
        page.run("document.querySelectorAll('.heat')[1].querySelector('.cell').click()")
        page.until("document.querySelector('.pair')")
        page.run("document.querySelectorAll('.pair')[1].click()")
        way.settle(page)
        tab(page, "Communication")
        take(page, out / "viewer-ranks.png")
        tab(page, "Search")
        choose(page, "[...document.querySelectorAll('.query select')][4]")
        choose(page, "[...document.querySelectorAll('.top .place select')].at(-1)")
        page.until("document.querySelectorAll('.node').length > 2")
        page.run("document.querySelectorAll('.node')[2].click()")
        tab(page, "Tensors")
        page.run("document.querySelectorAll('.class')[4].click()")
        take(page, out / "viewer-search.png")
    with way.shown(page, result(folder, "var_default"), folder / "state") as address:
        way.open_page(page, address, dark=True)
        for node in ("Module.layers.0.mlp.MLP.forward.0", "Module.layers.0.ffn.FeedForward.forward.0"):
            find(page, node)
        page.run("document.activeElement.blur()")
        way.press(page, "Match")
        way.press_exactly(page, "Match", ".buttons")
        page.until("document.querySelectorAll('.pairs li').length > 1")
        take(page, out / "viewer-match-dark.png")
        tab(page, "Structure")
        take(page, out / "viewer-structure-dark.png")


def config_check(page: ViewerPage, folder: Path, out: Path) -> None:
    example = [
        sys.executable,
        str(REPOSITORY / "examples/config_check/run.py"),
        "--out",
        str(folder / "config"),
    ]
    subprocess.run(example, check=True, stdout=subprocess.DEVNULL)
    (report,) = (folder / "config").rglob("report.html")
    page.size(1000, 1120)
    page.open(report)
    take(page, out / "config_check_report.png")
    page.run("document.querySelector('details[open]').scrollIntoView()")
    take(page, out / "config_check_checks.png")


def trend(page: ViewerPage, folder: Path, out: Path) -> None:
    """Records as a training would leave them: the second one goes wrong at step 350."""
    reference = write_record(folder / "run_a", Training(1))
    target = write_record(folder / "run_b", Training(1, noise=1e-4, noise_seed=5, fault=350))
    write_alarm(target, 361, "gradient.norm/layers.3", 2.84)
    write_alarm(target, 371, "gradient.norm", 1.93)
    page.size(1500, 900)
    with serving(reference, folder / "state", str(target)) as address:
        page.go(address, dark=False)
        page.until("document.querySelectorAll('.finding').length > 4 && document.querySelector('.band')")
        page.key("l")
        page.move(930, 400)
        take(page, out / "monitor-trend.png")
        page.go("about:blank")
    with serving(target, folder / "state") as address:
        page.go(f"{address}#k=gradient.norm&by=parameter", dark=True)
        page.until("document.querySelectorAll('.finding').length === 2 && document.querySelector('.curve')")
        take(page, out / "monitor-trend-dark.png")
        page.go("about:blank")


def result(folder: Path, name: str) -> Path:
    (file,) = (folder / "samples").rglob(f"{name}/*.vis.db")
    return file


def take(page: ViewerPage, path: Path) -> None:
    page.run(f"await new Promise(done => setTimeout(done, {1000 * _RESTS}))")
    page.picture(path)
    print(path)


def tab(page: ViewerPage, name: str) -> None:
    way.press(page, name)
    way.settle(page)


def choose(page: ViewerPage, select: str) -> None:
    """Ranks or colours by the difference."""
    page.until(select)
    page.run(f"const one = {select}; one.value = 'difference'; one.dispatchEvent(new Event('change'))")
    way.settle(page)


def find(page: ViewerPage, name: str) -> None:
    """Selects a node through the search."""
    page.key("/")
    page.until("document.activeElement.id === 'search'")
    page.run("document.activeElement.select()")
    page.write(name)
    page.until(f"document.querySelector('.node .name')?.textContent === {json.dumps(name)}")
    page.run("document.querySelector('.node').click()")
    page.until(f"{way.SELECTED}.includes({json.dumps(name)})")
    way.settle(page)


if __name__ == "__main__":
    sys.exit(main())
