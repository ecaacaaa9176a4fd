# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Healthy pairs of layouts, and faults that only a layout makes: what `msprobe diagnose` says of each. Writes
docs/layouts_table.md. Half an hour on two cores; needs torch, and ports on this machine.

    python tests/layouts/table.py WORK [--only PATTERN] [--page docs/layouts_table.md]

Rows that are not asked stay on the page as they are.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ONE = ("one", 1)


@dataclass(frozen=True)
class Pair:
    """A run of the target, held against one of the reference. accepts: in the name of the cause that is the
    right one; empty: the pair is healthy.
    """

    layout: str
    ranks: int
    reference: tuple[str, int] = ONE
    fault: str = ""
    accepts: tuple[str, ...] = ()
    dtype: str = "float32"
    micro: int = 1
    replicas: bool = False
    """The fault leaves a copy behind: the replica check of the run alone names it, too."""

    @property
    def name(self) -> str:
        reference = f"{self.reference[0]} {self.reference[1]}" if self.reference != ONE else "one process"
        fault = f": {self.fault}" if self.fault else ""
        micro = f", {self.micro} micro-batches" if self.micro > 1 else ""
        return f"{reference} against {self.layout} {self.ranks}{micro}, {self.dtype}{fault}"


HEALTHY = [
    Pair(layout, ranks, reference, dtype=dtype)
    for dtype in ("float32", "bfloat16")
    for layout, ranks, reference in (
        ("ddp", 2, ONE),
        ("ddp", 4, ONE),
        ("fsdp", 2, ONE),
        ("fsdp", 4, ONE),
        ("hsdp", 4, ONE),
        ("zero1", 2, ONE),
        ("tp", 2, ONE),
        ("tp+dp", 4, ONE),
        ("fsdp", 2, ("ddp", 2)),
        ("fsdp", 4, ("ddp", 2)),
        ("tp", 2, ("ddp", 2)),
        ("hsdp", 4, ("fsdp", 2)),
        ("fsdp1", 2, ONE),
        ("tp+sp", 2, ONE),
        ("plain tp", 2, ONE),
        ("cp", 2, ONE),
        ("cp zigzag", 2, ONE),
        ("pp", 2, ONE),
        ("pp renumbered", 2, ONE),
        ("pp tied", 2, ("tied", 1)),
        ("ep", 2, ("moe", 1)),
        ("moe fsdp", 2, ("moe", 1)),
        ("ep grouped", 2, ("grouped", 1)),
        ("plain tp+dp", 4, ONE),
        ("words tp", 2, ("odd words", 1)),
    )
]
HEALTHY += [Pair("one", 1, micro=2), Pair("ddp", 2, micro=2), Pair("fsdp", 2, micro=2)]

