# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer on fourteen sonnets, one character at a time.

A training script like any other; the two lines with `debugger` are all that the gradient probe needs. They
read config.json from the current folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from model import Decoder
from msprobe.pytorch import PrecisionDebugger
from torch.nn import functional

CONTEXT = 64
BATCH = 16


def compute_layer_2_wrongly(model: Decoder) -> None:
    """As a device whose attention kernel ignores its scale argument: no division by sqrt(head size)."""
    model.layers[2].attention.scale = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--wrong-from", type=int, metavar="STEP", help="compute layer 2 wrongly from here on")
    args = parser.parse_args()

    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    text = (Path(__file__).parent / "data" / "sonnets.txt").read_text(encoding="ascii")
    alphabet = sorted(set(text))
    data = torch.tensor([alphabet.index(character) for character in text])

    model = Decoder(vocabulary=len(alphabet), context=CONTEXT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    debugger = PrecisionDebugger("config.json")
    debugger.monitor(model)

    for step in range(args.steps):
        if step == args.wrong_from:
            compute_layer_2_wrongly(model)
        starts = torch.randint(len(data) - CONTEXT, (BATCH,))
        batch = torch.stack([data[start : start + CONTEXT + 1] for start in starts])
        logits = model(batch[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
