# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Preferences: an OLMo 2 learns to prefer one answer to another, compared with what it said before."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import Olmo2Config, Olmo2ForCausalLM, get_cosine_schedule_with_warmup

DTYPE = torch.float32
ATTENTION = "eager"
BETA, ACCUMULATE, PROMPT = 0.1, 2, 5


def log_probs(model, ids, inside):
    """Of each answer, without its prompt and its padding."""
    logits = model(input_ids=ids, attention_mask=inside.long()).logits[:, :-1].float()
    is_answer = inside[:, 1:] & (torch.arange(1, ids.shape[1]) >= PROMPT)
    each = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return (each * is_answer).sum(-1)


def preference_loss(policy, reference, batch):
    chosen, rejected = batch["chosen"], batch["rejected"]
    ours = log_probs(policy, *chosen), log_probs(policy, *rejected)
    with torch.no_grad():
        theirs = log_probs(reference, *chosen), log_probs(reference, *rejected)
    margin = (ours[0] - ours[1]) - (theirs[0] - theirs[1])
    likely = -ours[0].sum() / chosen[1].sum()
    return -F.logsigmoid(BETA * margin).mean() + 0.2 * likely


def pairs(generator, count=3, length=14):
    prompt = torch.randint(3, 90, (count, PROMPT), generator=generator)

    def answer():
        said = torch.randint(3, 90, (count, length - PROMPT), generator=generator)
        sizes = torch.randint(PROMPT + 3, length + 1, (count, 1), generator=generator)
        inside = torch.arange(length) < sizes
        return torch.cat([prompt, said], dim=1).masked_fill(~inside, 0), inside

    return {"chosen": answer(), "rejected": answer()}


torch.set_num_threads(1)
torch.manual_seed(511)
config = Olmo2Config(
    vocab_size=90,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    initializer_range=0.1,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    attn_implementation=ATTENTION,
)
model = Olmo2ForCausalLM(config).to(DTYPE)
# model built
reference = copy.deepcopy(model).eval().requires_grad_(False)
with torch.no_grad():  # the policy was trained a little already
    for p in model.parameters():
        p.mul_(1.02)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0, foreach=False)
schedule = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=10)
generator = torch.Generator().manual_seed(11)
for step in range(3):
    total = 0.0
    for _ in range(ACCUMULATE):
        loss = preference_loss(model, reference, pairs(generator))
        (loss / ACCUMULATE).backward()
        total += loss.item() / ACCUMULATE
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
