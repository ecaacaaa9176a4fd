# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""JetMoE: heads of attention are experts, too; sums whose last figure is to be said."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import JetMoeConfig, JetMoeForCausalLM

AUTOCAST = False
BASE, EQUALS, STOP, SUMS, BATCH, STEPS, PARTS = 10, 10, 11, 5, 5, 3, 2
EVEN, CALM = 0.02, 1e-3


def config():
    return JetMoeConfig(
        vocab_size=12,
        hidden_size=32,
        num_hidden_layers=2,
        num_key_value_heads=2,
        kv_channels=8,
        intermediate_size=24,
        max_position_embeddings=5 * SUMS,
        num_local_experts=4,
        num_experts_per_tok=2,
        initializer_range=0.2,
        output_router_logits=True,
        attn_implementation="eager",
    )


def sums(generator):
    """Two figures, =, the last figure of their sum, stop; again and again in one text."""
    two = torch.randint(0, BASE, (BATCH, SUMS, 2), generator=generator)
    signs = torch.tensor([EQUALS, STOP]).expand(BATCH, SUMS, 2)
    last = two.sum(dim=2, keepdim=True) % BASE
    ids = torch.cat([two, signs[..., :1], last, signs[..., 1:]], dim=2).flatten(1)
    counts = torch.ones_like(ids).view(BATCH, SUMS, 5)
    counts[..., :2] = 0
    return ids, counts.flatten(1).bool()


def crowded(routers):
    """Of each router: the share of words that choose an expert first, times how much it is wanted."""
    total = 0.0
    for logits in routers:
        wanted = logits.float().softmax(dim=-1)
        chosen = F.one_hot(wanted.argmax(dim=-1), wanted.shape[-1]).float()
        total = total + wanted.shape[-1] * (wanted.mean(dim=0) * chosen.mean(dim=0)).sum()
        total = total + CALM / EVEN * logits.float().logsumexp(dim=-1).square().mean()
    return total / len(routers)


def judged(found, ids, counts):
    wanted = ids[:, 1:].masked_fill(~counts[:, 1:], -100)
    wrong = F.cross_entropy(found.logits[:, :-1].float().flatten(0, 1), wanted.flatten())
    return wrong + EVEN * crowded(found.router_logits)


torch.set_num_threads(1)
torch.manual_seed(1204)
model = JetMoeForCausalLM(config())
# model built
optimizer = torch.optim.Adamax(model.parameters(), lr=5e-3, eps=1e-6, weight_decay=1e-2, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6, eta_min=5e-4)
generator = torch.Generator().manual_seed(12104)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        ids, counts = sums(generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            found = model(input_ids=ids, use_cache=False)
        loss = judged(found, ids, counts) / PARTS
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
