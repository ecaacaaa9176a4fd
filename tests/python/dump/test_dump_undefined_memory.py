# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What memory holds that nobody has written is no evidence: records of the same calls are the same, whatever
it holds.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from children import run, run_ranks

SHAPE = (4, 4)


class Memory:
    """Tensors that a process finds full of one byte."""

    def __init__(self, byte: int) -> None:
        self.byte = byte

    def undefined(self, like: Any) -> Any:
        import torch

        tensor = torch.empty(like.shape, dtype=like.dtype)
        ctypes.memset(tensor.data_ptr(), self.byte, tensor.nbytes)
        return tensor


@contextlib.contextmanager
def recording(directory: Path) -> Iterator[None]:
    """Everything inside is one step, recorded as `msprobe run` does."""
    from msprobe.config import load_config
    from msprobe.dump.data_dump import DataDump

    config = load_config(None, task="statistics", dump_path=str(directory / "dump"), level="L1")
    dump = DataDump(config, only_evidence=True)
    dump.start()
    try:
        yield
    finally:
        dump.stop()
        dump.close()


def data_of(directory: Path, rank: str = "") -> dict[str, Any]:
    return json.loads((directory / f"dump/step0/rank{rank}/dump.json").read_text())["data"]


# ---- calls, in which `u` stands for undefined memory


def known(shape: tuple[int, ...] = SHAPE) -> Any:
    import math

    import torch

    return torch.arange(1.0, math.prod(shape) + 1).reshape(shape) / 16


def arguments(first: Any) -> Iterator[tuple[Any, ...]]:
    """What a function of one to four arguments may be given."""
    import torch

    index = torch.tensor([1, 0])
    k = known()
    yield (first,)
    for second in (0, 1.0, (2, 2), (0, 1), (4, 4), k, index, k > 0.5, "sum"):
        yield first, second
    yield from (
        (first, 0, 1), (first, 0, index), (first, 2, 0), (first, k, k), (first, 0.0, 1.0), (first, 0, 2),
        (first, 0, 0, 2), (first, index, 0, k[:2]), (first, k > 0.5, 2.0), (first, (1, 1), (2, 2)),
        (first, 0, index, k), (first, 0, index, k[:2]), (first, (index,), k[:2]), (first, (4, 4), (4, 1)),
        (first, 0, torch.zeros(4, 4, dtype=torch.int64), k),
        ([first, k],), ([first, k], 0), ([k, first], 1),
    )  # fmt: skip


def calls_of(api: Any, memory: Memory) -> Iterator[Any]:
    """Calls of a function with undefined memory where it is not computed with: each returns a result."""
    from msprobe.native import core

    row = core.find_operator(api.name)
    function, k = api.function, known()
    if row.gain == "moves" or (row.overwrites and row.is_in_place) or row.is_uninitialised:
        for given in arguments(k):
            fresh = [memory.undefined(one) if one is k else one for one in given]
            if isinstance(given[0], list):
                fresh[0] = [memory.undefined(one) for one in given[0]]
            elif given[0] is k:
                fresh[1:] = given[1:]
            yield lambda fresh=fresh: function(*fresh)
    if not row.is_in_place:
        for given in arguments(k):
            yield lambda given=given: with_out(function, given, memory)
    if row.adds_first:
        for given in ((k, k), (k[0],), (k[None], k[None])):
            for first in (k, k[0], k[None]):
                yield lambda given=given, first=first: function(memory.undefined(first), *given, beta=0)


def with_out(function: Any, given: tuple[Any, ...], memory: Memory) -> Any:
    import torch
    from msprobe.native import torch_adapter

    result = torch_adapter().call_without_mode(lambda: function(*given))
    if not isinstance(result, torch.Tensor):
        raise TypeError("several results")
    whole = memory.undefined(torch.cat([result.reshape(-1)] * 2))
    for out in (memory.undefined(result), whole[: result.numel()].view(result.shape)):
        function(*given, out=out)
    return result


def every_call(directory: Path, byte: int) -> dict[str, int]:
    """Makes the calls; how many of each function were."""
    import torch
    from msprobe.hooks.api_list import listed_apis

    torch.manual_seed(0)
    memory, made = Memory(byte), {}
    with recording(directory):
        for api in listed_apis():
            if api.name.startswith(("Distributed.", "NPU.", "MindSpeed.", "Torch.sparse_")):
                continue  # of a sparse tensor the indices are looked at
            for call in calls_of(api, memory):
                try:
                    call()
                except Exception:
                    continue
                made[api.name] = made.get(api.name, 0) + 1
    return made


