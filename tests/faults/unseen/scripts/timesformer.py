# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TimeSformer: which way something moves in a film; each place looks through time, each frame around."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import TimesformerConfig, TimesformerForVideoClassification

AUTOCAST = False
FRAMES, SIDE, PATCH, KINDS, BATCH, PARTS, STEPS, DECAY = 4, 16, 4, 5, 4, 2, 4, 0.7


def config():
    return TimesformerConfig(
        image_size=SIDE,
        patch_size=PATCH,
        num_channels=2,
        num_frames=FRAMES,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        attention_type="divided_space_time",
        drop_path_rate=0,
        num_labels=KINDS,
        initializer_range=0.15,
    )


def layered(model, rate):
    """Layers near the pictures learn slower; norms and biases do not shrink."""
    last = model.config.num_hidden_layers + 1
    groups = {}
    for name, p in model.named_parameters():
        words = name.split(".")
        depth = int(words[words.index("layer") + 1]) + 1 if "layer" in words else last
        if "embeddings" in words:
            depth = 0
        key = (depth, p.ndim > 1)
        scale = DECAY ** (last - depth)
        group = groups.setdefault(
            key, {"params": [], "lr": rate * scale, "weight_decay": 0.05 if p.ndim > 1 else 0.0}
        )
        group["params"].append(p)
    return list(groups.values())


def films(generator):
    """A pattern that moves up, down, left, right, or stays."""
    ways = torch.tensor([[-2, 0], [2, 0], [0, -2], [0, 2], [0, 0]])
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    looks = torch.randn(BATCH, 2, SIDE, SIDE, generator=generator)
    looks = F.avg_pool2d(looks, 3, stride=1, padding=1) * 2
    films = []
    for look, way in zip(looks, ways[kinds].tolist()):
        films.append(torch.stack([look.roll((way[0] * t, way[1] * t), (1, 2)) for t in range(FRAMES)]))
    x = torch.stack(films)
    return x + 0.1 * torch.randn(x.shape, generator=generator), kinds


torch.set_num_threads(1)
torch.manual_seed(1302)
model = TimesformerForVideoClassification(config())
# model built
optimizer = torch.optim.NAdam(
    layered(model, 4e-3), betas=(0.9, 0.95), decoupled_weight_decay=True, foreach=False
)
schedule = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, [group["lr"] for group in optimizer.param_groups],
    total_steps=8, pct_start=0.4, cycle_momentum=False,
)  # fmt: skip
generator = torch.Generator().manual_seed(13102)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        x, kinds = films(generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            found = model(pixel_values=x)
        loss = F.cross_entropy(found.logits.float(), kinds, label_smoothing=0.1) / PARTS
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
