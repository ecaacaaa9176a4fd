# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Wrong configurations, folders that cannot be written, processes that are killed, functions of the user."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from benchmark_support import debugger, folder_of, observe, rows_of, section_of, summary_of
from children import Child, run


def config_of(**section: Any) -> Any:
    import json
    import tempfile

    from msprobe.config import load_config

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps({"task": "free_benchmark", "dump_path": "x", "free_benchmark": section}))
        return load_config(path).section


def test_defaults():
    from msprobe.config import FreeBenchmarkConfig

    defaults = FreeBenchmarkConfig(
        scope=(),
        list=(),
        pert_mode="improve_precision",
        handler_type="check",
        fuzz_stage="forward",
        if_preheat=False,
        preheat_step=15,
        max_sample=20,
    )
    assert config_of() == defaults
    assert config_of(scope=None, fuzz_device="cuda", list=[]) == defaults
    scope = ["Torch.exp.0.forward", "Torch.log.0.forward"]
    assert config_of(scope=scope).scope == tuple(scope)


@pytest.mark.parametrize(
    ("section", "key", "text"),
    [
        ({"pert_mode": "to_cpu"}, "fuzz_device", 'expected "cpu" with pert_mode to_cpu, and only with it'),
        ({"fuzz_device": "cpu"}, "fuzz_device", 'found "cpu" with pert_mode improve_precision'),
        ({"fuzz_device": "tpu"}, "fuzz_device", "expected one of npu, cpu, cuda"),
        ({"pert_mode": "noise"}, "pert_mode", "expected one of improve_precision, add_noise"),
        ({"fuzz_level": "L2"}, "fuzz_level", "expected one of L1"),
        ({"fuzz_stage": "both"}, "fuzz_stage", "expected one of forward, backward"),
        ({"handler_type": "mend"}, "handler_type", "expected one of check, fix"),
        ({"handler_type": "fix", "pert_mode": "bit_noise"}, "handler_type", "fix needs pert_mode"),
        ({"handler_type": "fix", "fuzz_stage": "backward"}, "handler_type", "fix needs fuzz_stage forward"),
        ({"handler_type": "fix", "if_preheat": True}, "handler_type", "fix needs if_preheat false"),
        ({"if_preheat": True, "fuzz_stage": "backward"}, "if_preheat", "expected false"),
        ({"if_preheat": 1}, "if_preheat", "expected true or false"),
        ({"preheat_step": 0}, "preheat_step", "expected a positive integer"),
        ({"max_sample": 2.5}, "max_sample", "expected a positive integer"),
        ({"max_sample": True}, "max_sample", "expected a positive integer"),
        ({"list": "relu"}, "list", "expected a list of strings"),
        ({"scope": ["Module.a", "Module.b"]}, "scope", "names of APIs"),
        ({"scope": ["a", "b"], "list": ["c"]}, "list", "expected only one of scope and list"),
        ({"pert_mod": "bit_noise"}, "pert_mod", 'did you mean "pert_mode"'),
    ],
)
def test_a_wrong_section_is_refused_with_its_key(section, key, text):
    from msprobe import InvalidArgument

    with pytest.raises(InvalidArgument) as caught:
        config_of(**section)
    assert f'"free_benchmark.{key}": ' in str(caught.value)
    assert text in str(caught.value)


def filtered(directory: Path) -> None:
    import torch

    def work() -> None:
        x = torch.tensor([1.0, 2.0])
        torch.exp(x)
        torch.log(x)
        torch.sqrt(x)
        torch.tan(x)

    observe(directory, "change_value", work, scope=["Torch.exp.0.forward", "Torch.sqrt.0.forward"])


def test_scope_names_calls_as_in_the_existing_tool(tmp_path):
    run(filtered, tmp_path)
    assert [row["api_name"] for row in rows_of(tmp_path)] == ["Torch.exp.0.forward", "Torch.sqrt.0.forward"]


