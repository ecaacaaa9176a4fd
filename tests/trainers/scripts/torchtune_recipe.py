# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""torchtune: its recipe for full fine-tuning on one device."""

import runpy
from pathlib import Path

import row
import torchtune
from omegaconf import OmegaConf

# Recipes are files that `tune run` runs.
recipe_file = Path(torchtune.__file__).parents[1] / "recipes" / "full_finetune_single_device.py"
Recipe = runpy.run_path(str(recipe_file))["FullFinetuneRecipeSingleDevice"]

home = row.home()
eps = row.chosen("norm_eps", 1e-5)
cfg = OmegaConf.create(
    {
        "device": "cpu", "dtype": "fp32", "output_dir": home, "seed": 1, "epochs": 1,
        "max_steps_per_epoch": 8, "batch_size": row.chosen("batch_size", 4), "shuffle": True,
        "compile": False, "resume_from_checkpoint": False, "gradient_accumulation_steps": 1,
        "optimizer_in_bwd": False,
        "clip_grad_norm": row.chosen("clip_grad_norm", 1.0),
        "model": {"_component_": "tune_parts.model", "norm_eps": eps},
        "tokenizer": {"_component_": "tune_parts.Tokenizer"},
        "dataset": {"_component_": "tune_parts.Texts"},
        "checkpointer": {"_component_": "tune_parts.Checkpointer", "model_type": "LLAMA3", "norm_eps": eps},
        "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
        "optimizer": {
            "_component_": "torch.optim.AdamW", "lr": row.chosen("lr", 1e-3), "fused": row.other_kernel(),
        },
        "metric_logger": {"_component_": "torchtune.training.metric_logging.DiskLogger", "log_dir": home},
    }
)  # fmt: skip
recipe = Recipe(cfg)
recipe.setup(cfg)
row.plant(recipe._model)
recipe.train()
row.report(recipe._model)
