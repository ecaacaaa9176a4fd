# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What modules get and give, put together over ranks and micro-batches. Values are those of real tensors,
cut by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from msprobe.api import diagnose
from msprobe.diagnose.answer import Answer
from msprobe.graph.command import main as graph_command
from msprobe.native import torch_adapter
from written_jobs import State, ddp, state, write_job

RECORDED = {"max": "Max", "min": "Min", "mean": "Mean", "norm": "Norm", "sketch": "sketch"}

Call = tuple[torch.Tensor, ...]
"""What the module fc gets and gives, and then in the backward pass."""


def statistics(tensor: torch.Tensor) -> dict[str, Any]:
    found = json.loads("{" + torch_adapter().state_statistics(tensor) + "}")
    return {"dtype": str(tensor.dtype), "shape": list(tensor.shape), **found}


def in_dump(tensor: torch.Tensor, **more: Any) -> dict[str, Any]:
    found = statistics(tensor)
    numbers = {name: found[ours] for ours, name in RECORDED.items()}
    for name in ("Mean", "Norm"):  # as they are recorded, of the dtype of the tensor
        numbers[name] = torch.tensor(numbers[name], dtype=tensor.dtype).item()
    kept = {key: found[key] for key in ("dtype", "shape")}
    return {"type": "torch.Tensor", **kept, **numbers, "requires_grad": True, **more}


