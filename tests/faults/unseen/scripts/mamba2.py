# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Mamba-2 from a configuration; it saves what it needs to go on, and goes on from there."""

import os

import torch
from transformers import Mamba2Config, Mamba2ForCausalLM

DTYPE = torch.float32
STEPS, SAVE_AFTER, RESUME = 4, 1, ""

torch.set_num_threads(1)
torch.manual_seed(16)
config = Mamba2Config(
    vocab_size=96,
    hidden_size=32,
    state_size=8,
    num_hidden_layers=2,
    num_heads=4,
    head_dim=16,
    expand=2,
    n_groups=2,
    chunk_size=8,
    initializer_range=0.2,
    use_cache=False,
)
model = Mamba2ForCausalLM(config).to(DTYPE).train()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, total_iters=4)
parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
begin = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    begin = saved["step"]
for step in range(begin, STEPS):
    generator = torch.Generator().manual_seed(900 + step)
    ids = torch.randint(96, (2, 20), generator=generator)
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step == SAVE_AFTER and "SAVE_TO" in os.environ:
        kept = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **kept}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
