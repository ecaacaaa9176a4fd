# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Domain adaptation: a critic tells two domains apart, and its gradient is turned round for the features."""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812

AMP = False
TOTAL, SAVE_AFTER, RESUME = 6, 2, ""


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.strength, None


def reverse(x, strength):
    return Reverse.apply(x, strength)


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 16, 5, padding=2)
        self.bn = nn.BatchNorm1d(16)
        self.fc = nn.Linear(16 * 6, 32)

    def forward(self, x):
        x = F.max_pool1d(F.relu(self.bn(self.conv(x))), 4)
        return F.relu(self.fc(x.flatten(1)))


class Trainer:
    def __init__(self):
        self.features = Features()
        self.labels = nn.Linear(32, 3)
        self.critic = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
        learners = [*self.features.parameters(), *self.labels.parameters()]
        self.opt = torch.optim.SGD(learners, lr=0.05, momentum=0.9, nesterov=True, foreach=False)
        self.opt_critic = torch.optim.Adam(self.critic.parameters(), lr=2e-3, foreach=False)
        decay = lambda n: (1 + 10 * n / TOTAL) ** -0.75  # noqa: E731
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, decay)
        self.sched_critic = torch.optim.lr_scheduler.LambdaLR(self.opt_critic, decay)
        self.step = 0

    def parts(self):
        return {name: part for name, part in vars(self).items() if hasattr(part, "state_dict")}

    def save(self, path):
        torch.save({"step": self.step, **{n: p.state_dict() for n, p in self.parts().items()}}, path)

    def load(self, path):
        saved = torch.load(path, weights_only=True)
        self.step = saved.pop("step")
        for name, part in self.parts().items():
            part.load_state_dict(saved[name])

    def batch(self):
        g = torch.Generator().manual_seed(4130 + self.step)
        y = torch.randint(3, (24,), generator=g)
        t = torch.arange(24) / 24
        wave = torch.sin(2 * math.pi * (y[:, None] + 1) * t)
        x = torch.stack([wave, wave.roll(3, -1)], 1) + 0.2 * torch.randn(24, 2, 24, generator=g)
        x[12:] = 0.5 * x[12:] + 0.3
        return x, y[:12]

    def train_step(self):
        x, y = self.batch()
        progress = self.step / TOTAL
        strength = 2 / (1 + math.exp(-10 * progress)) - 1 + 0.1
        with torch.autocast("cpu", torch.bfloat16, enabled=AMP):
            f = self.features(x)
            logits = self.labels(f[:12])
            domain = self.critic(reverse(f, strength)).squeeze(1)
        label_loss = F.cross_entropy(logits.float(), y)
        is_target = (torch.arange(24) >= 12).float()
        domain_loss = F.binary_cross_entropy_with_logits(domain.float(), is_target)
        self.opt.zero_grad()
        self.opt_critic.zero_grad()
        (label_loss + domain_loss).backward()
        self.opt.step()
        self.opt_critic.step()
        self.sched.step()
        self.sched_critic.step()
        print(f"step {self.step} loss {label_loss.item()!r} {domain_loss.item()!r}")
        self.step += 1


torch.set_num_threads(1)
torch.manual_seed(413)
trainer = Trainer()
if RESUME:
    trainer.load(RESUME)
while trainer.step < TOTAL:
    trainer.train_step()
    if trainer.step == SAVE_AFTER and "SAVE_TO" in os.environ:
        trainer.save(os.environ["SAVE_TO"])
modules = (trainer.features, trainer.labels, trainer.critic)
print("weights", *(sum(p.detach().double().abs().sum().item() for p in m.parameters()) for m in modules))
print("buffers", sum(b.double().abs().sum().item() for b in trainer.features.buffers()))
