# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever processes a model is spread over, the record is that of the same training in one process."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msprobe
import pytest
import torch
from gloo import launch, processes
from monitor_record import Record
from torch import nn

BATCH = 12  # rows of a step, over all processes
STEPS = 4
SETTINGS = {
    "quantities": [
        "training", "gradient", "weight", "moment", "update", "direction", "activation",
        "activation_gradient", "matrix",
    ],
    "metrics": ["norm", "rms", "mean", "abs_max", "kurtosis", "zeros", "nonfinite", "numel"],
    "matrix_every": 2,
    "levels": ["parameter", "layer", "model"],
}  # fmt: skip


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 8)
        self.down = nn.Linear(8, 6)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 6)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.last = nn.Linear(6, 1)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


def make_net() -> Net:
    torch.manual_seed(0)
    net = Net()
    with torch.no_grad():
        net.first.weight[1, 2] = 0.0
        net.layers[1].up.bias.fill_(0.0)
    return net


def data_of(step: int) -> Any:
    return torch.randn(BATCH, 5, generator=torch.Generator().manual_seed(step))


def run(model: Any, folder: Path, rows: slice = slice(None), before: Callable[..., None] = print) -> Any:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor = msprobe.monitor(model, optimizer, folder, **SETTINGS)
    before(monitor)
    for step in range(STEPS):
        optimizer.zero_grad()
        model(data_of(step)[rows]).square().mean().backward()
        optimizer.step()
    monitor.close()
    return monitor


@pytest.fixture(scope="module")
def unsharded(tmp_path_factory: pytest.TempPathFactory) -> Record:
    folder = tmp_path_factory.mktemp("unsharded")
    run(make_net(), folder)
    return Record(folder)


