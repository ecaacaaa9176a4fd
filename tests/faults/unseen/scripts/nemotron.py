# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Nemotron: squares of what is above none, norms around one; what was said before shall not be said again."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import NemotronConfig, NemotronForCausalLM

DTYPE = torch.float32
VOCAB, LENGTH, BATCH, STEPS, UNLIKELY = 40, 18, 6, 4, 0.5


class AdEMAMix(torch.optim.Optimizer):
    """Adam with a second, longer mean of gradients, whose share grows step by step."""

    def __init__(self, params, lr, betas=(0.9, 0.99, 0.995), alpha=4.0, warm=4, eps=1e-8, weight_decay=0.05):
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "alpha": alpha,
                "warm": warm,
                "eps": eps,
                "weight_decay": weight_decay,
            },
        )

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two, three = group["betas"]
            for p in group["params"]:
                state, grad = self.state[p], p.grad.float()
                if not state:
                    state.update(step=0, weight=p.float().clone())
                    state.update({key: torch.zeros_like(grad) for key in ("fast", "slow", "square")})
                state["step"] += 1
                state["fast"].lerp_(grad, 1 - one)
                state["slow"].lerp_(grad, 1 - three)
                state["square"].mul_(two).addcmul_(grad, grad, value=1 - two)
                share = group["alpha"] * min(1.0, state["step"] / group["warm"])
                fast = state["fast"] / (1 - one ** state["step"])
                square = state["square"] / (1 - two ** state["step"])
                way = (fast + share * state["slow"]) / (square.sqrt() + group["eps"])
                way = way + group["weight_decay"] * state["weight"]
                state["weight"].sub_(way, alpha=group["lr"])
                p.copy_(state["weight"])


def config():
    return NemotronConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=LENGTH,
        initializer_range=0.15,
        partial_rotary_factor=0.5,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        attn_implementation="eager",
    )


def texts(generator):
    """Words that go on by a step of each text, which is its first word; some words are wrong."""
    first = torch.randint(4, 16, (BATCH, 1), generator=generator)
    ids = 4 + (first * (1 + torch.arange(LENGTH))) % (VOCAB - 4)
    other = torch.randint(4, VOCAB, ids.shape, generator=generator)
    return torch.where(torch.rand(ids.shape, generator=generator) < 0.1, other, ids)


def lost(logits, wanted, ids):
    """What comes next, and that it is none of the words before, unless one of these is right."""
    logs = logits.float().log_softmax(dim=-1)
    likely = -logs.gather(2, wanted.unsqueeze(2)).squeeze(2)
    said = F.one_hot(ids, VOCAB).cumsum(dim=1) > 0
    said = said & (F.one_hot(wanted, VOCAB) == 0)
    said[:, :, :4] = False
    unlikely = -(1 - logs.exp()).clamp(min=1e-5).log() * said
    return likely.mean(), unlikely.sum(dim=2).mean()


torch.set_num_threads(1)
torch.manual_seed(1403)
model = NemotronForCausalLM(config()).to(DTYPE)
# model built
optimizer = AdEMAMix(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.4, total_iters=3)
generator = torch.Generator().manual_seed(14103)
for step in range(STEPS):
    ids = texts(generator)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    likely, unlikely = lost(logits, ids[:, 1:], ids[:, :-1])
    optimizer.zero_grad()
    (likely + UNLIKELY * unlikely).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {likely.item()!r} {unlikely.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
