# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with half of the rows of each field; waves along rows first, then, turned, along columns."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, MODES, WIDE, BATCH, STEPS, SMOOTH = 16, 4, 6, 4, 4, 0.02


class Turn(torch.autograd.Function):
    """Parts along one axis go to all, whole along another; the gradient goes the other way."""

    @staticmethod
    def forward(ctx, x, given, taken):
        ctx.dims = given, taken
        many = dist.get_world_size()
        sent = [part.contiguous() for part in x.chunk(many, dim=given)]
        got = [torch.empty_like(part) for part in sent]
        for other in range(many):
            if other == dist.get_rank():
                got[other].copy_(sent[other])
        swap(sent, got)
        return torch.cat(got, dim=taken)

    @staticmethod
    def backward(ctx, grad):
        given, taken = ctx.dims
        return Turn.apply(grad, taken, given), None, None


def swap(sent, got):
    """Both send what the other one asks for."""
    rank = dist.get_rank()
    other = 1 - rank
    out, into = torch.view_as_real(sent[other]).contiguous(), torch.view_as_real(got[other])
    calls = [dist.isend(out, other), dist.irecv(into, other)]
    for call in calls:
        call.wait()


class Waves(nn.Module):
    """Low waves of all of the field are weighed; each process holds some of the waves along rows."""

    def __init__(self):
        super().__init__()
        scale = 1 / WIDE
        self.weight = nn.Parameter(scale * torch.randn(WIDE, WIDE, SIDE, 2 * MODES, 2))
        self.near = nn.Conv2d(WIDE, WIDE, 1)

    def forward(self, x):
        rank = dist.get_rank()
        waves = torch.fft.fft(x.float(), dim=3)
        waves = Turn.apply(waves, 3, 2)
        waves = torch.fft.fft(waves, dim=2)
        own = waves.shape[3]
        weight = torch.view_as_complex(self.weight)
        full = torch.zeros(WIDE, WIDE, SIDE, SIDE, dtype=weight.dtype)
        full[..., :MODES], full[..., -MODES:] = weight[..., :MODES], weight[..., MODES:]
        weight = full[..., rank * own : (rank + 1) * own]
        waves = torch.einsum("bihw,iohw->bohw", waves, weight)
        waves = torch.fft.ifft(waves, dim=2)
        waves = Turn.apply(waves, 2, 3)
        return torch.fft.ifft(waves, dim=3).real + self.near(x).float()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.drop = nn.Conv2d(1, WIDE, 1), nn.Conv2d(WIDE, 1, 1)
        self.one, self.two = Waves(), Waves()

    def forward(self, x):
        x = F.gelu(self.one(self.lift(x)))
        return self.drop(self.two(x)).float()


def fields(generator):
    """A field, and what it is after it spread and moved on."""
    x = torch.randn(BATCH, 1, SIDE, SIDE, generator=generator)
    at = torch.fft.fftfreq(SIDE) * SIDE
    far = at.square().unsqueeze(1) + at.square()
    waves = torch.fft.fft2(x) * (-far / 16).exp()
    later = waves * (-SMOOTH * far - 0.6j * at).exp()
    return torch.fft.ifft2(waves).real * 3, torch.fft.ifft2(later).real * 3


dist.init_process_group("gloo")
rank, many = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(1317)
model = Model()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=8e-3, betas=(0.9, 0.9), weight_decay=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS + 2)
generator = torch.Generator().manual_seed(13117)
for step in range(STEPS):
    x, later = (field.chunk(many, dim=2)[rank] for field in fields(generator))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    sizes = torch.stack([(found - later).square().sum().detach(), later.square().sum()])
    dist.all_reduce(sizes)
    off, whole = sizes.unbind()
    loss = (found - later).square().sum() / (2 * (off * whole).sqrt())
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(
        f"rank {rank} step {step} loss {loss.item()!r} {(off / whole).sqrt().item()!r}\n", end="", flush=True
    )
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
