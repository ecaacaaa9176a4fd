# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""MPNet: words that a sentence hides, and which two sentences say the same; learnt by AdaBelief."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import MPNetConfig, MPNetForMaskedLM

AUTOCAST = False
VOCAB, FIRST, PAD, MASK, LENGTH, BATCH, STEPS, HEAT, WEIGHT = 48, 4, 1, 3, 18, 6, 4, 0.1, 0.5


class AdaBelief(torch.optim.Optimizer):
    """Adam that divides by how far gradients are from what they were thought to be."""

    def __init__(self, params, lr, betas=(0.9, 0.98), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, mean=torch.zeros_like(p), spread=torch.zeros_like(p))
                state["step"] += 1
                state["mean"].lerp_(p.grad, 1 - one)
                off = p.grad - state["mean"]
                state["spread"].mul_(two).addcmul_(off, off, value=1 - two).add_(group["eps"])
                mean = state["mean"] / (1 - one ** state["step"])
                spread = state["spread"] / (1 - two ** state["step"])
                p.addcdiv_(mean, spread.sqrt().add_(1e-6), value=-group["lr"])


def config():
    return MPNetConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=56,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=LENGTH + 4,
        relative_attention_num_buckets=32,
        initializer_range=0.2,
    )


def sentences(generator):
    """Pairs that hold the same words in another order; some are shorter, and some words are hidden."""
    long = torch.randint(LENGTH - 6, LENGTH + 1, (BATCH, 1), generator=generator)
    words = torch.randint(FIRST, VOCAB, (BATCH, LENGTH), generator=generator)
    turned = words.clone()
    for row, size in zip(turned, long.flatten().tolist()):
        row[:size] = row[torch.randperm(size, generator=generator)]
    ids = torch.cat([words, turned])
    real = torch.arange(LENGTH) < torch.cat([long, long])
    hidden = (torch.rand(ids.shape, generator=generator) < 0.2) & real
    hidden[:, 2] = True
    shown = ids.masked_fill(hidden, MASK).masked_fill(~real, PAD)
    return shown, real, torch.where(hidden, ids, -100)


def alike(states, real):
    """Each sentence shall be nearest to its own other order."""
    real = real.unsqueeze(2).float()
    mean = (states * real).sum(dim=1) / real.sum(dim=1)
    one, two = F.normalize(mean, dim=1).chunk(2)
    near = one @ two.T / HEAT
    own = torch.arange(len(one))
    return (F.cross_entropy(near, own) + F.cross_entropy(near.T, own)) / 2


torch.set_num_threads(1)
torch.manual_seed(1301)
model = MPNetForMaskedLM(config())
# model built
optimizer = AdaBelief(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=10, power=2.0)
generator = torch.Generator().manual_seed(13101)
for step in range(STEPS):
    ids, real, wanted = sentences(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(input_ids=ids, attention_mask=real.long(), output_hidden_states=True)
    words = F.cross_entropy(found.logits.float().flatten(0, 1), wanted.flatten())
    same = alike(found.hidden_states[-1].float(), real)
    optimizer.zero_grad()
    (words + WEIGHT * same).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {words.item()!r} {same.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
