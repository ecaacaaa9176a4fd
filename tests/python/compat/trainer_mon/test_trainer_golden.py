# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TrainerMon writes what mindstudio-probe wrote for the same training: names, columns, order, values."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from training_sample import DATA, alert_spoil, make_training, read_rows, train

CASES = ("csv_all", "csv_merge_steps", "csv_mbs_grad", "csv_target_xy", "alert")


def same_cell(ours: str, theirs: str) -> bool:
    try:
        a, b = float(ours), float(theirs)
    except ValueError:
        return ours == theirs
    # Torch's kernels round differently on each kind of processor; cells have six digits.
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-5 * max(1.0, abs(b))


def check_file(ours: Path, theirs: Path) -> None:
    a, b = read_rows(ours), read_rows(theirs)
    assert a[0] == b[0], ours.name
    names = a[0].index("step") + 1 + ("micro_step" in a[0])
    assert [row[:names] for row in a] == [row[:names] for row in b], ours.name
    for row, other in zip(a[1:], b[1:]):
        assert all(map(same_cell, row, other)), (ours.name, row, other)


@pytest.mark.parametrize("case", CASES)
def test_the_sample_is_reproduced(
    case: str, make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    net, optimizer = make_training()
    monitor = make_monitor(case=case)
    monitor.set_monitor(net, optimizer, grad_acc_steps=2)
    train(net, optimizer, spoil=alert_spoil if case == "alert" else lambda step, x: x)
    folder = run_folder()
    expected = {path.name for path in (DATA / case).glob("*.csv")}
    assert {path.name for path in folder.iterdir()} == expected
    for name in sorted(expected - {"stack_info.csv"}):
        check_file(folder / name, DATA / case / name)


def test_folders_and_files_have_the_permissions_of_the_existing_tool(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    net, optimizer = make_training()
    make_monitor(case="csv_merge_steps").set_monitor(net, optimizer, grad_acc_steps=2)
    umask = os.umask(0o022)
    os.umask(umask)
    train(net, optimizer, steps=1)
    folder = run_folder()
    assert re.fullmatch(r"[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d-rank0-[0-9a-f]{8}", folder.name)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750 & ~umask
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o640 & ~umask}


def test_anomalies_are_those_of_the_sample(make_monitor: Callable[..., Any], output: Path) -> None:
    """But for gradients that are None, which are no NaN, and what came behind a NaN in the mean."""
    net, optimizer = make_training()
    make_monitor(case="alert").set_monitor(net, optimizer, grad_acc_steps=2)
    train(net, optimizer, spoil=alert_spoil)
    ours = _by_tag(json.loads((output / "anomaly_detected/rank0/anomaly.json").read_text()))
    theirs = _by_tag(json.loads((DATA / "alert/anomaly.json").read_text()))
    none = re.compile(r"0:(|fc1)\.input:\d/rank0/actv_grad_")
    expected = {key: record for key, record in theirs.items() if not none.match(key)}
    # Means of rounding errors, of which every summation has its own.
    tiny = {key for key, record in (*expected.items(), *ours.items()) if _is_tiny(record)}
    assert set(ours) - tiny == set(expected) - tiny
    assert len(set(ours) - tiny) > 100
    for key in set(ours) - tiny:
        a, b = ours[key], expected[key]
        assert list(a) == list(b)
        # Gradients of modules are numbered a little earlier than by mindstudio-probe, whose nodes come
        # later.
        free = {"message", *(() if key.partition("_step")[0].endswith("/actv") else ("call_id",))}
        assert {k: v for k, v in a.items() if k not in free} == {k: v for k, v in b.items() if k not in free}
        assert _without_numbers(a["message"]) == _without_numbers(b["message"])
        assert same_cell(str(_number(a, "current value")), str(_number(b, "current value")))


def _by_tag(records: dict[str, Any]) -> dict[str, Any]:
    return {key.partition("_call_")[0]: record for key, record in records.items()}


def _is_tiny(record: dict[str, Any]) -> bool:
    return abs(_number(record, "current value")) < 1e-7


def _number(record: dict[str, Any], name: str) -> float:
    match = re.search(rf"{name} ([^ ,]+?)[,.]?(?: |$)", record["message"])
    assert match is not None
    return float(match[1])


def _without_numbers(message: str) -> str:
    return re.sub(r"(current value|history mean) \S+", r"\1", message)


def test_the_ranking_tool_finds_the_first_ones(
    make_monitor: Callable[..., Any], output: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from msprobe.compat.trainer_mon.anomaly_ranking import main

    folder = output / "anomaly_detected"
    (folder / "rank0").mkdir(parents=True)
    (folder / "rank0/anomaly.json").write_text((DATA / "alert/anomaly.json").read_text())
    assert main(["-d", str(folder), "-k", "4"]) == 0
    assert json.loads((folder / "anomaly_analyse.json").read_text()) == json.loads(
        (DATA / "alert/anomaly_analyse.json").read_text()
    )
    assert "0: Rule AnomalyNan" in capfd.readouterr().err
    assert main(["-d", str(folder), "-o", str(output / "new/place"), "-k", "1"]) == 0
    assert len(json.loads((output / "new/place/anomaly_analyse.json").read_text())) == 1


def test_structure_is_that_of_the_sample(make_monitor: Callable[..., Any], output: Path) -> None:
    net, optimizer = make_training()
    make_monitor(case="print_struct").set_monitor(net, optimizer, grad_acc_steps=2)
    with (
        pytest.warns(UserWarning, match="Full backward hook"),
        pytest.raises(Exception, match="exit after first monitor step when print model struct"),
    ):
        train(net, optimizer)
    assert json.loads((output / "module_struct.json").read_text()) == json.loads(
        (DATA / "print_struct/module_struct.json").read_text()
    )


def test_the_converter_makes_the_points_of_the_sample(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from msprobe.pytorch.monitor.csv2tb import csv2tensorboard_by_step
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "Nov21_15-03-32-rank0-d285968a"
    folder.mkdir()
    for path in (DATA / "csv_all").glob("*.csv"):
        (folder / path.name).write_bytes(path.read_bytes())
    output = tmp_path / "csv2tb"
    csv2tensorboard_by_step(
        str(tmp_path), data_type_list=["grad_reduced", "actv"], output_dirpath=str(output)
    )
    lines = (DATA / "csv2tb_tags.txt").read_text().splitlines()
    assert lines
    for line in lines:
        place, tag, points = line.split(" | ")
        events = EventAccumulator(str(tmp_path / place))
        events.Reload()
        found = [(scalar.step, round(scalar.value, 6)) for scalar in events.Scalars(tag)]
        assert str(found) == points


def test_the_converter_keeps_what_became_nan(tmp_path: Path) -> None:
    from msprobe.compat.trainer_mon.csv_to_tensorboard import _scalars

    path = tmp_path / "grad_reduced_0-1.csv"
    rows = "0,w,0,1.5,2,[2],torch.float32\n0,w,1,nan,inf,[2],torch.float32\n"
    path.write_text(f"vpp_stage,name,step,norm,max,shape,dtype\n{rows}")
    assert [(tag, str(value), step) for tag, value, step in _scalars(path)] == [
        ("vp0:w/norm", "1.5", 0),
        ("vp0:w/max", "2.0", 0),
        ("vp0:w/norm", "nan", 1),
        ("vp0:w/max", "inf", 1),
    ]
