# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A voice out of noise by four microphones: masks tell which waves are whose, and what is heard there."""

import torch
from torch import nn

AUTOCAST = False
EARS, SAMPLES, WINDOW, HOP, WIDE, BATCH, STEPS, FLAT = 4, 480, 32, 16, 24, 4, 4, 0.4
LOAD, LOUD = 1e-2, 0.3


class Model(nn.Module):
    """Reads the loudness of one ear over time; two masks, of the voice and of the rest."""

    def __init__(self):
        super().__init__()
        self.many = WINDOW // 2 + 1
        self.norm = nn.LayerNorm(self.many)
        self.reads = nn.GRU(self.many, WIDE, batch_first=True, bidirectional=True)
        self.masks = nn.Linear(2 * WIDE, 2 * self.many)
        self.register_buffer("window", torch.hann_window(WINDOW))

    def waves(self, x):
        found = torch.stft(x.flatten(0, -2), WINDOW, HOP, window=self.window, return_complex=True)
        return found.view(*x.shape[:-1], *found.shape[-2:])

    def forward(self, heard):
        """Of what each ear heard, as waves, the masks of the median over ears."""
        loud = (heard.abs() + 1e-3).log().mT
        masks = self.masks(self.reads(self.norm(loud.flatten(0, 1)))[0])
        masks = torch.sigmoid(masks.float()).unflatten(0, (BATCH, EARS)).median(dim=1).values
        return masks.mT.chunk(2, dim=1)


def covariance(waves, mask):
    """Of ears, for each pitch, where the mask is."""
    products = torch.einsum("bcft,bdft,bft->bfcd", waves, waves.conj(), mask.to(waves.dtype))
    return products / mask.sum(dim=2).clamp(min=1e-3)[:, :, None, None]


def steered(voice, noise):
    """What keeps the voice of the first ear as it is, with the least of the noise."""
    size = noise.diagonal(dim1=2, dim2=3).real.mean(dim=2) + 1e-6
    noise = noise + LOAD * size[:, :, None, None] * torch.eye(EARS)
    ratio = torch.linalg.solve(noise, voice)
    size = ratio.diagonal(dim1=2, dim2=3).sum(dim=2).real.clamp(min=1e-4)
    return ratio[:, :, :, 0] / size.unsqueeze(2)


def flatter(waves):
    """The phase as it is, the loudness less spread."""
    size = (waves.abs().square() + 1e-4).sqrt()
    return waves / size * size**FLAT, size**FLAT


def scenes(generator):
    """A voice of some pitches and a hiss of one colour, each late by some samples at each ear."""
    at = torch.arange(SAMPLES + 16)
    pitch = 0.1 + 0.2 * torch.rand(BATCH, 1, generator=generator)
    lively = torch.rand(BATCH, 8, generator=generator).repeat_interleave(len(at) // 8, dim=1)
    voice = lively * (
        torch.sin(pitch * at) + 0.6 * torch.sin(2 * pitch * at) + 0.4 * torch.sin(5 * pitch * at)
    )
    hiss = torch.randn(BATCH, len(at), generator=generator)
    hiss = 0.5 * (hiss + hiss.roll(1, dims=1))
    ears = []
    for sound in (voice, hiss):
        late = torch.randint(0, 4, (BATCH, 1), generator=generator) * torch.arange(EARS)
        places = torch.arange(SAMPLES) + 12 - late.unsqueeze(2)
        ears.append(sound.unsqueeze(1).expand(-1, EARS, -1).gather(2, places))
    own = 0.02 * torch.randn(BATCH, EARS, SAMPLES, generator=generator)
    return ears[0], ears[1] + own


torch.set_num_threads(1)
torch.manual_seed(1513)
model = Model()
# model built
optimizer = torch.optim.AdamW(
    model.parameters(), lr=8e-3, betas=(0.9, 0.98), weight_decay=0.02, foreach=False
)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda step: 0.8**step])
generator = torch.Generator().manual_seed(15113)
for step in range(STEPS):
    voice, noise = scenes(generator)
    heard, true = model.waves(voice + noise), model.waves(voice)[:, 0]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        masks = model(heard)
    weights = steered(covariance(heard, masks[0]), covariance(heard, masks[1]))
    found = torch.einsum("bfc,bcft->bft", weights.conj(), heard)
    (found, size), (wanted, true_size) = flatter(found), flatter(true)
    far = (found - wanted).abs().square().mean()
    loss = (1 - LOUD) * far + LOUD * (size - true_size).square().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.2)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {far.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
