# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The network of across_pytorch.py in MindSpore, healthy and with planted faults:
python across_mindspore.py FOLDER. Run it first: it leaves weights and data in FOLDER/start.npz.
"""

import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from msprobe.mindspore import PrecisionDebugger

FAULTS = (
    "healthy", "eps", "gelu", "weight", "bias", "gamma", "relu", "axis", "data", "half", "transposed", "rate",
)  # fmt: skip


class Half(nn.Dense):
    def construct(self, x):
        return super().construct(x.astype(ms.float16).astype(ms.float32))


class Net(nn.Cell):
    def __init__(self, fault):
        super().__init__()
        self.fc1 = (Half if fault == "half" else nn.Dense)(16, 32)
        self.ln = nn.LayerNorm((32,), epsilon=1e-2 if fault == "eps" else 1e-5)
        self.act = nn.ReLU() if fault == "relu" else nn.GELU(approximate=fault == "gelu")
        self.fc2 = nn.Dense(32, 8)
        self.sm = nn.Softmax(axis=0 if fault == "axis" else -1)
        self.head = nn.Dense(8, 8)

    def construct(self, x):
        h = self.ln(self.fc1(x))
        h = self.act(h) + ops.tanh(h)
        return self.head(self.sm(self.fc2(h)))


def build(fault):
    net, generator = Net(fault), np.random.RandomState(0)
    weights = {}
    for name, parameter in net.parameters_and_names():
        if not name.startswith("ln"):
            parameter.set_data(Tensor((generator.randn(*parameter.shape) * 0.3).astype(np.float32)))
        weights[name] = parameter.asnumpy()
    return net, weights, generator.randn(4, 16).astype(np.float32)


def plant(fault, net, x):
    if fault == "weight":
        net.fc2.weight.set_data(net.fc2.weight * 1.01)
    if fault == "bias":
        net.fc2.bias.set_data(net.fc2.bias + 0.01)
    if fault == "gamma":
        net.ln.gamma.set_data(net.ln.gamma * 1.1)
    if fault == "transposed":
        net.head.weight.set_data(Tensor(net.head.weight.asnumpy().T.copy()))
    return x * 1.001 if fault == "data" else x


def record(fault, folder):
    net, weights, x = build(fault)
    if fault == "healthy":
        np.savez(folder / "start.npz", x=x, **weights)
    x = plant(fault, net, x)
    config = {"task": "statistics", "level": "mix", "statistics": {"diagnosis": ["modules", "optimizer"]}}
    config.update(rank=[], step=[], dump_path=str(folder / f"mindspore_{fault}"))
    (folder / "config.json").write_text(json.dumps(config))
    PrecisionDebugger._reset()
    debugger = PrecisionDebugger(str(folder / "config.json"))
    rate = 0.02 if fault == "rate" else 0.01
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=rate, momentum=0.9)
    gradients = ms.value_and_grad(lambda a: (net(a) ** 2).mean(), None, net.trainable_params())
    for _ in range(2):
        debugger.start(net)
        _, found = gradients(Tensor(x))
        optimizer(found)
        debugger.stop()
        debugger.step()


if __name__ == "__main__":
    ms.set_device("CPU")
    for one in FAULTS:
        record(one, Path(sys.argv[1]))
