# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training by the Trainer of `transformers`: accumulated gradients, evaluation in between, a checkpoint.
Knows nothing of msprobe.
"""

from __future__ import annotations

import argparse

import torch
from models import KINDS, LENGTH, VOCABULARY
from transformers import Trainer, TrainerCallback, TrainingArguments


class Texts(torch.utils.data.Dataset):
    def __init__(self, count: int) -> None:
        self._ids = torch.randint(3, VOCABULARY, (count, LENGTH), generator=torch.Generator().manual_seed(3))

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self._ids[index], "labels": self._ids[index]}


class Fault(TrainerCallback):
    def __init__(self, culprit: torch.nn.Module, plant) -> None:
        self._culprit, self._plant = culprit, plant

    def on_step_begin(self, args, state, control, **_) -> None:
        if state.global_step == 1:
            self._plant(self._culprit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("llama", "bert", "mixtral"), default="llama")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--folder", default="trainer_output")
    parser.add_argument("--fault", action="store_true", help="change one module from step 1 on")
    args = parser.parse_args()

    torch.manual_seed(7)
    kind = KINDS[args.model]
    model = kind.build(64, 2)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=args.folder,
            max_steps=args.steps,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            eval_strategy="steps",
            eval_steps=1,
            save_strategy="steps",
            save_steps=2,
            logging_steps=1,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            seed=7,
        ),
        train_dataset=Texts(32),
        eval_dataset=Texts(4),
        callbacks=[Fault(model.get_submodule(kind.culprit), kind.plant)] if args.fault else [],
    )
    trainer.train()
    if trainer.is_world_process_zero():
        for entry in trainer.state.log_history:
            if "loss" in entry:
                print("loss", entry["loss"].hex(), "gradients", float(entry["grad_norm"]).hex())
        total = sum(parameter.detach().double().abs().sum().item() for parameter in model.parameters())
        print("weights", total.hex())


if __name__ == "__main__":
    main()
