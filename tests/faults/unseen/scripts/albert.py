# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""ALBERT: one layer, again and again; words of hidden spans, and which half came first. Learnt by LAMB."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import AlbertConfig, AlbertForPreTraining

AUTOCAST = False
VOCAB, FIRST, MASK, LENGTH, BATCH, STEPS = 40, 4, 3, 21, 6, 4


class Lamb(torch.optim.Optimizer):
    """Adam whose move of each tensor is as long as the tensor says."""

    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["mean"], state["square"] = torch.zeros_like(p), torch.zeros_like(p)
                state["step"] += 1
                state["mean"].mul_(one).add_(p.grad, alpha=1 - one)
                state["square"].mul_(two).addcmul_(p.grad, p.grad, value=1 - two)
                mean = state["mean"] / (1 - one ** state["step"])
                square = state["square"] / (1 - two ** state["step"])
                move = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * p
                long, far = torch.linalg.vector_norm(p), torch.linalg.vector_norm(move)
                trust = torch.where((long > 0) & (far > 0), long / far, torch.ones_like(long)).clamp(max=10.0)
                p.sub_(group["lr"] * trust * move)


def config():
    return AlbertConfig(
        vocab_size=VOCAB,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=3,
        num_hidden_groups=1,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
        initializer_range=0.15,
        attn_implementation="eager",
    )


def texts(generator):
    """Words that count up by a pace of the text; halves may change places, and a span of each is hidden."""
    half = (LENGTH - 3) // 2
    pace = torch.randint(1, 5, (BATCH, 1), generator=generator)
    begin = torch.randint(0, VOCAB, (BATCH, 1), generator=generator)
    words = FIRST + (begin + pace * torch.arange(2 * half)) % (VOCAB - FIRST)
    swapped = torch.rand(BATCH, generator=generator) < 0.5
    words = torch.where(swapped.unsqueeze(1), words.roll(half, dims=1), words)
    ids = torch.ones(BATCH, LENGTH, dtype=torch.long)
    ids[:, 0], ids[:, 1 : half + 1], ids[:, half + 2 : -1] = 2, words[:, :half], words[:, half:]
    kinds = (torch.arange(LENGTH) > half + 1).long().expand(BATCH, -1)
    at, first = torch.arange(LENGTH), torch.randint(1, LENGTH - 4, (BATCH, 1), generator=generator)
    size = torch.randint(1, 4, (BATCH, 1), generator=generator)
    hidden = (at >= first) & (at < first + size) & (ids >= FIRST)
    hidden[:, 3] = True
    return ids.masked_fill(hidden, MASK), kinds, torch.where(hidden, ids, -100), swapped.long()


torch.set_num_threads(1)
torch.manual_seed(1201)
model = AlbertForPreTraining(config())
# model built
decayed = [p for p in model.parameters() if p.ndim > 1]
rest = [p for p in model.parameters() if p.ndim <= 1]
optimizer = Lamb([{"params": decayed, "weight_decay": 0.1}, {"params": rest}], lr=2e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 3, 1.0))
generator = torch.Generator().manual_seed(12101)
for step in range(STEPS):
    ids, kinds, wanted, swapped = texts(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(input_ids=ids, token_type_ids=kinds)
    words = F.cross_entropy(found.prediction_logits.float().flatten(0, 1), wanted.flatten())
    order = F.cross_entropy(found.sop_logits.float(), swapped)
    optimizer.zero_grad()
    (words + order).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {words.item()!r} {order.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
