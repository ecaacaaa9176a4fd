# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures without norms: kernels are made even, blocks say how lively they are, long gradients are cut."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, KINDS, BATCH, STEPS, ALPHA, CLIP, LEAST = 16, 5, 10, 4, 0.2, 0.05, 1e-3
GELU = 1.7015043497085571


class EvenConv2d(nn.Conv2d):
    """What comes in is as lively as what goes out: kernels have no mean, and a length of their own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.gain = nn.Parameter(torch.ones(self.out_channels, 1, 1, 1))

    def forward(self, x):
        var, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True)
        many = self.weight[0].numel()
        scale = self.gain * torch.rsqrt((var * many).clamp(min=1e-4))
        weight = (self.weight - mean) * scale
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Block(nn.Module):
    """Narrow, wide again, channels weighed; it adds a part of a known size."""

    def __init__(self, seen, wide, stride, beta):
        super().__init__()
        self.beta = beta
        self.one, self.two = EvenConv2d(seen, wide // 2, 1), EvenConv2d(wide // 2, wide // 2, 3, stride, 1)
        self.three, self.weighs = EvenConv2d(wide // 2, wide, 1), nn.Linear(wide, wide)
        self.short = EvenConv2d(seen, wide, 1) if seen != wide or stride > 1 else None
        self.stride, self.skip = stride, nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        y = F.gelu(x) * GELU * self.beta
        short = x if self.short is None else self.short(F.avg_pool2d(y, self.stride))
        y = self.two(F.gelu(self.one(y)) * GELU)
        y = self.three(F.gelu(y) * GELU)
        y = 2 * y * torch.sigmoid(self.weighs(y.mean(dim=(2, 3))))[:, :, None, None]
        return short + ALPHA * self.skip * y


class Model(nn.Module):
    """How lively it is grows block by block, and begins anew where the picture gets smaller."""

    def __init__(self):
        super().__init__()
        self.stem, self.blocks = EvenConv2d(3, 12, 3, padding=1), nn.ModuleList()
        seen, lively = 12, 1.0
        for wide, stride in ((12, 1), (20, 2), (20, 1)):
            self.blocks.append(Block(seen, wide, stride, lively**-0.5))
            lively = (1.0 if stride > 1 else lively) + ALPHA**2
            seen = wide
        self.answer = nn.Linear(seen, KINDS)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.answer(F.gelu(x).mean(dim=(2, 3))).float()


def rows_of(p):
    """Lengths of what leads to each output."""
    return p.norm() if p.ndim < 2 else p.flatten(1).norm(dim=1).view(-1, *[1] * (p.ndim - 1))


@torch.no_grad()
def adapted(params):
    """No gradient is longer than a part of its weights."""
    for p in params:
        most = CLIP * rows_of(p).clamp(min=LEAST)
        long = rows_of(p.grad)
        p.grad.copy_(torch.where(long > most, p.grad * (most / long.clamp(min=1e-6)), p.grad))


def pictures(generator):
    """Rings of as many as the kind says."""
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    at = torch.arange(SIDE) / SIDE
    middle = torch.rand(2, BATCH, 1, 1, generator=generator)
    far = ((at - middle[0]).square() + (at.unsqueeze(1) - middle[1]).square()).sqrt()
    x = torch.sin(8 * (1 + kinds.view(-1, 1, 1)) * far).unsqueeze(1)
    x = x * torch.randn(BATCH, 3, 1, 1, generator=generator)
    return x + 0.2 * torch.randn(x.shape, generator=generator), kinds


torch.set_num_threads(1)
torch.manual_seed(1414)
model = Model()
# model built
decays = [p for p in model.parameters() if p.ndim > 1]
stays = [p for p in model.parameters() if p.ndim < 2]
optimizer = torch.optim.SGD(
    [{"params": decays, "weight_decay": 1e-3}, {"params": stays}],
    lr=0.1, momentum=0.9, nesterov=True, foreach=False,
)  # fmt: skip
generator = torch.Generator().manual_seed(14114)
for step in range(STEPS):
    x, kinds = pictures(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = F.multi_margin_loss(found, kinds, margin=0.5)
    optimizer.zero_grad()
    loss.backward()
    adapted([p for name, p in model.named_parameters() if "answer" not in name])
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
