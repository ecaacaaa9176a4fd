# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A memory that is corrected: what a key recalls is replaced by its value; learnt by what is curved."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
VOCAB, WIDE, HEADS, LAYERS, LONG, BATCH, STEPS, LOOKS = 40, 32, 4, 2, 14, 6, 4, 2


class Corrects(nn.Module):
    """Of each head a matrix, that is read by queries and written by what was wrong."""

    def __init__(self):
        super().__init__()
        self.norm, self.all = nn.RMSNorm(WIDE), nn.Linear(WIDE, 3 * WIDE, bias=False)
        self.near = nn.Conv1d(3 * WIDE, 3 * WIDE, 3, padding=2, groups=3 * WIDE)
        self.strength, self.out = nn.Linear(WIDE, HEADS), nn.Linear(WIDE, WIDE, bias=False)
        self.heads = nn.RMSNorm(WIDE // HEADS)

    def forward(self, x):
        h = self.norm(x)
        both = F.silu(self.near(self.all(h).mT)[..., :LONG]).mT.float()
        q, k, v = both.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        strength = torch.sigmoid(self.strength(h).float()).mT.unsqueeze(-1)
        read = recalled(q, k, v, strength)
        return x + self.out(self.heads(read).transpose(1, 2).flatten(2))


def recalled(q, k, v, strength):
    memory, found = q.new_zeros(*q.shape[:2], q.shape[-1], q.shape[-1]), []
    for at in range(q.shape[2]):
        key, value = k[:, :, at], v[:, :, at]
        wrong = value - torch.einsum("bhvk,bhk->bhv", memory, key)
        memory = memory + torch.einsum("bhv,bhk->bhvk", strength[:, :, at] * wrong, key)
        found.append(torch.einsum("bhvk,bhk->bhv", memory, q[:, :, at]))
    return torch.stack(found, dim=2)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(VOCAB, WIDE), nn.Linear(WIDE, VOCAB, bias=False)
        self.mix = nn.ModuleList(Corrects() for _ in range(LAYERS))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.RMSNorm(WIDE), nn.Linear(WIDE, 2 * WIDE), nn.Mish(), nn.Linear(2 * WIDE, WIDE))
            for _ in range(LAYERS)
        )

    def forward(self, ids):
        x = self.words(ids)
        for mix, mlp in zip(self.mix, self.mlp):
            x = mix(x)
            x = x + mlp(x)
        return self.out(F.rms_norm(x, (WIDE,))).float()


class Sophia(torch.optim.Optimizer):
    """Means of gradients over how curved the loss is along each weight; no step is larger than the rate."""

    def __init__(self, params, lr, betas=(0.9, 0.95), rho=1.0, decay=0.1):
        super().__init__(params, {"lr": lr, "betas": betas, "rho": rho, "decay": decay})

    @torch.no_grad()
    def look(self, rows):
        """Squares of gradients of what the model itself would say."""
        for group in self.param_groups:
            for p in group["params"]:
                curved = self.state[p].setdefault("curved", torch.zeros_like(p))
                curved.lerp_(rows * p.grad.square(), 1 - group["betas"][1])

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                mean = state.setdefault("mean", torch.zeros_like(p))
                mean.lerp_(p.grad, 1 - group["betas"][0])
                way = (mean / (group["rho"] * state["curved"]).clamp(min=1e-8)).clamp(-1, 1)
                p.mul_(1 - group["lr"] * group["decay"])
                p.add_(way, alpha=-group["lr"])


def texts(generator):
    """Pairs of a word and what belongs to it in this text; both come again."""
    ids = torch.randint(VOCAB // 2, (BATCH, LONG // 2), generator=generator)
    turn = torch.randint(1, VOCAB // 2, (BATCH, 1), generator=generator)
    return torch.stack([ids % 5, VOCAB // 2 + (ids % 5 + turn) % (VOCAB // 2)], dim=-1).flatten(1)


def said(ids):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        return model(ids)[:, :-1].flatten(0, 1)


torch.set_num_threads(1)
torch.manual_seed(1008)
model = Decoder()
# model built
optimizer = Sophia(model.parameters(), lr=2e-3)
generator = torch.Generator().manual_seed(108)
for step in range(STEPS):
    ids = texts(generator)
    if step % LOOKS == 0:
        logits = said(ids)
        drawn = torch.multinomial(logits.detach().softmax(dim=-1), 1, generator=generator).squeeze(1)
        F.cross_entropy(logits, drawn).backward()
        optimizer.look(len(logits))
        optimizer.zero_grad()
    loss = F.cross_entropy(said(ids), ids[:, 1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
