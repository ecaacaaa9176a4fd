# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs real trainers plainly and recorded, asks about them, and makes the table of docs/trainers_table.md.

    python tests/trainers/run.py OUT [--only PATTERN] [--quick] [--again] [--page docs/trainers_table.md]

The trainers are those of the interpreter that runs this; what is not installed is left out. What was recorded
and answered stays in OUT; the page is of all rows that were ever run there, and keeps those of others.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from rows import ROWS, Fault, Row

HERE = Path(__file__).resolve().parent
TIMINGS = 3  # of each kind, in turns
RECORDED = (1, 2)  # recorded steps that are timed; step 0 has what happens once
NOT_RECORDED = 3  # the first step after them
TIMEOUT = 600
# Folders with packages that only one row may see.
BESIDE = Path(os.environ.get("TRAINERS_BESIDE", ""))


@dataclass
class Ended:
    """A run of a script."""

    code: int
    losses: list[str] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Of the first process."""
    tail: str = ""

    @property
    def numbers(self) -> tuple[Any, ...]:
        return self.code, self.losses, self.weights


def versions(row: Row) -> dict[str, str]:
    """Of the packages of a row; without those that are not installed."""
    paths = [*sys.path, *([str(BESIDE / row.beside)] if row.beside else [])]
    found = (next(iter(distributions(name=name, path=paths)), None) for name in row.packages)
    return {name: one.version for name, one in zip(row.packages, found) if one is not None}


def is_installed(row: Row) -> bool:
    is_there = not row.beside or (BESIDE / row.beside).is_dir()
    return is_there and len(versions(row)) == len(row.packages)


def run(row: Row, options: str, record: Path | None = None) -> Ended:
    words = [str(HERE / "scripts" / row.script.split()[0]), *row.script.split()[1:], *options.split()]
    if record is not None:
        shutil.rmtree(record, ignore_errors=True)
        if not row.by_environment:
            words = ["-m", "msprobe", "run", "--quiet", "-o", str(record), *words]
    start = [sys.executable, "-W", "ignore"]
    if row.processes > 1:
        start += ["-m", "torch.distributed.run", "--nproc-per-node", str(row.processes), "--standalone"]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
    }
    if record is not None and row.by_environment:
        config = record.with_suffix(".json")
        config.write_text(json.dumps({"task": "statistics", "level": "mix", "dump_path": str(record)}))
        environment["MSPROBE_CONFIG"] = str(config)
    if row.beside:
        environment["PYTHONPATH"] = str(BESIDE / row.beside)
    try:
        done = subprocess.run(
            [*start, *words], env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return Ended(124, tail="timeout")
    return _ended(done)


def _ended(done: subprocess.CompletedProcess[str]) -> Ended:
    lines = {}
    for rank, text in re.findall(r"row\.(\d+): (\{[^{}]*\})", done.stdout):
        lines[int(rank)] = json.loads(text)
    result = Ended(done.returncode, tail=(done.stderr + done.stdout)[-1500:])
    for rank in sorted(lines):
        result.losses += lines[rank]["losses"]
        result.weights.append(lines[rank]["weights"])
    result.seconds = lines[0]["seconds"] if 0 in lines else []
    return result


def diagnose(a: Path, b: Path, output: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "msprobe", "diagnose", str(a), str(b), "-o", str(output)]
    done = subprocess.run(
        [*command, "--force", "--json", "--no-graph"], capture_output=True, text=True, check=False
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        text = (done.stderr or done.stdout).replace(f"{a.parent}{os.sep}", "").strip()
        answer = {"sentence": text[-300:], "cause": None, "status": "error"}
    return {"code": done.returncode, **answer}


def told(answer: dict[str, Any]) -> str:
    """What an answer names: one line of text."""
    cause = answer.get("cause") or {}
    parts = [answer["sentence"], *(str(cause.get(key, "")) for key in ("where", "reason"))]
    parts += cause.get("stack", [])[:1]
    return " | ".join(parts)


def ask_row(row: Row, out: Path, *, quick: bool) -> dict[str, Any]:
    """Everything about one row; quick: without faults and other kernels, timed once."""
    folder = out / re.sub(r"\W+", "_", row.name)
    folder.mkdir(parents=True, exist_ok=True)
    plain = [run(row, "")]
    recorded = [run(row, "", folder / "a")]
    recorded.append(run(row, "", folder / "again"))
    for _ in range(1, 1 if quick else TIMINGS):
        plain.append(run(row, ""))
        recorded.append(run(row, "", folder / "again"))
    same = diagnose(folder / "a", folder / "again", folder / "same")
    result: dict[str, Any] = {
        "name": row.name,
        "versions": versions(row),
        "commit": commit(),
        "is_repeatable": all(one.numbers == plain[0].numbers for one in plain),
        "bit_equal": all(one.numbers == plain[0].numbers for one in recorded),
        "codes": [plain[0].code, recorded[0].code],
        "recorded": _recorded(folder / "a"),
        "same": _short(same),
        "ratio": _ratio(plain, recorded, RECORDED),
        "off": _ratio(plain, recorded, range(NOT_RECORDED, 1000)),
        "step_ms": _step_ms(plain),
        "timings": len(plain),
        "faults": [],
    }
    if plain[0].code or recorded[0].code:
        result["tail"] = plain[0].tail if plain[0].code else recorded[0].tail
        return result
    if quick:
        return result
    if row.kernel:
        other = run(row, row.kernel, folder / "kernel")
        result["kernel"] = {
            "options": row.kernel,
            "effect": other.numbers != plain[0].numbers,
            "code": other.code,
            **_short(diagnose(folder / "a", folder / "kernel", folder / "of_kernel")),
        }
    for number, fault in enumerate(row.faults):
        result["faults"].append(_fault(row, fault, plain[0], folder, number))
    return result


def ask_again(row: Row, out: Path, known: dict[str, Any]) -> None:
    """About another kernel and faults, of which the recordings are still there."""
    folder = out / re.sub(r"\W+", "_", row.name)
    known["is_again"], known["commit"] = True, commit()
    if "kernel" in known and (folder / "kernel").is_dir():
        known["kernel"].update(_short(diagnose(folder / "a", folder / "kernel", folder / "of_kernel")))
    for number, (fault, one) in enumerate(zip(row.faults, known["faults"])):
        if (folder / f"fault{number}").is_dir():
            answer = diagnose(folder / "a", folder / f"fault{number}", folder / f"of_fault{number}")
            one.update(_judged(fault, answer))


def _judged(fault: Fault, answer: dict[str, Any]) -> dict[str, Any]:
    is_named = answer["code"] == 1 and re.search(fault.names, told(answer)) is not None
    return {"named": is_named, **_short(answer)}


def _fault(row: Row, fault: Fault, plain: Ended, folder: Path, number: int) -> dict[str, Any]:
    other = run(row, fault.options, folder / f"fault{number}")
    answer = diagnose(folder / "a", folder / f"fault{number}", folder / f"of_fault{number}")
    return {
        "options": fault.options,
        "effect": other.numbers != plain.numbers,
        "ended": other.code,
        **_judged(fault, answer),
        **({"tail": other.tail} if other.code else {}),
    }


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "an unknown commit"


def _short(answer: dict[str, Any]) -> dict[str, Any]:
    return {"answer": answer["code"], "status": answer["status"], "told": told(answer)}


def _recorded(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / "run.rank0.json").read_text())
    except (OSError, ValueError):
        return {}
    return {key: content[key] for key in ("models", "steps", "recorded", "notes")}


def _ratio(plain: list[Ended], recorded: list[Ended], steps: Any) -> float | None:
    """Of processor time, medians of the runs, step for step."""
    ratios = []
    for step in steps:
        # seconds[0] is from the end of step 0 to that of step 1
        have = [
            [run.seconds[step - 1] for run in runs if step <= len(run.seconds)] for runs in (plain, recorded)
        ]
        if not all(have):
            break
        ratios.append(statistics.median(have[1]) / max(statistics.median(have[0]), 1e-9))
    return round(statistics.median(ratios), 2) if ratios else None


def _step_ms(plain: list[Ended]) -> float | None:
    seconds = [second for one in plain for second in one.seconds]
    return round(1000 * statistics.median(seconds), 1) if seconds else None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="regular expression: rows whose names have it")
    parser.add_argument("--quick", action="store_true", help="no faults and no other kernels")
    parser.add_argument("--again", action="store_true", help="nothing is run: asks again about what OUT has")
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    asked.out = asked.out.resolve()
    asked.out.mkdir(parents=True, exist_ok=True)
    results = asked.out / "results.json"
    known = {}
    if results.is_file():
        known = {one["name"]: one for one in json.loads(results.read_text())}
    for row in ROWS:
        if not re.search(asked.only, row.name, re.IGNORECASE):
            continue
        if asked.again:
            if row.name in known:
                ask_again(row, asked.out, known[row.name])
                _print(known[row.name])
            continue
        if not is_installed(row):
            print(f"{row.name}: not installed", flush=True)
            continue
        known[row.name] = ask_row(row, asked.out, quick=asked.quick)
        results.write_text(json.dumps(list(known.values()), indent=1))
        _print(known[row.name])
    results.write_text(json.dumps(list(known.values()), indent=1))
    if asked.page:
        from table import page

        former = asked.page.read_text() if asked.page.is_file() else ""
        asked.page.write_text(page(list(known.values()), former))
    return 0


def _print(one: dict[str, Any]) -> None:
    kernel = one.get("kernel", {})
    print(
        f"{one['name']}: codes {one['codes']}, bit-equal {one['bit_equal']}, same {one['same']['status']}, "
        f"kernel {kernel.get('status')}, ratio {one['ratio']}, off {one['off']}, step {one['step_ms']} ms, "
        f"recorded {','.join(one['recorded'].get('recorded', {}))}",
        flush=True,
    )
    if "tail" in one:
        print(one["tail"])
    if one["same"]["answer"]:
        print(f"   ! same: {one['same']['told'][:400]}")
    if kernel.get("answer"):
        print(f"   ! kernel: {kernel['told'][:400]}")
    for fault in one["faults"]:
        mark = "+" if fault["named"] else "0" if not fault["effect"] else "-"
        print(f"   {mark} {fault['options']}: {fault['told'][:300]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
