# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""litgpt: its pretraining, with a data module of a few random texts."""

from pathlib import Path

import row
import torch
from litgpt import Config, pretrain
from litgpt.args import EvalArgs, LogArgs, TrainArgs
from litgpt.data import DataModule
from torch.utils.data import DataLoader

torch.compiler.set_stance("force_eager")  # the recipe compiles, which takes minutes on a CPU


class Random(DataModule):
    def connect(self, tokenizer=None, batch_size=1, max_seq_length=16, **_):
        self.batch_size, self.length = batch_size, max_seq_length

    def train_dataloader(self):
        source = torch.Generator().manual_seed(row.chosen("data_seed", 5))
        return DataLoader(torch.randint(0, 64, (64, 17), generator=source), batch_size=self.batch_size)

    def val_dataloader(self):
        return self.train_dataloader()


kept = []
make = pretrain.GPT


def made(config):
    model = make(config)
    kept.append(model)
    return model


pretrain.GPT = made
initialize = pretrain.initialize_weights


def initialized(*args, **kwargs):
    initialize(*args, **kwargs)
    row.plant(kept[0])


pretrain.initialize_weights = initialized
pretrain.save_hyperparameters = lambda *_: None  # it reads the command line of litgpt
pretrain.setup(
    "tiny",
    model_config=Config(
        name="tiny", block_size=16, vocab_size=64, padded_vocab_size=64, n_layer=2, n_head=4, n_embd=128,
        norm_eps=row.chosen("norm_eps", 1e-5),
    ),
    out_dir=Path(row.home()),
    precision="32-true",
    data=Random(),
    devices=1,
    logger_name="csv",
    eval=EvalArgs(interval=1000, max_iters=1, initial_validation=False, final_validation=False),
    log=LogArgs(),
    train=TrainArgs(
        save_interval=None, log_interval=1, global_batch_size=4, micro_batch_size=4,
        max_tokens=8 * 4 * 16, max_norm=row.chosen("max_norm", 1.0), min_lr=4e-5, lr_warmup_steps=2,
        tie_embeddings=False,
    ),
    optimizer={
        "class_path": "torch.optim.AdamW",
        "init_args": {"lr": row.chosen("lr", 1e-3), "weight_decay": 0.1, "foreach": row.other_kernel()},
    },
)  # fmt: skip
row.report(kept[0])
