# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that never wait: each steps by its own gradient, and by how far off its last one was."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
VOCAB, WIDE, LENGTH, KINDS, STEPS = 60, 16, 14, 4, 4


class Sentences(nn.Module):
    """Kernels over two, three and four words, and of each what fits best."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDE)
        self.convs = nn.ModuleList(nn.Conv1d(WIDE, WIDE, size) for size in (2, 3, 4))
        self.mix, self.gate = nn.Linear(3 * WIDE, 3 * WIDE), nn.Linear(3 * WIDE, 3 * WIDE)
        self.out = nn.Linear(3 * WIDE, KINDS)

    def forward(self, ids):
        x = self.words(ids).mT
        h = torch.cat([F.relu(conv(x)).amax(dim=-1) for conv in self.convs], dim=-1)
        gate = torch.sigmoid(self.gate(h) - 1)
        return self.out(gate * F.relu(self.mix(h)) + (1 - gate) * h)


class Delayed:
    """The mean of what both sent in the last step arrives while this step is computed."""

    def __init__(self, params):
        self.params = list(params)
        size = sum(p.numel() for p in self.params)
        self.sent, self.mean, self.work = torch.zeros(size), torch.zeros(size), None

    def step(self):
        own = torch.cat([p.grad.flatten() for p in self.params])
        if self.work is not None:
            self.work.wait()
        way = own + self.mean / dist.get_world_size() - self.sent
        self.sent, self.mean = own, own.clone()
        self.work = dist.all_reduce(self.mean, async_op=True)
        for p, part in zip(self.params, way.split([p.numel() for p in self.params])):
            p.grad.copy_(part.view_as(p))

    def finish(self):
        self.work.wait()


@torch.no_grad()
def averaged(module):
    for p in module.parameters():
        dist.all_reduce(p)
        p.div_(dist.get_world_size())


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(817)
model = Sentences()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.2, total_iters=STEPS)
delayed = Delayed(model.parameters())
generator = torch.Generator().manual_seed(8900 + rank)
for step in range(STEPS):
    ids = torch.randint(VOCAB, (16, LENGTH), generator=generator)
    wanted = (ids.unfold(1, 2, 1).sum(-1) % 7 == 0).sum(1).clamp(max=KINDS - 1)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids)
    loss = F.cross_entropy(logits.float(), wanted, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    delayed.step()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
delayed.finish()
averaged(model)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
