# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A network that gets sparse: by and by the smallest weights are taken out, with what moved them."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SPARSE, TOTAL, KINDS = 0.7, 6, 6


class Masked(nn.Module):
    """A linear layer of which a mask leaves some weights."""

    def __init__(self, before, after):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(after, before))
        self.bias = nn.Parameter(torch.zeros(after))
        nn.init.kaiming_uniform_(self.weight, nonlinearity="relu")
        self.register_buffer("mask", torch.ones(after, before))

    def forward(self, x):
        return F.linear(x, self.weight * self.mask, self.bias)

    @torch.no_grad()
    def prune(self, share):
        """The smallest go, over what is gone already."""
        sizes = (self.weight * self.mask).abs().flatten()
        left = sizes.numel() - round(share * sizes.numel())
        self.mask.zero_().view(-1)[sizes.topk(left).indices] = 1.0


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Masked(*sizes) for sizes in ((16, 48), (48, 48)))
        self.norms = nn.ModuleList(nn.LayerNorm(48) for _ in range(2))
        self.out = nn.Linear(48, KINDS)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = F.leaky_relu(norm(layer(x)), 0.1)
        return self.out(x)


def share_at(step):
    """Fast at first, slowly at the end."""
    return SPARSE * (1 - (1 - step / TOTAL) ** 3)


torch.set_num_threads(1)
torch.manual_seed(716)
model = Sparse()
# model built
optimizer = torch.optim.SGD(
    model.parameters(), lr=0.05, momentum=0.9, dampening=0.1, weight_decay=1e-3, foreach=False
)
generator = torch.Generator().manual_seed(716)
for step in range(TOTAL):
    x = torch.randn(24, 16, generator=generator)
    wanted = (x[:, :KINDS] * x[:, KINDS : 2 * KINDS]).argmax(1)
    for layer in model.layers:
        layer.prune(share_at(step))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), wanted) + 1e-2 * logits.float().square().sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for layer in model.layers:
            layer.weight.mul_(layer.mask)
            optimizer.state[layer.weight]["momentum_buffer"].mul_(layer.mask)
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
