# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with half of all clicks each: a batch counts by how it differs from an older look at all."""

import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
FIELDS, WORDS, FACTORS, WIDE, ROWS, BATCH, STEPS, EVERY, WEIGHT = 5, 12, 6, 24, 96, 16, 4, 2, 1e-3


class Model(nn.Module):
    """Words of fields have weights, and pairs of them have more; beside, a network of all."""

    def __init__(self):
        super().__init__()
        self.single, self.factors = nn.Embedding(FIELDS * WORDS, 1), nn.Embedding(FIELDS * WORDS, FACTORS)
        self.hidden, self.says = nn.Linear(FIELDS * FACTORS, WIDE), nn.Linear(WIDE, 1)
        self.register_buffer("begins", WORDS * torch.arange(FIELDS))
        nn.init.normal_(self.single.weight, std=0.1)
        nn.init.normal_(self.factors.weight, std=0.4)

    def forward(self, words):
        ids = words + self.begins
        factors = self.factors(ids)
        pairs = 0.5 * (factors.sum(dim=1).square() - factors.square().sum(dim=1)).sum(dim=1)
        deep = self.says(F.relu6(self.hidden(factors.flatten(1)))).float().squeeze(1)
        return self.single(ids).sum(dim=(1, 2)) + pairs + deep


def loss_of(model, words, clicked):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(words)
    return F.binary_cross_entropy_with_logits(logits, clicked)


def gradient(model, words, clicked):
    """The loss, and the mean of both processes' gradients."""
    loss = loss_of(model, words, clicked)
    grads = torch.autograd.grad(loss, list(model.parameters()))
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    return loss.item(), flat / dist.get_world_size()


def clicks(generator):
    """Some pairs of words are liked, some are not."""
    likes = torch.randn(WORDS, WORDS, generator=torch.Generator().manual_seed(5))
    words = torch.randint(0, WORDS, (ROWS, FIELDS), generator=generator)
    liked = likes[words[:, 0], words[:, 1]] + 0.5 * likes[words[:, 2], words[:, 4]]
    return words, (torch.rand(ROWS, generator=generator) < torch.sigmoid(2 * liked)).float()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1517)
model = Model()
# model built
params = list(model.parameters())
optimizer = torch.optim.SGD(params, lr=1.0, momentum=0.5, weight_decay=WEIGHT, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
generator = torch.Generator().manual_seed(15117 + rank)
words, clicked = clicks(generator)
older, whole = None, None
for step in range(STEPS):
    if step % EVERY == 0:
        older = copy.deepcopy(model)
        _, whole = gradient(older, words, clicked)
    batch = torch.randint(0, ROWS, (BATCH,), generator=generator)
    loss, now = gradient(model, words[batch], clicked[batch])
    _, then = gradient(older, words[batch], clicked[batch])
    flat = now - then + whole
    for p, part in zip(params, flat.split([p.numel() for p in params])):
        p.grad = part.view_as(p).clone()
    nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss!r} {flat.norm().item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
