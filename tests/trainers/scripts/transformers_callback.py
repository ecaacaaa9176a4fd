# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""transformers: a callback that records, in place of the command. The folder is the first word."""

import sys

import row
import texts
import torch
from msprobe.pytorch import PrecisionDebugger
from transformers import Trainer, TrainerCallback, TrainingArguments

debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=sys.argv[1], step=[0, 2])


class Recorder(TrainerCallback):  # of transformers: Trainer(..., callbacks=[Recorder()])
    def on_step_begin(self, args, state, control, model=None, **_):
        debugger.start(model)

    def on_step_end(self, args, state, control, **_):
        debugger.stop()
        debugger.step()


tokens = torch.randint(2, 64, (24, 12), generator=torch.Generator().manual_seed(1))
arguments = TrainingArguments(
    output_dir=row.home(),
    max_steps=3,
    per_device_train_batch_size=4,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
)
data = [{"input_ids": one, "labels": one} for one in tokens]
trainer = Trainer(texts.llama(), arguments, train_dataset=data, callbacks=[Recorder()])
trainer.train()
row.report(trainer.model)
