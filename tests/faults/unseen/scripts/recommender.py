# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A recommender: bags of categories, numbers, and the products of all pairs of them."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROWS, WIDTH, WORKERS = 50, 12, 0


class Clicks(Dataset):
    """`ids` of three tables, three to a bag; numbers; clicked or not."""

    def __len__(self):
        return 96

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(6000 + index)
        ids = torch.randint(1000, (3, 3), generator=generator) % ROWS
        numbers = torch.rand(6, generator=generator) * 20
        return ids, numbers, torch.randint(2, (1,), generator=generator).float()


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(ROWS, WIDTH, mode="sum") for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, WIDTH), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(WIDTH + 6, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, ids, numbers):
        dense = self.bottom(torch.log1p(numbers))
        parts = torch.stack([dense, *(table(ids[:, i]) for i, table in enumerate(self.tables))], 1)
        products = torch.bmm(parts, parts.transpose(1, 2))
        row, column = torch.tril_indices(4, 4, offset=-1)
        return self.top(torch.cat([dense, products[:, row, column]], 1))


torch.set_num_threads(1)
torch.manual_seed(10)
model = Recommender()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02, eps=1e-10, foreach=False)
for step, (ids, numbers, clicked) in enumerate(DataLoader(Clicks(), batch_size=32, num_workers=WORKERS)):
    logits = model(ids, numbers)
    loss = F.binary_cross_entropy_with_logits(logits, clicked)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
