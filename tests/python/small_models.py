# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Three small models of kinds that surprise hooks: a transformer, a CNN that works in place, an LSTM."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, 16)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 17, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.layer(self.embed(ids))
        y, weights = self.attention(self.norm(x), x, x, need_weights=True)
        x = F.gelu(x + y, approximate="tanh")
        x[..., 0] = x[..., 0] * 2
        return self.head(x) + weights.mean()


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4))
        self.out = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.norm(self.first(x)))
        x = F.max_pool2d(x, 2)
        x = self.act(self.body(x) + x)
        x = x - 0.2
        x *= 1.5
        x = x.flatten(2).mean(-1)
        x.add_(0.1)
        return self.out(F.leaky_relu(x, inplace=True))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, 8)
        self.lstm = nn.LSTM(8, 12, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)
        self.out = nn.Linear(24, 17)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        lengths = torch.tensor([6, 4, 3])
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(ids), lengths, batch_first=True)
        y, (hidden, _) = self.lstm(packed)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
        return self.out(torch.tanh(y)) + hidden.sum()


MODELS = {"transformer": Transformer, "cnn": Cnn, "lstm": Lstm}


def build(kind: str) -> nn.Module:
    torch.manual_seed(11)
    return MODELS[kind]()


def batch(kind: str, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    if kind == "cnn":
        return torch.randn(4, 3, 6, 6, generator=generator), torch.randint(0, 5, (4,), generator=generator)
    ids = torch.randint(0, 17, (3, 6), generator=generator)
    return ids, torch.randint(0, 17, (3, 6), generator=generator)


def loss_of(model: nn.Module, kind: str, step: int) -> torch.Tensor:
    x, target = batch(kind, step)
    y = model(x)
    return F.cross_entropy(y.reshape(-1, y.shape[-1]), target.reshape(-1))


def train(kind: str, steps: int = 3, debugger: Any = None) -> dict[str, bytes]:
    """Every loss, gradient, parameter, buffer and evaluation of a short training, to the last bit."""
    model = build(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(5)
    seen: dict[str, bytes] = {}
    for step in range(steps):
        if debugger is not None:
            debugger.start(model)
        optimizer.zero_grad()
        loss = loss_of(model, kind, step)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.eval()
        with torch.no_grad():
            seen[f"evaluation {step}"] = bits(model(batch(kind, step)[0]))
        model.train()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        seen[f"loss {step}"] = bits(loss)
        for name, parameter in model.named_parameters():
            seen[f"gradient {step} {name}"] = bits(parameter.grad)
    for name, value in model.state_dict().items():
        seen[f"state {name}"] = bits(value)
    seen["random numbers"] = bits(torch.get_rng_state())
    return seen


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().numpy().tobytes()
