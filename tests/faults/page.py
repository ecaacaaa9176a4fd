# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The page of the documentation that shows the table."""

from __future__ import annotations

from typing import Any

_TOP = """# How often the verdict is right

Made at commit `{commit}` by one command, which records {faults} planted faults and {healthy} healthy runs,
judges each pair, and compares the answers with what was planted:

    python tests/faults/table.py CACHE -o RESULTS{options} --page docs/verdict_table.md

It asks the judgement that `msprobe compare`, `diagnose` and the graph share, without the command around it:
each dump is read once. `tests/faults/README.md` says what is planted and how it is judged. RESULTS has the
answer to each pair.

* **float32**; **autocast**: to bfloat16; **bfloat16**: weights and data, too; **float16**: autocast, with a
  scaled loss.
* **noise**: another device's rounding in every kernel of the target, forward, backward and optimizer.
* **bare**: recorded with the configuration of mindstudio-probe, without
  [diagnosis.json](formats/diagnosis.md).
* **faults**: those whose culprit is asked for. One that leaves no trace in what a column records, or is
  smaller than the rounding of another device, is not counted; both are measured without msprobe's judgement,
  by recordings with such noise.
* **first**: the first culprit is the planted one, with its kind, step and rank. **named**: it is among the
  culprits. **no culprit**: none is named.
* **called the same**: pairs that differ beyond rounding, and of which it is said that the runs follow each
  other. The worst answer.
* **accused**: healthy runs of which it is said that they do not.
* **s**: processor time to read and judge one pair, median.

"""

_HEAD = (
    *("precision", "noise", "task", "recorded", "faults", "first", "named", "no culprit"),
    *("called the same", "accused", "s"),
)


def page_of(cells: dict[str, dict[str, Any]], identity: dict[str, str], options: str = "") -> str:
    """`options`: of the command, where not everything was asked."""
    from table import in_order, summary

    columns = [(name, summary(items)) for name, items in in_order(cells)]
    most = max((found["faults"] for _, found in columns), default=0)
    healthy = max((found["healthy"] for _, found in columns), default=0)
    text = _TOP.format(faults=most, healthy=healthy, commit=identity["commit"], options=options)
    text += f"| {' | '.join(_HEAD)} |\n|{'---|' * len(_HEAD)}\n"
    text += "".join(_row(name, found) for name, found in columns)
    wrong = [line for name, found in columns for line in _wrong(name, found)]
    if wrong:
        text += "\n## Which ones\n\n" + "".join(f"* {line}\n" for line in wrong)
    return text


def _row(name: str, found: dict[str, Any]) -> str:
    from table import share

    precision, mode, task, kind = name.split("/")
    asked = found["asked"]
    words = [
        precision, "yes" if mode == "noise" else "no", task, kind, asked, share(found["first"], asked),
        share(found["named"], asked), share(found["no_culprit"], asked), len(found["called_same"]),
        f"{len(found['accused'])} of {found['healthy']}", f"{found['seconds']:.2f}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, words)) + " |\n"


def _wrong(name: str, found: dict[str, Any]) -> list[str]:
    lines = []
    for what, title in (("called_same", "called the same"), ("accused", "accused"), ("failed", "failed")):
        if found[what]:
            lines.append(f"`{name}`, {title}: {', '.join(found[what])}")
    return lines
