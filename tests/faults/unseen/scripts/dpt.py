# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How far all in a picture is: a DPT, a loss that does not ask for the scale, and its steps at edges."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import DPTConfig, DPTForDepthEstimation

AUTOCAST = False
ATTENTION = "eager"
SIDE, PATCH, SCALES, FREE = 32, 8, 2, 0.85


def config():
    return DPTConfig(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=SIDE,
        patch_size=PATCH,
        initializer_range=0.1,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 12, 16, 16],
        neck_ignore_stages=[],
        fusion_hidden_size=16,
        attn_implementation=ATTENTION,
    )


def rooms(generator):
    """Planes at several distances, the far ones darker; at some places nobody measured."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, SIDE), torch.linspace(-1, 1, SIDE), indexing="ij")
    slope = torch.randn(4, 2, 1, 1, generator=generator)
    far = 3 + slope[:, 0] * x + slope[:, 1] * y
    edge = torch.rand(4, 1, 1, generator=generator) - 0.5
    far = torch.where(x > edge, far.clamp(min=0.5), 1.0 + 0.2 * y)
    pictures = (1 / far).unsqueeze(1) * torch.tensor([1.0, 0.8, 0.6]).view(3, 1, 1)
    pictures = pictures + 0.1 * torch.randn(pictures.shape, generator=generator)
    return pictures, far, torch.rand(far.shape, generator=generator) > 0.15


def free_of_scale(apart, valid):
    """A factor that all distances are wrong by counts for little."""
    count = valid.sum((1, 2))
    mean = (apart * valid).sum((1, 2)) / count
    square = (apart.square() * valid).sum((1, 2)) / count
    return (square - FREE * mean.square()).mean()


def at_edges(apart, valid):
    """Differences between neighbours, of both directions, in several sizes."""
    total = 0.0
    for scale in range(SCALES):
        some, known = apart[:, :: 2**scale, :: 2**scale], valid[:, :: 2**scale, :: 2**scale]
        for dim in (1, 2):
            size = some.shape[dim]
            both = known.narrow(dim, 1, size - 1) & known.narrow(dim, 0, size - 1)
            total = total + (some.diff(dim=dim).abs() * both).sum() / both.sum()
    return total


torch.set_num_threads(1)
torch.manual_seed(804)
model = DPTForDepthEstimation(config())
torch.nn.init.constant_(model.head.head[-2].bias, 1.0)
# model built
body = list(model.dpt.parameters())
rest = [p for name, p in model.named_parameters() if not name.startswith("dpt.")]
groups = [{"params": body, "lr": 2e-4}, {"params": rest, "lr": 2e-3}]
optimizer = torch.optim.AdamW(groups, weight_decay=0.01, amsgrad=True, foreach=False)
generator = torch.Generator().manual_seed(84)
for step in range(3):
    pictures, far, valid = rooms(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(pixel_values=pictures).predicted_depth
    found = F.interpolate(found.float().unsqueeze(1), size=(SIDE, SIDE), mode="bicubic").squeeze(1)
    apart = torch.log(found.clamp(min=1e-2)) - torch.log(far)
    loss = free_of_scale(apart, valid) + 0.5 * at_edges(apart, valid)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(rest, 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
