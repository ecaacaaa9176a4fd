# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The results of run.py as a page of the documentation."""

from __future__ import annotations

import platform
import re
from importlib.metadata import version
from itertools import zip_longest
from statistics import mean
from typing import Any

HEAD = """# Real trainers, recorded

Each row is a small script for a trainer that others wrote, with a tiny model that is made from a
configuration (`tests/trainers/scripts`). It is run plainly and with `msprobe run`, recorded a second time,
recorded with another kernel that is right, too, and recorded with planted faults; `msprobe diagnose` is asked
about each pair. `./dev trainers` makes this page: an environment of its own with pinned versions, on a CPU.
What is recorded of each: [your trainer](trainers.md).
"""

EXPLAINED = """
Equal: same exit code, and losses and weights equal to the last bit, with and without msprobe. Twice: what
`diagnose` says of the same script recorded twice (silent: exit code 0). Kernel: of another right kernel.
Faults: named with value or place, of those that change the numbers, by the expectations of `rows.py`. They
were written before the answers, but for timm and one of another row, which were changed after the first ones;
a peak of a schedule that is named as the rate of a step, or a seed that is named as one in place of its data,
is not counted. Recorded: processor time of a step with
everything that `msprobe run` records, as a multiple of the same step without it; after: of the steps behind
those, where only gradients and losses are recorded. An empty cell: not asked (`--quick`), or there is no
other kernel. The steps of these models take some milliseconds: nearly all of it is calls. Of a recorded step
of a Llama of two layers (3.6 plain ones, 300 steps under `perf`) 29 % are the Python interpreter, 27 % torch,
18 % the recorder's own code, 12 % allocation and 9 % the kernel, which writes files; its largest function,
the statistics and sketch of float32, has 4 %. A step that computes more has less of it. The first recorded
steps, which the table has, also do what happens once: the median of 145 later steps of DeepSpeed is 1.96
(ZeRO 1), 2.2 (ZeRO 2) and 1.88 plain ones (ZeRO 3), processor time under `perf`; of the 16 ms that ZeRO 1
has more, 6 are the Python interpreter and 5 the recorder's own code.
"""

FIRST_ASKED = """The other kernels of DeepSpeed ZeRO 3 and of sentence-transformers were accused when they
were asked first. Rules that the verdict lacked, each with a test of its own, make them silent, asked again
about the same runs: so these two are no longer kernels that nobody tried a rule on.
"""


def page(results: list[dict[str, Any]], former: str = "") -> str:
    """`former`: a page that was made before; what it has of other rows stays."""
    ran = [one for one in results if "tail" not in one]
    rows = {**_rows(former), **{one["name"]: _row(one) for one in results}}
    asked = {**_asked(former), **{one["name"]: _asked_at(one) for one in results}}
    timings = {*map(int, re.findall(r"\d+", former.partition("timed in ")[2].partition(" run")[0]))}
    timings |= {int(one["timings"]) for one in ran}
    lines = [
        HEAD,
        "| trainer | versions | equal | twice | kernel | faults | recorded | after | a step |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows.values(),
        EXPLAINED,
        _together(list(rows.values())),
        "",
        f"Made with torch {version('torch')}, Python {platform.python_version()}, {platform.machine()}. "
        f"Each step was timed in {'-'.join(map(str, sorted({min(timings), max(timings)})))} runs of each "
        f"kind. {_commits(asked)}",
        "",
        FIRST_ASKED,
        "## What is not silent, and what is not named",
        "",
        *_open(ran, former, rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _together(rows: list[str]) -> str:
    cells = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    columns = [list(column) for column in zip_longest(*cells, fillvalue="")]
    _, _, equal, twice, kernels, faults, ratios, *_ = columns
    ran = [cell for cell in twice if cell]
    told = [cell for cell in kernels if cell not in ("", "equal")]
    named = [int(cell.split(" of ")[0]) for cell in faults if cell]
    planted = [int(cell.split(" of ")[1]) for cell in faults if cell]
    return (
        f"Together: {equal.count('yes')} of {len(rows)} equal, "
        f"{ran.count('silent')} of {len(ran)} silent when recorded twice, "
        f"{len(told) - told.count('silent')} of {len(told)} other kernels accused, "
        f"{sum(named)} of {sum(planted)} faults named, "
        f"a recorded step {mean(float(cell[:-1]) for cell in ratios if cell):.1f} plain ones on the mean."
    )


def _rows(page: str) -> dict[str, str]:
    """By name."""
    table = page.partition("|---|")[2].partition("\n\n")[0].splitlines()[1:]
    return {row.split(" | ")[0].lstrip("| "): row for row in table}


def _asked(page: str) -> dict[str, str]:
    """Where each row of a page was asked."""
    found = {}
    for group in page.partition("Rows asked at ")[2].partition(".\n")[0].split("; asked at "):
        place, _, names = group.partition(": ")
        found.update(dict.fromkeys(names.split(", "), place))
    found.pop("", None)
    return found


def _asked_at(one: dict[str, Any]) -> str:
    return one.get("commit", "an unknown commit") + " about runs recorded before" * bool(one.get("is_again"))


def _commits(asked: dict[str, str]) -> str:
    places: dict[str, list[str]] = {}
    for name, place in asked.items():
        places.setdefault(place, []).append(name)
    groups = sorted(places.items(), key=lambda group: -len(group[1]))
    return f"Rows {'; '.join(f'asked at {place}: ' + ', '.join(names) for place, names in groups)}."


def _row(one: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in one["versions"].items())
    if "tail" in one:
        return f"| {one['name']} | {versions} | {_yes(one['bit_equal'])} | | | | | | |"
    kernel = one.get("kernel")
    told = "" if kernel is None else "equal" if not kernel["effect"] else _silent(kernel)
    faults = [fault for fault in one["faults"] if fault["effect"]]
    cells = [
        one["name"],
        versions,
        _yes(one["bit_equal"]),
        _silent(one["same"]),
        told,
        f"{sum(fault['named'] for fault in faults)} of {len(faults)}" if faults else "",
        f"{one['ratio']}x" if one["ratio"] else "",
        f"{one['off']}x" if one["off"] else "",
        f"{one['step_ms']} ms" if one["step_ms"] else "",
    ]
    return f"| {' | '.join(cells)} |"


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"


def _silent(answer: dict[str, Any]) -> str:
    return "silent" if answer["answer"] == 0 else "**accused**" if answer["answer"] == 1 else "**no answer**"


def _open(ran: list[dict[str, Any]], former: str, rows: dict[str, str]) -> list[str]:
    """In the order of the rows."""
    lines: dict[str, list[str]] = {name: [] for name in rows}
    for line in former.partition("not named\n\n")[2].splitlines():
        if line.startswith("- "):
            lines.setdefault(line[2:].partition(", ")[0], []).append(line)
    lines.update({one["name"]: _open_of(one) for one in ran})
    return [line for of_row in lines.values() for line in of_row] or ["Nothing."]


def _open_of(one: dict[str, Any]) -> list[str]:
    lines = []
    if one["same"]["answer"]:
        lines.append(f"- {one['name']}, recorded twice: {_short(one['same'])}")
    if one.get("kernel", {}).get("answer"):
        lines.append(f"- {one['name']}, other kernel: {_short(one['kernel'])}")
    for fault in one["faults"]:
        if fault["effect"] and not fault["named"]:
            lines.append(f"- {one['name']}, `{fault['options']}`: {_short(fault)}")
    return lines


def _short(answer: dict[str, Any]) -> str:
    text = str(answer["told"]).partition(" | ")[0].replace("|", "\\|")
    return text[:300]
