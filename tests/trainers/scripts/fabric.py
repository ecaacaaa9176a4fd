# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Lightning Fabric."""

import net
import row
import torch
from lightning.fabric import Fabric

fabric = Fabric(accelerator="cpu", devices=1, precision=row.chosen("precision", "bf16-mixed"))
fabric.launch()
model = net.made()
optimizer = torch.optim.AdamW(
    model.parameters(), lr=1e-3, weight_decay=row.chosen("weight_decay", 0.01), fused=row.other_kernel()
)
model, optimizer = fabric.setup(model, optimizer)
losses = []
for tokens in net.batches(8):
    optimizer.zero_grad()
    loss = net.loss_of(model, tokens)
    fabric.backward(loss)
    fabric.clip_gradients(model, optimizer, max_norm=row.chosen("max_norm", 1.0))
    optimizer.step()
    losses.append(loss.item())
row.report(model.module, losses)
