# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TRL: direct preference optimization, with a reference model of its own."""

import random

import row
import texts
from datasets import Dataset
from trl import DPOConfig, DPOTrainer

source = random.Random(2)
kinds = {"prompt": (4, 6), "chosen": (6, 12), "rejected": (6, 12)}
data = Dataset.from_list(
    [{kind: texts.sentence(source, *length) for kind, length in kinds.items()} for _ in range(30)]
)
model, reference = texts.llama(), texts.llama()
if row.planted().startswith("reference:"):  # in the frozen model
    reference.get_submodule(row.planted().partition(":")[2]).variance_epsilon = 0.05
else:
    row.plant(model)
arguments = DPOConfig(
    output_dir=row.home(),
    max_steps=5,
    per_device_train_batch_size=2,
    learning_rate=1e-3,
    beta=row.chosen("beta", 0.1),
    loss_type=row.chosen("loss_type", "sigmoid"),
    label_smoothing=row.chosen("label_smoothing", 0.0),
    logging_steps=1,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    bf16=False,
)
trainer = DPOTrainer(
    model=model, ref_model=reference, args=arguments, train_dataset=data, processing_class=texts.tokenizer()
)
trainer.train()
row.report(trainer.model, texts.losses(trainer))
