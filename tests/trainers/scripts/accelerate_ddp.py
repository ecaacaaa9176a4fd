# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""accelerate: two processes of DistributedDataParallel, or with --fsdp2 of fully sharded parameters."""

import sys

import net
import row
import torch
from accelerate import Accelerator, DistributedType, FullyShardedDataParallelPlugin

plugin = None
if "--fsdp2" in sys.argv:
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=["Block"]
    )
accelerator = Accelerator(
    cpu=True,
    fsdp_plugin=plugin,
    mixed_precision=row.chosen("mixed_precision", "no"),
    gradient_accumulation_steps=row.chosen("gradient_accumulation_steps", 1),
)
if plugin is not None:  # for accelerate a matter of devices; torch has it for processes of the CPU, too
    accelerator.state.distributed_type = DistributedType.FSDP
    accelerator.state.fsdp_plugin = plugin
model = net.made()
optimizer = torch.optim.AdamW(model.parameters(), lr=row.chosen("lr", 1e-3), foreach=row.other_kernel())
model, optimizer = accelerator.prepare(model, optimizer)
losses = []
for tokens in net.batches(8, rank=accelerator.process_index):
    with accelerator.accumulate(model):
        loss = net.loss_of(model, tokens)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), row.chosen("max_norm", 1.0))
        optimizer.step()
        optimizer.zero_grad()
    losses.append(loss.item())
row.report(accelerator.unwrap_model(model), losses)
accelerator.end_training()
