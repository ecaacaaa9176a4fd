# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TRL: group relative policy optimization with a reward that is a function."""

import random

import row
import texts
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

source = random.Random(3)
data = Dataset.from_list([{"prompt": texts.sentence(source, 4, 6)} for _ in range(30)])
home = row.home()
texts.llama().save_pretrained(home)
texts.tokenizer().save_pretrained(home)


def reward(completions, **_):
    weight = row.chosen("reward_weight", 1.0)
    numbers = [[int(word[1:]) for word in text.split() if word[1:].isdigit()] for text in completions]
    return [weight * sum(number % 2 for number in one) for one in numbers]


arguments = GRPOConfig(
    output_dir=home,
    model_init_kwargs={"attn_implementation": row.attention()},
    max_steps=4,
    per_device_train_batch_size=4,
    num_generations=4,
    max_completion_length=8,
    temperature=row.chosen("temperature", 1.0),
    beta=row.chosen("beta", 0.04),
    epsilon=row.chosen("epsilon", 0.2),
    loss_type=row.chosen("loss_type", "dapo"),
    scale_rewards=row.chosen("scale_rewards", "group"),
    learning_rate=1e-3,
    logging_steps=1,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    bf16=False,
)
trainer = GRPOTrainer(model=home, reward_funcs=reward, args=arguments, train_dataset=data)
row.plant(trainer.model)
trainer.train()
row.report(trainer.model, texts.losses(trainer))
