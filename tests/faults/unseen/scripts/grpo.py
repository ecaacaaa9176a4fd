# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Answers in groups: a Granite learns which answer to a question is better than the others of its group."""

import copy

import torch
from transformers import GraniteConfig, GraniteForCausalLM

DTYPE = torch.float32
PROMPT, LENGTH, GROUP, EPOCHS, PARTS = 5, 14, 4, 2, 1
LOW, HIGH, BETA, TEMPERATURE = 0.2, 0.28, 0.5, 0.8


def build():
    config = GraniteConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        initializer_range=0.1,
        embedding_multiplier=3.0,
        residual_multiplier=0.6,
        attention_multiplier=0.2,
        logits_scaling=0.5,
        pad_token_id=0,
        attn_implementation="eager",
    )
    return GraniteForCausalLM(config).to(DTYPE)


def log_probs(model, ids):
    """Of each word of the answers."""
    logits = model(ids, attention_mask=(ids != 0).long()).logits[:, PROMPT - 1 : -1].float() / TEMPERATURE
    return logits.log_softmax(-1).gather(-1, ids[:, PROMPT:, None]).squeeze(-1)


def advantages(rewards):
    """How much better an answer is than the others of its group."""
    rewards = rewards.view(-1, GROUP)
    centred = rewards - rewards.mean(1, keepdim=True)
    return (centred / (rewards.std(1, keepdim=True) + 1e-4)).flatten()


def objective(ours, before, theirs, gain, inside):
    ratio = torch.exp(ours - before)
    clipped = ratio.clamp(1 - LOW, 1 + HIGH)
    gained = torch.minimum(ratio * gain[:, None], clipped * gain[:, None])
    apart = theirs - ours
    divergence = torch.exp(apart) - apart - 1
    return ((BETA * divergence - gained) * inside).sum()


def rollouts(generator):
    """Answers of an earlier policy to two questions, and what they are worth."""
    prompts = torch.randint(1, 64, (2, PROMPT), generator=generator).repeat_interleave(GROUP, 0)
    answers = torch.randint(1, 64, (2 * GROUP, LENGTH - PROMPT), generator=generator)
    sizes = torch.randint(4, LENGTH - PROMPT + 1, (2 * GROUP, 1), generator=generator)
    inside = torch.arange(LENGTH - PROMPT) < sizes
    rewards = ((answers % 3 == 0) & inside).float().sum(1) + (prompts[:, 0] % 4) * 0.5
    return torch.cat([prompts, answers * inside], 1), inside, rewards


torch.set_num_threads(1)
torch.manual_seed(602)
model = build()
reference = copy.deepcopy(model).eval().requires_grad_(False)
with torch.no_grad():  # as far as it came before
    for p in model.parameters():
        p.add_(0.03 * torch.randn_like(p))
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), foreach=False)
generator = torch.Generator().manual_seed(62)
for step in range(2):
    ids, inside, rewards = rollouts(generator)
    with torch.no_grad():
        before, theirs = log_probs(model, ids), log_probs(reference, ids)
    gain = advantages(rewards)
    for epoch in range(EPOCHS):
        optimizer.zero_grad()
        total = 0.0
        for rows in torch.arange(len(ids)).chunk(PARTS):
            ours = log_probs(model, ids[rows])
            loss = objective(ours, before[rows], theirs[rows], gain[rows], inside[rows]) / inside.sum()
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        print(f"step {step}.{epoch} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
