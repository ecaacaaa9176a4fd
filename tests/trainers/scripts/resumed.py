# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trainings that save and go on where they are told, with one thing left out of it.

python resumed.py TRAINER KIND [--from PATH]. KINDS has what is left out, and what a resume has to restore.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

KINDS = {
    # Each with the generators: of a restored place in the data alone comes the order that they draw, and what
    # saves the model alone leaves them out, too.
    "transformers": {
        "whole": (),
        "data_from_start": ("random", "inputs"),
        "no_optimizer": ("random", "optimizer"),
    },
    "lightning": {"whole": (), "inside_an_epoch": ("inputs",), "dropout": ("random",)},
    "accelerate": {
        "whole": (),
        "data_from_start": ("inputs",),
        "unprepared_scheduler": ("optimizer",),
        "plain_sampler": ("inputs",),
        "dropout": ("random",),  # an iterator of data draws from the generator that was restored before it
    },
    "distributed": {"whole": (), "no_optimizer": ("optimizer",), "no_generator": ("random",)},
}
EVERY, STEPS = 4, 9


def model(dropout: float = 0.1) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Dropout(dropout), torch.nn.Linear(16, 4)
    )


def rows(count: int = 40) -> Any:
    return torch.randn(count, 8, generator=torch.Generator().manual_seed(1))


class Net(torch.nn.Module):
    """As transformers' Trainer calls one."""

    def __init__(self) -> None:
        super().__init__()
        self.net = model()

    def forward(self, x: Any) -> dict[str, Any]:
        return {"loss": (self.net(x) - 1).pow(2).mean()}


def transformers(kind: str, path: str | None) -> None:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir="saved",
        max_steps=STEPS,
        save_steps=EVERY,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_only_model=kind == "no_optimizer",
        ignore_data_skip=kind == "data_from_start",
    )
    trainer = Trainer(Net(), arguments, train_dataset=[{"x": row} for row in rows()])
    trainer.train(resume_from_checkpoint=path)


def lightning(kind: str, path: str | None) -> None:
    import lightning as lightning_package
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(lightning_package.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = model(0.1 if kind == "dropout" else 0.0)

        def training_step(self, batch: Any, _: int) -> Any:
            return (self.net(batch) - 1).pow(2).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), 1e-2)

    trainer = lightning_package.Trainer(
        accelerator="cpu",
        max_steps=STEPS,
        logger=False,
        callbacks=[ModelCheckpoint("saved", every_n_train_steps=EVERY, save_top_k=-1)],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    steps_of_epoch = 6 if kind == "inside_an_epoch" else EVERY
    data = torch.utils.data.DataLoader(list(rows(2 * steps_of_epoch)), batch_size=2)
    trainer.fit(Module(), data, ckpt_path=path)


def accelerate(kind: str, path: str | None) -> None:
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    of_data = DataLoaderConfiguration(use_seedable_sampler=kind != "plain_sampler", data_seed=1)
    accelerator = Accelerator(cpu=True, dataloader_config=of_data)
    net = model(0.1 if kind == "dropout" else 0.0)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    data = torch.utils.data.DataLoader(list(rows()), batch_size=2, shuffle=True)
    net, optimizer, data = accelerator.prepare(net, optimizer, data)
    if kind != "unprepared_scheduler":
        accelerator.register_for_checkpointing(scheduler)
    begin = 0
    if path is not None:
        accelerator.load_state(path)
        begin = int(Path(path).name)
        if kind != "data_from_start":
            data = accelerator.skip_first_batches(data, begin)
    for step, batch in enumerate(data, begin):
        if step == STEPS:
            break
        loss = (net(batch) - 1).pow(2).mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        if (step + 1) % EVERY == 0:
            accelerator.save_state(f"saved/{step + 1}")


def distributed(kind: str, path: str | None) -> None:
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    begin = 0

    def state() -> dict[str, Any]:
        weights, of_optimizer = get_state_dict(net, optimizer)
        content = {"model": weights, "optimizer": of_optimizer, "generator": torch.get_rng_state()}
        return {name: one for name, one in content.items() if name != kind.removeprefix("no_")}

    if path is not None:
        found = state()
        checkpoint.load(found, checkpoint_id=path)
        of_optimizer = get_state_dict(net, optimizer)[1]
        set_state_dict(
            net,
            optimizer,
            model_state_dict=found["model"],
            optim_state_dict=found.get("optimizer", of_optimizer),
        )
        torch.set_rng_state(found.get("generator", torch.get_rng_state()))
        begin = int(Path(path).name)
    for step in range(begin, STEPS):
        loss = (net(rows()[2 * step : 2 * step + 2]) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % EVERY == 0:
            checkpoint.save(state(), checkpoint_id=f"saved/{step + 1}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], sys.argv[4] if len(sys.argv) > 4 else None)
