# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training script that knows nothing of msprobe: a small transformer learns to sort digits.

With --fault one layer is computed wrongly from step 1 on, as by a library whose default has changed.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

DIGITS, LENGTH, BATCH, WIDTH = 10, 12, 32, 64


class Sorter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(DIGITS, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(3)
        )
        self.head = nn.Linear(WIDTH, DIGITS)

    def forward(self, digits: torch.Tensor) -> torch.Tensor:
        x = self.token(digits) + self.position(torch.arange(LENGTH))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--fault", action="store_true", help="compute layer 1 wrongly from step 1 on")
    args = parser.parse_args()

    torch.manual_seed(7)
    model = Sorter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        if args.fault and step == 1:
            model.layers[1].norm1.eps = 1e-1
        digits = torch.randint(DIGITS, (BATCH, LENGTH))
        logits = model(digits)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), digits.sort(dim=1).values.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
