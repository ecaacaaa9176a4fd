# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""SingleSave: what is written, and that nothing of it harms the training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msprobe import InvalidArgument, IoError
from msprobe.core import SingleSave
from rl_records import Save


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def make_sample(folder: Path, run: int) -> None:
    """What the script of the golden files does."""
    SingleSave._instance = None
    SingleSave(folder, fmk="pytorch")
    SingleSave.save_config({"lr": 0.1, "run": run})
    for step in range(2):
        for _ in range(2):
            t = torch.arange(6.0).reshape(2, 3) + step
            if run == 2:
                t[1, 2] += 0.003
            SingleSave.save({"response": t, "pair": [t, t * 2], "named": {"a": t}})
        SingleSave.step()
    SingleSave.flush()


@pytest.mark.parametrize("run", [1, 2])
def test_the_sample_is_reproduced_byte_by_byte(sample: Path, tmp_path: Path, run: int) -> None:
    make_sample(tmp_path / "record", run)
    assert files_below(tmp_path / "record") == files_below(sample / f"dump_path{run}")


def npy(record: Path, key: str, step: int = 0, micro_step: int = 0, name: str | None = None) -> Any:
    folder = record / "data" / key / f"step{step}" / "rank0" / f"micro_step{micro_step}"
    return np.load(folder / f"{name or key}.npy")


def test_what_the_training_changes_afterwards_is_not_saved(save: Save, tmp_path: Path) -> None:
    SingleSave(tmp_path / "record")
    tensors = [torch.full((1 << 16,), float(i)) for i in range(20)]
    for i, tensor in enumerate(tensors):
        SingleSave.save_ex({"x": tensor}, micro_batch=i)
        tensor.fill_(-1)
    SingleSave.flush()
    for i in range(20):
        assert (npy(tmp_path / "record", "x", micro_step=i) == i).all()


DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_dtype_loses_a_value(save: Save, dtype: torch.dtype) -> None:
    x = (
        (torch.arange(12).reshape(3, 4) % 2).to(dtype)
        if dtype is torch.bool
        else torch.arange(12.0).reshape(3, 4)
    )
    x = x.to(dtype)
    record = save("record", {"x": x.t()})  # with strides
    found = npy(record, "x")
    assert found.shape == (4, 3)
    wanted = x.t().to(torch.complex128 if dtype.is_complex else torch.float64).numpy()
    assert np.array_equal(found.astype(wanted.dtype), wanted)


def test_statistics_are_those_of_torch(save: Save) -> None:
    torch.manual_seed(3)
    x = torch.randn(33, 7) * 5
    record = save("record", {"x": x, "token": torch.tensor([5, 7, 9])})
    folder = record / "data/x/step0/rank0/micro_step0"
    data = json.loads((folder / "x.json").read_text())["data"]
    assert data["shape"] == [33, 7]
    assert data["max"] == x.max().item()
    assert data["min"] == x.min().item()
    assert data["mean"] == pytest.approx(x.double().mean().item(), rel=1e-5)
    assert data["norm"] == pytest.approx(x.norm().item(), rel=1e-6)
    tokens = json.loads((record / "data/token/step0/rank0/micro_step0/token.json").read_text())["data"]
    assert tokens == {"max": 9.0, "min": 5.0, "mean": 7.0, "norm": pytest.approx(155**0.5), "shape": [3]}


def test_odd_tensors(save: Save) -> None:
    values = {
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "grad": torch.ones(2, requires_grad=True) * 3,
        "sparse": torch.eye(3).to_sparse(),
        "nan": torch.tensor([float("nan"), float("inf")]),
        "expanded": torch.ones(1).expand(4),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "numpy": np.arange(3),
        "none": [],
    }
    record = save("record", values)
    assert npy(record, "scalar") == 2.5
    assert npy(record, "scalar").shape == ()
    assert npy(record, "empty").shape == (0, 3)
    assert npy(record, "grad").tolist() == [3, 3]
    assert np.array_equal(npy(record, "sparse"), np.eye(3))
    assert npy(record, "conjugate").tolist() == [1 - 2j]
    assert npy(record, "expanded").tolist() == [1, 1, 1, 1]
    text = (record / "data/nan/step0/rank0/micro_step0/nan.json").read_text()
    assert '"max": NaN' in text
    empty = json.loads((record / "data/empty/step0/rank0/micro_step0/empty.json").read_text())
    assert empty == {"data": {"max": None, "min": None, "mean": None, "norm": 0.0, "shape": [0, 3]}}
    assert json.loads((record / "data/none/step0/rank0/micro_step0/none.json").read_text()) == {"data": []}


