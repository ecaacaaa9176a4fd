# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""MobileViT: a picture is unfolded so that parts of patches look at their like; cut and pasted pictures."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import MobileViTConfig, MobileViTForImageClassification

AUTOCAST = False
SIDE, KINDS, BATCH, STEPS, KEEPS = 64, 6, 6, 4, 0.8


def config():
    return MobileViTConfig(
        num_channels=3,
        image_size=SIDE,
        patch_size=2,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 12, 16, 16, 20, 32],
        num_attention_heads=2,
        mlp_ratio=2.0,
        expand_ratio=2.0,
        hidden_act="silu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
        num_labels=KINDS,
        initializer_range=0.1,
    )


class Average:
    """Weights and buffers that follow slowly; what they say is asked for, too."""

    def __init__(self, model):
        self.shadow = {name: value.clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def follow(self, model):
        for name, value in model.state_dict().items():
            if value.dtype.is_floating_point:
                self.shadow[name].lerp_(value, 1 - KEEPS)
            else:
                self.shadow[name].copy_(value)


def pasted(x, kinds, generator):
    """A rectangle of the picture before; how much of the label goes with it."""
    share = torch.rand(1, generator=generator).item() * 0.5 + 0.2
    high = wide = int(SIDE * share**0.5)
    down, right = torch.randint(0, SIDE - high + 1, (2,), generator=generator).tolist()
    y = x.clone()
    y[:, :, down : down + high, right : right + wide] = x.roll(1, 0)[
        :, :, down : down + high, right : right + wide
    ]
    kept = 1 - high * wide / SIDE**2
    wanted = kept * F.one_hot(kinds, KINDS) + (1 - kept) * F.one_hot(kinds.roll(1), KINDS)
    return y, wanted.float()


def pictures(generator):
    """Stripes whose width is the kind."""
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    at = torch.arange(SIDE) / SIDE
    turned = torch.rand(BATCH, 2, 1, 1, generator=generator) * 2 - 1
    wave = turned[:, 0] * at + turned[:, 1] * at.unsqueeze(1)
    colours = torch.randn(BATCH, 3, 1, 1, generator=generator)
    x = colours * torch.sin(9 * (1 + kinds[:, None, None]) * wave).unsqueeze(1)
    return x + 0.2 * torch.randn(x.shape, generator=generator), kinds


torch.set_num_threads(1)
torch.manual_seed(1303)
model = MobileViTForImageClassification(config())
# model built
average = Average(model)
optimizer = torch.optim.RMSprop(
    model.parameters(), lr=2e-3, alpha=0.9, momentum=0.9, eps=1e-2, weight_decay=1e-4, foreach=False
)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
generator = torch.Generator().manual_seed(13103)
for step in range(STEPS):
    x, wanted = pasted(*pictures(generator), generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(pixel_values=x)
    loss = -(wanted * found.logits.float().log_softmax(dim=1)).sum(dim=1).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    average.follow(model)
    print(f"step {step} loss {loss.item()!r}")
total = sum(value.double().abs().sum().item() for value in average.shadow.values())
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()), total)
