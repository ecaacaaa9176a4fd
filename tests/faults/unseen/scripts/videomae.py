# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""VideoMAE: most tubes of a film are hidden, and a small decoder paints them, but for light and scale."""

import torch
from transformers import VideoMAEConfig, VideoMAEForPreTraining

DTYPE = torch.float32
ATTENTION = "eager"
FRAMES, TUBE, SIDE, PATCH, HIDDEN, PARTS, STEPS = 8, 2, 16, 4, 0.75, 2, 3


def config():
    return VideoMAEConfig(
        image_size=SIDE,
        patch_size=PATCH,
        num_channels=3,
        num_frames=FRAMES,
        tubelet_size=TUBE,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        decoder_hidden_size=24,
        decoder_num_hidden_layers=1,
        decoder_num_attention_heads=3,
        decoder_intermediate_size=48,
        initializer_range=0.08,
        use_mean_pooling=False,
        norm_pix_loss=True,
        attn_implementation=ATTENTION,
    )


def films(generator):
    """Waves of some direction and colour that move on."""
    y, x = torch.meshgrid(torch.linspace(0, 3, SIDE), torch.linspace(0, 3, SIDE), indexing="ij")
    pitch = torch.randn(4, 3, 1, 1, 1, generator=generator)
    times = torch.arange(FRAMES).view(1, -1, 1, 1)
    wave = torch.sin(pitch[:, 0] * x + pitch[:, 1] * y + 0.5 * pitch[:, 2] * times)
    colour = torch.rand(4, 1, 3, 1, 1, generator=generator)
    film = wave.unsqueeze(2) * colour
    return film + 0.1 * torch.randn(film.shape, generator=generator)


def tubes(generator):
    """The same places are hidden at all times, so that no frame tells them of another."""
    places = (SIDE // PATCH) ** 2
    order = torch.rand(4, places, generator=generator).argsort(dim=1)
    hidden = order < round(HIDDEN * places)
    return hidden.repeat(1, FRAMES // TUBE)


torch.set_num_threads(1)
torch.manual_seed(903)
model = VideoMAEForPreTraining(config()).to(DTYPE)
# model built
flat = [p for p in model.parameters() if p.ndim < 2]
rest = [p for p in model.parameters() if p.ndim >= 2]
groups = [{"params": rest, "weight_decay": 0.05}, {"params": flat, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), foreach=False)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=6, cycle_momentum=False)
generator = torch.Generator().manual_seed(93)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        film, hidden = films(generator), tubes(generator)
        loss = model(pixel_values=film.to(DTYPE), bool_masked_pos=hidden).loss.float() / PARTS
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