def test_micro_steps_and_save_ex(tmp_path: Path) -> None:
    SingleSave(tmp_path)
    SingleSave.save({"a": torch.zeros(1)})
    SingleSave.save({"a": torch.zeros(1), "b": torch.zeros(1)})
    SingleSave.save_ex({"c": torch.zeros(1)})
    SingleSave.step()
    SingleSave.save({"a": torch.zeros(1)})
    SingleSave.flush()
    arrays = sorted(str(p.relative_to(tmp_path / "data")) for p in tmp_path.rglob("*.npy"))
    assert arrays == [
        "a/step0/rank0/micro_step0/a.npy",
        "a/step0/rank0/micro_step1/a.npy",
        "a/step1/rank0/micro_step0/a.npy",
        "b/step0/rank0/micro_step0/b.npy",
        "c/step0/rank0/c.npy",
    ]


@pytest.mark.parametrize("key", ["a/b", "..", ".", "", "a\nb", "/etc/x", "%2F", "k" * 300, "\u00e4" * 200])
def test_no_key_leads_out_of_the_record(tmp_path: Path, save: Save, key: str) -> None:
    before = sorted(p.name for p in tmp_path.iterdir())
    record = save("record", {key: torch.ones(2), "d": {key: torch.ones(1)}})
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*before, "record"])
    assert len(list(record.rglob("*.npy"))) == 2
    folders = [p.name for p in (record / "data").iterdir()]
    assert len(folders) == 2
    assert not any("/" in name or "\n" in name for name in folders)


def test_wrong_values_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    SingleSave(tmp_path)
    SingleSave.save(torch.ones(1))  # type: ignore[arg-type]
    SingleSave.save({1: torch.ones(1), "text": "x", "number": 3, "ok": torch.ones(1)})  # type: ignore[dict-item]
    SingleSave.flush()
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["ok"]
    text = caplog.text
    assert "expected a dict of values, found Tensor" in text
    assert "expected keys that are text, found 1" in text
    assert "'text': expected a tensor, or a list or dict of tensors, found str" in text
    for value in ([torch.ones(1), 2], {"a": torch.ones(1), "b": "x"}):
        with pytest.raises(TypeError, match=r"'bad': [1b]: expected a tensor, found (int|str)"):
            SingleSave.save({"bad": value})
    SingleSave.flush()
    assert not (tmp_path / "data/bad").exists()


def test_two_entries_of_one_text(save: Save, caplog: pytest.LogCaptureFixture) -> None:
    record = save("record", {"d": {1: torch.ones(1), "1": torch.zeros(1)}})
    assert npy(record, "d", name="d.1") == [1]
    assert "two entries are called '1'" in caplog.text


def test_one_instance_for_each_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = SingleSave(tmp_path / "a")
    assert SingleSave(tmp_path / "a") is first
    assert "saves into" not in caplog.text
    assert SingleSave(tmp_path / "b") is first
    assert f"saves into {tmp_path / 'a'} already" in caplog.text
    assert not (tmp_path / "b").exists()


def test_before_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="expected SingleSave\\(dump_path\\) before the first value"):
        SingleSave.save({"a": torch.ones(1)})
    SingleSave.flush()
    with pytest.raises(InvalidArgument, match="fmk: expected pytorch or mindspore, found 'tensorflow'"):
        SingleSave(tmp_path, fmk="tensorflow")
    (tmp_path / "file").write_text("")
    with pytest.raises(IoError, match="file"):
        SingleSave(tmp_path / "file" / "x")


def test_an_earlier_record_is_said(save: Save, caplog: pytest.LogCaptureFixture) -> None:
    save("record", {"a": torch.ones(1)})
    assert "earlier record" not in caplog.text
    save("record", {"a": torch.ones(1)})
    assert "holds an earlier record of rank 0" in caplog.text


def test_a_full_disk_does_not_end_the_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    SingleSave(tmp_path)
    (tmp_path / "data").write_text("a file where a folder should be")
    SingleSave.save({"a": torch.ones(1)})
    SingleSave.flush()
    assert "SingleSave: 'a' is not saved: cannot" in caplog.text
    (tmp_path / "data").unlink()
    SingleSave.save({"a": torch.ones(1)})
    SingleSave.flush()
    assert len(list(tmp_path.rglob("*.npy"))) == 1


def test_the_training_computes_the_same_with_it(tmp_path: Path) -> None:
    def train(*, saves: bool) -> tuple[list[torch.Tensor], torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            y = model(torch.randn(5, 4))
            if saves:
                SingleSave.save({"y": y, "weights": dict(model.named_parameters())})
                SingleSave.step()
            optimizer.zero_grad()
            y.square().sum().backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()], torch.get_rng_state()

    SingleSave(tmp_path)
    with_it, state = train(saves=True)
    without, state_without = train(saves=False)
    assert all(torch.equal(a, b) for a, b in zip(with_it, without))
    assert torch.equal(state, state_without)


