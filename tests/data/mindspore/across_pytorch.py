# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The reference of across_mindspore.py, with its weights and data: python across_pytorch.py FOLDER."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from msprobe.pytorch import PrecisionDebugger
from torch import nn

_NAMES = {"ln.weight": "ln.gamma", "ln.bias": "ln.beta"}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.ln = nn.LayerNorm(32)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(32, 8)
        self.sm = nn.Softmax(-1)
        self.head = nn.Linear(8, 8)

    def forward(self, x):
        h = self.ln(self.fc1(x))
        h = self.act(h) + torch.tanh(h)
        return self.head(self.sm(self.fc2(h)))


def main(folder):
    net, start = Net(), np.load(folder / "start.npz")
    for name, parameter in net.named_parameters():
        parameter.data = torch.from_numpy(start[_NAMES.get(name, name)])
    config = {"task": "statistics", "level": "mix", "statistics": {"diagnosis": ["modules", "optimizer"]}}
    config.update(rank=[], step=[], dump_path=str(folder / "pytorch"))
    (folder / "config.json").write_text(json.dumps(config))
    debugger = PrecisionDebugger(str(folder / "config.json"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for _ in range(2):
        debugger.start(net)
        (net(torch.from_numpy(start["x"])) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()


main(Path(sys.argv[1]))
