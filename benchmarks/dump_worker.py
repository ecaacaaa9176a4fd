# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training process for dump.py. Runs with either tool: both have the same PrecisionDebugger."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
from measure import memory_mib, reset_peak, serve
from torch import nn
from torch.nn import functional

# Layers, width, heads, inner width, tokens, batch, words: one where arithmetic decides, one where calls do.
_SIZES = {
    "compute": (8, 512, 8, 1376, 256, 2, 1024),
    "operator": (24, 64, 4, 172, 16, 1, 256),
}


class Norm(nn.Module):
    """Root mean square norm, written out in operators."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Block(nn.Module):
    """Attention and a gated feed-forward part, each on a residual path."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        query, key, value = (self._split(part(h)) for part in (self.query, self.key, self.value))
        mixed = functional.scaled_dot_product_attention(
            _rotate(query, cos, sin), _rotate(key, cos, sin), value, is_causal=True
        )
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        h = self.norm2(x)
        fed: torch.Tensor = self.down(functional.silu(self.gate(h)) * self.up(h))
        return x + fed

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        return x.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = torch.chunk(x, 2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Decoder(nn.Module):
    def __init__(self, size: str) -> None:
        super().__init__()
        layers, width, heads, inner, tokens, batch, words = _SIZES[size]
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(layers))
        self.norm = Norm(width)
        self.head = nn.Linear(width, words, bias=False)
        angles = torch.outer(
            torch.arange(tokens).float(), 10000.0 ** (-torch.arange(0, width // heads, 2) * heads / width)
        )
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())
        self.batch_shape = (batch, tokens)
        self.words = words

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


class Training:
    """One model in training, with the tool or without."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._directory = Path(settings["directory"])
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self._model = Decoder(settings["size"])
        self._ids = torch.randint(0, self._model.words, self._model.batch_shape)
        self._labels = torch.randint(0, self._model.words, self._model.batch_shape)
        # A rate of zero: every step is the same, so that records of different steps can be compared.
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=0.0)
        self._debugger: Any = None
        self._step = 0
        # Only then: for minutes, ext4 searches longer for a new file the more files were removed.
        self._removes_steps = settings["config"] is not None and settings["config"]["task"] == "tensor"
        if settings["config"] is not None:
            path = self._directory / "config.json"
            path.write_text(json.dumps({**settings["config"], "dump_path": str(self._directory / "dump")}))
            path.chmod(0o640)
            from msprobe.pytorch import PrecisionDebugger

            self._debugger = PrecisionDebugger(config_path=str(path))

    def plain_steps(self, count: int) -> list[float]:
        """Seconds of steps without a call of the tool."""
        return [self._timed(None) for _ in range(count)]

    def steps(self, count: int) -> list[float]:
        """Seconds of recorded steps, from start() to the end of step()."""
        return [self._timed(self._debugger) for _ in range(count)]

    def _timed(self, debugger: Any) -> float:
        begin = time.perf_counter()
        if debugger is not None:
            debugger.start(self._model)
        logits = self._model(self._ids)
        loss = functional.cross_entropy(logits.view(-1, self._model.words), self._labels.view(-1))
        torch.autograd.backward(loss)
        if debugger is not None:
            debugger.stop()
        self._optimizer.step()
        self._optimizer.zero_grad()
        if debugger is not None:
            debugger.step()
            self._step += 1
        seconds = time.perf_counter() - begin
        if self._removes_steps and debugger is not None and self._step > 1:  # the latest is looked at
            shutil.rmtree(self._directory / "dump" / f"step{self._step - 2}", ignore_errors=True)
        return seconds

    def files_of_last_step(self) -> dict[str, Any]:
        """Its directory, and the number and bytes of its files."""
        directory = self._directory / "dump" / f"step{self._step - 1}"
        sizes = [path.stat().st_size for path in directory.rglob("*") if path.is_file()]
        return {"directory": str(directory), "files": len(sizes), "bytes": sum(sizes)}

    def plain_write(self) -> float:
        """Seconds to write as many files of the same sizes as the last step has, from one buffer."""
        directory = self._directory / "dump" / f"step{self._step - 1}"
        sizes = [path.stat().st_size for path in directory.rglob("*.pt")]
        target = self._directory / "plain"
        target.mkdir()
        buffer = memoryview(bytes(max(sizes, default=0)))
        begin = time.perf_counter()
        for index, size in enumerate(sizes):
            descriptor = os.open(target / f"{index}.pt", os.O_WRONLY | os.O_CREAT, 0o640)
            os.write(descriptor, buffer[:size])
            os.close(descriptor)
        seconds = time.perf_counter() - begin
        shutil.rmtree(target)
        return seconds

    def reset_peak(self) -> None:
        """peak_mib() counts from here."""
        reset_peak()

    def peak_mib(self) -> float:
        return memory_mib("VmHWM")

    def parameters_sum(self) -> str:
        """All parameters as one number that differs when one bit of them does."""
        total = math.fsum(float(p.detach().double().sum()) for p in self._model.parameters())
        return total.hex()


def main() -> None:
    training = Training(json.loads(sys.argv[1]))
    names = (
        "plain_steps",
        "steps",
        "files_of_last_step",
        "plain_write",
        "reset_peak",
        "peak_mib",
        "parameters_sum",
    )
    serve(int(sys.argv[2]), int(sys.argv[3]), {name: getattr(training, name) for name in names})


if __name__ == "__main__":
    main()
