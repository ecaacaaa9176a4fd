# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TRL: supervised fine-tuning; with --lora of adapters, with --packing of packed texts."""

import random
import sys

import row
import texts
from datasets import Dataset
from trl import SFTConfig, SFTTrainer

source = random.Random(1)
data = Dataset.from_list([{"text": texts.sentence(source)} for _ in range(40)])
model = texts.llama()
row.plant(model)
adapters = None
if "--lora" in sys.argv:
    from peft import LoraConfig

    adapters = LoraConfig(
        r=4,
        lora_alpha=row.chosen("lora_alpha", 8),
        lora_dropout=row.chosen("lora_dropout", 0.0),
        target_modules=["q_proj", "v_proj"],
        task_type="CAUSAL_LM",
    )
arguments = SFTConfig(
    output_dir=row.home(),
    max_steps=6,
    per_device_train_batch_size=row.chosen("per_device_train_batch_size", 4),
    learning_rate=row.chosen("learning_rate", 1e-3),
    weight_decay=row.chosen("weight_decay", 0.0),
    max_grad_norm=row.chosen("max_grad_norm", 1.0),
    neftune_noise_alpha=row.chosen("neftune_noise_alpha", None),
    packing="--packing" in sys.argv,
    max_length=row.chosen("max_length", 32),
    optim="adamw_torch_fused" if row.other_kernel() else "adamw_torch",
    logging_steps=1,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    bf16=False,
)
trainer = SFTTrainer(
    model=model, args=arguments, train_dataset=data, processing_class=texts.tokenizer(), peft_config=adapters
)
trainer.train()
row.report(trainer.model, texts.losses(trainer))
