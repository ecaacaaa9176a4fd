# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Few examples of new classes: each class is the mean of its examples, a question goes to the nearest."""

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

AUTOCAST = False
WAYS, SHOTS, QUERIES = 4, 3, 4


class Episodes(Dataset):
    """Classes are pictures of random waves; an example is a noisy one."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(4140 + index)
        classes = F.interpolate(torch.randn(WAYS, 1, 4, 4, generator=g), scale_factor=4, mode="bilinear")
        noise = torch.randn(WAYS, SHOTS + QUERIES, 1, 16, 16, generator=g)
        examples = classes[:, None] + 0.5 * noise
        return examples[:, :SHOTS], examples[:, SHOTS:]


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.LeakyReLU(0.2), nn.MaxPool2d(2))


class ProtoNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.encoder = nn.Sequential(
            conv_block(1, width), conv_block(width, width), conv_block(width, width), nn.Flatten()
        )
        self.scale = nn.Parameter(torch.tensor(0.1))

    def forward(self, support, query):
        n = WAYS * SHOTS
        z = self.encoder(torch.cat([support.flatten(0, 1), query.flatten(0, 1)]))
        prototypes = z[:n].view(WAYS, SHOTS, -1).mean(dim=1)
        distance = (z[n:].unsqueeze(1) - prototypes).float().pow(2).sum(dim=2)
        return -self.scale * distance


def main():
    torch.set_num_threads(1)
    torch.manual_seed(414)
    loader = DataLoader(Episodes(), batch_size=None, num_workers=0)
    net = ProtoNet()
    model = net
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-3, foreach=False)
    for step, (support, query) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=AUTOCAST):
            log_p = F.log_softmax(model(support, query), dim=1)
        target = torch.arange(WAYS).repeat_interleave(QUERIES)
        loss = F.nll_loss(log_p, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item()!r}")
    print("weights", sum(p.detach().double().abs().sum().item() for p in net.parameters()))
    print("buffers", sum(b.double().abs().sum().item() for b in net.buffers()))


if __name__ == "__main__":
    main()
