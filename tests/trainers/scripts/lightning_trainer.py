# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Lightning: its Trainer."""

import lightning
import net
import row
import torch
from torch.utils.data import DataLoader


class Module(lightning.LightningModule):
    def __init__(self, lr: float, weight_decay: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = net.made()

    def training_step(self, tokens, _):
        loss = net.loss_of(self.net, tokens)
        losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        lr, decay = self.hparams.lr, self.hparams.weight_decay
        return torch.optim.AdamW(self.parameters(), lr, weight_decay=decay, fused=row.other_kernel())


losses = []
data = DataLoader(torch.cat(net.batches(8)), batch_size=row.chosen("batch_size", 8))
trainer = lightning.Trainer(
    accelerator="cpu",
    max_steps=6,
    gradient_clip_val=row.chosen("gradient_clip_val", 1.0),
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
module = Module(lr=row.chosen("lr", 1e-3), weight_decay=row.chosen("weight_decay", 0.01))
trainer.fit(module, data)
row.report(module, losses)
