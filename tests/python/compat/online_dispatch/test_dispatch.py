# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PtdbgDispatch: files and numbers of the existing tool, faults that are seen, programs that stay as is."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msprobe import InvalidArgument
from msprobe.compat.online_dispatch.single_benchmark import measure
from msprobe.pytorch.online_dispatch import PtdbgDispatch

DATA = Path(__file__).resolve().parents[3] / "data/online_dispatch"


pytestmark = pytest.mark.usefixtures("no_accelerator")


@pytest.fixture(scope="module")
def bad() -> Iterator[Any]:
    """An operator that is wrong in half precision, as one of a device may be."""
    library = torch.library.Library("msprobe_test_dispatch", "DEF")
    library.define("bad(Tensor x) -> Tensor")
    library.impl("bad", lambda x: x * 1.01 if x.dtype is torch.float16 else x.clone(), "CPU")
    yield torch.ops.msprobe_test_dispatch.bad
    library._destroy()


def table(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def files(dispatch: PtdbgDispatch) -> tuple[list[str], dict[str, list[str]], dict[str, str]]:
    """The header of the details, their rows by name, and the statuses by name."""
    assert dispatch.folder is not None
    (details,) = dispatch.folder.glob("accuracy_checking_details_*.csv")
    (results,) = dispatch.folder.glob("accuracy_checking_result_*.csv")
    header, *rows = table(details)
    return header, {row[0]: row for row in rows}, {row[0]: row[1] for row in table(results)[1:]}


def tensors(dispatch: PtdbgDispatch) -> set[str]:
    assert dispatch.folder is not None
    return {f"{p.parent.name}/{p.name}" for p in dispatch.folder.glob("*pu/*")}


@pytest.mark.parametrize("name", ["t_1_output", "mm_1_output", "exp_1_output", "sum_1_output"])
def test_the_rule_gives_the_numbers_of_the_sample(name: str) -> None:
    """There the results were raised to float32 before they were measured."""
    rows = {row[0].partition(".")[0]: row for row in table(DATA / "details.csv")}
    device, bench = (torch.from_numpy(np.load(DATA / f"{side}_{name}.npy")) for side in ("npu", "cpu"))
    found = measure(device.float(), bench)
    row = rows[name]
    assert [str(found.max_absolute_index), str(found.max_relative_index)] == [row[6], row[8]]
    assert str(found.passes) == row[11]
    # Theirs are computed in float32.
    numbers = (found.balance, found.max_absolute, found.max_relative, found.balance_limit, found.error_limit)
    for ours, theirs in zip(numbers, (row[4], row[5], row[7], row[9], row[10])):
        assert ours == pytest.approx(float(theirs), rel=1e-5, abs=1e-10)


def test_half_precision_passes_and_the_wrong_operator_alone_is_kept(bad: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(4, 5).half() * 0.1, torch.randn(3, 5).half() * 0.1
    with PtdbgDispatch(dump_mode="auto", dump_path=str(tmp_path), tag="demo") as dispatch:
        y = torch.nn.functional.linear(x, w)
        bad(torch.exp(y))
    header, details, results = files(dispatch)
    assert dispatch.folder is not None
    assert dispatch.folder.name.startswith("msprobe_demo_rank0_2")
    assert header[:4] == ["Npu Name", "Bench Dtype", "NPU Dtype", "Shape"]
    assert header[11:13] == ["Status", "Message"]
    assert results["mm_1_output"] == results["exp_1_output"] == "True"
    assert results["bad_1_output"] == "False"
    assert dispatch.failed == ["bad_1_output"]
    row = details["exp_1_output.forward.output.0"]
    assert row[1:4] == ["torch.float32", "torch.float16", "(12,)"]
    assert [float(row[9]), float(row[10])] == [2**-10, 2**-11]  # those of float16, and not of float32
    assert row[header.index("Verdict")] == "good"
    assert tensors(dispatch) == {"npu/bad_1_input.0.npy", "npu/bad_1_output.npy", "cpu/bad_1_output.npy"}
    kept = np.load(dispatch.folder / "npu/bad_1_output.npy")
    assert kept.dtype == np.float16
    assert np.array_equal(kept, (torch.exp(y) * 1.01).numpy())


@pytest.mark.parametrize("processes", [0, 1])
def test_every_result_of_an_operator_has_a_row_and_files(processes: int, tmp_path: Path) -> None:
    x = torch.arange(12.0).reshape(3, 4)
    with PtdbgDispatch("all", dump_path=tmp_path, process_num=processes) as dispatch:
        torch.sort(x, descending=True)
    _, details, results = files(dispatch)
    assert results == {"sort_1_output": "True"}
    assert set(details) == {"sort_1_output.forward.output.0", "sort_1_output.forward.output.1"}
    sides = {f"{side}/sort_1_output.{i}.npy" for side in ("cpu", "npu") for i in (0, 1)}
    inputs = {f"npu/sort_1_input.{i}.npy" for i in range(3)}  # with those that are no tensors
    assert tensors(dispatch) == {*inputs, *sides}


def test_a_list_keeps_its_operators_and_off_none(tmp_path: Path) -> None:
    x = torch.randn(3, 3)
    with PtdbgDispatch("list", api_list=["exp"], dump_path=tmp_path) as dispatch:
        torch.exp(x @ x)
    assert {name.partition("/")[2] for name in tensors(dispatch)} == {"exp_1_input.0.npy", "exp_1_output.npy"}
    assert set(files(dispatch)[2]) == {"mm_1_output", "exp_1_output"}
    with PtdbgDispatch(dump_path=tmp_path) as dispatch:
        torch.exp(x)
    assert tensors(dispatch) == set()
    assert set(files(dispatch)[2]) == {"exp_1_output"}


def test_a_name_that_torch_lacks_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with PtdbgDispatch("list", api_list=["exp", "no_such"], dump_path=tmp_path) as dispatch:
        torch.exp(torch.zeros(2))
    assert "'no_such' is not in torch.ops.aten: it is left out" in caplog.text
    assert len(tensors(dispatch)) == 3


def test_what_is_asked_for_has_rows_and_numbers_are_kept(tmp_path: Path) -> None:
    names = ["arange", "full", "eye", "fill_", "slice"]
    with PtdbgDispatch("list", api_list=names, dump_path=tmp_path) as dispatch:
        torch.arange(3)
        torch.full((2,), 2.0)
        torch.eye(2)
        x = torch.zeros(4)
        x.fill_(3.0)
        x[1:3]
    assert files(dispatch)[2] == {f"{name}_1_output": "True" for name in names}
    kept = {name.partition("/")[2] for name in tensors(dispatch)}
    assert {"arange_1_input.0.npy", "full_1_input.1.npy", "fill__1_input.1.npy"} <= kept
    assert np.load(next(tmp_path.rglob("full_1_input.1.npy"))) == 2.0


def test_an_overflow_of_single_precision_is_no_failure(tmp_path: Path) -> None:
    x = torch.tensor([1.0, float("inf")])
    big = torch.tensor([3e38, 3e38])
    with PtdbgDispatch("auto", dump_path=tmp_path) as dispatch:
        x.nan_to_num()
        big.sum()
        big + big
    assert set(files(dispatch)[2].values()) == {"True"}
    assert dispatch.failed == []


GOLDEN = json.loads((DATA / "single_benchmark.json").read_text())


@pytest.mark.parametrize("name", GOLDEN)
def test_the_rule_gives_what_mindstudio_probe_gives(name: str) -> None:
    device, reference, dtype, of_reference = GOLDEN[name]["case"]
    found = measure(
        torch.tensor(device, dtype=getattr(torch, dtype)),
        torch.tensor(reference, dtype=getattr(torch, of_reference)),
    )
    assert found.passes == GOLDEN[name]["passes"]
    cells = [found.balance, found.max_absolute, found.max_absolute_index, found.max_relative]
    cells += [found.max_relative_index, found.balance_limit, found.error_limit]
    for ours, theirs in zip(cells, GOLDEN[name]["row"]):
        assert (ours is None) == (theirs is None), cells
        assert ours is None or ours == pytest.approx(theirs, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("processes", [0, 1])
def test_a_training_is_not_changed(processes: int, bad: Any, tmp_path: Path) -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3)
    )
    start = {name: value.clone() for name, value in model.state_dict().items()}

    def train(dispatch: PtdbgDispatch | None) -> list[torch.Tensor]:
        model.load_state_dict(start)
        model.zero_grad()
        torch.manual_seed(1)
        x = torch.randn(4, 8)
        if dispatch is None:
            loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([0, 1, 2, 0]))
            loss.backward()
            bad(x)
        else:
            with dispatch:
                loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([0, 1, 2, 0]))
                loss.backward()
                bad(x)  # the process that judges does not know it: it is judged here
        gradients = [parameter.grad for parameter in model.parameters()]
        return [loss.detach(), torch.get_rng_state(), *model.state_dict().values(), *gradients]  # type: ignore[list-item]

    alone = train(None)
    dispatch = PtdbgDispatch("OFF", dump_path=tmp_path, process_num=processes)
    watched = train(dispatch)
    assert all(torch.equal(a, b) for a, b in zip(alone, watched))
    results = files(dispatch)[2]
    assert {"addmm_1_output", "native_batch_norm_backward_1_output", "bad_1_output"} <= set(results)
    assert not any("bernoulli" in name for name in results)
    assert dispatch.failed == []


