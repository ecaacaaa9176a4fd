# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the checkpoints of this folder, with MindSpore 2.10.0: python make.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

import mindspore as ms
import numpy as np


class Net(ms.nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.emb = ms.nn.Embedding(7, 4)
        self.fc1 = ms.nn.Dense(4, 5)
        self.ln = ms.nn.LayerNorm((5,))
        self.bn = ms.nn.BatchNorm1d(5)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.bn(self.ln(self.fc1(self.emb(x))))


def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """tests/python/checkpoint/test_ckpt_mindspore.py makes the same."""
    return np.sin(np.arange(np.prod(shape)) + len(name)).astype("float32").reshape(shape)


def main(out: Path) -> None:
    net = Net()
    cell = ms.nn.TrainOneStepCell(net, ms.nn.Adam(net.trainable_params(), 0.1))
    for parameter in net.get_parameters():
        parameter.set_data(ms.Tensor(values(parameter.name, parameter.shape)))
    ms.save_checkpoint(net, str(out / "net.ckpt"))
    ms.save_checkpoint(net, str(out / "checksum.ckpt"), crc_check=True)
    ms.save_checkpoint(net, str(out / "encrypted.ckpt"), enc_key=b"0123456789ABCDEF")
    ms.save_checkpoint(net, str(out / "net.safetensors"), format="safetensors")
    ms.save_checkpoint(cell, str(out / "training.ckpt"), append_dict={"epoch": 1, "author": "nobody"})
    kinds = {
        "scalar": ms.Tensor(1.5, ms.float32),
        "half": ms.Tensor(np.arange(6).reshape(2, 3), ms.bfloat16),
        "truth": ms.Tensor([True, False]),
        "wide": ms.Tensor([1, 2**40], ms.int64),
    }
    ms.save_checkpoint(
        [{"name": name, "data": tensor} for name, tensor in kinds.items()], str(out / "kinds.ckpt")
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
