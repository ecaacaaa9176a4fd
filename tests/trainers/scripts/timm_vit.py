# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""timm: a vision transformer with averaged weights, its optimizer, scheduler and loss."""

import row
import torch

# torch's build for the CPU has none of torchvision's operators, which its import describes.
_operators = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    _operators.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")

import timm  # noqa: E402
from timm.loss import LabelSmoothingCrossEntropy  # noqa: E402
from timm.optim import create_optimizer_v2  # noqa: E402
from timm.scheduler import CosineLRScheduler  # noqa: E402
from timm.utils import ModelEmaV3  # noqa: E402

torch.manual_seed(0)
model = timm.create_model(
    "vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, embed_dim=96, num_heads=4, num_classes=10,
    drop_path_rate=row.chosen("drop_path_rate", 0.0),
)  # fmt: skip
if row.other_kernel():
    for block in model.blocks:
        block.attn.fused_attn = False
row.plant(model)
optimizer = create_optimizer_v2(model, "adamw", lr=1e-3, weight_decay=row.chosen("weight_decay", 0.05))
scheduler = CosineLRScheduler(optimizer, t_initial=8, lr_min=1e-5, warmup_t=2, warmup_lr_init=1e-4)
average = ModelEmaV3(model, decay=row.chosen("decay", 0.9))
criterion = LabelSmoothingCrossEntropy(smoothing=row.chosen("smoothing", 0.1))
losses = []
for step in range(8):
    scheduler.step(step)
    images, labels = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    loss = criterion(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update(model, step=step)
    losses.append(loss.item())
row.report(torch.nn.ModuleList([model, average.module]), losses)