FAULTS = [
    Pair("ddp", 2, fault="averaged twice", accepts=("gradient ", "clipping gradients")),
    Pair("ddp", 2, fault="loss times ranks", accepts=("gradient ",)),
    Pair("fsdp", 2, fault="divided twice", accepts=("gradient ",)),
    Pair("ddp", 2, fault="no reduction", accepts=("replicas: gradient",), replicas=True),
    Pair("ddp", 2, fault="norm left out", accepts=("replicas: gradient of norm.weight",), replicas=True),
    Pair("ddp", 4, fault="norm not reduced", accepts=("replicas: gradient of norm.weight",), replicas=True),
    Pair("ddp", 2, fault="one gradient changed", accepts=("replicas: gradient",), replicas=True),
    Pair("hsdp", 4, fault="one gradient changed", accepts=("replicas: gradient",), replicas=True),
    Pair(
        "ddp", 2, fault="stale replica", accepts=("replicas: weight blocks.0.mlp.up.weight",), replicas=True
    ),
    Pair(
        "ddp", 4, fault="stale replica", accepts=("replicas: weight blocks.0.mlp.up.weight",), replicas=True
    ),
    Pair("ddp", 2, fault="clipped by rank", accepts=("replicas: gradient",), replicas=True),
    Pair("fsdp", 2, fault="clipped by rank", accepts=("gradient ",)),
    Pair("ddp", 2, fault="learning rate of a rank", accepts=("replicas: setting",), replicas=True),
    Pair("ddp", 4, fault="weight decay of a rank", accepts=("replicas: setting",), replicas=True),
    Pair("ddp", 2, fault="same data", accepts=("input",)),
    Pair("fsdp", 4, fault="same data", accepts=("input",)),
    Pair("ddp", 2, fault="uneven ranks", accepts=("gradient ",)),
    Pair("fsdp", 2, fault="uneven ranks", accepts=("gradient ",)),
    Pair("ddp", 2, fault="shifted", accepts=("gradient ", "input")),
    Pair("ddp", 2, fault="micro-batches summed", accepts=("gradient ",), micro=2),
    Pair("fsdp", 2, fault="micro-batches summed", accepts=("gradient ",), micro=2),
    Pair("fsdp", 2, fault="seeds of ranks", accepts=("weight ",)),
    Pair("fsdp", 2, fault="frozen shard", accepts=("gradient ",)),
    Pair("fsdp", 2, fault="sign of a shard", accepts=("gradient head.weight", "head.weight")),
    Pair("fsdp", 2, fault="rows of a shard", accepts=("gradient head.weight", "head.weight")),
    Pair("tp", 2, fault="bias times ranks", accepts=("blocks.0.mlp.down.bias",)),
    Pair("tp", 2, fault="norm not reduced", accepts=("norm.weight",), replicas=True),
    Pair("zero1", 2, fault="eps", accepts=("optimizer",)),
    Pair("one", 1, fault="micro-batches summed", accepts=("gradient ",), micro=2),
    Pair("fsdp1", 2, fault="loss divided by parts", accepts=("gradient ",)),
    Pair("tp+sp", 2, fault="norm not reduced", accepts=("norm.weight",)),
    Pair("plain tp", 2, fault="norm not reduced", accepts=("norm.weight",), replicas=True),
    Pair("plain tp", 2, fault="backward not reduced", accepts=("gradient ",)),
    Pair("plain tp", 2, fault="backward of a layer not reduced", accepts=("blocks.0.norm2",)),
    Pair("plain tp", 2, fault="forward of a layer not reduced", accepts=("blocks.0.mlp.down",)),
    Pair("plain tp", 2, fault="bias on each rank", accepts=("blocks.0.mlp.down",)),
    # The gate gives the same columns in another order; what they are multiplied with is in its own.
    Pair("plain tp", 2, fault="wrong shard", accepts=("blocks.0.mlp.",)),
    Pair("cp", 2, fault="roll", accepts=("gradient ",)),
    Pair("cp", 2, fault="loss divided by parts", accepts=("gradient ",)),
    Pair("cp", 2, fault="gather not reduced", accepts=("attention",)),
    Pair("cp", 2, fault="shifted by padding", accepts=("gradient ", "input")),
    Pair("cp zigzag", 2, fault="roll", accepts=("gradient ",)),
    # Whose masks are alike is no mismatch for sure, so the run alone has a note of it.
    Pair("ddp dropout", 2, ("ddp dropout", 2), "seeds equal", ("seed",), replicas=True),
    Pair("ddp", 2, fault="backward of a rank", accepts=("blocks.0.mlp",)),
    Pair("fsdp", 2, fault="backward of a rank", accepts=("blocks.0.mlp",)),
    Pair("pp", 2, fault="pipeline sums losses", accepts=("gradient ",)),
    Pair("pp", 2, fault="targets of another order", accepts=("gradient ",)),
    Pair("pp renumbered", 2, fault="stage left out", accepts=("gradient blocks.0.mlp.up.weight",)),
    Pair("pp tied", 2, ("tied", 1), "tied not added", ("gradient embed.weight",)),
    Pair("ep", 2, ("moe", 1), "router not reduced", ("mlp.router.weight",), replicas=True),
    Pair("ep", 2, ("moe", 1), "wrong experts", ("blocks.0.mlp",)),
    Pair("moe fsdp", 2, ("moe", 1), "routing bias not reduced", ("mlp",)),
    Pair("ep grouped", 2, ("grouped", 1), "wrong experts", ("blocks.0.mlp",)),
    Pair("plain tp+dp", 4, fault="shards not reduced", accepts=("gradient blocks.1.",)),
    Pair("words tp", 2, ("odd words", 1), "padding in the softmax", ("head",)),
]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--only", default="*")
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for pair in (*HEALTHY, *FAULTS):
        if fnmatch.fnmatch(pair.name, asked.only):
            rows.append(said(pair, asked.work))
            if asked.page is not None:  # so that an end in the middle loses nothing
                asked.page.write_text(page(rows, asked.page.read_text() if asked.page.exists() else ""))
    good = sum(row["good"] for row in rows if not row["pair"].fault)
    named = sum(row["good"] for row in rows if row["pair"].fault)
    healthy = sum(not row["pair"].fault for row in rows)
    print(f"healthy: {good} of {healthy} not accused; faults: {named} of {len(rows) - healthy} named first")
    return 0 if good == healthy else 1


