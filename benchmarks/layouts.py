# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What runs of other layouts cost (docs/layouts.md): joining against reading the files of both sides, steps
with and without sketches at the places of the whole, and with and without the replica check.

python benchmarks/layouts.py

Each is measured in one process, in turns; shown are medians of ratios of processor time of the thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import against, machine, median_ratio, table
from msprobe.files.regular_file import read_text
from msprobe.layout.job import DUMP, FILE, open_job
from msprobe.layout.joining import write_joined

_ROUNDS = 7
# What each of a block of two steps does without; the second is measured, so that it does not matter in which
# of them the recorder ends a step.
_WITHOUT = {
    "sketches": "import msprobe.training.measurement as at\n"
    "NAME, OTHER = '_place_in_whole', lambda *_: None\n",
    "replicas": "from msprobe.recording.live_replicas import LiveReplicas as at\n"
    "NAME, OTHER = 'end_step', lambda *_: None\n",
}
_SCRIPT = """
import json, os, sys, time
import torch
from torch import distributed, nn

layout, blocks, width, sequences, steps, out = json.loads(sys.argv[1])
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

model = nn.Sequential(*(Block() for _ in range(blocks)))
if world > 1:
    distributed.init_process_group("gloo")
if layout == "ddp":
    model = nn.parallel.DistributedDataParallel(model)
if layout == "fsdp":
    from torch.distributed.fsdp import fully_shard
    for block in model:
        fully_shard(block)
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
size = sequences // world
NAME, OTHER = "", None
TURNS
sound = getattr(at, NAME) if NAME else None
used = {True: [], False: []}
for step in range(steps):
    with_it = step // 2 % 2 == 0
    if NAME:
        setattr(at, NAME, sound if with_it else OTHER)
        distributed.barrier()
    begin = time.thread_time()
    x = torch.randn(sequences, 64, width, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    model(x[rank * size : (rank + 1) * size]).square().mean().backward()
    optimizer.step()
    if step % 2 and step > 3:
        used[with_it].append(time.thread_time() - begin)
if out:
    open(f"{out}{rank}", "w").write(json.dumps([used[True], used[False]]))
if world > 1:
    distributed.destroy_process_group()
"""


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for layout, ranks in (("one", 1), ("ddp", 2), ("fsdp", 2)):
            recorded(work, layout, ranks, 24, steps=2)
        rows = [
            (f"joining, one process against {layout} 2", against(joining(work, layout), 2, at_most=True))
            for layout in ("ddp", "fsdp")
        ]
        of_sketches = in_turns(work, "sketches", "fsdp", 2, width=256, sequences=8)
        rows.append(("recording, fsdp 2: places of the whole", against(of_sketches, 1.05, at_most=True)))
        of_replicas = in_turns(work, "replicas", "ddp", 4, width=512, sequences=128)
        rows.append(("a step, ddp 4: --replicas", against(of_replicas, 1.01, at_most=True)))
        print(table(("what", "processor time"), rows), end="")
    return 0


def recorded(
    work: Path, layout: str, ranks: int, blocks: int, *, steps: int, turns: str = "", **other: int
) -> None:
    """other: width and sequences."""
    script = work / f"{layout}{turns}.py"
    script.write_text(_SCRIPT.replace("TURNS", _WITHOUT.get(turns, "")))
    out = str(work / f"used_{turns}") if turns else ""
    asked = [layout, blocks, other.get("width", 64), other.get("sequences", 8), steps, out]
    more = ["--replicas", "--without", "dump", "--without", "config"] if turns == "replicas" else []
    command = [sys.executable, "-m", "msprobe", "run", "--quiet", "--without", "gradients", *more]
    command += ["--ranks", str(ranks)] if ranks > 1 else []
    done = subprocess.run(
        [*command, "-o", str(work / f"run_{layout}{turns}"), str(script), json.dumps(asked)],
        check=False,
        capture_output=True,
        text=True,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
    )
    if done.returncode:
        raise SystemExit(f"{layout}: {done.stderr[-2000:]}")


def joining(work: Path, layout: str) -> float:
    folders = (work / "run_one", work / f"run_{layout}")
    used: tuple[list[float], list[float]] = ([], [])
    for number in range(_ROUNDS):
        begin = time.thread_time()
        jobs = [open_job(folder) for folder in folders]
        write_joined(jobs[0], jobs[1], work / f"joined_{layout}{number}")
        used[0].append(time.thread_time() - begin)
        begin = time.thread_time()
        for folder in (one for job in jobs for ranks in job.steps.values() for one in ranks.values()):
            for name in (FILE, DUMP):
                json.loads(read_text(folder / name))
        used[1].append(time.thread_time() - begin)
    return median_ratio(*used)


def in_turns(work: Path, turns: str, layout: str, ranks: int, **sizes: int) -> float:
    """Of pairs of steps that follow each other, of all ranks."""
    recorded(work, layout, ranks, 8, steps=8 * _ROUNDS + 4, turns=turns, **sizes)
    of_ranks = [json.loads((work / f"used_{turns}{rank}").read_text()) for rank in range(ranks)]
    return median_ratio(*([used for one in found for used in one] for found in zip(*of_ranks)))


if __name__ == "__main__":
    sys.exit(main())
