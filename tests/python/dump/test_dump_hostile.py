# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Wrong use, hostile names and broken disks: clear, and the training goes on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dump_support import Dump, captured, debugger, log_of, run

# ---- wrong use


def wrong_use(directory: Path) -> dict[str, Any]:
    import torch
    from msprobe import InvalidArgument, PrecisionDebugger

    found: dict[str, Any] = {}
    for method in ("start", "stop", "step", "forward_backward_dump_end"):
        with pytest.raises(InvalidArgument, match="instance is not created"):
            getattr(PrecisionDebugger, method)()
    with pytest.raises(InvalidArgument, match="instance is not created"):
        PrecisionDebugger.save(1, "x")
    probe = debugger(directory)
    probe.stop()
    probe.stop()
    for wrong in (None, 3, "model", [], [3], {"a": torch.nn.Tanh()}):
        with pytest.raises(InvalidArgument, match="start"):
            probe.start(wrong)
    assert torch._C._len_torch_function_stack() == 0
    model, other = torch.nn.Sequential(torch.nn.Tanh()), torch.nn.Sequential(torch.nn.ReLU())
    x = torch.ones(2)

    def twice() -> None:
        probe.start(model)
        probe.start(model)
        model(x)
        probe.stop()

    found["twice"] = log_of(twice)

    def another() -> None:
        probe.start(other)
        other(x)
        model(x)
        probe.stop()
        probe.stop()

    found["another"] = log_of(another)
    probe.step()
    for step in (-1, 1.5, "2", True, None):
        with pytest.raises(InvalidArgument, match="set_init_step"):
            probe.set_init_step(step)
    probe.set_init_step(7)
    probe.start(model)
    model(x)
    probe.forward_backward_dump_end()
    probe.step()
    probe.step()
    assert PrecisionDebugger("/nowhere/else.json") is probe
    return found


def test_wrong_use(tmp_path):
    found = run(wrong_use, tmp_path)
    assert found["twice"] == []
    assert len(found["another"]) == 1
    assert "another model" in found["another"][0]
    names = Dump(tmp_path).check().names
    assert [name for name in names if name.startswith("Module")] == [
        "Module.0.Tanh.forward.0",
        "Module.0.Tanh.forward.1",
    ]
    assert Dump(tmp_path, 7).check().names
    assert not Dump(tmp_path, 1).folder.exists()


def saves(directory: Path) -> list[str]:
    import torch

    class Custom:
        pass

    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)
    probe = debugger(directory, task="tensor", level="debug")
    x = torch.ones(2, requires_grad=True)
    bad = [
        (Custom(), "a"),
        ({1: x}, "a"),
        (x, 3),
        (deep, "a"),
        (endless, "a"),
        ({"k": [Custom()]}, "a"),
        (None, "a"),
        (torch.device("cpu"), "a"),
    ]
    lines = log_of(lambda: [probe.save(*arguments) for arguments in bad] and None)
    lines += log_of(lambda: probe.save(x, "flag", save_backward="yes"))
    names = [
        "a/b",
        "../../outside",
        "..",
        ".",
        "",
        "x" * 300,
        "new\nline",
        "null\0",
        "ünï",
        "a b",
        "/absolute",
    ]
    for name in names:
        probe.save(x * 2, name)
        probe.save({"k/../..": x * 2, "": [x, x]}, name)
    (x * 2).sum().backward()
    probe.step()
    return lines


