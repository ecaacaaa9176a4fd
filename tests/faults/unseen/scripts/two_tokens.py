# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, DistributedDataParallel: texts of several lengths, and a mean over the words of both."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

AUTOCAST = False
VOCAB, WIDE, LONG, TEXTS, BATCH, EPOCHS = 48, 24, 18, 32, 8, 2


class Texts(Dataset):
    """Each goes on by the sum of its last words, and ends where it likes."""

    def __init__(self):
        g = torch.Generator().manual_seed(1016)
        self.texts = []
        for _ in range(TEXTS):
            size = int(torch.randint(4, LONG, (), generator=g))
            words = torch.randint(1, VOCAB, (3,), generator=g).tolist()
            while len(words) < size:
                words.append((words[-1] + words[-3]) % (VOCAB - 1) + 1)
            self.texts.append(torch.tensor(words))

    def __len__(self):
        return TEXTS

    def __getitem__(self, row):
        return self.texts[row]


def padded(texts):
    return nn.utils.rnn.pad_sequence(texts, batch_first=True)


class Light(nn.Module):
    """A recurrence whose gates see the word alone, so that only sums are made one after the other."""

    def __init__(self):
        super().__init__()
        self.norm, self.all = nn.LayerNorm(WIDE), nn.Linear(WIDE, 4 * WIDE)
        self.seen = nn.Parameter(torch.zeros(WIDE))

    def forward(self, x):
        new, forget, show, past = self.all(self.norm(x)).float().chunk(4, dim=-1)
        cell, found = torch.zeros_like(new[:, 0]), []
        for at in range(x.shape[1]):
            keep = torch.sigmoid(forget[:, at] + self.seen * cell)
            cell = keep * cell + (1 - keep) * new[:, at]
            found.append(cell)
        show = torch.sigmoid(show)
        return show * torch.stack(found, dim=1) + (1 - show) * past + x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDE, padding_idx=0)
        self.layers = nn.ModuleList(Light() for _ in range(2))
        self.out = nn.Linear(WIDE, VOCAB)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.out(x).float()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1016)
model = Model()
# model built
called = DistributedDataParallel(model)
texts = Texts()
sampler = DistributedSampler(texts, shuffle=True, seed=16)
loader = DataLoader(texts, BATCH, sampler=sampler, collate_fn=padded)
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: min((step + 1) / 2, (2 / (step + 1)) ** 0.5)
)
step = 0
for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for ids in loader:
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = called(ids[:, :-1])
        wanted = ids[:, 1:]
        count = (wanted != 0).sum()
        dist.all_reduce(count)
        total = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0, reduction="sum")
        loss = total * dist.get_world_size() / count
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
        step += 1
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
