# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""LeViT: convolutions, then attention that shrinks the picture; a head learns labels, one a teacher."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import LevitConfig, LevitForImageClassificationWithTeacher

AUTOCAST = False
SIDE, KINDS, BATCH, STEPS, WARM, TOLD = 64, 6, 8, 3, 2.0, 0.5


def config():
    return LevitConfig(
        image_size=SIDE,
        hidden_sizes=(32, 40, 48),
        num_attention_heads=(2, 2, 3),
        depths=(1, 1, 1),
        key_dim=(8, 8, 8),
        num_labels=KINDS,
        initializer_range=0.1,
    )


class Teacher(nn.Module):
    """Knows the true colours of kinds; it is not learnt."""

    def __init__(self, colours):
        super().__init__()
        self.register_buffer("colours", colours)

    def forward(self, x):
        return -4 * (x.mean((2, 3)).unsqueeze(1) - self.colours).square().sum(dim=2)


def judged(found, said, kinds):
    """Labels for one head, and for the other the shares of the teacher, warmed."""
    own = F.cross_entropy(found.cls_logits.float(), kinds)
    shares = (said / WARM).log_softmax(dim=1)
    guess = (found.distillation_logits.float() / WARM).log_softmax(dim=1)
    told = F.kl_div(guess, shares, log_target=True, reduction="batchmean") * WARM**2
    return (1 - TOLD) * own + TOLD * told


def pictures(colours, generator):
    """A colour with light from a side; some labels are wrong."""
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    light = torch.linspace(-1, 1, SIDE) * torch.randn(BATCH, 1, 1, 1, generator=generator)
    x = colours[kinds].view(BATCH, 3, 1, 1) + light
    x = x + 0.5 * torch.randn(BATCH, 3, SIDE, SIDE, generator=generator)
    wrong = torch.rand(BATCH, generator=generator) < 0.1
    return x, torch.where(wrong, (kinds + 1) % KINDS, kinds)


torch.set_num_threads(1)
torch.manual_seed(1116)
model = LevitForImageClassificationWithTeacher(config())
# model built
generator = torch.Generator().manual_seed(1116)
colours = torch.randn(KINDS, 3, generator=generator)
teacher = Teacher(colours)
decayed = [p for name, p in model.named_parameters() if p.ndim > 1 and "attention_biases" not in name]
rest = [p for name, p in model.named_parameters() if p.ndim <= 1 or "attention_biases" in name]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
    lr=1e-3,
    eps=1e-4,
    foreach=False,
)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=8, pct_start=0.4)
for step in range(STEPS):
    x, kinds = pictures(colours, generator)
    with torch.no_grad():
        said = teacher(x)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = judged(found, said, kinds)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