def test_a_dump_does_not_record_what_saving_does(tmp_path: Path, fresh_debugger: None) -> None:
    from msprobe.pytorch import PrecisionDebugger

    debugger = PrecisionDebugger(task="statistics", level="L1", dump_path=str(tmp_path / "dump"))
    SingleSave(tmp_path / "record")
    debugger.start()
    x = torch.ones(3)
    y = torch.add(x, 1)
    SingleSave.save({"y": y, "b": y.to(torch.bfloat16)})
    debugger.stop()
    debugger.step()
    names = json.loads(next((tmp_path / "dump").rglob("dump.json")).read_text())["data"]
    assert list(names) == ["Torch.add.0.forward", "Tensor.to.0.forward"] or list(names) == [
        "Torch.add.0.forward"
    ]


PROGRAM = """
import os, signal, sys, torch
torch.set_num_threads(1)  # those of OpenMP are not there in a child
from msprobe.core import SingleSave
SingleSave(sys.argv[1])
for i in range(200):
    SingleSave.save({"x": torch.full((100000,), float(i))})
    SingleSave.step()
    if i == 100 and sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if i == 100 and sys.argv[2] == "exit":
        os._exit(0)
    if i == 100 and sys.argv[2] == "fork" and os.fork() == 0:
        SingleSave.save({"child": torch.ones(100000)})
        os._exit(0)
"""


@pytest.mark.parametrize("way", ["end", "kill", "exit", "fork"])
def test_what_a_process_leaves_is_whole(tmp_path: Path, way: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path, way], timeout=120, capture_output=True)
    assert (done.returncode == 0) == (way != "kill"), done.stderr
    arrays = list(tmp_path.rglob("*.npy"))
    assert len(arrays) == {"end": 200, "kill": 101, "exit": 101, "fork": 201}[way]
    for path in arrays:
        assert np.load(path).shape == (100000,)
    for path in tmp_path.rglob("*.json"):
        json.loads(path.read_text())
    assert not list(tmp_path.rglob("*.tmp"))


def test_saving_without_rights(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(IoError, match="cannot"):
        SingleSave(tmp_path / "record")


class _OfMindSpore:
    """What SingleSave asks of a tensor of MindSpore."""

    def __init__(self, array: Any, dtype: str = "Float32") -> None:
        self._array = np.asarray(array)
        self.dtype = dtype

    def asnumpy(self) -> Any:
        if self.dtype == "BFloat16":
            raise TypeError("NumPy has no bfloat16")
        return self._array

    def astype(self, dtype: str) -> _OfMindSpore:
        return _OfMindSpore(self._array, dtype)


@pytest.fixture
def mindspore(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A stand-in: what is tested here is what is written of its tensors."""
    module = types.ModuleType("mindspore")
    module.Tensor = _OfMindSpore  # type: ignore[attr-defined]
    module.float32 = "Float32"  # type: ignore[attr-defined]
    communication = types.ModuleType("mindspore.communication")
    communication.GlobalComm = types.SimpleNamespace(INITED=True)  # type: ignore[attr-defined]
    communication.get_rank = lambda: 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mindspore", module)
    monkeypatch.setitem(sys.modules, "mindspore.communication", communication)
    return module


@pytest.mark.usefixtures("mindspore")
def test_tensors_of_mindspore_make_the_same_record(save: Save, caplog: pytest.LogCaptureFixture) -> None:
    for dtype in (np.float32, np.float16, np.int64, np.bool_):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        t, m = torch.from_numpy(array), _OfMindSpore(array)
        ours = save(f"torch_{dtype.__name__}", {"response": t, "pair": [t, t], "named": {"a": t, "b": t}})
        theirs = save(
            f"ms_{dtype.__name__}",
            {"response": m, "pair": [m, m], "named": {"a": m, "b": m}},
            fmk="mindspore",
        )
        found = {name.replace("rank3", "rank0"): text for name, text in files_below(theirs).items()}
        assert found == files_below(ours)
    array = np.arange(6, dtype=np.float32)
    ours = save("torch_half", {"x": torch.from_numpy(array).bfloat16()})
    theirs = save("ms_half", {"x": _OfMindSpore(array, "BFloat16")}, fmk="mindspore")
    assert npy(ours, "x").dtype == np.float32
    assert [*files_below(theirs).values()] == [*files_below(ours).values()]
    save("other", {"x": torch.ones(1)}, fmk="mindspore")
    assert "'x': expected a tensor, or a list or dict of tensors, found Tensor" in caplog.text


def test_a_record_of_mindspore_is_compared_where_there_is_none(
    save: Save, tmp_path: Path, mindspore: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, extra in (("a", 0.0), ("b", 0.5)):
        array = np.arange(6, dtype=np.float32) + extra
        save(name, {"rewards": _OfMindSpore(array)}, fmk="mindspore")
    monkeypatch.delitem(sys.modules, "mindspore")
    monkeypatch.delitem(sys.modules, "mindspore.communication")
    code = "import sys; from msprobe.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["rl_compare", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert "rewards, step 0, rank 3" in done.stdout