def test_no_operator_of_the_catalogue_takes_undefined_memory_for_evidence(tmp_path):
    made = [run(every_call, tmp_path / str(byte), byte, timeout=300) for byte in (0x3E, 0x41)]
    assert made[0] == made[1]
    assert len(made[0]) > 250
    first, second = (data_of(tmp_path / str(byte)) for byte in (0x3E, 0x41))
    assert list(first) == list(second)
    differing = {name: (first[name], second[name]) for name in first if first[name] != second[name]}
    assert not differing, (len(differing), *itertools.islice(differing.items(), 5))
    measured = sum(
        str(record).count("'Norm': ") - str(record).count("'Norm': None") for record in first.values()
    )
    assert measured > 1000


# ---- what is known stays evidence


def stories(directory: Path, byte: int) -> None:
    import torch
    from torch import nn

    memory, k = Memory(byte), known()
    bucket = memory.undefined(torch.zeros(64))  # there before the step, as the buffers of an engine
    places = memory.undefined(torch.zeros(4, dtype=torch.int64))
    outside, order = k > 0.5, torch.tensor([[3, 1, 2, 0]] * 4)  # no recorded call made them
    with recording(directory):
        buffer = memory.undefined(torch.zeros(4, 8))
        buffer[:, :4] = k
        buffer[:, :4].sin()  # what was written
        buffer.narrow(1, 4, 4)  # and what was not
        halves = memory.undefined(torch.zeros(4, 8))
        halves[..., 0::2] = k
        halves[..., 1::2] = k
        halves.cos()  # all of it was written, in pieces
        permuted = memory.undefined(torch.zeros(4, 4))
        permuted[torch.tensor([2, 0, 3, 1])] = k
        permuted.tan()
        part = torch.narrow(bucket, 0, 0, 16)
        part.copy_(k.reshape(-1))  # on no list of functions
        torch.exp(part)
        places.index_copy_(0, torch.tensor([0, 1]), torch.tensor([3, 4]))
        places.index_fill_(0, torch.tensor([2]), 7)  # a part of it is not written yet
        places.index_fill_(0, torch.tensor([3]), 8)
        torch.sqrt(places)
        padded = memory.undefined(torch.zeros(4, 8))
        padded[:, :4] = k
        torch.where(torch.arange(8) < 4, padded, torch.zeros(()))
        made = k.abs()
        made.masked_fill(outside, 2.0)
        torch.where(outside, made, 2.0)
        made.gather(1, order)
        nn.functional.linear(k, k).neg().clone()


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folders = [tmp_path_factory.mktemp(str(byte)) for byte in (0x3E, 0x41)]
    for folder, byte in zip(folders, (0x3E, 0x41)):
        run(stories, folder, byte)
    return [data_of(folder) for folder in folders]


def test_stories_are_the_same_whatever_memory_holds(told):
    assert told[0] == told[1]


@pytest.mark.parametrize("call", ["Tensor.sin", "Tensor.cos", "Tensor.tan", "Torch.exp", "Torch.sqrt"])
def test_what_was_written_is_measured(told, call):
    record = told[0][f"{call}.0.forward"]
    assert record["input_args"][0]["Norm"] is not None
    assert record["output"][0]["Norm"] is not None


@pytest.mark.parametrize(
    ("call", "place"), [("Tensor.masked_fill.0", 1), ("Torch.where.1", 0), ("Tensor.gather.0", 1)]
)
def test_a_mask_or_an_index_is_measured_by_whom_it_is_given_to(told, call, place):
    record = told[0][f"{call}.forward"]
    given = [one for one in record["input_args"] if one["type"] == "torch.Tensor"]
    assert given[place]["Max"] is not None
    assert record["output"][0]["Norm"] is not None


def test_a_buffer_is_not_measured_for_a_view_of_it(told):
    record = told[0]["Torch.narrow.0.forward"]
    assert record["input_args"][0]["Norm"] is None
    assert record["output"][0]["Norm"] is None


# ---- operators of a library, and collectives


def library(directory: Path, byte: int) -> None:
    import torch

    memory, k = Memory(byte), known()
    with torch.library._scoped_library("msprobe_test", "FRAGMENT") as own:
        own.define("scale(Tensor x, *, Tensor(a!) out) -> ()")
        own.define("fill(Tensor(a!) x, float value) -> ()")
        own.impl("scale", lambda x, *, out: [out.copy_(2 * x), None][1], "CPU")
        own.impl("fill", lambda x, value: [x.fill_(value), None][1], "CPU")
        from msprobe.config import load_config
        from msprobe.dump.data_dump import DataDump

        path = directory / "config.json"
        path.write_text(json.dumps({"task": "statistics", "statistics": {"api_set": "all"}}))
        dump = DataDump(load_config(path, dump_path=str(directory / "dump"), level="L1"), only_evidence=True)
        dump.start()
        torch.ops.msprobe_test.scale(k, out=memory.undefined(k))
        torch.ops.msprobe_test.fill(memory.undefined(k), 2.0)
        dump.stop()
        dump.close()


