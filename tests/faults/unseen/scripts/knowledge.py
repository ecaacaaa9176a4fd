# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Knowledge graphs by turns in the complex plane: a relation turns its head into its tail."""

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

SIXTEEN = False
ENTITIES, RELATIONS, DIM, GAMMA, EPSILON = 90, 7, 24, 6.0, 2.0


class RotatE(nn.Module):
    def __init__(self):
        super().__init__()
        self.range = (GAMMA + EPSILON) / DIM
        self.entity = nn.Embedding(ENTITIES, 2 * DIM)
        self.relation = nn.Embedding(RELATIONS, DIM)
        self.mix = nn.Linear(2 * DIM, 2 * DIM)
        nn.init.uniform_(self.entity.weight, -self.range, self.range)
        nn.init.uniform_(self.relation.weight, -self.range, self.range)
        nn.init.eye_(self.mix.weight)

    def distance(self, head, relation, tail):
        re_h, im_h = head.chunk(2, dim=-1)
        re_t, im_t = tail.chunk(2, dim=-1)
        phase = relation / (self.range / math.pi)
        cos, sin = torch.cos(phase), torch.sin(phase)
        re = re_h * cos - im_h * sin - re_t
        im = re_h * sin + im_h * cos - im_t
        return torch.stack([re, im], dim=0).norm(dim=0).sum(-1)

    def forward(self, h, r, t):
        with torch.autocast("cpu", torch.bfloat16, enabled=SIXTEEN):
            head, tail = self.mix(self.entity(h)), self.mix(self.entity(t))
        return GAMMA - self.distance(head.float(), self.relation(r), tail.float())


def step_loss(model, batch, negative_tails, temperature=1.0):
    h, r, t = batch.unbind(1)
    positive = model(h, r, t)
    negative = model(
        h[:, None].expand_as(negative_tails), r[:, None].expand_as(negative_tails), negative_tails
    )
    weight = F.softmax(negative * temperature, dim=1).detach()
    lost = -(weight * F.logsigmoid(-negative)).sum(1).mean()
    return (lost - F.logsigmoid(positive).mean()) / 2


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(409)
    triples = torch.stack(
        [torch.randint(ENTITIES, (600,)), torch.randint(RELATIONS, (600,)), torch.randint(ENTITIES, (600,))],
        1,
    )
    model = RotatE()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02, foreach=False)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.25, total_iters=3)
    for step, batch in enumerate(triples[:256].split(64)):
        negative_tails = torch.randint(ENTITIES, (64, 8))
        optimizer.zero_grad()
        loss = step_loss(model, batch, negative_tails)
        loss.backward()
        optimizer.step()
        warmup.step()
        print(f"step {step} loss {loss.item()!r}")
    print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
