# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trains models of `transformers` with random weights, once as they are and once with one module changed from
step 1 on, and asks every command of msprobe about it. Nothing is downloaded.

Exit code 0: results are bit-equal with and without msprobe, and every command named the changed module. 1:
not so, or a part failed. 2: something that is needed is not installed.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WRONG_STEP = 1
WRAPPER = "module."  # where DistributedDataParallel holds the model
PARALLEL = ("ddp", "fsdp2")  # two processes train `llama`
MSPROBE = (sys.executable, "-m", "msprobe")


@dataclass
class Row:
    """One line of the table. `problems`: what is not as it should be."""

    name: str
    ratios: str = ""
    records: int = 0
    said: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0].replace("\n", " "))
    parser.add_argument(
        "names", nargs="*", metavar="MODEL", help="models, ddp or fsdp2; without: all of them"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/real_models"), metavar="DIR", help="(%(default)s)"
    )
    parser.add_argument("--no-times", action="store_true", help="leave out the ratios of step times")
    args = parser.parse_args()
    for package in ("torch", "msprobe", "transformers"):
        if importlib.util.find_spec(package) is None:
            print(f"{sys.executable} has no package {package}: see README.md", file=sys.stderr)
            return 2
    from models import KINDS

    known = [*KINDS, *PARALLEL]
    for name in args.names:
        if name not in known:
            parser.error(f"{name}: expected one of {', '.join(known)}")
    rows = []
    for name in args.names or known:
        print(f"{name} ...", flush=True)
        model = "llama" if name in PARALLEL else name
        rows.append(walk(name, model, KINDS[model].culprit, args.out.absolute() / name))
        if name not in PARALLEL and not args.no_times:
            rows[-1].ratios = ratios(name)
        for problem in rows[-1].problems:
            print(f"  {problem}", file=sys.stderr)
    print(table(rows))
    return 1 if any(row.problems for row in rows) else 0


def walk(name: str, model: str, culprit: str, out: Path) -> Row:
    row = Row(name)
    words = [str(HERE / "train.py"), model]
    launcher: tuple[str, ...] = (sys.executable,)
    if name in PARALLEL:
        words += ["--parallel", name]
        launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    out.mkdir(parents=True, exist_ok=True)
    plain = run([*launcher, *words], row)
    record = [*launcher, "-m", "msprobe", "run", "--force"]
    with_msprobe = run([*record, "-o", str(out / "run_a"), *words], row)
    run([*record, "-o", str(out / "run_b"), *words, "--fault"], row)
    same = sorted(plain.splitlines()) == sorted(with_msprobe.splitlines())
    row.said["bit-equal"] = "yes" if same and plain else "no"
    if row.said["bit-equal"] == "no":
        row.problems.append("losses, gradients or weights are not the same with msprobe as without")
    row.records = sum(records(path) for path in (out / "run_a/dump").glob("step*/rank*/dump.json"))
    dumps = [str(out / "run_a/dump"), str(out / "run_b/dump")]
    diagnose(row, culprit, [str(out / "run_a"), str(out / "run_b"), "-o", str(out / "diagnosis")])
    compare(row, culprit, [*dumps, "-o", str(out / "comparison")])
    graph(row, [*dumps, "-o", str(out / "graph")])
    view(row, culprit, out / "graph")
    return row


def run(command: list[str], row: Row, *, expected: int = 0) -> str:
    """What it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != expected:
        shown = " ".join(word for word in command[1:4])
        row.problems.append(f"{shown} ...: exit code {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def asked(command: str, arguments: list[str], row: Row) -> dict[str, Any]:
    """The answer to a comparison of runs that differ."""
    text = run([*MSPROBE, command, "--json", *arguments], row, expected=1)
    answer: dict[str, Any] = json.loads(text) if text.strip() else {}
    return answer


def named(row: Row, command: str, culprit: str, found: dict[str, Any] | None) -> None:
    """Whether the place that a command names is the one that was changed."""
    found = found or {}
    place = f"{found.get('name')} in {found.get('module')} at step {found.get('step')}"
    module = str(found.get("module") or "").removeprefix(WRAPPER)
    if (module == culprit or module.startswith(culprit + ".")) and found.get("step") == WRONG_STEP:
        row.said[command] = "found"
    else:
        row.said[command] = place
        row.problems.append(f"{command}: names {place}, expected {culprit} at step {WRONG_STEP}")


def diagnose(row: Row, culprit: str, arguments: list[str]) -> None:
    named(row, "diagnose", culprit, asked("diagnose", arguments, row).get("cause"))


def compare(row: Row, culprit: str, arguments: list[str]) -> None:
    culprits = asked("compare", arguments, row).get("culprits") or [None]
    named(row, "compare", culprit, culprits[0])


def graph(row: Row, arguments: list[str]) -> None:
    answer = asked("graph", arguments, row)
    row.said["graph"] = str(answer.get("status", "no answer"))


def view(row: Row, culprit: str, folder: Path) -> None:
    """The page of the wrong step, and the server."""
    result = max(folder.glob("*.vis.db"), key=lambda path: path.stat().st_mtime, default=None)
    if result is None:
        row.said["view"] = "nothing to show"
        row.problems.append(f"view: there is no *.vis.db in {folder}")
        return
    page = folder / "page.html"
    run([*MSPROBE, "view", str(result), "--export", str(page), "--step", str(WRONG_STEP)], row)
    graph = unpacked(page.read_text(encoding="utf-8")) if page.exists() else ""
    shown = any(f"{prefix}{culprit}." in graph for prefix in ("Module.", f"Module.{WRAPPER}"))
    served = answers(result)
    row.said["view"] = (
        f"page {'shows it' if shown else 'without it'}, server {'answers' if served else 'is silent'}"
    )
    if not (shown and served):
        row.problems.append(f"view: {row.said['view']}")


def unpacked(page: str) -> str:
    """The graph inside of an exported page."""
    packed = re.findall("[A-Za-z0-9+/=]{1000,}", page)
    return "".join(gzip.decompress(base64.b64decode(one)).decode() for one in packed)


def answers(result: Path) -> bool:
    """Whether `msprobe view` serves its page."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())  # the address has a key
    command = [*MSPROBE, "view", str(result), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                address = re.search(r"http://\S+", line)
                if address is not None:
                    with browser.open(address.group(), timeout=60) as page:
                        return bool(page.status == 200 and b"<html" in page.read())
            return False
        finally:
            server.terminate()


def records(path: Path) -> int:
    return len(json.loads(path.read_text(encoding="utf-8"))["data"])


def ratios(model: str) -> str:
    done = subprocess.run(
        [sys.executable, str(HERE / "step_time.py"), model],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    return done.stdout.strip() or done.stderr[-200:]


def table(rows: list[Row]) -> str:
    heads = ("model", "step-time ratios", "records", "bit-equal", "diagnose", "compare", "graph", "view")
    lines = [
        [row.name, row.ratios, str(row.records), *(row.said.get(head, "") for head in heads[3:])]
        for row in rows
    ]
    widths = [max(len(line[i]) for line in [list(heads), *lines]) for i in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
        for line in [list(heads), *lines]
    )


if __name__ == "__main__":
    begin = time.monotonic()
    code = main()
    print(f"{time.monotonic() - begin:.0f} s")
    sys.exit(code)
