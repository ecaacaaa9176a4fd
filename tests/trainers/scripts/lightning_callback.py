# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Lightning: a callback that records, in place of the command. The folder is the first word."""

import sys

import lightning
import net
import row
import torch
from lightning.pytorch import Callback
from msprobe.pytorch import PrecisionDebugger
from torch.utils.data import DataLoader

debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=sys.argv[1], step=[0, 2])


class Recorder(Callback):  # of Lightning: Trainer(..., callbacks=[Recorder()])
    def on_train_batch_start(self, trainer, module, batch, index):
        debugger.start(module)

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        debugger.stop()
        debugger.step()


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = net.made()

    def training_step(self, tokens, _):
        return net.loss_of(self.net, tokens)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)


trainer = lightning.Trainer(
    accelerator="cpu",
    max_steps=3,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[Recorder()],
)
module = Module()
trainer.fit(module, DataLoader(torch.cat(net.batches(4)), batch_size=4))
row.report(module)
