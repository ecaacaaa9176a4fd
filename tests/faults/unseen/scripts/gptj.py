# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""GPT-J: what belongs between two pieces of a text is told after both; learnt without a schedule, between
where it goes and where it was on the whole.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import GPTJConfig, GPTJForCausalLM

DTYPE = torch.float32
VOCAB, LONG, BATCH, STEPS, CALM, BEFORE = 32, 16, 8, 4, 1e-3, 0.2
FIRST, LAST, MIDDLE = 1, 2, 3


class Scheduleless(torch.optim.Optimizer):
    """AdamW whose gradient is taken between the fast weights and their mean."""

    def __init__(self, params, lr, between=0.9, beta=0.98, eps=1e-8, weight_decay=0.02, warm=2):
        super().__init__(params, {"lr": lr, "beta": beta, "eps": eps, "weight_decay": weight_decay})
        self.between, self.warm, self.many, self.sum = between, warm, 0, 0.0

    @torch.no_grad()
    def step(self):
        self.many += 1
        for group in self.param_groups:
            beta = group["beta"]
            lr = group["lr"] * min(1.0, self.many / self.warm)
            weight = lr**2
            self.sum += weight
            for p in group["params"]:
                state, grad = self.state[p], p.grad.float()
                if not state:
                    state.update(at=p.float().clone(), fast=p.float().clone())
                    state["square"] = torch.zeros_like(grad)
                state["square"].mul_(beta).addcmul_(grad, grad, value=1 - beta)
                spread = (state["square"] / (1 - beta**self.many)).sqrt().add_(group["eps"])
                way = grad / spread + group["weight_decay"] * state["at"]
                mean = (state["at"] - (1 - self.between) * state["fast"]) / self.between
                state["fast"].sub_(lr * way)
                mean.lerp_(state["fast"], weight / self.sum)
                state["at"] = self.between * mean + (1 - self.between) * state["fast"]
                p.copy_(state["at"])


def config():
    return GPTJConfig(
        vocab_size=VOCAB,
        n_positions=LONG + 3,
        n_embd=32,
        n_layer=2,
        n_head=4,
        rotary_dim=4,
        n_inner=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        initializer_range=0.2,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="eager",
    )


def texts(generator):
    """Words go on by a step of each text; where two cuts are; the middle comes last."""
    first = torch.randint(4, VOCAB, (BATCH, 1), generator=generator)
    by = torch.randint(1, 5, (BATCH, 1), generator=generator)
    words = 4 + (first + by * torch.arange(LONG)) % (VOCAB - 4)
    begin = torch.randint(2, LONG // 2, (BATCH,), generator=generator)
    end = begin + torch.randint(3, LONG // 2, (BATCH,), generator=generator)
    rows, told = [], []
    for row, one, two in zip(words, begin.tolist(), end.tolist()):
        parts = [row[:one], row[two:], row[one:two]]
        marks = [torch.tensor([mark]) for mark in (FIRST, LAST, MIDDLE)]
        rows.append(torch.cat([part for pair in zip(marks, parts) for part in pair]))
        told.append(torch.arange(LONG + 3) >= LONG + 3 - (two - one))
    return torch.stack(rows), torch.stack(told)


torch.set_num_threads(1)
torch.manual_seed(1604)
model = GPTJForCausalLM(config()).to(DTYPE)
# model built
optimizer = Scheduleless(model.parameters(), lr=4e-3)
generator = torch.Generator().manual_seed(16104)
for step in range(STEPS):
    ids, told = texts(generator)
    logits = model(input_ids=ids).logits[:, :-1].float()
    lost = F.cross_entropy(logits.mT, ids[:, 1:], reduction="none")
    counts = torch.where(told[:, 1:], 1.0, BEFORE)
    large = logits.logsumexp(dim=2).square()
    loss = ((lost + CALM * large) * counts).sum() / counts.sum()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
