# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Writes dumps of statistics of any size, of level mix, as a training step of a decoder leaves them.

    python benchmarks/graph_dump.py FOLDER --nodes 200000 [--noise 0.01] [--ranks 8]

The model has at most 48 blocks; more nodes are more micro steps. Half of the blocks may be noisy: there one
tensor in twenty is off.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path

_BLOCKS = 48
_STACK = ["in step, \n loss = model(batch)", "in train, \n step(batch)", "in <module>, \n train()"]
_WIDE, _NARROW, _WEIGHT = [2, 512, 2048], [2, 512, 1], [2048, 2048]


@dataclass(frozen=True)
class _Call:
    """Of an operator: its inputs, by shape."""

    name: str
    inputs: tuple[list[int], ...]
    output: list[int] = field(default_factory=lambda: _WIDE)


@dataclass(frozen=True)
class _Module:
    path: str
    kind: str
    inside: tuple[_Module | _Call, ...]
    has_weight: bool = False


def _linear(path: str) -> _Module:
    return _Module(path, "Linear", (_Call("Functional.linear", (_WIDE, _WEIGHT)),), has_weight=True)


def _norm(path: str) -> _Module:
    inside = (
        _Call("Tensor.pow", (_WIDE,)),
        _Call("Tensor.mean", (_WIDE,), _NARROW),
        _Call("Tensor.__add__", (_NARROW,), _NARROW),
        _Call("Torch.rsqrt", (_NARROW,), _NARROW),
        _Call("Tensor.__mul__", (_WIDE, _NARROW)),
    )
    return _Module(path, "RMSNorm", inside)


def _block(path: str) -> _Module:
    attention: tuple[_Module | _Call, ...] = (
        *(_linear(f"{path}.attention.{name}") for name in ("query", "key", "value")),
        _Call("Torch.cat", (_WIDE, _WIDE)),
        _Call("Torch.cat", (_WIDE, _WIDE)),
        _Call("Functional.scaled_dot_product_attention", (_WIDE, _WIDE, _WIDE)),
        _linear(f"{path}.attention.out"),
    )
    feed_forward: tuple[_Module | _Call, ...] = (
        _linear(f"{path}.feed_forward.gate"),
        _Call("Functional.silu", (_WIDE,)),
        _linear(f"{path}.feed_forward.up"),
        _Call("Tensor.__mul__", (_WIDE, _WIDE)),
        _linear(f"{path}.feed_forward.down"),
    )
    residual = _Call("Tensor.__add__", (_WIDE, _WIDE))
    inside: tuple[_Module | _Call, ...] = (
        _norm(f"{path}.norm"),
        _Module(f"{path}.attention", "Attention", attention),
        residual,
        _norm(f"{path}.feed_forward_norm"),
        _Module(f"{path}.feed_forward", "FeedForward", feed_forward),
        residual,
    )
    return _Module(path, "Block", inside)


def _nodes_of(part: _Module | _Call) -> int:
    """Forward and backward."""
    return 2 if isinstance(part, _Call) else 2 + sum(map(_nodes_of, part.inside))


