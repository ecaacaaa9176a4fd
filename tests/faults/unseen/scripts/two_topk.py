# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that send the largest parts of gradients alone; what was not sent is added next time."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, SHARE = 5, 0.15


class Squeezed(nn.Module):
    """A block whose channels are weighed by what the whole picture is like."""

    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.GroupNorm(4, width)
        self.down, self.up = nn.Linear(width, width // 4), nn.Linear(width // 4, width)

    def forward(self, x):
        h = self.norm(self.conv(x))
        weights = torch.sigmoid(self.up(F.relu(self.down(h.mean((2, 3))))))
        return F.relu(x + h * weights[:, :, None, None])


def network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        Squeezed(16),
        nn.MaxPool2d(2),
        Squeezed(16),
        nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, KINDS)),
    )


class TopK:
    def __init__(self, params):
        self.params = list(params)
        self.left = [torch.zeros(p.numel()) for p in self.params]

    @torch.no_grad()
    def reduce(self):
        """Of each tensor its own largest parts, wherever the other's are."""
        for p, left in zip(self.params, self.left):
            whole = left + p.grad.flatten()
            places = whole.abs().topk(max(1, round(SHARE * whole.numel()))).indices
            values = whole[places]
            left.copy_(whole)
            left[places] = 0.0
            p.grad.copy_(self.summed(places, values, whole.numel()).view_as(p))

    @staticmethod
    def summed(places, values, size):
        world = dist.get_world_size()
        every = [(torch.empty_like(places), torch.empty_like(values)) for _ in range(world)]
        dist.all_gather([where for where, _ in every], places)
        dist.all_gather([what for _, what in every], values)
        total = torch.zeros(size)
        for where, what in every:
            total.index_add_(0, where, what)
        return total / world


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(818)
model = network()
largest = TopK(model.parameters())
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.6, nesterov=True, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
generator = torch.Generator().manual_seed(9000 + rank)
for step in range(4):
    x = F.avg_pool2d(torch.randn(12, 3, 18, 18, generator=generator), 3, 1) * 3
    wanted = F.adaptive_avg_pool2d(x.mean(1), (1, KINDS)).flatten(1).argmax(1)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
    loss = F.multi_margin_loss(logits.float(), wanted) + F.cross_entropy(logits.float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    largest.reduce()
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
