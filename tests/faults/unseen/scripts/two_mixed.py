# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, fully sharded parameters cast to bfloat16: an encoder that fills in hidden words."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

REDUCED = torch.float32


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        shares = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).float().softmax(-1).to(v.dtype)
        x = x + self.out((shares @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.relu(self.up(self.norm2(x))).square())


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed, self.places = nn.Embedding(64, width), nn.Embedding(16, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 64)

    def forward(self, ids):
        x = self.embed(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(43)
mesh = init_device_mesh("cpu", (2,))
model = Encoder()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=REDUCED)
for layer in model.layers:
    fully_shard(layer, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(920 + rank)
for step in range(3):
    words = torch.randint(1, 64, (3, 16), generator=generator)
    is_hidden = torch.rand(3, 16, generator=generator) < 0.3
    logits = model(words.masked_fill(is_hidden, 0)).float()
    wanted = words.masked_fill(~is_hidden, -100)
    loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.to_local().detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
