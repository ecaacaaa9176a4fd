# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training that tells the processor time of its steps: python hunt_worker.py SIZE STEPS FILE. It knows
nothing of msprobe.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from dump_worker import Decoder
from torch.nn import functional


def main(size: str, steps: int, file: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Decoder(size)
    ids = torch.randint(0, model.words, model.batch_shape)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    seconds = []
    for _ in range(steps + 1):
        begin = time.process_time()
        loss = functional.cross_entropy(model(ids).view(-1, model.words), ids.view(-1))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        seconds.append(time.process_time() - begin)
    file.write_text(json.dumps(seconds[1:]))  # the first one sets up


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).absolute())
