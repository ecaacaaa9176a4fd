# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Labels of several people who err each in their own way, and of whom each saw some of the rows only."""

import math

import torch
from torch import nn

AUTOCAST = False
SEEN, KINDS, PEOPLE, BATCH, STEPS, PLAIN, RATE = 12, 4, 5, 32, 4, 0.05, 0.02


class Yogi(torch.optim.Optimizer):
    """Adam whose squares go up or down by no more than they are off."""

    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-3):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                state, square = self.state[p], p.grad * p.grad
                if not state:
                    state.update(step=0, mean=torch.zeros_like(p), square=torch.full_like(p, 1e-6))
                state["step"] += 1
                state["mean"].mul_(one).add_(p.grad, alpha=1 - one)
                way = torch.sign(state["square"] - square)
                state["square"].addcmul_(way, square, value=two - 1)
                mean = state["mean"] / (1 - one ** state["step"])
                size = (state["square"] / (1 - two ** state["step"])).sqrt() + group["eps"]
                p.sub_(group["lr"] * mean / size)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(SEEN, 24),
            nn.GroupNorm(4, 24),
            nn.Tanhshrink(),
            nn.Linear(24, 24),
            nn.GroupNorm(4, 24),
            nn.Mish(),
        )
        self.kinds = nn.Linear(24, KINDS)
        self.errs = nn.Parameter(2.0 * torch.eye(KINDS).repeat(PEOPLE, 1, 1))

    def forward(self, x):
        """What each person would say, by what is true and how they err."""
        true = self.kinds(self.body(x)).float().log_softmax(dim=1)
        errs = self.errs.log_softmax(dim=2)
        said = (true[:, None, :, None] + errs).logsumexp(dim=2)
        return true, said

    def plain(self):
        """The less errs who errs, the better: truth is what is sure."""
        return torch.logdet(self.errs.softmax(dim=2)).mean()


def lost(said, labels, answered):
    """Mean over all answers; a row that nobody answered counts nothing."""
    given = said.gather(2, labels.unsqueeze(2)).squeeze(2)
    return -(given * answered).sum() / answered.sum()


def answers(looks, generator):
    """The true kind of a row, what each of the people says, and whether they were asked."""
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    x = looks[kinds] + 0.8 * torch.randn(BATCH, SEEN, generator=generator)
    errs = torch.rand(BATCH, PEOPLE, generator=generator) < torch.linspace(0.05, 0.6, PEOPLE)
    labels = torch.where(
        errs, (kinds.unsqueeze(1) + 1 + torch.arange(PEOPLE) % 2) % KINDS, kinds.unsqueeze(1)
    )
    answered = (torch.rand(BATCH, PEOPLE, generator=generator) < 0.6).float()
    return x, labels, answered


torch.set_num_threads(1)
torch.manual_seed(1315)
model = Model()
# model built
table = [p for name, p in model.named_parameters() if name == "errs"]
rest = [p for name, p in model.named_parameters() if name != "errs"]
optimizer = Yogi([{"params": rest, "scale": 1.0}, {"params": table, "scale": 3.0}], lr=RATE)
looks = torch.randn(KINDS, SEEN, generator=torch.Generator().manual_seed(15))
generator = torch.Generator().manual_seed(13115)
for step in range(STEPS):
    for group in optimizer.param_groups:
        group["lr"] = group["scale"] * RATE / math.sqrt(1 + step)
    x, labels, answered = answers(looks, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        true, said = model(x)
    wrong = lost(said, labels, answered)
    loss = wrong + PLAIN * model.plain()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {wrong.item()!r} {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