@pytest.fixture
def weight() -> torch.Tensor:
    return torch.randn(16, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def batch() -> torch.Tensor:
    return torch.randn(8, 32, generator=torch.Generator().manual_seed(1))


def write(folder: Path, weight: torch.Tensor, ranks: list[list[Call]], **placed: Any) -> Path:
    """A run whose ranks make these calls, one step. placed: what is said of each result."""
    states: list[State] = [
        state(
            rank,
            ranks=len(ranks),
            weights={"fc.weight": statistics(weight)},
            copies=ddp(len(ranks)) if len(ranks) > 1 else None,
        )
        for rank in range(len(ranks))
    ]
    write_job(folder, [states])
    for rank, calls in enumerate(ranks):
        data = {
            f"Module.fc.Linear.forward.{number}": {
                "input_args": [in_dump(given), {"type": "int", "value": len(given)}],
                "input_kwargs": {},
                "output": [in_dump(result, **placed)],
                "parameters": {"weight": in_dump(weight)},
                "is_recompute": False,
            }
            for number, (given, result, *_) in enumerate(calls)
        }
        data |= {
            f"Module.fc.Linear.backward.{number}": {"input": [in_dump(come)], "output": [in_dump(left)]}
            for number, (_, _, come, left) in enumerate(call for call in calls if len(call) == 4)
        }
        dump = {
            "task": "statistics",
            "level": "mix",
            "framework": "pytorch",
            "dump_data_dir": None,
            "data": data,
        }
        (folder / "step0" / f"rank{rank}" / "dump.json").write_text(json.dumps(dump))
    return folder


def answer(
    tmp_path: Path, weight: torch.Tensor, one: list[list[Call]], several: list[list[Call]], **placed: Any
) -> Answer:
    runs = write(tmp_path / "one", weight, one), write(tmp_path / "several", weight, several, **placed)
    return diagnose(*runs, output=tmp_path / "answer", graph=False)


def split(batch: torch.Tensor, weight: torch.Tensor, parts: int) -> list[Call]:
    return [(part, part @ weight.T) for part in batch.chunk(parts)]


def test_batches_of_ranks_and_micro_batches_are_one(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor
) -> None:
    four = split(batch, weight, 4)
    found = answer(tmp_path, weight, [[(batch, batch @ weight.T)]], [four[:2], four[2:]])
    assert found.status in ("equal", "rounding"), found.sentence
    assert not any("modules, as" in left.what for left in found.not_compared)


def test_means_of_parts_are_added_up_as_their_sketches_have_them(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor
) -> None:
    whole = batch.bfloat16()  # its mean is small beside those of its parts, which have three digits
    parts = [(part, part) for part in whole.chunk(4)]
    answer(tmp_path, weight, [[(whole, whole)]], [parts[:2], parts[2:]])
    for side in ("reference", "target"):
        file = tmp_path / "answer" / "joined" / side / "step0" / "rank0" / "dump.json"
        joined = json.loads(file.read_text())["data"]["Module.fc.Linear.forward.0"]["output"][0]
        assert joined["Mean"] == pytest.approx(whole.double().mean().item(), rel=1e-6)
        assert joined["Norm"] == pytest.approx(whole.double().norm().item(), rel=1e-6)


def test_columns_of_ranks_are_one_where_all_get_the_same(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor
) -> None:
    columns = [[(batch, batch @ half.T)] for half in weight.chunk(2)]
    found = answer(tmp_path, weight, [[(batch, batch @ weight.T)]], columns)
    assert found.status in ("equal", "rounding"), found.sentence
    assert not any("modules, as" in left.what for left in found.not_compared)


def test_a_module_that_computes_otherwise_on_one_rank_is_named(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor
) -> None:
    first, (given, result) = split(batch, weight, 2)
    found = answer(tmp_path, weight, [[(batch, batch @ weight.T)]], [[first], [(given, result * 1.01)]])
    assert found.cause is not None
    assert found.cause.name == "operator Module.fc.Linear.forward.0"


@pytest.mark.parametrize("says_so", [True, False], ids=["said", "seen by its size"])
def test_summands_are_left_out_and_named(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor, says_so: bool
) -> None:
    halves = zip(batch.chunk(2, 1), weight.chunk(2, 1))
    rows = [[(given.contiguous(), given @ half.T)] for given, half in halves]
    place = {"dtensor": {"shape": [8, 16], "placements": ["Partial(sum)"]}} if says_so else {}
    found = answer(tmp_path, weight, [[(batch, batch @ weight.T)]], rows, **place)
    assert found.cause is None
    assert any(left.what.endswith("calls of 1 modules, as fc") for left in found.not_compared)


@pytest.fixture
def loss(batch: torch.Tensor) -> torch.Tensor:
    """The gradient of it, by what fc gives."""
    return torch.randn(len(batch), 16, generator=torch.Generator().manual_seed(2))


def both_ways(weight: torch.Tensor, batch: torch.Tensor, gradient: torch.Tensor) -> Call:
    return batch, batch @ weight.T, gradient, gradient @ weight


def test_losses_of_ranks_may_be_means_of_their_own(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor, loss: torch.Tensor
) -> None:
    halves = [[both_ways(weight, *part)] for part in zip(batch.chunk(2), (2 * loss).chunk(2))]
    found = answer(tmp_path, weight, [[both_ways(weight, batch, loss)]], halves)
    assert found.status == "rounding", found.sentence
    assert not any("modules, as" in left.what for left in found.not_compared)


def test_a_backward_pass_that_computes_otherwise_on_one_rank_is_named(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor, loss: torch.Tensor
) -> None:
    first, (given, result, come, left) = (
        both_ways(weight, *part) for part in zip(batch.chunk(2), (2 * loss).chunk(2))
    )
    wrong = (given, result, come, left * 1.01)
    found = answer(tmp_path, weight, [[both_ways(weight, batch, loss)]], [[first], [wrong]])
    assert found.cause is not None
    assert found.cause.name == "operator Module.fc.Linear.backward.0"


def test_backward_passes_are_left_out_where_the_loss_weighs_otherwise(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor, loss: torch.Tensor
) -> None:
    """The gradients of the weights tell whether that is right."""
    weighed = (loss[:4] * 1.5, loss[4:] * 0.5)
    halves = [[both_ways(weight, *part)] for part in zip(batch.chunk(2), weighed)]
    found = answer(tmp_path, weight, [[both_ways(weight, batch, loss)]], halves)
    assert found.cause is None
    assert any("modules, as" in left.what for left in found.not_compared)


def say_passes(run: Path, *passes: int) -> Path:
    """By rank, how many backward passes went through fc."""
    for rank, number in enumerate(passes):
        file = run / "step0" / f"rank{rank}" / "dump.json"
        dump = json.loads(file.read_text())
        dump["data"]["Module.fc.Linear.backward.0"]["passes"] = number
        file.write_text(json.dumps(dump))
    return run


@pytest.mark.parametrize("several", [(2, 2), (1, 1), (2, 1)])
def test_only_calls_of_as_many_backward_passes_are_joined(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor, loss: torch.Tensor, several: tuple[int, int]
) -> None:
    """Records are of the last pass, which others than the same one are not held against."""
    halves = [[both_ways(weight, *part)] for part in zip(batch.chunk(2), (2 * loss).chunk(2))]
    runs = (
        say_passes(write(tmp_path / "one", weight, [[both_ways(weight, batch, loss)]]), 2),
        say_passes(write(tmp_path / "several", weight, halves), *several),
    )
    found = diagnose(*runs, output=tmp_path / "answer", graph=False)
    is_joined = several == (2, 2)
    assert any("modules, as" in left.what for left in found.not_compared) != is_joined
    for side in ("reference", "target"):
        file = tmp_path / "answer" / "joined" / side / "step0" / "rank0" / "dump.json"
        joined = json.loads(file.read_text())["data"].get("Module.fc.Linear.backward.0")
        assert (joined or {}).get("passes") == (2 if is_joined else None)


def keep_values(run: Path, ranks: list[list[Call]]) -> Path:
    """As task tensor does: what the calls of `run` get and give are files."""
    for rank, calls in enumerate(ranks):
        folder = run / "step0" / f"rank{rank}"
        dump = json.loads((folder / "dump.json").read_text())
        (folder / "dump_tensor_data").mkdir()
        for number, tensors in enumerate(calls):
            name = f"Module.fc.Linear.forward.{number}"
            for kind, tensor in zip(("input_args", "output"), tensors):
                file = f"{name}.{kind.removesuffix('_args')}.0.pt"
                torch.save(tensor.clone(), folder / "dump_tensor_data" / file)
                dump["data"][name][kind][0]["data_name"] = file
        (folder / "dump.json").write_text(json.dumps({**dump, "task": "tensor"}))
    return run


@pytest.mark.parametrize("are_kept", [False, True])
def test_values_are_compared_where_they_are_kept(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor, are_kept: bool
) -> None:
    """Elements of one rank change their places: sums do not tell."""
    first, (given, result) = split(batch, weight, 2)
    ranks = [[[(batch, batch @ weight.T)]], [[first], [(given, result.flip(1).contiguous())]]]
    runs = [write(tmp_path / str(number), weight, calls) for number, calls in enumerate(ranks)]
    if are_kept:
        for run, calls in zip(runs, ranks):
            keep_values(run, calls)
    found = diagnose(*runs, output=tmp_path / "answer", graph=False)
    assert (found.cause.name if found.cause else "") == (
        "operator Module.fc.Linear.forward.0" if are_kept else ""
    )


def test_a_missing_file_leaves_the_sums(tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor) -> None:
    ranks = [[[(batch, batch @ weight.T)]], [[call] for call in split(batch, weight, 2)]]
    runs = [
        keep_values(write(tmp_path / str(number), weight, calls), calls) for number, calls in enumerate(ranks)
    ]
    (runs[1] / "step0/rank1/dump_tensor_data/Module.fc.Linear.forward.0.output.0.pt").unlink()
    found = diagnose(*runs, output=tmp_path / "answer", graph=False)
    assert found.cause is None, found.sentence


def test_the_graph_of_merged_ranks_is_that_of_the_logical_runs(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write(tmp_path / "one", weight, [[(batch, batch @ weight.T)]])
    several = write(tmp_path / "several", weight, [[call] for call in split(batch, weight, 2)])
    assert graph_command([str(one), str(several), "--merge", "-o", str(tmp_path / "graph")]) == 0
    printed = capsys.readouterr().out
    assert "not compared: random states" in printed
    assert "0 without a match" in printed


def test_a_damaged_dump_of_a_rank_leaves_its_calls_out(
    tmp_path: Path, weight: torch.Tensor, batch: torch.Tensor
) -> None:
    calls = split(batch, weight, 2)
    one = write(tmp_path / "one", weight, [[(batch, batch @ weight.T)]])
    several = write(tmp_path / "several", weight, [[one] for one in calls])
    for content in (
        '{"data": {"Module.fc.Linear.forward.0": 3, "Module": [], "a.b.c.d": null}}',
        '{"data": 5}',
        "{",
    ):
        (several / "step0" / "rank1" / "dump.json").write_text(content)
        found = diagnose(one, several, output=tmp_path / "answer", graph=False, force=True)
        assert found.cause is None
        assert any("modules, as" in left.what for left in found.not_compared)
