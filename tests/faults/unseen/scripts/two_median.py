# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with three workers each, of whom one lies: the middle of gradients is least far from all."""

import torch
import torch.distributed as dist
from torch import nn

AUTOCAST = False
SEEN, WAVES, WIDE, BATCH, STEPS, WORKERS, ROUNDS, BETA = 5, 20, 16, 16, 4, 3, 6, 0.5


class Model(nn.Module):
    """Waves of random directions whose lengths are learnt; a mean, and how uncertain it is."""

    def __init__(self):
        super().__init__()
        self.register_buffer("directions", torch.randn(SEEN, WAVES))
        self.scale = nn.Parameter(torch.zeros(WAVES))
        self.mixes, self.says = nn.Linear(2 * WAVES, WIDE), nn.Linear(WIDE, 2)

    def forward(self, x):
        turns = (x @ self.directions).float() * self.scale.exp()
        waves = torch.cat([turns.cos(), turns.sin()], dim=1)
        mean, log = self.says(torch.tanh(self.mixes(waves))).float().unbind(dim=1)
        return mean, log.clamp(-4, 4)


def unlikely(mean, log, wanted):
    """What is uncertain counts a little more than its likelihood says."""
    lost = 0.5 * ((wanted - mean).square() / log.exp() + log)
    return (log.exp().detach() ** BETA * lost).mean()


def gradient(loss, params):
    return torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, params)])


@torch.no_grad()
def middle(grads):
    """Of all workers of both; each counts by how near it is to the last guess."""
    all_grads = [torch.empty_like(grads) for _ in range(dist.get_world_size())]
    dist.all_gather(all_grads, grads)
    all_grads = torch.cat(all_grads)
    guess = all_grads.mean(dim=0)
    for _ in range(ROUNDS):
        far = (all_grads - guess).norm(dim=1).clamp(min=1e-8)
        near = 1 / far
        guess = (near / near.sum()) @ all_grads
    return guess, near / near.sum()


@torch.no_grad()
def given(params, flat):
    """Each parameter has its part as its gradient."""
    for p, part in zip(params, flat.split([p.numel() for p in params])):
        p.grad = part.view_as(p).clone()


def rows(generator, lies):
    """A bent surface that is loud at one side; who lies says the opposite, louder."""
    x = torch.randn(BATCH, SEEN, generator=generator)
    y = torch.sin(x[:, 0] * x[:, 1]) + x[:, 2]
    y = y + 0.3 * torch.sigmoid(2 * x[:, 3]) * torch.randn(BATCH, generator=generator)
    return x, -4 * y if lies else y


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1418)
model = Model()
# model built
params = list(model.parameters())
optimizer = torch.optim.Adam(params, lr=1e-2, betas=(0.8, 0.95), foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
generators = [torch.Generator().manual_seed(14118 + WORKERS * rank + worker) for worker in range(WORKERS)]
for step in range(STEPS):
    losses, grads = [], []
    for worker, generator in enumerate(generators):
        x, wanted = rows(generator, lies=rank == 1 and worker == step % WORKERS)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            mean, log = model(x)
        loss = unlikely(mean, log, wanted)
        losses.append(loss.item())
        grads.append(gradient(loss, params))
    flat, shares = middle(torch.stack(grads))
    given(params, flat)
    nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
    schedule.step()
    texts = " ".join(repr(loss) for loss in [*losses, shares.max().item()])
    print(f"rank {rank} step {step} loss {texts}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in params)
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