def test_what_the_cpu_refuses_is_skipped_with_its_reason(tmp_path: Path) -> None:
    library = torch.library.Library("msprobe_test_refused", "DEF")
    library.define("half_only(Tensor x) -> Tensor")

    def half_only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float16:
            raise RuntimeError("half_only: expected float16")
        return x + 1

    library.impl("half_only", half_only, "CPU")
    with PtdbgDispatch(dump_path=tmp_path) as dispatch:
        result = torch.ops.msprobe_test_refused.half_only(torch.ones(3, dtype=torch.float16))
    library._destroy()
    assert torch.equal(result, torch.full((3,), 2.0, dtype=torch.float16))
    assert dispatch.folder is not None
    rows = table(next(dispatch.folder.glob("accuracy_checking_result_*.csv")))
    assert rows[1][:2] == ["half_only_1_output", "SKIP"]
    assert "half_only: expected float16" in rows[1][3]


def test_an_error_of_the_program_is_its_own(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"), PtdbgDispatch(dump_path=tmp_path):
        torch.ones(2, 3) @ torch.ones(2, 3)


def test_a_folder_that_vanishes_does_not_stop_the_program(tmp_path: Path) -> None:
    import shutil

    with PtdbgDispatch("all", dump_path=tmp_path) as dispatch:
        assert dispatch.folder is not None
        shutil.rmtree(dispatch.folder)
        result = torch.exp(torch.zeros(3))
    assert torch.equal(result, torch.ones(3))


@pytest.mark.parametrize(
    ("arguments", "expectation"),
    [
        ({"dump_mode": "some"}, "dump_mode: expected one of"),
        ({"dump_mode": None}, "dump_mode: expected one of"),
        ({"dump_path": "/nowhere"}, "dump_path: expected a folder that exists"),
        ({"dump_path": None}, "dump_path: expected a folder that exists"),
        ({"dump_mode": "list"}, "api_list: expected names of operators"),
        ({"api_list": "exp"}, "api_list: expected a list of names"),
        ({"process_num": -1}, "process_num: expected 0 to"),
        ({"process_num": 10_000}, "process_num: expected 0 to"),
        ({"process_num": True}, "process_num: expected 0 to"),
        ({"tag": "../../x"}, "tag: expected letters"),
        ({"tag": 3}, "tag: expected letters"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], expectation: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=expectation):
        PtdbgDispatch(**{"dump_path": tmp_path, **arguments})
    assert list(tmp_path.iterdir()) == []


def test_an_object_is_used_once(tmp_path: Path) -> None:
    dispatch = PtdbgDispatch(dump_path=tmp_path)
    with dispatch:
        pass
    with pytest.raises(InvalidArgument, match="expected one `with`"):
        dispatch.__enter__()
