# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""sentence-transformers: a BERT of two layers learns from pairs."""

import random

import row
import texts
import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    models,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import BertConfig, BertModel

torch.manual_seed(0)
home = row.home()
BertModel(
    BertConfig(
        vocab_size=64, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=64,
    )
).save_pretrained(home)  # fmt: skip
texts.tokenizer().save_pretrained(home)
part = models.Transformer(home, max_seq_length=32, model_args={"attn_implementation": row.attention()})
model = SentenceTransformer(modules=[part, models.Pooling(128, row.chosen("pooling", "mean"))], device="cpu")
row.plant(model)
source = random.Random(4)
pairs = [{"anchor": texts.sentence(source), "positive": texts.sentence(source)} for _ in range(32)]
data = Dataset.from_list(pairs)
trainer = SentenceTransformerTrainer(
    model=model,
    args=SentenceTransformerTrainingArguments(
        output_dir=row.home(),
        max_steps=6,
        per_device_train_batch_size=4,
        learning_rate=row.chosen("learning_rate", 1e-3),
        warmup_steps=row.chosen("warmup_steps", 0),
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
    ),
    train_dataset=data,
    loss=MultipleNegativesRankingLoss(model, scale=row.chosen("scale", 20.0)),
)
trainer.train()
row.report(model, texts.losses(trainer))
