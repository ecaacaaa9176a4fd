# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""ProphetNet: the next word and the one after it are told at once, of a text that is said in other words."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import ProphetNetConfig, ProphetNetForConditionalGeneration

AUTOCAST = False
VOCAB, PAD, END, FIRST, LENGTH, NGRAM, BATCH, STEPS, SMOOTH = 40, 0, 2, 4, 14, 2, 8, 4, 0.1
SHARES = (0.7, 0.3)


class AdaBound(torch.optim.Optimizer):
    """Adam whose steps are held between two bounds, that come nearer to each other."""

    def __init__(self, params, lr, last=0.1, gamma=0.2, betas=(0.9, 0.99), eps=1e-8):
        super().__init__(params, {"lr": lr, "last": last, "gamma": gamma, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, mean=torch.zeros_like(p), square=torch.zeros_like(p))
                state["step"] += 1
                step = state["step"]
                state["mean"].mul_(one).add_(p.grad, alpha=1 - one)
                state["square"].mul_(two).addcmul_(p.grad, p.grad, value=1 - two)
                size = group["lr"] * (1 - two**step) ** 0.5 / (1 - one**step)
                least = group["last"] * (1 - 1 / (group["gamma"] * step + 1))
                most = group["last"] * (1 + 1 / (group["gamma"] * step))
                sizes = (size / (state["square"].sqrt() + group["eps"])).clamp(least, most)
                p.sub_(sizes * state["mean"])


def config():
    return ProphetNetConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        encoder_ffn_dim=48,
        num_encoder_layers=1,
        num_encoder_attention_heads=4,
        decoder_ffn_dim=48,
        num_decoder_layers=2,
        num_decoder_attention_heads=4,
        activation_dropout=0.0,
        attention_dropout=0.0,
        dropout=0.0,
        max_position_embeddings=LENGTH + 4,
        init_std=0.15,
        ngram=NGRAM,
        num_buckets=8,
        relative_max_distance=16,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=END,
    )


def pairs(generator):
    """A text, and the same from its end, each word by its other name."""
    names = torch.randperm(VOCAB - FIRST, generator=torch.Generator().manual_seed(4)) + FIRST
    long = torch.randint(LENGTH - 6, LENGTH, (BATCH,), generator=generator)
    ids = torch.full((BATCH, LENGTH), PAD)
    wanted = torch.full((BATCH, LENGTH), -100)
    for row, answer, size in zip(ids, wanted, long.tolist()):
        row[:size] = torch.randint(FIRST, VOCAB, (size,), generator=generator)
        answer[:size] = names[row[:size].flip(0) - FIRST]
        answer[size] = END
    return ids, wanted


def told(streams, wanted):
    """Each stream tells the word that is further ahead by one."""
    losses = []
    for ahead, (logits, share) in enumerate(zip(streams, SHARES)):
        later = F.pad(wanted[:, ahead:], (0, ahead), value=-100)
        lost = F.cross_entropy(
            logits.float().flatten(0, 1), later.flatten(), ignore_index=-100, label_smoothing=SMOOTH
        )
        losses.append(share * lost)
    return sum(losses)


torch.set_num_threads(1)
torch.manual_seed(1404)
model = ProphetNetForConditionalGeneration(config())
# model built
optimizer = AdaBound(model.parameters(), lr=4e-3)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
generator = torch.Generator().manual_seed(14104)
for step in range(STEPS):
    ids, wanted = pairs(generator)
    before = torch.cat([torch.full((BATCH, 1), END), wanted[:, :-1].clamp(min=PAD)], dim=1)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(
            input_ids=ids, attention_mask=(ids != PAD).long(), decoder_input_ids=before, use_cache=False
        )
    loss = told([found.logits, *found.logits_ngram.unbind(dim=1)], wanted)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