def some_steps(directory: Path, hinder: str) -> list[Any]:
    """Three steps; before the second one something happens to the folder."""
    import torch

    probe = debugger(directory, "change_value", top={"step": [0, 1, 2]})
    results = []
    for step in range(3):
        if step == 1 and hinder == "file":
            (directory / "dump" / "step1").write_text("a file where a folder should be")
        probe.start()
        if step == 1 and hinder == "gone":
            shutil.rmtree(directory / "dump" / "step1")
        if step == 1 and hinder == "link":
            (folder_of(directory, 1) / "free_benchmark.csv").symlink_to(directory / "elsewhere")
        results.append(torch.exp(torch.tensor([1.0, 2.0])).tolist())
        probe.stop()
        probe.step()
    return results


@pytest.mark.parametrize("hinder", ["file", "gone", "link"])
def test_a_folder_that_cannot_be_written_costs_that_step_only(tmp_path, hinder):
    results = run(some_steps, tmp_path, hinder)
    assert results[0] == results[1] == results[2]
    assert len(rows_of(tmp_path, 0)) == len(rows_of(tmp_path, 2)) == 1
    assert not (tmp_path / "elsewhere").exists()


def endless(directory: Path) -> None:
    import torch

    probe = debugger(directory, "change_value")
    probe.start()
    x = torch.tensor([1.0, 2.0])
    while True:
        torch.exp(x)


def test_rows_of_a_process_that_is_killed_are_whole(tmp_path):
    child = Child(endless, tmp_path)
    path = folder_of(tmp_path) / "free_benchmark.csv"
    end = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size > 10_000):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert child.process.pid is not None
    os.kill(child.process.pid, signal.SIGKILL)
    child.process.join()
    child.end()
    text = path.read_bytes()
    assert text.endswith(b"\r\n")
    assert {row["max_rel"] for row in rows_of(tmp_path)} == {rows_of(tmp_path)[0]["max_rel"]}


def custom(directory: Path) -> Any:
    import types

    import torch

    library = torch.library.Library("msprobe_test_fb", "DEF")
    library.define("plain(Tensor x) -> Tensor")
    library.define("changing(Tensor(a!) x) -> Tensor(a!)")
    library.impl("plain", lambda x: torch.tan(x), "CPU")
    library.impl("changing", lambda x: x.add_(1), "CPU")
    calls = []

    def own(x: Any) -> Any:
        calls.append(1)
        return x * 2

    module = types.SimpleNamespace(
        __name__="my.ops",
        own=own,
        plain=torch.ops.msprobe_test_fb.plain.default,
        changing=torch.ops.msprobe_test_fb.changing,
    )
    probe = debugger(directory, "change_value")
    for name in ("own", "plain", "changing"):
        probe.register_custom_api(module, name)
    probe.start()
    x = torch.tensor([1.0, 1.5])
    module.own(x)
    module.plain(x)
    module.changing(x)
    probe.stop()
    probe.step()
    probe.restore_custom_api(module, "plain")
    return len(calls), x.tolist(), module.plain is torch.ops.msprobe_test_fb.plain.default


def test_functions_of_the_user_need_a_schema_that_changes_nothing(tmp_path):
    assert run(custom, tmp_path) == (1, [2.0, 2.5], True)
    assert "ops.plain.0.forward" in [row["api_name"] for row in rows_of(tmp_path)]
    left_out = summary_of(tmp_path)["left_out"]
    assert list(left_out["it has no schema that says what it changes"]) == ["ops.own"]
    assert list(left_out["its schema says that it changes its arguments"]) == ["ops.changing"]


def test_levels_other_than_l1_are_l1_with_a_word(tmp_path, caplog):
    from msprobe.config import load_config

    config = load_config(None, task="free_benchmark", dump_path=tmp_path, level="mix")
    assert config.level == "L1"
    assert "task free_benchmark needs level L1, found mix: L1 is used" in caplog.text


def test_the_sections_of_the_documentation_are_accepted():
    assert config_of(**section_of("to_cpu"), fuzz_level="L1").pert_mode == "to_cpu"