def said(pair: Pair, work: Path) -> dict:
    reference = recorded(work, pair.reference[0], pair.reference[1], "", pair.dtype, 1)
    target = recorded(work, pair.layout, pair.ranks, pair.fault, pair.dtype, pair.micro)
    out = work / "answer"
    command = [
        sys.executable,
        "-m",
        "msprobe",
        "diagnose",
        "--quiet",
        "--no-graph",
        "--force",
        "-o",
        str(out),
    ]
    code = subprocess.run([*command, str(reference), str(target)], check=False).returncode
    if code not in (0, 1):
        raise SystemExit(f"{pair.name}: diagnose ended with {code}")
    answer = json.loads((out / "diagnose.json").read_text())
    cause = answer["cause"]["name"] if answer["cause"] else ""
    good = any(text in cause for text in pair.accepts) if pair.fault else code == 0
    alone = ""
    if pair.replicas:
        code = subprocess.run([*command[:4], "--quiet", "--force", "-o", str(out), str(target)], check=False)
        has_notes = bool(json.loads((out / "replicas.json").read_text())["notes"])
        alone = "finds it" if code.returncode == 1 else "notes it" if has_notes else "does not find it"
    row = {"pair": pair, "good": good, "status": answer["status"], "sentence": answer["sentence"]}
    row |= {"cause": cause, "alone": alone}
    print("ok  " if good else "BAD ", pair.name, "|", answer["status"], "|", cause, "|", alone, flush=True)
    return row


def recorded(work: Path, layout: str, ranks: int, fault: str, dtype: str, micro: int) -> Path:
    """Once for all pairs that have it."""
    words = [layout, str(ranks), fault.replace(" ", "_"), dtype, str(micro)]
    folder = work / "-".join(word for word in words if word)
    if folder.is_dir():
        return folder
    options = ["--layout", layout, "--fault", fault, "--dtype", dtype, "--micro", str(micro)]
    ours = ["--ranks", str(ranks), "--quiet", "--without", "gradients", "-o", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "msprobe", "run", *ours, str(HERE / "train.py"), *options],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{folder.name}: {done.stderr[-2000:]}")
    return folder


def page(rows: list[dict], before: str) -> str:
    """before: the page as it is."""
    lines = {line[2:].partition(" | ")[0]: line for line in before.splitlines() if line.startswith("| ")}
    lines |= {row["pair"].name: _line(row) for row in rows}
    healthy = [lines[pair.name] for pair in HEALTHY if pair.name in lines]
    faults = [lines[pair.name] for pair in FAULTS if pair.name in lines]
    accused = sum(not line.endswith(("| rounding |", "| equal |")) for line in healthy)
    return "\n".join(
        [
            "# Layouts: how often the answer is right",
            "",
            "Made by `python tests/layouts/table.py WORK --page docs/layouts_table.md`: a small Llama on a "
            "CPU with gloo, three steps, recorded by `msprobe run --ranks` and held against each other by "
            "`msprobe diagnose` ([how](layouts.md)). The faults are planted in the training.",
            "",
            f"**Healthy pairs accused: {accused} of {len(healthy)}. "
            f"Faults named first: {sum(' | yes | ' in line for line in faults)} of {len(faults)}.**",
            "",
            "| healthy pair | answer |",
            "|---|---|",
            *healthy,
            "",
            "| fault | right | first cause | the replica check alone |",
            "|---|---|---|---|",
            *faults,
            "",
        ]
    )


def _line(row: dict) -> str:
    if not row["pair"].fault:
        return f"| {row['pair'].name} | {row['status']} |"
    right = "yes" if row["good"] else "no"
    return f"| {row['pair'].name} | {right} | {row['cause'] or row['status']} | {row['alone']} |"


if __name__ == "__main__":
    sys.exit(main())
