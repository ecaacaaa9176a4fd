# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""SegFormer: patches that overlap, keys of fewer places, and what is rare counts for more."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import SegformerConfig, SegformerForSemanticSegmentation

AUTOCAST = False
KINDS, SIDE, UNKNOWN, LR, TOTAL = 5, 24, 255, 2e-3, 10


def config():
    return SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[16, 24],
        patch_sizes=[5, 3],
        strides=[2, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
        num_labels=KINDS,
        hidden_dropout_prob=0.0,
        drop_path_rate=0.0,
        classifier_dropout_prob=0.0,
    )


def pictures(generator):
    """Soft blobs; the kind of a pixel is how bright it is; borders of kinds are not known."""
    x = F.avg_pool2d(torch.randn(4, 3, SIDE, SIDE, generator=generator), 5, 1, 2) * 4
    bright = x.sum(1)
    wanted = ((bright + 4) / 2).floor().clamp(0, KINDS - 1).long()
    border = ((bright + 4) / 2).frac().abs() < 0.05
    return x, wanted.masked_fill(border, UNKNOWN)


def weights_of(wanted):
    counts = F.one_hot(wanted[wanted != UNKNOWN], KINDS).sum(0) + 1
    weights = 1 / counts.sqrt()
    return weights / weights.sum() * KINDS


torch.set_num_threads(1)
torch.manual_seed(702)
model = SegformerForSemanticSegmentation(config())
# model built
head = [p for name, p in model.named_parameters() if name.startswith("decode_head")]
body = [p for name, p in model.named_parameters() if not name.startswith("decode_head")]
groups = [{"params": body, "lr": LR}, {"params": head, "lr": 3 * LR}]
optimizer = torch.optim.AdamW(groups, weight_decay=0.01, foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=TOTAL, power=0.9)
generator = torch.Generator().manual_seed(72)
for step in range(3):
    x, wanted = pictures(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x).logits
    logits = F.interpolate(logits.float(), size=(SIDE, SIDE), mode="bilinear", align_corners=False)
    loss = F.cross_entropy(logits, wanted, weight=weights_of(wanted), ignore_index=UNKNOWN)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