def test_operators_of_a_library_by_their_schema(tmp_path):
    for byte in (0x3E, 0x41):
        (tmp_path / str(byte)).mkdir()
        run(library, tmp_path / str(byte), byte)
    first, second = (data_of(tmp_path / str(byte)) for byte in (0x3E, 0x41))
    assert first == second
    assert any(name.startswith("msprobe_test.scale") for name in first)


def collectives(directory: Path, byte: int) -> None:
    import torch
    from torch import distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    byte += rank
    memory, k = Memory(byte), known() + rank
    double = torch.zeros(8, 4)
    with recording(directory):
        for is_async in (False, True):
            works = [
                dist.all_gather_into_tensor(memory.undefined(double), k, async_op=is_async),
                dist.all_gather_into_tensor(
                    output_tensor=memory.undefined(double), input_tensor=k, async_op=is_async
                ),
                dist.all_gather([memory.undefined(k), memory.undefined(k)], k, async_op=is_async),
                dist.reduce_scatter_tensor(memory.undefined(k), double + rank, async_op=is_async),
                dist.all_to_all_single(memory.undefined(k), k, async_op=is_async),
                dist.broadcast(k if rank == 0 else memory.undefined(k), src=0, async_op=is_async),
                dist.scatter(memory.undefined(k), [k, k] if rank == 0 else None, src=0, async_op=is_async),
            ]
            for work in filter(None, works):
                work.wait()
        if rank == 0:
            dist.send(k, 1)
        else:
            dist.recv(memory.undefined(k), 0)
        other = 1 - rank
        for work in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, k, other), dist.P2POp(dist.irecv, memory.undefined(k), other)]
        ):
            work.wait()
    dist.destroy_process_group()


def test_what_collectives_write_is_no_input(tmp_path):
    for byte in (0x3E, 0x41):
        run_ranks(collectives, tmp_path / str(byte), byte)
    for rank in "01":
        first, second = (data_of(tmp_path / str(byte), rank) for byte in (0x3E, 0x41))
        assert first == second
        results = [name for name in first if name.startswith("Distributed.all_gather_into_tensor")]
        assert all(first[name]["output"][0]["Norm"] is not None for name in results)
        assert len(results) == 4


def test_what_a_model_is_given_and_what_autograd_returns_is_measured(tmp_path):
    """No recorded call made these: the script did before the step, or the engine."""
    import torch
    from msprobe.config import load_config
    from msprobe.dump.data_dump import DataDump

    class Teacher(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: Any, teacher: Any) -> Any:
            return torch.where(teacher[1][0].view(-1, 1), teacher[0][:, 1], self.linear(x))

    class Reversed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient.neg()

    model = Teacher()
    settings = {
        "task": "statistics",
        "dump_path": str(tmp_path / "dump"),
        "level": "mix",
        "statistics": {"diagnosis": ["all"]},
    }
    (tmp_path / "config.json").write_text(json.dumps(settings))
    dump = DataDump(load_config(tmp_path / "config.json"), only_evidence=True)
    x, frames, coins = torch.ones(3, 4), torch.ones(3, 2, 4), torch.ones(2, 3, dtype=torch.bool)
    dump.start(model)
    out = model(x, teacher=(frames, coins)).sum() + model.linear.weight.sum()
    (gradient,) = torch.autograd.grad(out, model.linear.weight, retain_graph=True)
    gradient.transpose(0, 1)
    Reversed.apply(out).backward()
    torch.stack([model.linear.bias.grad])
    dump.stop()
    dump.close()
    data = data_of(tmp_path)
    for record, argument in (
        ("Torch.where.0.forward", lambda given: given[1]),
        ("Tensor.transpose.0.forward", lambda given: given[0]),
        ("Tensor.neg.0.forward", lambda given: given[0]),
        ("Torch.stack.0.forward", lambda given: given[0][0]),
    ):
        assert argument(data[record]["input_args"])["Max"] is not None, record


def test_what_a_function_of_autograd_made_is_measured(tmp_path):
    """An index is no recorded call, and its result is moved by one."""
    import torch

    x = torch.arange(6.0, requires_grad=True)
    with recording(tmp_path):
        (x * 2)[torch.tensor([0, 3])].neg()
        x.detach()[torch.tensor([0, 3])].neg()
    data = data_of(tmp_path)
    of_autograd, of_nobody = (data[f"Tensor.neg.{n}.forward"]["input_args"][0]["Norm"] for n in range(2))
    assert of_autograd == 6
    assert of_nobody is None
