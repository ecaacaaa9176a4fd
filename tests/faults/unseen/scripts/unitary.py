# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A recurrent network with a unitary matrix of complex numbers: phases, reflections, Fourier transforms."""

import math

import torch
from torch import nn

LOW_PRECISION_HEAD = False


class ModReLU(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.bias = nn.Parameter(torch.full((size,), -0.02))

    def forward(self, z):
        size = z.abs()
        return torch.relu(size + self.bias) * z / (size + 1e-5)


class UnitaryCell(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.phases = nn.ParameterList(nn.Parameter((torch.rand(hidden) * 2 - 1) * math.pi) for _ in range(3))
        self.mirrors = nn.ParameterList(
            nn.Parameter(torch.randn(hidden, dtype=torch.cfloat)) for _ in range(2)
        )
        self.register_buffer("order", torch.randperm(hidden))
        self.read = nn.Parameter(torch.randn(inputs, hidden, dtype=torch.cfloat) * 0.2)
        self.act = ModReLU(hidden)

    @staticmethod
    def rotate(z, phase):
        return z * torch.exp(1j * phase)

    @staticmethod
    def mirror(z, v):
        along = (z * v.conj()).sum(-1, keepdim=True)
        return z - 2 * along * v / v.abs().square().sum()

    def forward(self, x, z):
        z = self.rotate(z, self.phases[0])
        z = torch.fft.fft(z, norm="ortho")
        z = self.mirror(z, self.mirrors[0])
        z = self.rotate(z[:, self.order], self.phases[1])
        z = torch.fft.ifft(z, norm="ortho")
        z = self.mirror(z, self.mirrors[1])
        z = self.rotate(z, self.phases[2])
        return self.act(z + torch.matmul(x.to(torch.cfloat), self.read))


class CopyNet(nn.Module):
    def __init__(self, symbols=6, hidden=32):
        super().__init__()
        self.symbols = symbols
        self.cell = UnitaryCell(symbols, hidden)
        self.out = nn.Linear(2 * hidden, symbols)
        self.start = nn.Parameter(torch.randn(hidden, dtype=torch.cfloat) * 0.1)

    def forward(self, ids):
        x = nn.functional.one_hot(ids, self.symbols).float()
        z = self.start.expand(len(ids), -1)
        outs = []
        for t in range(ids.shape[1]):
            z = self.cell(x[:, t], z)
            outs.append(torch.cat([z.real, z.imag], dim=-1))
        with torch.autocast("cpu", torch.bfloat16, enabled=LOW_PRECISION_HEAD):
            return self.out(torch.stack(outs, 1))


torch.set_num_threads(1)
torch.manual_seed(403)
net = CopyNet()
optimizer = torch.optim.RMSprop(net.parameters(), lr=2e-3, alpha=0.9, foreach=False)
criterion = nn.CrossEntropyLoss()
gen = torch.Generator().manual_seed(7)
for step in range(3):
    ids = torch.randint(1, 6, (12, 8), generator=gen)
    ids[:, 4:] = 0
    wanted = torch.zeros_like(ids)
    wanted[:, 4:] = ids[:, :4]
    loss = criterion(net(ids).float().flatten(0, 1), wanted.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().abs().double().sum().item() for p in net.parameters()))
