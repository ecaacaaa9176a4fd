# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the recipe of torchtune asks its configuration for, without files."""

import torch
from torch.utils.data import Dataset
from torchtune.models.llama3_2 import llama3_2


def model(norm_eps):
    return llama3_2(
        vocab_size=64, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=128, max_seq_len=32,
        intermediate_dim=256, norm_eps=norm_eps,
    )  # fmt: skip


class Tokenizer:
    """As much of one as the recipe asks for: the texts are numbers already."""

    pad_id = 0


class Texts(Dataset):
    def __init__(self, tokenizer):
        source = torch.Generator().manual_seed(5)
        self.tokens = torch.randint(0, 64, (40, 17), generator=source)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, place):
        tokens = self.tokens[place].tolist()
        return {"tokens": tokens, "labels": tokens}


class Checkpointer:
    """Weights of a seed, which are saved nowhere."""

    def __init__(self, norm_eps, model_type, should_load_recipe_state):
        self.norm_eps = norm_eps

    def load_checkpoint(self):
        torch.manual_seed(0)
        return {"model": model(self.norm_eps).state_dict()}

    def save_checkpoint(self, *_, **__):
        pass
