# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hyper-parameters that a framework holds: OmegaConf, Hydra, transformers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from config_check_packs import check_of
from msprobe.config_check.comparison import compare_packs
from msprobe.config_check.packs.pack_reader import read_pack

HYDRA_SCRIPT = """
import sys
import hydra
from msprobe import ConfigChecker

@hydra.main(version_base=None, config_path=".", config_name="train")
def main(config):
    ConfigChecker(None, None, PACK, hyperparameters=config)

PACK = sys.argv.pop(1)
main()
"""

HYDRA_CONFIG = """
optimizer:
  lr: 0.001
  betas: [0.9, 0.95]
model:
  hidden: 64
  ffn: ${model.hidden}
  dropout: ???
api_key: hf_abcdefghijklmnopqrstuvwxyz0123456789
"""

TRANSFORMERS_SCRIPT = """
import sys
from msprobe import ConfigChecker
from transformers import LlamaConfig, TrainingArguments

arguments = TrainingArguments(
    output_dir="out", learning_rate=float(sys.argv[2]), use_cpu=True, report_to=[],
    hub_token="hf_abcdefghijklmnopqrstuvwxyz0123456789",
)
ConfigChecker(None, None, sys.argv[1], hyperparameters=[arguments, LlamaConfig(num_hidden_layers=2)])
"""


def packed(folder: Path, script: str, name: str, *arguments: str) -> Path:
    """The pack that a training script of a user writes."""
    (folder / "script.py").write_text(script)
    pack = folder / name
    done = subprocess.run(
        [sys.executable, "script.py", pack, *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return pack


def dynamic(pack: Path) -> dict[str, object]:
    with read_pack(pack) as opened:
        text = opened.text("hyperparameters/hyperparameters_dynamic.json")
    assert "hf_abcdefgh" not in text
    return json.loads(text)


def differing(bench: Path, cmp: Path) -> list[list[object]]:
    with read_pack(bench) as left, read_pack(cmp) as right:
        return [row[1:5] for row in check_of(compare_packs(left, right), "hyperparameters").rows]


def test_a_configuration_of_hydra(tmp_path: Path) -> None:
    pytest.importorskip("hydra")
    (tmp_path / "train.yaml").write_text(HYDRA_CONFIG)
    pack = packed(tmp_path, HYDRA_SCRIPT, "a.zip")
    found = dynamic(pack)
    assert found.pop("api_key") != "hf_abcdefghijklmnopqrstuvwxyz0123456789"
    assert found == {
        "optimizer.lr": 0.001,
        "optimizer.betas": [0.9, 0.95],
        "model.hidden": 64,
        "model.ffn": "${model.hidden}",  # as it is written: what it stands for is compared by its own name
        "model.dropout": "???",
    }
    other = packed(tmp_path, HYDRA_SCRIPT, "b.zip", "optimizer.lr=0.002", "+model.layers=2")
    assert differing(pack, other) == [
        ["Only in comparison", "model.layers", None, 2],
        ["optimizer.lr", "optimizer.lr", 0.001, 0.002],
    ]


def test_training_arguments_and_a_model_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    pack = packed(tmp_path, TRANSFORMERS_SCRIPT, "a.zip", "0.001")
    found = dynamic(pack)
    assert found["learning_rate"] == 0.001
    assert found["num_hidden_layers"] == 2
    assert found["lr_scheduler_type"]
    other = packed(tmp_path, TRANSFORMERS_SCRIPT, "b.zip", "0.002")
    assert differing(pack, other) == [["learning_rate", "learning_rate", 0.001, 0.002]]
