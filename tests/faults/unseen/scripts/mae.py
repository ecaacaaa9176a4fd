# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Masked autoencoder: three of four patches are hidden, and a small decoder paints them."""

import math
import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

AMP = False
MICRO = 1
EPOCHS, SAVE_AFTER, RESUME = 6, 2, ""


class Pictures(Dataset):
    def __init__(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 8

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(4190 + 100 * self.epoch + index)
        wave = torch.randn(3, 2, generator=g)
        at = torch.arange(16) / 4
        picture = torch.sin(wave[:, :1, None] * at[:, None] + wave[:, 1:, None] * at[None, :])
        return picture + 0.1 * torch.randn(3, 16, 16, generator=g), torch.rand(16, generator=g)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class MAE(nn.Module):
    def __init__(self, patch=4, dim=32, small=24, keep=4):
        super().__init__()
        self.patch, self.keep = patch, keep
        pixels, n = 3 * patch**2, (16 // patch) ** 2
        self.embed = nn.Linear(pixels, dim)
        self.pos = nn.Parameter(torch.randn(1, n, dim) * 0.2)
        self.blocks = nn.Sequential(Block(dim, 4), Block(dim, 4), nn.LayerNorm(dim, eps=1e-6))
        self.to_small = nn.Linear(dim, small)
        self.mask_token = nn.Parameter(torch.randn(1, 1, small) * 0.2)
        self.small_pos = nn.Parameter(torch.randn(1, n, small) * 0.2)
        self.decoder = nn.Sequential(Block(small, 3), nn.LayerNorm(small, eps=1e-6))
        self.predict = nn.Linear(small, pixels)

    def patchify(self, x):
        b, c, h, w = x.shape
        p = self.patch
        x = x.reshape(b, c, h // p, p, w // p, p)
        return torch.einsum("bchpwq->bhwpqc", x).reshape(b, -1, p * p * c)

    def forward(self, x, dice):
        patches = self.patchify(x)
        shuffle = dice.argsort(dim=1)
        restore = shuffle.argsort(dim=1)
        kept = shuffle[:, : self.keep]
        tokens = self.embed(patches) + self.pos
        tokens = tokens.gather(1, kept.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
        latent = self.to_small(self.blocks(tokens))
        hidden = self.mask_token.expand(len(x), restore.shape[1] - self.keep, -1)
        y = torch.cat([latent, hidden.to(latent.dtype)], dim=1)
        y = y.gather(1, restore.unsqueeze(-1).expand(-1, -1, y.shape[-1]))
        y = self.predict(self.decoder(y + self.small_pos))
        mask = torch.ones_like(dice)
        mask[:, : self.keep] = 0
        mask = mask.gather(1, restore)
        mean, var = patches.mean(-1, keepdim=True), patches.var(-1, keepdim=True)
        target = (patches - mean) / (var + 1e-6) ** 0.5
        lost = (y.float() - target).pow(2).mean(-1)
        return (lost * mask).sum() / mask.sum()


def rate(step, warmup=3, total=12):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


torch.set_num_threads(1)
torch.manual_seed(419)
model = MAE()
decayed = [p for p in model.parameters() if p.ndim > 1]
others = [p for p in model.parameters() if p.ndim <= 1]
groups = [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.95), foreach=False)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=AMP)
state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
begin = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    begin = saved["epoch"]
    for name, part in state.items():
        part.load_state_dict(saved[name])
for epoch in range(begin, EPOCHS):
    total = 0.0
    for pictures, dice in DataLoader(Pictures(epoch), batch_size=8 // MICRO, num_workers=0):
        with torch.autocast("cpu", torch.float16, enabled=AMP):
            loss = model(pictures, dice) / MICRO
        scaler.scale(loss).backward()
        total += loss.item()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    scheduler.step()
    print(f"step {epoch} loss {total!r}")
    if epoch + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        torch.save(
            {"epoch": epoch + 1, **{n: p.state_dict() for n, p in state.items()}}, os.environ["SAVE_TO"]
        )
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
