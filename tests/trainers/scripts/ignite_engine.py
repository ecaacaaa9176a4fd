# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Ignite: an engine whose step is a function."""

import net
import row
import torch
from ignite.engine import Engine, Events
from ignite.handlers import PiecewiseLinear

model = net.made()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=row.other_kernel())
losses = []


def step(engine, tokens):
    model.train()
    optimizer.zero_grad()
    loss = net.loss_of(model, tokens)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    return loss.item()


trainer = Engine(step)
peak = row.chosen("peak_lr", 0.002)
trainer.add_event_handler(
    Events.ITERATION_STARTED, PiecewiseLinear(optimizer, "lr", [(0, 0.0005), (4, peak), (8, 0.0)])
)
trainer.run(net.batches(8), max_epochs=1)
row.report(model, losses)
