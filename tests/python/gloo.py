# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Work in several processes of torch.distributed on a CPU."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

# Each takes some ten seconds: without the variable one test of each kind runs.
processes = pytest.mark.skipif(
    "processes" not in os.environ.get("MSPROBE_TEST_SLOW", ""),
    reason="MSPROBE_TEST_SLOW=processes runs all of several processes",
)


def launch(work: Callable[..., None], folder: Path, *arguments: Any, ranks: int = 2) -> None:
    """Runs work(rank, folder, *arguments), a function of a module, in each rank.

    The processes are forked from one that has torch already: starting them takes no time.
    """
    import multiprocessing

    import torch.multiprocessing

    multiprocessing.get_context("forkserver").set_forkserver_preload(
        ["torch", "torch.distributed", "msprobe"]
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.start_processes(
        _run, (work, port, ranks, folder, *arguments), nprocs=ranks, start_method="forkserver"
    )


def _run(rank: int, work: Callable[..., None], port: int, ranks: int, *arguments: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    try:
        work(rank, *arguments)
    finally:
        torch.distributed.destroy_process_group()
