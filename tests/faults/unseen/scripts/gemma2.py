# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gemma 2: scores that cannot get large; answers that people found good or bad, one by one, not in pairs."""

import copy

import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

DTYPE = torch.float32
VOCAB, ASKED, ANSWERED, BATCH, STEPS = 36, 8, 6, 8, 4
BETA, GOOD, BAD = 0.3, 1.0, 1.3


class Cautious(torch.optim.Optimizer):
    """AdamW that only goes where the gradient of now agrees, and further there."""

    def __init__(self, params, lr, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.02):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                state, grad = self.state[p], p.grad.float()
                if not state:
                    state.update(step=0, weight=p.float().clone())
                    state.update(mean=torch.zeros_like(grad), square=torch.zeros_like(grad))
                state["step"] += 1
                state["mean"].lerp_(grad, 1 - one)
                state["square"].lerp_(grad.square(), 1 - two)
                spread = (state["square"] / (1 - two ** state["step"])).sqrt() + group["eps"]
                way = state["mean"] / (1 - one ** state["step"]) / spread
                agrees = (way * grad > 0).float()
                way = way * agrees / agrees.mean().clamp(min=1e-3)
                state["weight"].mul_(1 - group["lr"] * group["weight_decay"])
                state["weight"].sub_(group["lr"] * way)
                p.copy_(state["weight"])


def config():
    return Gemma2Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=6,
        max_position_embeddings=ASKED + ANSWERED,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=6.0,
        initializer_range=0.2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation="eager",
    )


def talks(generator):
    """What was asked, and answers that say the end of it again, or anything."""
    asked = torch.randint(3, VOCAB, (BATCH, ASKED), generator=generator)
    good = torch.rand(BATCH, generator=generator) < 0.5
    right, wrong = asked[:, -ANSWERED:], torch.randint(3, VOCAB, (BATCH, ANSWERED), generator=generator)
    return asked, torch.where(good.unsqueeze(1), right, wrong), good


def likely(model, asked, answers):
    """The log of how likely an answer is."""
    ids = torch.cat([asked, answers], dim=1)
    logits = model(input_ids=ids, use_cache=False).logits[:, ASKED - 1 : -1]
    return logits.float().log_softmax(dim=2).gather(2, answers.unsqueeze(2)).squeeze(2).sum(dim=1)


torch.set_num_threads(1)
torch.manual_seed(1501)
model = Gemma2ForCausalLM(config()).to(DTYPE)
before = copy.deepcopy(model).requires_grad_(False)
# model built
optimizer = Cautious(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + step) ** -0.5)
generator = torch.Generator().manual_seed(15101)
for step in range(STEPS):
    asked, answers, good = talks(generator)
    others = answers.roll(1, dims=0)
    with torch.no_grad():
        was, was_other = likely(before, asked, answers), likely(before, asked, others)
        now_other = likely(model, asked, others)
    far = (now_other - was_other).mean().clamp(min=0)
    gain = likely(model, asked, answers) - was
    worth = torch.where(good, torch.sigmoid(BETA * (gain - far)), torch.sigmoid(BETA * (far - gain)))
    weights = torch.where(good, GOOD, BAD)
    loss = (weights * (1 - worth)).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {far.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
