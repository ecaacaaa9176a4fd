# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe diagnose of many ranks: time, memory, what it writes, and whether it is right (docs/ranks.md).

python benchmarks/ranks.py [RANKS ...]      (default: 64 256 1024)
python benchmarks/ranks.py --writing        what 1,024 ranks of a model of 4 and of 32 layers write, computed
                                            from one of them; and the config pack, written by 1,024 processes

Two runs of a small transformer are recorded in one process: sound, and with one gelu that gives 1.01 times
too much at step 1. Of them come runs of many ranks, as links: one rank has the fault, at step 1 all have the
gradients that an all-reduce leaves, at step 2 all that follows.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from msprobe.config_check.packs.pack_writer import PackWriter, Run

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests/python"))

from many_ranks import multiplied  # type: ignore[import-not-found]  # noqa: E402

SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

class Kernel(TorchDispatchMode):
    calls = 0
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.gelu.default:
            self.calls += 1
            if self.calls == 3: result = result * 1.01
        return result

layers = int(sys.argv[2]) if len(sys.argv) > 2 else 4
model = nn.Sequential(nn.Embedding(64, 64), *(Block() for _ in range(layers)), nn.Linear(64, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    tokens = torch.randint(0, 64, (4, 16))
    kernel = Kernel()
    if step != 1 or sys.argv[1] != "fault": kernel.calls = 100
    with kernel:
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("ranks", type=int, nargs="*", default=[64, 256, 1024])
    parser.add_argument("--folder", type=Path, help="where the runs are made, and stay")
    parser.add_argument("--writing", action="store_true", help="what recording writes, in place of diagnose")
    asked = parser.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="ranks-"))
    try:
        if asked.writing:
            for layers in (4, 32):
                writing(folder / f"{layers}", max(asked.ranks), layers)
            return
        record(folder)
        print("| ranks | both runs | CPU s | peak MiB | written | answer |")
        print("|---|---|---|---|---|---|", flush=True)
        for ranks in asked.ranks:
            print(measured(folder, ranks), flush=True)
    finally:
        if asked.folder is None:
            shutil.rmtree(folder)


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(SCRIPT)
    for name in ("sound", "fault"):
        if not (folder / name).exists():
            command = [sys.executable, "-m", "msprobe", "run", "--quiet", "-o", name, "train.py", name]
            subprocess.run(command, cwd=folder, check=True)


def writing(folder: Path, ranks: int, layers: int) -> None:
    """What `msprobe run` says a step costs, times the number of ranks; and their config pack."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "msprobe", "run", "--force", "-o", "run", "train.py", "sound"]
    subprocess.run([*command, str(layers)], cwd=folder, check=True)
    files = [path for path in (folder / "run").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    joined = 2  # of all processes: losses and the config pack
    computed = f"{(len(files) - joined) * ranks + joined:,} files, {size * ranks / 1e9:.1f} GB"
    print(f"{ranks} ranks, 3 steps, {layers} layers, computed from one: {computed}")
    with zipfile.ZipFile(folder / "run/config_check.zip") as pack:
        entries = {name: pack.read(name).decode() for name in pack.namelist()}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            write_part(folder / "pack.zip", rank, ranks, entries)
            os._exit(0)
        os.waitpid(child, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    written = sum(map(int, (folder / "written").read_text().split()))
    print(f"config pack of {ranks} ranks: {seconds:.1f} CPU s, {written / 1e6:.0f} MB written")


def write_part(path: Path, rank: int, ranks: int, entries: dict[str, str]) -> None:
    """What a process does: an append for each of three steps."""
    writer = PackWriter(path, Run("benchmark"), "pytorch", processes=ranks)
    own = {name: text for name, text in entries.items() if "rank0" in name or rank == 0}
    for step in range(3):
        part = {
            name: text
            for name, text in own.items()
            if f"step{step}/" in name or (step == 0 and "step" not in name)
        }
        writer.append({name.replace("rank0", f"rank{rank}"): text for name, text in part.items()})
    writer.finish()
    (line,) = [one for one in Path("/proc/self/io").read_text().splitlines() if one.startswith("wchar")]
    with (path.parent / "written").open("a") as log:
        log.write(f"{line.split()[1]}\n")


def measured(folder: Path, ranks: int) -> str:
    """A row of the table."""
    bad = ranks * 37 // 64
    sound, fault = folder / "sound", folder / "fault"
    runs = folder / f"reference{ranks}", folder / f"target{ranks}"
    if not runs[1].exists():
        multiplied(runs[0], [sound] * ranks)
        multiplied(runs[1], [fault if rank == bad else sound for rank in range(ranks)], (1, fault))
    output = folder / f"out{ranks}"
    command = [
        sys.executable,
        "-m",
        "msprobe",
        "diagnose",
        "--force",
        "--quiet",
        "-o",
        str(output),
        *map(str, runs),
    ]
    child = subprocess.Popen(command)
    _, status, used = os.wait4(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1, command
    answer = json.loads((output / "diagnose.json").read_text())
    cause = answer["cause"]
    right = (cause["step"], cause["rank"], "gelu" in cause["name"]) == (1, bad, True)
    seconds = used.ru_utime + used.ru_stime
    return (
        f"| {ranks} | {megabytes(*runs)} | {seconds:.1f} | {used.ru_maxrss / 1024:.0f} | "
        f"{megabytes(output)} | {'right' if right else 'wrong'}: {answer['sentence']} |"
    )


def megabytes(*folders: Path) -> str:
    """Links are counted as files."""
    size = sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
    return f"{size / 1e6:.0f} MB"


if __name__ == "__main__":
    main()
