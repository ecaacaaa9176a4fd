# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is learnt tells of nobody: the gradient of each sample is cut to a length, and noise is added."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, KINDS, BATCH, STEPS, CUT, NOISY = 16, 24, 5, 20, 5, 4.5, 0.1


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(a, WIDE) for a in (SEEN, WIDE, WIDE))
        self.norm = nn.LayerNorm(WIDE, elementwise_affine=False)
        self.out = nn.Linear(WIDE, KINDS)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = x + torch.tanh(self.second(x))
        x = x + torch.tanh(self.third(self.norm(x)))
        return self.out(x).float()


class Each:
    """Of each linear layer: what came in and what came back make one gradient a sample."""

    def __init__(self, model):
        self.found = {}
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                layer.register_forward_hook(self.watch)

    def watch(self, layer, given, out):
        out.register_hook(lambda back: self.keep(layer, given[0].detach().float(), back.float()))

    def keep(self, layer, given, back):
        self.found[layer.weight] = torch.einsum("bo,bi->boi", back, given)
        self.found[layer.bias] = back


@torch.no_grad()
def private(params, found, generator):
    """Each sample moves all weights together no further than so far."""
    lengths = torch.stack([found[p].flatten(1).norm(dim=1) for p in params], dim=1).norm(dim=1)
    shares = (CUT / (lengths + 1e-6)).clamp(max=1.0)
    for p in params:
        total = torch.einsum("b,b...->...", shares, found[p])
        noise = NOISY * CUT * torch.randn(p.shape, generator=generator)
        p.grad = (total + noise) / BATCH


def rows(generator):
    """Blobs on a curved line."""
    kinds = torch.randint(KINDS, (BATCH,), generator=generator)
    at = kinds.unsqueeze(1) + 0.3 * torch.randn(BATCH, 1, generator=generator)
    x = torch.cat([torch.sin(at * (1 + i) / 3) for i in range(SEEN)], dim=1)
    return x + 0.3 * torch.randn(BATCH, SEEN, generator=generator), kinds


torch.set_num_threads(1)
torch.manual_seed(1011)
model = Network()
# model built
each = Each(model)
params = list(model.parameters())
optimizer = torch.optim.SGD(params, lr=0.2, momentum=0.9, dampening=0.1, foreach=False)
schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.9)
generator = torch.Generator().manual_seed(111)
for step in range(STEPS):
    x, kinds = rows(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
    loss = F.cross_entropy(logits, kinds, reduction="sum")
    optimizer.zero_grad()
    loss.backward()
    private(params, each.found, generator)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item() / BATCH!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
