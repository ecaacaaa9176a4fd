# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A tokenizer, texts and a tiny Llama, all made here: nothing is downloaded."""

from __future__ import annotations

import random
from typing import Any

import row
import torch

WORDS = [f"w{number}" for number in range(60)]


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<eos>", "<unk>"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def sentence(source: random.Random, least: int = 6, most: int = 12) -> str:
    return " ".join(source.choice(WORDS) for _ in range(source.randint(least, most)))


def llama(**more: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=1,
        rms_norm_eps=row.chosen("rms_norm_eps", 1e-5),
        attn_implementation=row.attention(),
        **more,
    )
    return LlamaForCausalLM(config)


def losses(trainer: Any) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
