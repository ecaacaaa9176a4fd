# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training by the Trainer of Lightning: accumulated gradients, clipping, validation in between, a
checkpoint. Knows nothing of msprobe.
"""

from __future__ import annotations

import argparse
import sys

import torch
from models import KINDS, LENGTH, VOCABULARY

try:
    import lightning
except ImportError:
    import pytorch_lightning as lightning


class Texts(torch.utils.data.Dataset):
    def __init__(self, count: int) -> None:
        self._ids = torch.randint(3, VOCABULARY, (count, LENGTH), generator=torch.Generator().manual_seed(3))

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._ids[index]


class Language(lightning.LightningModule):
    def __init__(self, model: str, *, fault: bool) -> None:
        super().__init__()
        self._kind = KINDS[model]
        self.network = self._kind.build(64, 2)
        self._fault = fault

    def training_step(self, ids: torch.Tensor, _: int) -> torch.Tensor:
        if self._fault and self.global_step == 1:
            self._kind.plant(self.network.get_submodule(self._kind.culprit))
            self._fault = False
        loss = self.network(input_ids=ids, labels=ids).loss
        sys.stdout.write(f"loss {loss.item().hex()}\n")  # in one piece, where several processes print
        return loss

    def validation_step(self, ids: torch.Tensor, _: int) -> None:
        self.log("validation", self.network(input_ids=ids, labels=ids).loss, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("llama", "bert", "mixtral"), default="llama")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--folder", default="lightning_output")
    parser.add_argument("--fault", action="store_true", help="change one module from step 1 on")
    args = parser.parse_args()

    lightning.seed_everything(7, verbose=False)
    model = Language(args.model, fault=args.fault)
    trainer = lightning.Trainer(
        max_steps=args.steps,
        accelerator="cpu",
        devices=args.devices,
        strategy="ddp_find_unused_parameters_true" if args.devices > 1 else "auto",
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        val_check_interval=4,
        num_sanity_val_steps=1,
        default_root_dir=args.folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loaders = [torch.utils.data.DataLoader(Texts(count), batch_size=2) for count in (32, 4)]
    trainer.fit(model, *loaders)
    if trainer.is_global_zero:
        total = sum(parameter.detach().double().abs().sum().item() for parameter in model.parameters())
        print("weights", total.hex())


if __name__ == "__main__":
    main()