def count_collectives(folder: Path, rank: int) -> Callable[[Any], None]:
    """Writes how many of ours there are in each step, beside those that the training has."""

    def begin(monitor: Any) -> None:
        from torch import distributed

        counts = [0]
        for name in ("all_reduce", "all_gather_object", "broadcast", "barrier", "all_gather"):
            original = getattr(distributed, name)

            def counted(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
                counts[-1] += kwargs.get("group") is not None
                return _original(*args, **kwargs)

            setattr(distributed, name, counted)
        end = monitor._monitor.end_step

        def end_step() -> None:
            end()
            (folder / f"counts{rank}.json").write_text(json.dumps(counts))
            counts.append(0)

        monitor._monitor.end_step = end_step

    return begin


def part(rank: int, ranks: int) -> slice:
    size = BATCH // ranks
    return slice(rank * size, (rank + 1) * size)


def data_parallel(rank: int, folder: Path) -> None:
    model = nn.parallel.DistributedDataParallel(make_net())
    run(model, folder, part(rank, 2), count_collectives(folder, rank))


def fully_sharded(rank: int, folder: Path) -> None:
    """Three processes: 8 rows are 3 + 3 + 2, and the 1 row of the last weight is with the first alone."""
    from torch.distributed.fsdp import fully_shard

    net = make_net()
    mesh = torch.distributed.init_device_mesh("cpu", (3,))
    for layer in net.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    run(net, folder, part(rank, 3), count_collectives(folder, rank))


def _split(net: Net, mesh: Any) -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    for layer in net.layers:
        parallelize_module(layer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def tensor_parallel(rank: int, folder: Path) -> None:
    net = make_net()
    _split(net, torch.distributed.init_device_mesh("cpu", (2,)))
    run(net, folder, before=count_collectives(folder, rank))


def both(rank: int, folder: Path) -> None:
    """Two ways of data, two of tensors."""
    from torch.distributed.fsdp import fully_shard

    net = make_net()
    mesh = torch.distributed.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    _split(net, mesh["tensor"])
    for layer in net.layers:
        fully_shard(layer, mesh=mesh["data"])
    fully_shard(net, mesh=mesh["data"])
    run(net, folder, part(rank // 2, 2), count_collectives(folder, rank))


def sequence_parallel(rank: int, folder: Path) -> None:
    """Between the split layers each process has some of the rows."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    net = make_net()
    mesh = torch.distributed.init_device_mesh("cpu", (2,))
    plan = {
        "up": ColwiseParallel(input_layouts=Shard(0)),
        "down": RowwiseParallel(output_layouts=Shard(0)),
    }
    for layer in net.layers:
        parallelize_module(layer, mesh, plan)
    outer = {
        "first": ColwiseParallel(output_layouts=Shard(0)),
        "last": RowwiseParallel(input_layouts=Shard(0), output_layouts=Replicate()),
    }
    parallelize_module(net, mesh, outer)
    run(net, folder, before=count_collectives(folder, rank))


_ALL_ROWS = (tensor_parallel, sequence_parallel)  # work on all rows of a step in each process


@pytest.mark.parametrize(
    ("work", "ranks"),
    [
        (data_parallel, 2),
        pytest.param(fully_sharded, 3, marks=processes),
        pytest.param(tensor_parallel, 2),
        pytest.param(sequence_parallel, 2, marks=processes),
        pytest.param(both, 4, marks=processes),
    ],
)
def test_the_record_is_that_of_one_process(
    work: Callable[..., None], ranks: int, tmp_path: Path, unsharded: Record
) -> None:
    launch(work, tmp_path, ranks=ranks)
    record = Record(tmp_path)
    assert record.steps == unsharded.steps == list(range(STEPS))
    assert set(record.series) == set(unsharded.series)
    for key in unsharded.series:
        if key == "step_seconds" or (work not in _ALL_ROWS and key.startswith("activation_gradient")):
            continue  # of the loss of a process, which is that of its rows
        found, expected = record[key], unsharded[key]
        assert found.keys() == expected.keys(), key
        for step, number in expected.items():
            # An element whose gradient is rounding alone has any sign.
            loose = "gradient_moment" in key or "cosine" in key
            close = math.isclose(found[step], number, rel_tol=2e-4 if loose else 2e-5, abs_tol=1e-6)
            assert close, (key, step, found[step], number)
    assert not (tmp_path / "monitor.rank1.db").exists()
    for rank in range(ranks):
        counts = json.loads((tmp_path / f"counts{rank}.json").read_text())
        assert counts[1:] == [2] * (STEPS - 1)  # the first step also meets the others


# ---- experts, each with one process


class Expert(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(10 + number)
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.fc(x)


class Experts(nn.Module):
    """Those of `numbers`, under the names that they have in the whole."""

    def __init__(self, numbers: list[int]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(4, 4)
        self.experts = nn.ModuleDict({str(number): Expert(number) for number in numbers})
        self.num_experts = 4
        self.top_k = 1

    def forward(self, x: Any) -> Any:
        weights, chosen = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for name, expert in self.experts.items():
            rows = chosen == int(name)
            out = out + torch.where(rows[:, None], expert(x) * weights[:, None], torch.zeros_like(x))
        return out


def train_experts(model: Any, folder: Path, reduce: Callable[[Any], None] = lambda model: None) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor = msprobe.monitor(
        model, optimizer, folder, quantities=["training", "gradient", "weight", "experts"]
    )
    for step in range(3):
        optimizer.zero_grad()
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
        model(x).square().sum().backward()
        reduce(model)
        optimizer.step()
    monitor.close()


def expert_parallel(rank: int, folder: Path) -> None:
    """Each process has two of four experts and all tokens; the router's gradient is the sum of both."""
    from torch import distributed

    def add_up(model: Any) -> None:
        for parameter in model.router.parameters():
            distributed.all_reduce(parameter.grad)

    train_experts(Experts([2 * rank, 2 * rank + 1]), folder, add_up)


@processes
def test_experts_of_several_processes(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    train_experts(Experts([0, 1, 2, 3]), tmp_path / "one")
    launch(expert_parallel, tmp_path / "two")
    one, two = Record(tmp_path / "one"), Record(tmp_path / "two")
    assert set(two.series) == set(one.series)
    assert "expert_load.largest/router" in one.series
    for key in one.series:
        if key not in ("step_seconds", "loss"):  # the loss is the sum here, where the mean is taken
            assert two[key] == pytest.approx(one[key], rel=2e-5, abs=1e-7), key


# ---- communication


def communicate(rank: int, folder: Path) -> None:
    from torch import distributed as dist

    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with msprobe.monitor(net, optimizer, folder, quantities=["gradient", "communication"], every=2):
        for step in range(4):
            optimizer.zero_grad()
            net(data_of(step)[part(rank, 2)]).square().mean().backward()
            work = dist.all_reduce(torch.full((3,), 1.0 + rank), async_op=True)
            assert work is not None
            work.wait()
            dist.all_reduce(torch.tensor([4.0]))
            dist.all_gather([torch.zeros(2), torch.zeros(2)], torch.ones(2))
            optimizer.step()
    assert isinstance(dist.all_reduce(torch.ones(1), async_op=True), dist.Work)


@processes
def test_results_of_collectives(tmp_path: Path) -> None:
    """Those of the training alone, of both processes: 3 elements of 3 and one of 8, 4 elements of 1."""
    launch(communicate, tmp_path)
    record = Record(tmp_path)
    steps = (0, 2)
    assert record["communication.numel/all_reduce"] == dict.fromkeys(steps, 8)
    norm = math.sqrt(2 * (3 * 9 + 64))
    assert record["communication.norm/all_reduce"] == dict.fromkeys(steps, pytest.approx(norm))
    assert record["communication.abs_max/all_reduce"] == dict.fromkeys(steps, 8)
    assert record["communication.numel/all_gather"] == dict.fromkeys(steps, 8)
    assert record.keys("communication.numel") == [
        "communication.numel/all_reduce", "communication.numel/all_gather",
    ]  # fmt: skip


def join_inputs(rank: int, folder: Path) -> None:
    model = nn.parallel.DistributedDataParallel(make_net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        msprobe.monitor(model, optimizer, folder, quantities=["communication"]),
        model.join(divide_by_initial_world_size=False),
    ):
        for step in range(2):
            optimizer.zero_grad()
            model(data_of(step)).square().mean().backward()
            optimizer.step()


@processes
def test_a_handle_is_one_of_torch_for_ddp_too(tmp_path: Path) -> None:
    """Where processes may have uneven inputs, its C++ part waits for the handle of a collective."""
    launch(join_inputs, tmp_path)
    assert len(Record(tmp_path).steps) == 2


# ---- alarms


def alarming(rank: int, folder: Path, first: int) -> None:
    model = nn.parallel.DistributedDataParallel(make_net())
    optimizer = torch.optim.AdamW(model.parameters())
    # More numbers than one run has: the second one knows those of the first.
    limit = {"rule": "limit", "series": ["weight.norm"], "threshold": 1e-6, "warm_up": 4}
    with msprobe.monitor(
        model, optimizer, folder, start=first, rules=[limit], alarm={"dump": True, "most_dumps": 1}
    ):
        for step in range(first, first + 4):
            optimizer.zero_grad()
            model(data_of(step)[part(rank, 2)]).square().mean().backward()
            optimizer.step()


@processes
def test_an_alarm_arms_the_dump_of_all_processes(tmp_path: Path) -> None:
    launch(alarming, tmp_path, 0)
    assert not (tmp_path / "dump").exists()
    launch(alarming, tmp_path, 4)
    (alarm,) = [json.loads(line) for line in (tmp_path / "alarms.jsonl").read_text().splitlines()]
    (step,) = (tmp_path / "dump").iterdir()
    assert step.name == f"step{alarm['step'] + 1}"
    assert {path.name for path in step.iterdir()} == {"rank0", "rank1"}
    for rank in step.iterdir():
        assert {"dump.json", "diagnosis.json"} <= {path.name for path in rank.iterdir()}


# ---- faults, and each process for itself


def one_fails(rank: int, folder: Path) -> None:
    import time

    model = nn.parallel.DistributedDataParallel(make_net())
    optimizer = torch.optim.AdamW(model.parameters())
    monitor = msprobe.monitor(model, optimizer, folder)
    begun = time.monotonic()
    for step in range(STEPS):
        if rank == 1 and step == 2:
            monitor._monitor._parameter_rows = None  # anything
        optimizer.zero_grad()
        model(data_of(step)).square().mean().backward()
        optimizer.step()
    seconds = time.monotonic() - begun
    (folder / f"rank{rank}.json").write_text(json.dumps([monitor._monitor.is_open, seconds]))
    monitor.close()


@processes
def test_a_process_whose_monitor_fails_does_not_hold_up_the_others(tmp_path: Path) -> None:
    launch(one_fails, tmp_path)
    for rank in (0, 1):
        is_open, seconds = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert not is_open
        assert seconds < 100
    assert Record(tmp_path).steps == [0, 1]


def each_for_itself(rank: int, folder: Path) -> None:
    model = nn.parallel.DistributedDataParallel(make_net())
    optimizer = torch.optim.AdamW(model.parameters())
    with msprobe.monitor(model, optimizer, folder, scope="rank", quantities=["training", "activation"]):
        for step in range(2):
            model(data_of(step)[part(rank, 2)]).square().mean().backward()
            optimizer.step()


@processes
def test_each_process_for_itself(tmp_path: Path) -> None:
    launch(each_for_itself, tmp_path)
    records = [Record(tmp_path, f"monitor.rank{rank}.db") for rank in (0, 1)]
    assert not (tmp_path / "monitor.db").exists()
    assert records[0].steps == records[1].steps == [0, 1]
    assert records[0]["activation.rms/first"] != records[1]["activation.rms/first"]


# ---- processes that step different numbers of times


def losses(count: int, rank: int) -> list[float]:
    """Of a training of `count` steps, with its own weights and data, without a monitor."""
    torch.manual_seed(rank)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for step in range(count):
        optimizer.zero_grad()
        loss = model(torch.full((2, 3), 1.0 + step)).square().mean()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def uneven(rank: int, folder: Path, how: str) -> None:
    """Two rounds: the first half of the processes steps once in each, the second half twice. Behind a round
    they meet: who waits for another one's step here, waits for ever.
    """
    from msprobe.monitoring import whole_tensors
    from torch import distributed

    whole_tensors._TIMEOUT_SECONDS = 4
    ranks = distributed.get_world_size()
    half = ranks // 2
    groups = [distributed.new_group(list(range(half))), distributed.new_group(list(range(half, ranks)))]
    mine = int(rank >= half)
    torch.manual_seed(rank)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options: dict[str, Any] = {"group": groups[mine]} if how == "groups" else {}
    if how == "starts":
        options["start"] = 7 * mine
    if how == "groups":
        with pytest.raises(msprobe.InvalidArgument, match="group: expected a process group"):
            msprobe.monitor(model, optimizer, folder, group=groups[1 - mine])
    monitor = msprobe.monitor(model, optimizer, folder, **options)
    found = []
    for round_ in range(2):
        for one in range(1 + mine):
            optimizer.zero_grad()
            loss = model(torch.full((2, 3), 1.0 + round_ * (1 + mine) + one)).square().mean()
            loss.backward()
            optimizer.step()
            found.append(float(loss.detach()))
        if how != "ends":
            distributed.barrier()
    is_open = monitor._monitor.is_open
    monitor.close()
    assert found == losses(len(found), rank)
    (folder / f"rank{rank}.json").write_text(json.dumps([is_open, found]))


def of_ranks(folder: Path, ranks: int) -> list[list[Any]]:
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=processes)])
def test_groups_that_step_differently_have_records_of_their_own(ranks: int, tmp_path: Path) -> None:
    launch(uneven, tmp_path, "groups", ranks=ranks)
    found = of_ranks(tmp_path, ranks)
    half = ranks // 2
    assert all(is_open for is_open, _ in found)
    for record, members in (
        (Record(tmp_path), found[:half]),
        (Record(tmp_path, f"monitor.rank{half}.db"), found[half:]),
    ):
        steps = range(len(members[0][1]))
        assert record.steps == list(steps)
        for step in steps:
            mean = sum(numbers[step] for _, numbers in members) / half
            assert math.isclose(record["loss"][step], mean, rel_tol=1e-6)
    assert sorted(path.name for path in tmp_path.glob("*.db")) == sorted(
        ("monitor.db", f"monitor.rank{half}.db")
    )


@processes
@pytest.mark.parametrize("how", ["waits", "ends", "starts"])
def test_without_groups_nothing_hangs_and_nothing_is_mixed(how: str, tmp_path: Path) -> None:
    """waits: the second process comes to a step that the first one has not. ends: the first has ended then.
    starts: they call the same step differently.
    """
    launch(uneven, tmp_path, how)
    found = of_ranks(tmp_path, 2)
    whole = {"waits": 1, "ends": 2, "starts": 0}[how]  # steps that both have
    record = Record(tmp_path)
    assert record.steps == list(range(whole))
    for step in range(whole):
        mean = (found[0][1][step] + found[1][1][step]) / 2
        assert math.isclose(record["loss"][step], mean, rel_tol=1e-6)
    assert not found[1][0]