def test_saving_what_cannot_be_saved_and_names_that_would_leave_the_folder(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    lines = run(saves, inside)
    assert len(lines) == 9
    assert all("save" in line for line in lines)
    assert os.listdir(tmp_path) == ["inside"]
    assert sorted(os.listdir(inside)) == ["config.json", "dump"]
    dump = Dump(inside)
    data = dump.json("debug.json")["data"]
    assert "a/b.0.debug" in data
    assert "../../outside.1.debug" in data
    assert sorted(os.listdir(inside / "dump")) == ["step0"]
    assert sorted(os.listdir(dump.folder)) == ["debug.json", "dump_tensor_data", "summary.json"]
    stored = dump.folder / "dump_tensor_data"
    assert all(path.is_file() for path in stored.iterdir())  # no folder was made
    named: set[str] = set()

    def collect(element: Any) -> None:
        if isinstance(element, dict):
            named.update([element["data_name"]] if "data_name" in element else [])
            for value in element.values():
                collect(value)
        elif isinstance(element, list):
            for value in element:
                collect(value)

    collect(data)
    assert named <= set(os.listdir(stored))


def names_of_modules(directory: Path) -> None:
    import torch

    model = torch.nn.Module()
    model.add_module("a/b", torch.nn.Linear(2, 2))
    model.add_module("new\nline", torch.nn.Tanh())
    model.add_module("y" * 280, torch.nn.Tanh())
    probe = debugger(directory, task="tensor", level="L0")
    probe.start(model)
    x = torch.ones(1, 2)
    for part in model.children():
        x = part(x)
    x.sum().backward()
    probe.stop()
    probe.step()


def test_names_of_modules_that_are_no_file_names(tmp_path):
    run(names_of_modules, tmp_path)
    data = Dump(tmp_path).check().data
    assert "Module.a/b.Linear.forward.0" in data
    stored = set(os.listdir(Dump(tmp_path).folder / "dump_tensor_data"))
    for name in ("Module.a/b.Linear.forward.0", "Module.new\nline.Tanh.forward.0"):
        assert data[name]["output"][0]["data_name"] in stored
    long = next(record for name, record in data.items() if "yyy" in name)
    assert long["output"][0]["data_name"] in stored


def names_without_unicode(directory: Path) -> list[float]:
    import torch

    model = torch.nn.Sequential()
    model.add_module("a\udc80", torch.nn.Linear(2, 2))
    model.add_module("\ud800", torch.nn.Tanh())
    losses = []

    def train() -> None:
        for _ in range(2):
            probe = debugger(directory)
            probe.start(model)
            loss = model(torch.ones(1, 2)).sum()
            loss.backward()
            probe.stop()
            probe.step()
            losses.append(float(loss))

    log_of(train)
    return losses


def test_names_with_lone_surrogates_do_not_stop_a_training(tmp_path):
    assert len(run(names_without_unicode, tmp_path)) == 2
    assert {r"Module.a\udc80.Linear.forward.0", r"Module.\ud800.Tanh.forward.0"} <= set(
        Dump(tmp_path).check().names
    )


def deepest(directory: Path, level: str) -> list[int]:
    """How deep modules may nest, without and with a recording."""
    import torch

    class Nest(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return x + 1 if self.inner is None else self.inner(x)

    def depth() -> int:
        model, count = Nest(None), 1
        while True:
            try:
                model(torch.ones(1))
            except RecursionError:
                return count
            model, count = Nest(model), count + 1

    sys.setrecursionlimit(400)
    plain = depth()
    model: Any = Nest(None)
    for _ in range(plain - 8):  # a few frames in all, none for each module
        model = Nest(model)
    probe = debugger(directory, level=level)
    probe.start(model)
    model(torch.ones(1))
    probe.stop()
    probe.step()
    return [plain, len(Dump(directory).names)]


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_modules_may_nest_as_deep_as_without(tmp_path, level):
    plain, records = run(deepest, tmp_path, level)
    assert plain > 50
    assert records >= plain - 8


def at_the_limit(directory: Path, frames: int) -> str:
    """Of a chain of modules that ends where Python's stack does: what its first recorded call comes to."""
    import torch

    if frames > 0:
        return at_the_limit(directory, frames - 1)

    class Link(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    def computes(model: Any) -> bool:
        try:
            model(torch.ones(1, 4))
        except RecursionError:
            return False
        return True

    def chain(length: int) -> Any:
        model: Any = torch.nn.Linear(4, 4)
        for _ in range(length):
            model = Link(model)
        return model

    model = next(model for model in map(chain, range(400, 0, -1)) if computes(model))
    probe = debugger(directory, level="mix")
    probe.start(model)
    found = computes(model)
    probe.stop()
    probe.step()
    return "computes" if found else "too deep"


@pytest.mark.parametrize("frames", range(4))
def test_a_stack_that_is_full_ends_no_process(tmp_path, frames):
    assert run(at_the_limit, tmp_path, frames) in ("computes", "too deep")


# ---- disks


def cut_log(number: int, directory: Path) -> None:
    if number == 1:
        (log,) = (directory / "dump" / "step1").glob("rank*/trace.msprobe")
        os.truncate(log, 0)
    if number == 3:
        for spare in (directory / "dump").glob("*trace.msprobe*"):
            os.truncate(spare, 0)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_log_that_is_cut_in_mid_run(tmp_path, task):
    found = run(steps_while, tmp_path, {"task": task}, cut_log)
    assert len(found["losses"]) == 5
    assert [len(found["warnings"][number]) for number in (0, 2, 3, 4)] == [0, 0, 0, 0]
    (warning,) = found["warnings"][1]
    assert "another program cut this file" in warning
    for number in (0, 2, 3, 4):
        assert len(Dump(tmp_path, number).check().names) > 10


def plant_links(number: int, directory: Path) -> None:
    if number == 1:
        folder = directory / "dump" / "step2" / "rank"
        folder.mkdir(parents=True)
        (directory / "elsewhere").mkdir()
        (folder / "dump_tensor_data").symlink_to(directory / "elsewhere")


def test_a_link_in_the_place_of_the_tensors_is_not_followed(tmp_path):
    found = run(steps_while, tmp_path, {"task": "tensor"}, plant_links)
    assert len(found["losses"]) == 5
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert any("found a link" in line for line in found["warnings"][2])
    for number in (0, 1, 3, 4):
        assert len(Dump(tmp_path, number).check().names) > 10


def steps_while(
    directory: Path, configuration: dict[str, Any], harm: Callable[[int, Path], None]
) -> dict[str, Any]:
    """Five steps of training; `harm` is called in the middle of each."""
    from dump_models import build, loss_of

    model = build("cnn")
    losses: list[float] = []
    warnings: dict[int, list[str]] = {}

    def step(number: int) -> None:
        probe.start(model)
        loss = loss_of(model, "cnn", number)
        harm(number, directory)
        loss.backward()
        probe.stop()
        probe.step()
        losses.append(float(loss))

    probe = debugger(directory, **configuration)
    for number in range(5):
        warnings[number] = log_of(lambda number=number: step(number))
    return {"losses": losses, "warnings": warnings}


def remove_folder(number: int, directory: Path) -> None:
    while number == 1 and (directory / "dump").exists():  # files may come while it is being removed
        shutil.rmtree(directory / "dump", ignore_errors=True)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_folder_that_is_removed_in_mid_run(tmp_path, task):
    found = run(steps_while, tmp_path, {"task": task}, remove_folder)
    assert len(found["losses"]) == 5
    assert [len(found["warnings"][number]) for number in (0, 2, 3, 4)] == [0, 0, 0, 0]
    assert len(found["warnings"][1]) <= 1
    for number in (2, 3, 4):
        assert len(Dump(tmp_path, number).check().names) > 10


def put_file_in_the_way(number: int, directory: Path) -> None:
    if number == 1:
        (directory / "dump" / "step2").write_text("in the way")
    if number == 3:
        (directory / "dump" / "step2").unlink()


def test_a_folder_that_cannot_be_made(tmp_path):
    found = run(steps_while, tmp_path, {}, put_file_in_the_way)
    assert len(found["losses"]) == 5
    assert [len(found["warnings"][number]) for number in range(5)] == [0, 0, 1, 0, 0]
    assert "step2" in found["warnings"][2][0]
    for number in (0, 1, 3, 4):
        assert len(Dump(tmp_path, number).check().names) > 10


def take_permission(number: int, directory: Path) -> None:
    if number == 1:
        os.setgid(65534)
        os.setuid(65534)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become someone who may not write")
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_permission_that_is_lost_in_mid_run(tmp_path, task):
    found = run(steps_while, tmp_path, {"task": task}, take_permission)
    assert len(found["losses"]) == 5
    assert [bool(found["warnings"][number]) for number in (0, 2, 3, 4)] == [False, True, True, True]
    assert all(len(lines) <= 1 for lines in found["warnings"].values())
    assert len(Dump(tmp_path, 0).check().names) > 10
    for path in (tmp_path / "dump").rglob("*.json"):
        json.loads(path.read_text())


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 24 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(number: int, directory: Path) -> None:
    path = directory / "filler"
    if number in (1, 2):
        with contextlib.suppress(OSError), open(path, "ab", buffering=0) as file:
            while True:
                assert file.write(bytes(4096)) == 4096
    if number == 3:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_disk_that_is_full(small_disk, task):
    found = run(steps_while, small_disk, {"task": task}, fill)
    assert len(found["losses"]) == 5
    assert found["warnings"][0] == []
    assert len(found["warnings"][1]) == 1
    assert len(found["warnings"][2]) <= 1
    if not found["warnings"][2]:  # what step 1 gave up was enough for it
        assert len(Dump(small_disk, 2).check().names) > 10
    assert found["warnings"][4] == []
    assert len(Dump(small_disk, 0).check().names) > 10
    assert len(Dump(small_disk, 4).check().names) > 10
    for path in small_disk.rglob("*.json"):
        json.loads(path.read_text())


# ---- the end of the process


SCRIPT = """
import sys
sys.path[:0] = {helpers!r}
from pathlib import Path
import torch
from dump_support import debugger
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
probe = debugger(Path({directory!r}), task={task!r})
probe.start(model)
model(torch.ones(1, 2)).sum().backward()
{end}
"""

ENDS = {
    "falls off the end": "",
    "exits": "sys.exit(0)",
    "raises": "raise SystemExit('an error of the user')",
    "stops, and does not step": "probe.stop()",
    "forgets nothing": "probe.stop(); probe.step()",
}


@pytest.mark.parametrize("end", list(ENDS))
def test_the_end_of_the_process(tmp_path, end):
    helpers = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    script = SCRIPT.format(helpers=helpers, directory=str(tmp_path), task="tensor", end=ENDS[end])
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == (1 if end == "raises" else 0), result.stderr
    assert "Fatal" not in result.stderr
    dump = Dump(tmp_path).check()
    assert {"Module.0.Linear.forward.0", "Functional.linear.0.backward"} <= set(dump.names)
    assert not list(tmp_path.rglob("*.tmp*"))


def keep_until_the_end(directory: Path, level: str) -> None:
    import torch

    class Model(torch.nn.Linear):
        def __del__(self) -> None:
            (directory / "deleted").touch()

    with captured(directory, Model(2, 2), level=level):
        pass


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_model_is_not_deleted_at_the_end_of_the_process(tmp_path, level):
    # One of DistributedDataParallel waits for threads that may wait for Python's lock.
    run(keep_until_the_end, tmp_path, level)
    assert not (tmp_path / "deleted").exists()
