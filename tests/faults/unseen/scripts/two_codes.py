# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with one book of codes: what is near a code counts in both, and what nobody uses is drawn."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
LONG, CHANNELS, WIDE, CODES, BATCH, STEPS = 32, 2, 12, 16, 8, 4
FADES, COMMIT, SMALL, RARE = 0.8, 0.25, 1e-2, 0.3


class Book(nn.Module):
    """Codes are means of what was near them, of both processes, and ever less of what was long ago."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randn(CODES, WIDE))
        self.register_buffer("counts", torch.ones(CODES))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, x):
        flat = x.flatten(0, 1)
        far = flat.square().sum(dim=1, keepdim=True) - 2 * flat @ self.codes.T
        far = far + self.codes.square().sum(dim=1)
        named = far.argmin(dim=1)
        found = self.codes[named].view_as(x)
        if self.training:
            self.moved(flat.detach(), named)
        return x + (found - x).detach(), COMMIT * F.mse_loss(x, found.detach()), named

    @torch.no_grad()
    def moved(self, flat, named):
        which = F.one_hot(named, CODES).float()
        both = torch.cat([which.sum(dim=0, keepdim=True).T, which.T @ flat], dim=1)
        dist.all_reduce(both)
        self.counts.mul_(FADES).add_(both[:, 0], alpha=1 - FADES)
        self.sums.mul_(FADES).add_(both[:, 1:], alpha=1 - FADES)
        whole = self.counts.sum()
        even = (self.counts + SMALL) / (whole + CODES * SMALL) * whole
        self.codes.copy_(self.sums / even.unsqueeze(1))
        self.drawn(flat)

    def drawn(self, flat):
        """A code that is hardly used begins again where something is, the same in both."""
        parts = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, flat.contiguous())
        every = torch.cat(parts)
        rare = (self.counts < RARE).nonzero().squeeze(1)
        new = every[(rare * 37 + 11) % len(every)]
        self.codes[rare], self.sums[rare], self.counts[rare] = new, new, 1.0


class Model(nn.Module):
    """Series get shorter, are said in codes, and get long again."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv1d(CHANNELS, 16, 4, 2, 1), nn.GELU(), nn.Conv1d(16, 16, 4, 2, 1), nn.GELU()
        )
        self.into, self.book = nn.Conv1d(16, WIDE, 1), Book()
        self.up = nn.Sequential(
            nn.Conv1d(WIDE, 16, 3, padding=1),
            nn.GELU(),
            nn.ConvTranspose1d(16, 16, 4, 2, 1),
            nn.GELU(),
            nn.ConvTranspose1d(16, CHANNELS, 4, 2, 1),
        )

    def forward(self, x):
        x = self.into(self.down(x)).mT.float()
        with torch.autocast("cpu", enabled=False):
            told, commit, named = self.book(x)
        return self.up(told.mT).float(), commit, named


def series(rank, generator):
    """Beats in one process, slow waves in the other."""
    at = torch.arange(LONG)
    begin = 6.28 * torch.rand(BATCH, CHANNELS, 1, generator=generator)
    speed = 0.2 + 0.3 * torch.rand(BATCH, 1, 1, generator=generator) + 0.4 * rank
    x = torch.sin(speed * at + begin)
    return (x.sign() if rank else x) + 0.1 * torch.randn(x.shape, generator=generator)


dist.init_process_group("gloo")
rank, many = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(1620)
model = Model()
# model built
optimizer = torch.optim.AdamW(
    model.parameters(), lr=6e-3, betas=(0.9, 0.95), weight_decay=0.01, foreach=False
)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
generator = torch.Generator().manual_seed(16120 + rank)
for step in range(STEPS):
    x = series(rank, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        again, commit, named = model(x)
    off = (again - x).abs().mean() + F.l1_loss(again.diff(dim=2), x.diff(dim=2))
    loss = off + commit
    optimizer.zero_grad()
    loss.backward()
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    flat.div_(many)
    for p, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        p.grad.copy_(part.view_as(p))
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r} {commit.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
total = sum(b.double().abs().sum().item() for b in model.buffers())
print(f"rank {rank} buffers {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
