# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What msprobe costs on this machine, in about a minute: needs torch and msprobe, and nothing else.

    python benchmarks/first.py [--device cuda] [--threads 1]

Steps with and without msprobe take turns; shown are medians of the ratios of a round. The weights after a
recorded training must equal those after a plain one, bit for bit: else the exit code is 1. Methods and more
figures: docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Layers, width, sequences, tokens: one where calls decide, one where arithmetic does.
_SIZES = {"small": (12, 64, 1, 16), "medium": (4, 256, 8, 64)}
_LEVELS = {"L0": "each module", "L1": "each function", "mix": "both"}
_ROUNDS = 11
_WARM_UP = 3
_CHECKPOINT_MIB = 256


class Training:
    """An encoder that learns nothing, one step at a time."""

    def __init__(self, size: str, device: str) -> None:
        import torch

        layers, width, sequences, tokens = _SIZES[size]
        torch.manual_seed(1)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.x = torch.randn(sequences, tokens, width, device=device)
        self.on_gpu = device.startswith("cuda")

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.x).square().mean().backward()
        self.optimizer.step()
        if self.on_gpu:
            import torch

            torch.cuda.synchronize()


def seconds(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def steps(size: str, level: str, device: str, folder: Path) -> dict[str, Any]:
    """In a process of its own: plain and recorded steps in turns."""
    import torch
    from msprobe import PrecisionDebugger

    debugger = PrecisionDebugger(task="statistics", level=level, dump_path=str(folder))
    training, plainly = Training(size, device), Training(size, device)

    def recorded() -> None:
        debugger.start(training.model)
        training.step()
        debugger.stop()
        debugger.step()

    for _ in range(_WARM_UP):
        recorded()
        plainly.step()
    plain: list[float] = []
    watched: list[float] = []
    for round_ in range(_ROUNDS):
        order = [(plain, plainly.step), (watched, recorded)]
        for times, act in order if round_ % 2 else reversed(order):
            times.append(seconds(act))
    pairs = zip(training.model.parameters(), plainly.model.parameters(), strict=True)
    return {
        "plain": statistics.median(plain),
        "ratio": statistics.median(b / a for a, b in zip(plain, watched, strict=True)),
        "equal": all(torch.equal(a, b) for a, b in pairs),
    }


def checkpoints(folder: Path) -> tuple[Path, Path]:
    """Two files of torch.save whose weights differ by one bit."""
    import torch

    generator = torch.Generator().manual_seed(1)
    weights = {f"layer.{i}": torch.randn(1 << 20, generator=generator) for i in range(_CHECKPOINT_MIB // 4)}
    paths = folder / "a.pt", folder / "b.pt"
    for path in paths:
        torch.save(weights, path)
        weights["layer.7"][123] *= 1 + 2**-23
    return paths


def in_another_process(*words: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def command(*words: str | Path) -> float:
    """Seconds of a command of msprobe, which must answer."""
    full = [sys.executable, "-m", "msprobe", *map(str, words)]
    begin = time.perf_counter()
    done = subprocess.run(full, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"first.py: {' '.join(full)} ended with {done.returncode}:\n{done.stdout}")
    return time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="as torch names it (cpu)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (1)")
    parser.add_argument("--one", nargs=3, metavar=("SIZE", "LEVEL", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        import torch

        torch.set_num_threads(args.threads)
        size, level, folder = args.one
        print(json.dumps(steps(size, level, args.device, Path(folder))))
        return 0
    with tempfile.TemporaryDirectory() as name:
        return show(args, Path(name))


def show(args: argparse.Namespace, folder: Path) -> int:
    equal = True
    print(f"A step with statistics recorded, as a multiple of the same step without msprobe ({args.device}):")
    for size, (layers, width, _, _) in _SIZES.items():
        for level, what in _LEVELS.items():
            words = ["--one", size, level, str(folder / f"{size}_{level}")]
            found = in_another_process("--device", args.device, "--threads", str(args.threads), *words)
            equal &= found["equal"]
            told = f"{size}: {layers} layers of width {width}, {1e3 * found['plain']:.1f} ms"
            print(f"  {told:44} {level:4} {what:14} {found['ratio']:6.2f}x", flush=True)
    print(f"  weights after the recorded training: {'equal, bit for bit' if equal else 'DIFFERENT'}")

    dump = folder / "medium_mix"
    one, two = (dump / f"step{_WARM_UP + _ROUNDS - back}" for back in (1, 2))
    calls = sum(len(json.loads(file.read_text())["data"]) for file in one.rglob("dump.json"))
    time_ = statistics.median(command("compare", one, two, "-o", folder / f"compared{i}") for i in range(3))
    print(f"msprobe compare, two steps of {calls} calls, start-up included: {time_:.2f} s")

    a, b = checkpoints(folder)
    read = statistics.median(seconds(lambda: (a.read_bytes(), b.read_bytes())) for _ in range(3))
    time_ = statistics.median(command("ckpt", a, b, "-o", folder / f"ckpt{i}.json") for i in range(3))
    print(
        f"msprobe ckpt, two checkpoints of {_CHECKPOINT_MIB} MiB: {time_:.2f} s; reading them: {read:.2f} s"
    )
    start = statistics.median(command("--help") for _ in range(5))
    print(f"msprobe --help: {1e3 * start:.0f} ms")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
