# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trainings of libraries with a planted fault: python planted_trainer.py TRAINER FAULT. FAULTS: by what
names that may be called which has to be changed to mend each.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

FAULTS = {
    "none": (),
    "eps": ("2.eps",),  # behind the name of the model
    "learning_rate": ("lr", "initial_lr"),  # of each group; the latter where a scheduler sets it
    "data": ("feed.inputs",),
    "factor": ("transplant",),
}
TRAINERS = ("transformers", "lightning", "accelerate")
STEPS = 6


class Gate(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factors = [factor]  # no attribute that is recorded

    def forward(self, x: Any) -> Any:
        return torch.tanh(x) * self._factors[0]


def model(fault: str) -> Any:
    torch.manual_seed(0)
    gate = Gate(1.01 if fault == "factor" else 1.0)
    norm = torch.nn.LayerNorm(16, eps=1e-2 if fault == "eps" else 1e-5)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), gate, norm, torch.nn.Linear(16, 4))


def rate(fault: str) -> float:
    return 2e-2 if fault == "learning_rate" else 1e-2


def rows(fault: str) -> Any:
    found = torch.randn(2 * STEPS, 8, generator=torch.Generator().manual_seed(1))
    if fault == "data":
        found[5, 0] += 1
    return found


class Net(torch.nn.Module):
    """As transformers' Trainer calls one."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.net = model(fault)

    def forward(self, x: Any) -> dict[str, Any]:
        return {"loss": (self.net(x) - 1).pow(2).mean()}


def transformers(fault: str) -> None:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir="saved",
        max_steps=STEPS,
        save_strategy="no",
        per_device_train_batch_size=2,
        learning_rate=rate(fault),
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(Net(fault), arguments, train_dataset=[{"x": row} for row in rows(fault)]).train()


def lightning(fault: str) -> None:
    import lightning as lightning_package

    class Module(lightning_package.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = model(fault)

        def training_step(self, batch: Any, _: int) -> Any:
            return (self.net(batch) - 1).pow(2).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), rate(fault))

    trainer = lightning_package.Trainer(
        accelerator="cpu",
        max_steps=STEPS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(list(rows(fault)), batch_size=2))


def accelerate(fault: str) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    net = model(fault)
    optimizer = torch.optim.AdamW(net.parameters(), rate(fault))
    data = torch.utils.data.DataLoader(list(rows(fault)), batch_size=2)
    net, optimizer, data = accelerator.prepare(net, optimizer, data)
    for batch in data:
        loss = (net(batch) - 1).pow(2).mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
