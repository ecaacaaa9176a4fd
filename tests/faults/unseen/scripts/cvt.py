# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""CvT: keys and values of convolutions; pictures of several things, of which most are not there."""

import torch
from torch import nn
from transformers import CvtConfig, CvtForImageClassification

AUTOCAST = False
SIDE, THINGS, BATCH, STEPS = 32, 5, 10, 4
LOST, FOUND, SHIFT = 3.0, 1.0, 0.05


def config():
    return CvtConfig(
        patch_sizes=[5, 3],
        patch_stride=[4, 2],
        patch_padding=[2, 1],
        embed_dim=[16, 32],
        num_heads=[2, 4],
        depth=[1, 2],
        mlp_ratio=[2.0, 2.0],
        attention_drop_rate=[0.0, 0.0],
        drop_rate=[0.0, 0.0],
        drop_path_rate=[0.0, 0.0],
        qkv_bias=[True, True],
        cls_token=[False, True],
        qkv_projection_method=["dw_bn", "dw_bn"],
        kernel_qkv=[3, 3],
        padding_kv=[1, 1],
        stride_kv=[2, 2],
        padding_q=[1, 1],
        stride_q=[1, 1],
        num_labels=THINGS,
        initializer_range=0.15,
    )


def asymmetric(logits, there):
    """What is not there counts less the surer it is said, and not at all below the shift."""
    share = logits.sigmoid()
    away = (1 - share + SHIFT).clamp(max=1.0)
    right = torch.where(there, share, away)
    power = torch.where(there, FOUND, LOST)
    weight = (1 - right).detach() ** power
    return -(weight * right.clamp(min=1e-6).log()).sum(dim=1).mean()


def pictures(looks, generator):
    """Each thing that is there lies somewhere."""
    there = torch.rand(BATCH, THINGS, generator=generator) < 0.3
    x = 0.3 * torch.randn(BATCH, 3, SIDE, SIDE, generator=generator)
    for row, thing in there.nonzero().tolist():
        down, right = torch.randint(0, SIDE - 8, (2,), generator=generator).tolist()
        x[row, :, down : down + 8, right : right + 8] += looks[thing]
    return x, there


@torch.no_grad()
def tried(model, x, there):
    """How many things are told right."""
    model.eval()
    right = ((model(x).logits > 0) == there).float().mean()
    model.train()
    return right


torch.set_num_threads(1)
torch.manual_seed(1202)
model = CvtForImageClassification(config())
# model built
model.train()
generator = torch.Generator().manual_seed(12102)
looks = torch.randn(THINGS, 3, 8, 8, generator=generator)
kept = pictures(looks, generator)
optimizer = torch.optim.NAdam(
    model.parameters(), lr=2e-3, weight_decay=0.05, decoupled_weight_decay=True, eps=1e-5, foreach=False
)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
for step in range(STEPS):
    x, there = pictures(looks, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x).logits
    loss = asymmetric(logits.float(), there)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    right = tried(model, *kept)
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
