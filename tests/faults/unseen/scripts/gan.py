# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A generative adversarial network with two optimizers, fed by a data loader."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WORKERS = 0
FOREACH = False


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(16, 32 * 4 * 4)
        self.norm1, self.norm2 = nn.BatchNorm2d(32), nn.BatchNorm2d(16)
        self.up1 = nn.ConvTranspose2d(32, 16, 4, 2, padding=1)
        self.up2 = nn.ConvTranspose2d(16, 1, 4, 2, padding=1)

    def forward(self, z):
        h = F.relu(self.norm1(self.start(z).view(-1, 32, 4, 4)))
        return torch.tanh(self.up2(F.relu(self.norm2(self.up1(h)))))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 4, 2, padding=1), nn.Conv2d(16, 32, 4, 2, padding=1)
        self.norm = nn.InstanceNorm2d(32, affine=True)
        self.head = nn.Linear(32 * 4 * 4, 1)

    def forward(self, x):
        h = F.leaky_relu(self.conv1(x), 0.2)
        h = F.leaky_relu(self.norm(self.conv2(h)), 0.2)
        return self.head(h.flatten(1))


torch.set_num_threads(1)
torch.manual_seed(9)
generator, discriminator = Generator(), Discriminator()
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999), foreach=FOREACH)
of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999), foreach=FOREACH)
numbers = torch.Generator().manual_seed(51)
pictures = TensorDataset(torch.randn(24, 1, 16, 16, generator=numbers).tanh())
loader = DataLoader(pictures, batch_size=8, num_workers=WORKERS)
for step, (real,) in enumerate(loader):
    z = torch.randn(8, 16, generator=numbers)
    fake = generator(z)
    right, wrong = torch.full((8, 1), 0.9), torch.zeros(8, 1)
    real_loss = F.binary_cross_entropy_with_logits(discriminator(real), right)
    fake_loss = F.binary_cross_entropy_with_logits(discriminator(fake.detach()), wrong)
    of_discriminator.zero_grad()
    (real_loss + fake_loss).backward()
    of_discriminator.step()
    judged = discriminator(fake)
    loss = F.binary_cross_entropy_with_logits(judged, torch.ones(8, 1))
    of_generator.zero_grad()
    loss.backward()
    of_generator.step()
    print(f"step {step} loss {loss.item()!r} {(real_loss + fake_loss).item()!r}")
both = [*generator.parameters(), *discriminator.parameters()]
print("weights", sum(p.detach().double().abs().sum().item() for p in both))
