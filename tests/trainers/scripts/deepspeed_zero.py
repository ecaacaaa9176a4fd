# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed with ZeRO: --stage=1, 2 or 3, its default buckets, two processes."""

import os
import sys

import deepspeed
import net
import row
import torch

stage = next(int(word.partition("=")[2]) for word in sys.argv if word.startswith("--stage="))
deepspeed.init_distributed("gloo")
rank = int(os.environ["RANK"])
model = net.made()
optimizer = torch.optim.AdamW(model.parameters(), lr=row.chosen("lr", 1e-3), foreach=row.other_kernel())
engine, _, _, _ = deepspeed.initialize(
    model=model,
    optimizer=optimizer,
    config={
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": row.chosen("gradient_accumulation_steps", 1),
        "gradient_clipping": row.chosen("gradient_clipping", 1.0),
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    },
)
losses = []
for tokens in net.batches(12, rank=rank):
    loss = net.loss_of(engine, tokens)
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
row.report(engine.module, losses)
