# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe ckpt and what config_check does with --compare: files, exit codes, several processes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from checkpoint_support import close, run, tensor, write_safetensors
from msprobe.compat.command import config_check_of_checkpoints


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Two files that differ in one parameter by 0.5, and by names."""
    left = {f"layers.{i}.w": tensor(str(i), 40, 30) for i in range(6)}
    right = {name: value.clone() for name, value in left.items()}
    right["layers.3.w"][7, 7] += 0.5
    write_safetensors(tmp_path / "a.safetensors", left)
    write_safetensors(tmp_path / "b.safetensors", right)
    return tmp_path / "a.safetensors", tmp_path / "b.safetensors"


def test_exit_codes(files: tuple[Path, Path], tmp_path: Path) -> None:
    left, right = files
    assert run("ckpt", left, left, "-o", tmp_path / "1.json").returncode == 0
    assert run("ckpt", left, right, "-o", tmp_path / "2.json").returncode == 1
    assert run("ckpt", left, right, "-o", tmp_path / "3.json", "--fail-above", "l2=0.6").returncode == 0
    done = run("ckpt", left, right, "-o", tmp_path / "4.json", "--fail-above", "max_abs=0.4")
    assert done.returncode == 1
    assert "layers.3.w" in done.stdout
    both = ("--fail-above", "l2=0.6", "--fail-above", "different_elements=0")
    assert run("ckpt", left, right, "-o", tmp_path / "5.json", *both).returncode == 1
    missing = run("ckpt", left, tmp_path / "none", "-o", tmp_path / "6.json")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "does not exist" in missing.stderr
    for wrong in ("l2", "l2=-1", "l2=nan", "speed=1"):
        assert run("ckpt", left, right, "--fail-above", wrong).returncode == 2


def test_options_as_in_other_commands(files: tuple[Path, Path], tmp_path: Path) -> None:
    left, _ = files
    assert run("ckpt", left, left, "-o", tmp_path / "1.json", "--timeout", 5000, "--quiet").returncode == 0
    for wrong in (["--json", "--quiet"], ["--timeout", "0"], ["--timeout", "soon"]):
        done = run("ckpt", left, left, "-o", tmp_path / "2.json", *wrong)
        assert done.returncode == 2
        assert wrong[0] in done.stderr


def test_what_only_one_side_has_always_fails(files: tuple[Path, Path], tmp_path: Path) -> None:
    left, _ = files
    write_safetensors(tmp_path / "c.safetensors", {"layers.0.w": tensor("0", 40, 30)})
    done = run("ckpt", left, tmp_path / "c.safetensors", "-o", tmp_path / "1.json", "--fail-above", "l2=9")
    assert done.returncode == 1
    assert "only in the reference: layers.1.w" in done.stdout


def test_an_output_that_exists_is_an_error(files: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    output.write_text("mine")
    for command in (["ckpt", *files], ["ckpt", files[0], "--hash-only"]):
        done = run(*command, "-o", output)
        assert (done.returncode, output.read_text()) == (2, "mine")
        assert "there is such a file" in done.stderr
    output.unlink()
    output.symlink_to(tmp_path / "elsewhere")
    assert run("ckpt", *files, "-o", output).returncode == 2
    assert "is no folder" in run("ckpt", *files, "-o", files[0] / "out.json").stderr


def test_a_folder_for_the_results_is_made(files: tuple[Path, Path], tmp_path: Path) -> None:
    assert run("ckpt", *files, "-o", tmp_path / "new/out").returncode == 1
    assert {path.name for path in (tmp_path / "new/out").iterdir()} == {"similarity.json", "similarity.html"}


def test_files(files: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    done = run("ckpt", *files, "-o", output, "--format", "junit", "--hash", "--json")
    found = json.loads(output.read_text())
    assert json.loads(done.stdout) == found
    assert list(found["layers.3.w"])[:4] == ["l2", "cos", "numel", "shape"]
    assert close(found["layers.3.w"]["l2"], 0.5)
    assert found["layers.3.w"]["equal_bits"] == 1199
    assert found["layers.3.w"]["max_abs"] == 0.5
    assert len(found["layers.3.w"]["hash"]) == 2
    assert isinstance(found["layers.2.w"]["hash"], str)
    assert stat.S_IMODE(output.stat().st_mode) == 0o640
    suite = ElementTree.parse(tmp_path / "out.junit.xml").getroot()[0]
    failing = [case.get("name") for case in suite if case.find("failure") is not None]
    assert (len(suite.findall("testcase")), failing) == (6, ["layers.3.w"])
    page = (tmp_path / "out.html").read_text()
    assert "layers.3" in page
    assert run("ckpt", *files, "-o", tmp_path / "quiet.json", "--quiet", "--no-report").stdout == ""
    assert not (tmp_path / "quiet.html").exists()


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    name = '</script><script>alert(1)</script>"\u001b[31m'
    write_safetensors(tmp_path / "a.safetensors", {name: torch.ones(2)})
    write_safetensors(tmp_path / "b.safetensors", {name: torch.zeros(2)})
    pair = (tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    done = run("ckpt", *pair, "-o", tmp_path / "o.json", "--format", "junit")
    assert done.returncode == 1
    assert "\u001b" not in done.stdout
    assert "<script>alert" not in (tmp_path / "o.html").read_text()
    ElementTree.parse(tmp_path / "o.junit.xml")


def test_hashes_in_place_of_a_checkpoint(files: tuple[Path, Path], tmp_path: Path) -> None:
    left, right = files
    hashes = tmp_path / "hashes.json"
    assert run("ckpt", left, "--hash-only", "-o", hashes).returncode == 0
    assert run("ckpt", left, hashes, "-o", tmp_path / "1.json").returncode == 0
    assert run("ckpt", hashes, hashes, "-o", tmp_path / "2.json").returncode == 0
    done = run("ckpt", hashes, right, "-o", tmp_path / "3.json")
    assert done.returncode == 1
    assert "layers.3.w  the hashes differ" in done.stdout
    assert "1 of 6 parameters" in done.stdout


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(version=2),
        lambda c: c.update(parameters=[]),
        lambda c: c["parameters"].update(x={"dtype": "float32", "shape": [1], "hash": "12"}),
        lambda c: c["parameters"].update(x={"dtype": "float32", "shape": [-1], "hash": "0" * 32}),
        lambda c: c["parameters"].update(x=3),
    ],
)
def test_broken_files_of_hashes(files: tuple[Path, Path], tmp_path: Path, change: object) -> None:
    hashes = tmp_path / "hashes.json"
    run("ckpt", files[0], "--hash-only", "-o", hashes)
    content = json.loads(hashes.read_text())
    change(content)  # type: ignore[operator]
    hashes.write_text(json.dumps(content))
    done = run("ckpt", files[0], hashes, "-o", tmp_path / "1.json")
    assert done.returncode == 2
    assert "hashes.json" in done.stderr
    hashes.write_text(json.dumps(content)[:-10])
    assert run("ckpt", files[0], hashes, "-o", tmp_path / "1.json").returncode == 2


def test_config_check(
    files: tuple[Path, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    left, right = map(str, files)
    assert config_check_of_checkpoints(["--compare", left, right]) == 0
    found = json.loads((tmp_path / "ckpt_similarity.json").read_text())
    assert all(list(entry) == ["l2", "cos", "numel", "shape"] for entry in found.values())
    assert len(found) == 6
    assert (
        (tmp_path / "ckpt_similarity.json")
        .read_text()
        .startswith('{\n    "layers.0.w": {\n        "l2": 0.0,')
    )
    with pytest.raises(SystemExit, match="2"):
        config_check_of_checkpoints(["-c", left, right])  # the file exists now
    assert config_check_of_checkpoints(["-c", left, right, "-o", "again.json"]) == 0
    assert "Comparison results written to again.json" in capfd.readouterr().out


@pytest.mark.parametrize("count", [2, 4])
def test_several_processes(files: tuple[Path, Path], tmp_path: Path, count: int) -> None:
    alone, shared = tmp_path / "alone.json", tmp_path / "shared.json"
    run("ckpt", *files, "-o", alone)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "msprobe", "ckpt", *files, "-o", shared, "--timeout", "30"],
            env={
                **os.environ,
                "TORCHELASTIC_RUN_ID": "test",
                "MASTER_PORT": "1",
                "RANK": str(rank),
                "WORLD_SIZE": str(count),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [1] + [0] * (count - 1)
    assert [bool(output) for output in outputs] == [True] + [False] * (count - 1)
    assert shared.read_text() == alone.read_text()
    assert not list(tmp_path.glob(".ckpt_*"))


def test_a_process_that_does_not_come(files: tuple[Path, Path], tmp_path: Path) -> None:
    environment = {"TORCHELASTIC_RUN_ID": "test", "RANK": "0", "WORLD_SIZE": "2"}
    done = run("ckpt", *files, "-o", tmp_path / "o.json", "--timeout", "1", environment=environment)
    assert done.returncode == 2
    assert "process 1 of 2" in done.stderr
    assert not (tmp_path / "o.json").exists()


def test_what_cannot_be_compared_is_no_agreement(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"w": torch.ones(2), "s": torch.eye(3).to_sparse()}, path)
    done = run("ckpt", path, path, "-o", tmp_path / "o.json", "--format", "junit")
    assert done.returncode == 1
    assert "the same as far as they were compared: 1 parameters, but 1 could not be" in done.stdout
    assert 'not compared: s (a tensor of a kind that is not compared: "torch._utils._rebuild_s' in done.stdout
    suite = ElementTree.parse(tmp_path / "o.junit.xml").getroot()[0]
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["s"]


@pytest.mark.parametrize("words", [("-f", "pytorch", "config_check", "--compare"), ("config_check", "-c")])
def test_the_command_line_of_the_existing_tool(samples: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    output = tmp_path / "out.json"
    done = run(*words, samples / "a_tp2_pp2", samples / "b_tp2_pp2", "-o", output)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(output.read_text())) == 53