class _Rank:
    """What one rank recorded."""

    def __init__(self, seed: int, noise: float) -> None:
        self._values = random.Random(seed)
        self._noise = random.Random(seed + 1)
        self._size_of_noise = noise
        self._is_noisy = False
        self._counts: dict[str, int] = {}
        self._calls: dict[int, list[str]] = {}  # of one micro step, by identity of the call
        self.data: list[str] = []
        self.construct: list[str] = []
        self.places: dict[str, list[str]] = {}

    def micro_step(self, number: int, blocks: int) -> None:
        decoder = _Module("decoder", "Decoder", tuple(_block(f"decoder.blocks.{i}") for i in range(blocks)))
        head = (_Call("Tensor.view", (_WIDE,)), _Call("Functional.cross_entropy", (_WIDE,), []))
        parts = (_linear("embedding"), decoder, _norm("norm"), _linear("head"), *head)
        self._calls.clear()
        for part in parts:
            self._forward(part, None, number)
        for part in reversed(parts):
            self._backward(part, None, number)

    def gradients(self, blocks: int) -> None:
        """As they stand after the last backward pass."""
        for block in range(blocks):
            for name in ("attention.query", "attention.out", "feed_forward.down"):
                record = f"Module.decoder.blocks.{block}.{name}.Linear.parameters_grad"
                self.data.append(f'"{record}":{{"weight":[{self._tensor(_WEIGHT, False)}]}}')
        self._record("optimizer", None, "")

    def _forward(self, part: _Module | _Call, parent: str | None, number: int) -> None:
        if isinstance(part, _Call):
            count = self._counts.get(part.name, 0)
            self._counts[part.name] = count + 1
            name = f"{part.name}.{count}"
            self._calls.setdefault(id(part), []).append(name)
            inputs, output = part.inputs, part.output
            parameters = ""
        else:
            name = f"Module.{part.path}.{part.kind}"
            if part.kind == "Block":
                self._is_noisy = int(part.path.rpartition(".")[2]) * 2 >= _BLOCKS
            for one in part.inside:
                self._forward(one, f"{name}.forward.{number}", number)
            inputs, output = (_WIDE,), _WIDE
            parameters = (
                f',"parameters":{{"weight":{self._tensor(_WEIGHT, True)}}}' if part.has_weight else ""
            )
        record = f"{name}.forward" if isinstance(part, _Call) else f"{name}.forward.{number}"
        tensors = ",".join(self._tensor(shape, True) for shape in inputs)
        results = self._tensor(output, True)
        self._record(
            record, parent, f'"input_args":[{tensors}],"input_kwargs":{{}},"output":[{results}]{parameters}'
        )
        place = part.name if isinstance(part, _Call) else part.kind
        self.places.setdefault(place, []).append(record)

    def _backward(self, part: _Module | _Call, parent: str | None, number: int) -> None:
        if isinstance(part, _Call):
            record = f"{self._calls[id(part)].pop()}.backward"
            output = part.output
        else:
            record = f"Module.{part.path}.{part.kind}.backward.{number}"
            for one in reversed(part.inside):
                self._backward(one, record, number)
            output = _WIDE
        gradient, result = self._tensor(output, False), self._tensor(_WIDE, False)
        self._record(record, parent, f'"input":[{gradient}],"output":[{result}]')

    def _record(self, name: str, parent: str | None, content: str) -> None:
        self.construct.append(f'"{name}":{json.dumps(parent)}')
        if content:
            self.data.append(f'"{name}":{{{content}}}')

    def _tensor(self, shape: list[int], requires_grad: bool) -> str:
        mean, spread = self._values.uniform(-0.01, 0.01), self._values.uniform(0.05, 0.2)
        if self._size_of_noise and self._is_noisy and self._noise.random() < 0.05:
            factor = 1 + self._noise.uniform(-1, 1) * self._size_of_noise
            mean, spread = mean * factor, spread * factor
        return (
            f'{{"type":"torch.Tensor","dtype":"torch.bfloat16","shape":{shape},"Max":{mean + 4 * spread!r},'
            f'"Min":{mean - 4 * spread!r},"Mean":{mean!r},"Norm":{spread * 1448!r},'
            f'"requires_grad":{"true" if requires_grad else "false"}}}'
        )


def write_rank(folder: Path, nodes: int, *, noise: float = 0.0, seed: int = 0) -> int:
    """Writes dump.json, construct.json and stack.json with about `nodes` nodes; says how many."""
    of_block = _nodes_of(_block("block"))
    micro_steps = math.ceil(nodes / (_BLOCKS * of_block))
    blocks = max(1, round(nodes / micro_steps / of_block))
    rank = _Rank(seed, noise)
    for number in range(micro_steps):
        rank.micro_step(number, blocks)
    rank.gradients(blocks)
    folder.mkdir(parents=True)
    head = '{"task":"statistics","level":"mix","framework":"pytorch","dump_data_dir":null,"data":{'
    (folder / "dump.json").write_text(head + ",\n".join(rank.data) + "}}")
    (folder / "construct.json").write_text("{" + ",\n".join(rank.construct) + "}")
    stacks = {}
    for index, (place, records) in enumerate(rank.places.items()):
        frames = [f"File /job/{place.lower()}.py, line {index + 20}, in forward, \n y = f(x)"]
        frames += [f"File /job/train.py, line {line}, {text}" for line, text in enumerate(_STACK, 80)]
        stacks[str(index)] = [records, frames]
    (folder / "stack.json").write_text(json.dumps(stacks))
    for name in ("dump.json", "construct.json", "stack.json"):
        (folder / name).chmod(0o640)  # mindstudio-probe insists
    return len(rank.construct)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--nodes", type=int, default=10_000, help="of each rank")
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--ranks", type=int, default=0, help="writes folders rank0, rank1, ...")
    asked = parser.parse_args()
    ranks = [asked.folder / f"rank{rank}" for rank in range(asked.ranks)] or [asked.folder]
    for seed, folder in enumerate(ranks):
        print(folder, write_rank(folder, asked.nodes, noise=asked.noise, seed=10 * seed))


if __name__ == "__main__":
    main()
