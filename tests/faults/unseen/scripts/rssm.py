# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A world model: a recurrent state with discrete latents, learnt by what comes next and by divergence."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
GROUPS, CLASSES, WIDTH = 4, 4, 24


class WorldModel(nn.Module):
    def __init__(self):
        super().__init__()
        latents = GROUPS * CLASSES
        self.encode = nn.Sequential(nn.Linear(10, WIDTH), nn.LayerNorm(WIDTH), nn.SiLU())
        self.mix = nn.Linear(latents + 3, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.prior, self.posterior = nn.Linear(WIDTH, latents), nn.Linear(2 * WIDTH, latents)
        self.decode = nn.Sequential(nn.Linear(WIDTH + latents, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 10))
        self.reward = nn.Linear(WIDTH + latents, 1)

    def forward(self, seen, actions, drawn):
        state, latent = torch.zeros(len(seen), WIDTH), torch.zeros(len(seen), GROUPS * CLASSES)
        priors, posteriors, features = [], [], []
        for time in range(seen.shape[1]):
            state = self.cell(F.silu(self.mix(torch.cat([latent, actions[:, time]], -1))).float(), state)
            prior = self.prior(state).unflatten(-1, (GROUPS, CLASSES))
            known = torch.cat([state, self.encode(seen[:, time])], -1)
            posterior = self.posterior(known).unflatten(-1, (GROUPS, CLASSES))
            shares = 0.99 * F.softmax(posterior.float(), -1) + 0.01 / CLASSES
            picked = F.one_hot((shares.cumsum(-1) < drawn[:, time, :, None]).sum(-1).clamp(max=CLASSES - 1))
            picked = F.pad(picked, (0, CLASSES - picked.shape[-1])).float()
            latent = (picked + shares - shares.detach()).flatten(1)
            priors.append(prior.float())
            posteriors.append(posterior.float())
            features.append(torch.cat([state, latent], -1))
        features = torch.stack(features, 1)
        return (
            torch.stack(priors, 1),
            torch.stack(posteriors, 1),
            self.decode(features),
            self.reward(features),
        )


def divergence(left, right):
    left, right = F.log_softmax(left, -1), F.log_softmax(right, -1)
    return (left.exp() * (left - right)).sum((-2, -1)).mean()


def symlog(x):
    return torch.sign(x) * torch.log1p(x.abs())


torch.set_num_threads(1)
torch.manual_seed(33)
model = WorldModel()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-5, foreach=False)
generator = torch.Generator().manual_seed(820)
for step in range(3):
    seen = torch.randn(6, 5, 10, generator=generator) * 2
    actions = F.one_hot(torch.randint(3, (6, 5), generator=generator), 3).float()
    drawn = torch.rand(6, 5, GROUPS, generator=generator)
    reward = torch.randn(6, 5, 1, generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        prior, posterior, shown, earned = model(symlog(seen), actions, drawn)
        of_prior = divergence(posterior.detach(), prior).clamp(min=0.01)
        of_posterior = divergence(posterior, prior.detach()).clamp(min=0.01)
        loss = F.mse_loss(shown.float(), symlog(seen)) + F.mse_loss(earned.float(), reward)
        loss = loss + 0.5 * of_prior + 0.1 * of_posterior
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 100.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
