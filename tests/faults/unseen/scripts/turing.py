# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A neural Turing machine: a controller writes to a memory and reads from it, by content and by place."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32


class Head(nn.Module):
    """Where to look: by likeness to a key, then moved by a place, then sharpened."""

    def __init__(self, controller, width):
        super().__init__()
        self.width = width
        self.to_address = nn.Linear(controller, width + 1 + 1 + 3 + 1)

    def forward(self, h, memory, before):
        key, strength, gate, shift, gamma = self.to_address(h).split([self.width, 1, 1, 3, 1], dim=-1)
        key = torch.tanh(key)
        strength = F.softplus(strength)
        gate = torch.sigmoid(gate)
        shift = torch.softmax(shift, dim=-1)
        gamma = 1 + F.softplus(gamma)
        alike = F.cosine_similarity(memory, key.unsqueeze(1), dim=-1, eps=1e-6)
        content = torch.softmax(strength * alike, dim=-1)
        w = gate * content + (1 - gate) * before
        moved = (
            shift[:, 0:1] * torch.roll(w, -1, dims=1)
            + shift[:, 1:2] * w
            + shift[:, 2:3] * torch.roll(w, 1, dims=1)
        )
        sharp = (moved + 1e-6) ** gamma
        return sharp / sharp.sum(-1, keepdim=True)


class TuringMachine(nn.Module):
    def __init__(self, bits=6, places=12, width=10, controller=32):
        super().__init__()
        self.places, self.width = places, width
        self.controller = nn.LSTMCell(bits + 2 + width, controller)
        self.read_head, self.write_head = Head(controller, width), Head(controller, width)
        self.erase, self.add = nn.Linear(controller, width), nn.Linear(controller, width)
        self.output = nn.Linear(controller + width, bits)
        self.memory0 = nn.Parameter(torch.randn(places, width))

    def forward(self, x):
        b = x.shape[0]
        memory = self.memory0.expand(b, -1, -1)
        read = x.new_zeros(b, self.width)
        state = None
        w_read = w_write = F.one_hot(torch.zeros(b, dtype=torch.long), self.places).to(x.dtype)
        out = []
        for t in range(x.shape[1]):
            state = self.controller(torch.cat([x[:, t], read], dim=-1), state)
            h = state[0]
            w_write = self.write_head(h, memory, w_write)
            gone = torch.sigmoid(self.erase(h))
            new = torch.tanh(self.add(h))
            memory = memory * (1 - w_write.unsqueeze(-1) * gone.unsqueeze(1))
            memory = memory + w_write.unsqueeze(-1) * new.unsqueeze(1)
            w_read = self.read_head(h, memory, w_read)
            read = torch.bmm(w_read.unsqueeze(1), memory).squeeze(1)
            out.append(self.output(torch.cat([h, read], dim=-1)))
        return torch.stack(out, dim=1)


def task(generator, batch=8, length=4, bits=6):
    seq = torch.bernoulli(torch.full((batch, length, bits), 0.5), generator=generator)
    x = torch.zeros(batch, 2 * length + 1, bits + 2)
    x[:, :length, :bits] = seq
    x[:, length, bits] = 1
    return x, seq


torch.set_num_threads(1)
torch.manual_seed(404)
generator = torch.Generator().manual_seed(4040)
machine = TuringMachine().to(DTYPE)
opt = torch.optim.RMSprop(machine.parameters(), lr=3e-3, alpha=0.95, eps=1e-6, foreach=False)
for step in range(3):
    x, seq = task(generator)
    y = machine(x.to(DTYPE))[:, -seq.shape[1] :]
    loss = F.binary_cross_entropy_with_logits(y.float(), seq)
    opt.zero_grad()
    loss.backward()
    for p in machine.parameters():
        p.grad.clamp_(-10, 10)
    opt.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in machine.parameters()))
