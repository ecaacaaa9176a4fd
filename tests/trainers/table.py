# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The results of run.py as a page of the documentation."""

from __future__ import annotations

import platform
from importlib.metadata import version
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


def page(results: list[dict[str, Any]]) -> str:
    ran = [one for one in results if "tail" not in one]
    faults = [fault for one in ran for fault in one["faults"] if fault["effect"]]
    kernels = [one["kernel"] for one in ran if one.get("kernel", {}).get("effect")]
    ratios = [one["ratio"] for one in ran if one["ratio"]]
    lines = [
        HEAD,
        "| trainer | versions | equal | twice | kernel | faults | recorded | after | a step |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(one) for one in results),
        EXPLAINED,
        f"Together: {sum(one['bit_equal'] for one in results)} of {len(results)} equal, "
        f"{sum(one['same']['answer'] == 0 for one in ran)} of {len(ran)} silent when recorded twice, "
        f"{sum(one['answer'] != 0 for one in kernels)} of {len(kernels)} other kernels accused, "
        f"{sum(fault['named'] for fault in faults)} of {len(faults)} faults named, "
        f"a recorded step {mean(ratios):.1f} plain ones on the mean.",
        "",
        f"Made with torch {version('torch')}, Python {platform.python_version()}, {platform.machine()}. "
        f"Each step was timed in {_timings(ran)} each kind. {_commits(results)}",
        "",
        "## What is not silent, and what is not named",
        "",
        *_open(ran),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _commits(results: list[dict[str, Any]]) -> str:
    """Which rows were asked at which commit."""
    rows: dict[tuple[str, bool], list[str]] = {}
    for one in results:
        rows.setdefault((one.get("commit", "an unknown commit"), bool(one.get("is_again"))), []).append(
            one["name"]
        )
    groups = sorted(rows.items(), key=lambda group: -len(group[1]))
    named = len(groups) > 1
    parts = [
        f"asked at {commit}{' about runs recorded before' * is_again}{': ' * named}{', '.join(names) * named}"
        for (commit, is_again), names in groups
    ]
    return f"Rows {'; '.join(parts)}."


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


def _open(results: list[dict[str, Any]]) -> list[str]:
    lines = []
    for one in results:
        if one["same"]["answer"]:
            lines.append(f"- {one['name']}, recorded twice: {_short(one['same'])}")
        if one.get("kernel", {}).get("answer"):
            lines.append(f"- {one['name']}, other kernel: {_short(one['kernel'])}")
        for fault in one["faults"]:
            if fault["effect"] and not fault["named"]:
                lines.append(f"- {one['name']}, `{fault['options']}`: {_short(fault)}")
    return lines or ["Nothing."]


def _short(answer: dict[str, Any]) -> str:
    text = str(answer["told"]).partition(" | ")[0].replace("|", "\\|")
    return text[:300]


def _timings(results: list[dict[str, Any]]) -> str:
    counts = sorted({int(one["timings"]) for one in results})
    return f"{counts[0]} run of" if counts == [1] else f"{'-'.join(map(str, counts))} runs of"
