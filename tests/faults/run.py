# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records reference runs and runs with planted faults: python tests/faults/run.py OUT [--only NAME] [--noise]

    OUT/golden/{model}.{variant}/dump    the reference; shared by all faults of the model
    OUT/quiet/{name}/dump                with the fault, otherwise equal to the last bit
    OUT/noise/{name}/dump                with the fault, and rounding noise in every kernel

Beside each dump: losses{rank}.json, and log{rank} with what the run printed.

Each run is a process of its own, forked from a server that has imported torch; what is there already is kept.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import socket
import sys
import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = str(Path(__file__).resolve().parent)
MODES = ("quiet", "noise")
TIMEOUT = 120

CONTEXT = multiprocessing.get_context("forkserver")
# torch imports the last two when the first optimizer is made: two seconds in each child.
PRELOADED = ["numpy", "torch", "torch.distributed", "msprobe.pytorch", "torch._dynamo"]
CONTEXT.set_forkserver_preload([*PRELOADED, "torch._inductor.test_operators"])


class Case(NamedTuple):
    """One run: of a reference (`name` ""), or of a fault or control."""

    mode: str
    name: str
    model: str
    variant: str
    ranks: int
    precision: str = "float32"

    @property
    def folder(self) -> str:
        return f"golden/{self.model}.{self.variant}" if self.mode == "golden" else f"{self.mode}/{self.name}"

    @property
    def noise(self) -> int:
        """Seed of the rounding noise; 0: none. The modes "noise" and "noise2" have other seeds."""
        if not self.mode.startswith("noise"):
            return 0
        return sum(map(ord, self.name)) + 100_000 * int(self.mode[len("noise") :] or 0)


def cases(names: Iterable[str], modes: Iterable[str] = MODES) -> list[Case]:
    """The runs that these faults and controls need, references first."""
    from catalogue import BY_NAME, Fault
    from training import RECIPES

    found: dict[Case, None] = {}
    modes = tuple(modes)
    items = [BY_NAME[name] for name in names]
    for item in items:
        found[Case("golden", "", item.model, item.variant, RECIPES[item.model].ranks)] = None
    for mode in modes:
        for item in items:
            if mode == "noise" and isinstance(item, Fault) and not item.noise:
                continue
            found[Case(mode, item.name, item.model, item.variant, RECIPES[item.model].ranks)] = None
    return list(found)


# ---- in the child


def train(case: Case, folder: Path, rank: int, port: int) -> None:
    if HERE not in sys.path:
        sys.path.insert(0, HERE)
    import torch
    from catalogue import BY_NAME
    from noise import RoundingNoise
    from training import Training, debugger

    torch.set_num_threads(1)
    if case.ranks > 1:
        os.environ.update(GLOO_SOCKET_IFNAME="lo")
        torch.distributed.init_process_group(
            "gloo", f"tcp://127.0.0.1:{port}", world_size=case.ranks, rank=rank
        )
    training = Training(case.model, rank, case.precision)
    if case.noise:  # the same on all ranks, which have the same device
        training.contexts.append(RoundingNoise(case.noise))
    if case.name:
        BY_NAME[case.name].plant(training)
    losses = training.run(debugger(folder, case.variant, rank))
    (folder / f"losses{rank}.json").write_text(json.dumps(losses), encoding="utf-8")
    if case.ranks > 1:
        torch.distributed.destroy_process_group()


def _work(answers: Any, log: Path, arguments: tuple[Any, ...]) -> None:
    with log.open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            train(*arguments)
            answers.send("")
        except BaseException:
            answers.send(traceback.format_exc())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()


# ---- in the parent


def record(case: Case, out: Path) -> None:
    """Runs the case, unless its dump is there. RuntimeError: the traceback of each rank that failed."""
    folder = out / case.folder
    done = folder / "done"
    if done.exists():
        return
    run(case, folder)
    done.touch()


def run(case: Case, folder: Path) -> None:
    """Runs the case into this folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(case.ranks):
        receiver, sender = CONTEXT.Pipe(duplex=False)
        child = CONTEXT.Process(
            target=_work, args=(sender, folder / f"log{rank}", (case, folder, rank, port))
        )
        child.start()
        sender.close()
        children.append((receiver, child))
    faults = [_answer(receiver, child) for receiver, child in children]
    if any(faults):
        raise RuntimeError(f"{case.folder}: " + "\n".join(fault for fault in faults if fault))


def _answer(receiver: Any, child: Any) -> str:
    """What went wrong, or nothing."""
    try:
        answer: str = receiver.recv() if receiver.poll(TIMEOUT) else f"no answer within {TIMEOUT} s"
    except EOFError:
        answer = "the process died"
    child.join(10)
    if child.is_alive():
        child.kill()
        child.join()
    receiver.close()
    return answer


def generate(out: Path, wanted: list[Case], workers: int = 2) -> list[str]:
    """Records all of them; the faults of those that failed."""

    def one(case: Case) -> str:
        try:
            record(case, out)
            return ""
        except RuntimeError as fault:
            return str(fault)

    with ThreadPoolExecutor(workers) as pool:
        return [fault for fault in pool.map(one, wanted) if fault]


def main() -> int:
    parser = argparse.ArgumentParser(description="Records reference runs and runs with planted faults.")
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="this fault or control; may be repeated"
    )
    parser.add_argument("--noise", action="store_true", help="only the runs with noise; without: both")
    parser.add_argument("--quiet", action="store_true", help="only the runs without noise")
    options = parser.parse_args()
    from catalogue import BY_NAME

    names = options.only or list(BY_NAME)
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        parser.error(f"--only: no fault or control {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    modes = ("noise",) if options.noise else ("quiet",) if options.quiet else MODES
    wanted = cases(names, modes)
    faults = generate(options.out, wanted)
    print(*faults, f"{len(wanted) - len(faults)} of {len(wanted)} runs in {options.out}", sep="\n")
    return 2 if faults else 0


if __name__ == "__main__":
    sys.path.insert(0, HERE)
    sys.exit(main())
