# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe config_check."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import openpyxl
import pytest
from config_check_packs import DATA, write_pack
from msprobe import cli
from msprobe.compat import command as both_jobs

A, B, SAME = (str(DATA / f"{name}.zip") for name in ("dyn_a", "dyn_b", "dyn_b_same"))


def contents(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def command(command_line):
    return functools.partial(command_line, "config_check")


class TestCollecting:
    def test_a_pack_without_a_training(self, command, tmp_path, monkeypatch):
        monkeypatch.setenv("PYTHONHASHSEED", "77")
        code, out, _ = command("-d", DATA / "train_a.sh", DATA / "conf_a.yaml", "-o", tmp_path / "p.zip")
        assert (code, out) == (0, f"the pack is saved in: {tmp_path}/p.zip\n")
        with zipfile.ZipFile(tmp_path / "p.zip") as archive:
            content = {name: archive.read(name).decode() for name in archive.namelist()}
        assert list(content) == [
            "msprobe/pack.json",
            "env",
            "pip",
            "hyperparameters/hyperparameters_static.json",
            "msprobe/settings/rank0.json",
        ]
        environment = json.loads(content["env"])
        assert environment["PYTHONHASHSEED"] == "77"  # that of the user, not one of the tool
        assert "torch=" in content["pip"]
        assert json.loads(content["hyperparameters/hyperparameters_static.json"])["lr"] == "0.001"

    def test_no_files_and_the_default_name(self, command, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert command("-d")[0] == 0
        assert (tmp_path / "config_check_pack.zip").is_file()
        assert command("-d")[0] == 0  # again: replaced
        with zipfile.ZipFile("config_check_pack.zip") as archive:
            assert len(archive.namelist()) == len(set(archive.namelist())) == 4

    def test_dumping_wins_over_comparing(self, command, tmp_path):
        assert command("-d", "-c", A, B, "-o", tmp_path / "p.zip")[0] == 0
        assert (tmp_path / "p.zip").is_file()

    def test_wrong_names(self, command, tmp_path):
        assert command("-d", "-o", tmp_path / "pack")[0] == 2
        code, _, error = command("-d", "train.py", "-o", tmp_path / "p.zip")
        assert code == 2
        assert "Invalid parser type: .py" in error
        assert not (tmp_path / "p.zip").exists()

    def test_a_script_that_is_not_there_is_left_out(self, command, tmp_path):
        code, _, error = command("-d", tmp_path / "none.sh", "-o", tmp_path / "p.zip")
        assert code == 0
        assert "is not a file" in error

    def test_torch_is_not_imported(self, tmp_path):
        code = (
            "import sys; from msprobe.cli import main; main(['config_check', '-d', '-o', sys.argv[1]]);"
            "main(['config_check', '-c', sys.argv[1], sys.argv[1], '-o', sys.argv[2]]);"
            "sys.exit(', '.join({'torch', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules)) or 0)"
        )
        arguments = [sys.executable, "-c", code, tmp_path / "p.zip", tmp_path / "out"]
        done = subprocess.run(arguments, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


class TestComparing:
    def test_exit_codes(self, command, tmp_path):
        assert command("-c", A, A, "-o", tmp_path / "o", "--quiet") == (0, "", "")
        assert command("-c", A, B, "-o", tmp_path / "o", "--quiet") == (1, "", "")
        assert command("-c", A, tmp_path / "none.zip")[0] == 2

    def test_json(self, command, tmp_path):
        code, out, _ = command("-c", A, SAME, "-o", tmp_path / "o", "--json")
        assert code == 1
        assert out == (tmp_path / "o" / "result.json").read_text()
        result = json.loads(out)
        (difference,) = result["differences"]
        assert difference["name"] == "CUDA_VISIBLE_DEVICES"
        assert (difference["bench"], difference["cmp"]) == ("0", "None")

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ([], "The param is not correct, you need to give '-d' for dump or '-c' for compare"),
            (["-c"], "expected at least one argument"),
            (["-c", A], "expected two runs or packs, found 1"),
            (["-c", A, A, A], "expected two runs or packs, found 3"),
            (["-c", A, B, "--live"], "expected one run or pack with --live, found 2"),
            (["-c", A, "none.zip"], "none.zip does not exist"),
            (["-c", A, A, "--bogus"], 'unknown option "--bogus"'),
            (["-c", A, A, "--json", "--quiet"], "not allowed with argument"),
            (["-c", A, A, "-vc", "verl.yaml"], "-vc: settings of verl are collected with -d FILE.yaml"),
        ],
    )
    def test_wrong_arguments(self, command, arguments, problem, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, out, error = command(*arguments)
        assert (code, out) == (2, "")
        assert error.startswith("msprobe config_check: error: ")
        assert problem in error
        assert error.count("\n") == 1
        assert list(tmp_path.iterdir()) == []

    def test_a_damaged_pack_is_one_line(self, command, tmp_path):
        (tmp_path / "p.zip").write_bytes(Path(A).read_bytes()[:-30])
        code, _, error = command("-c", tmp_path / "p.zip", A, "-o", tmp_path / "o")
        assert code == 2
        assert error.count("\n") == 1
        assert str(tmp_path / "p.zip") in error
        assert not (tmp_path / "o").exists()

    def test_names_do_not_command_the_terminal(self, command, tmp_path):
        name = "hyperparameters/hyperparameters_static.json"
        for side, value in (("a", 1), ("b", 2)):
            write_pack(tmp_path / f"{side}.zip", {name: {"x\x1b[31m\ny": value}})
        code, out, _ = command("-c", tmp_path / "a.zip", tmp_path / "b.zip", "-o", tmp_path / "o")
        assert code == 1
        assert "\x1b" not in out
        assert "x?[31m?y" in out

    def test_a_pack_against_this_environment(self, command, tmp_path, monkeypatch):
        monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
        pack, script = tmp_path / "p.zip", DATA / "train_a.sh"
        assert command("-d", script, "-o", pack)[0] == 0
        assert command("-c", pack, "--live", "-d", script, "-o", tmp_path / "o")[0] == 0
        monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
        code, out, _ = command("-c", pack, "--live", "-d", DATA / "train_b.sh", "-o", tmp_path / "o")
        assert code == 1
        assert "variables: NVIDIA_TF32_OVERRIDE: 0 -> 1" in out
        assert "hyperparameters: lr: 0.001 -> 0.002" in out
        assert (tmp_path / "o/cmp/env").is_file()


def test_checkpoints_go_to_the_comparison_of_checkpoints(command, monkeypatch):
    seen = []
    monkeypatch.setattr(
        both_jobs, "config_check_of_checkpoints", lambda arguments: seen.append(arguments) or 7
    )
    arguments = ["--compare", "iter_1", "b.zip", "-o", "out.json", "--threads", "2"]
    assert command(*arguments)[0] == 7
    assert seen == [arguments]
    assert command("-c", A, "iter_1")[0] == 2  # the first one decides
    assert len(seen) == 1


class TestOutputFolder:
    def test_an_earlier_result_is_replaced(self, command, tmp_path):
        out = tmp_path / "o"
        assert command("-c", A, B, "-o", out)[0] == 1
        assert (out / "cmp/weights/step2").is_dir()
        assert command("-c", A, A, "-o", out)[0] == 0
        assert not (out / "cmp/weights/step2").exists()

    def test_a_result_of_the_existing_tool_is_replaced(self, command, tmp_path):
        out = tmp_path / "o"
        (out / "bench").mkdir(parents=True)
        (out / "cmp" / "dataset" / "step0").mkdir(parents=True)
        (out / "bench" / "env").write_text("{}")
        (out / "result.xlsx").touch()
        assert command("-c", A, A, "-o", out)[0] == 0

    @pytest.mark.parametrize(
        "name", ["thesis.txt", "bench/mine.txt", "cmp/weights/notes", "sub/x", "bench/env", "result.xlsx/x"]
    )
    def test_anything_else_is_not_deleted(self, command, tmp_path, name):
        path = tmp_path / "o" / name
        path.parent.mkdir(parents=True)
        path.write_text("mine")
        code, _, error = command("-c", A, A, "-o", tmp_path / "o")
        assert code == 2
        assert "nothing was deleted" in error
        assert path.read_text() == "mine"
        assert command("-c", A, A, "-o", tmp_path / "o", "--force")[0] == 0
        assert not path.exists() or name == "bench/env"
        assert (tmp_path / "o/result.xlsx").exists()

    @pytest.mark.parametrize("is_there", [False, True])
    def test_what_fails_leaves_the_earlier_result(self, command, tmp_path, is_there):
        out = tmp_path / "o"
        if is_there:
            command("-c", A, A, "-o", out)
        before = contents(out)
        limited = (
            "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)); "  # not enough for the sheets
            "from msprobe import cli; sys.exit(cli.main(sys.argv[1:]))"
        )
        ours = [sys.executable, "-c", limited, "config_check", "-c", A, B, "-o", out]
        done = subprocess.run(ours, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert contents(out) == before
        assert command("-c", A, B, "-o", out)[0] == 1

    def test_one_that_was_killed_is_in_nobodys_way(self, command, tmp_path):
        out = tmp_path / "o"
        unfinished = out / ".config_check_result.tmp"
        (unfinished / "bench").mkdir(parents=True)
        assert command("-c", A, A, "-o", out)[0] == 0
        assert not unfinished.exists()

    def test_an_empty_folder_is_used_and_a_file_is_refused(self, command, tmp_path):
        (tmp_path / "o").mkdir()
        assert command("-c", A, A, "-o", tmp_path / "o")[0] == 0
        (tmp_path / "f").touch()
        assert command("-c", A, A, "-o", tmp_path / "f", "--force")[0] == 2

    def test_never_a_pack_that_is_compared_or_the_folder_one_is_in(self, command, tmp_path, monkeypatch):
        pack = tmp_path / "packs" / "p.zip"
        pack.parent.mkdir()
        pack.write_bytes(Path(A).read_bytes())
        for folder in (pack.parent, tmp_path):
            code, _, error = command("-c", pack, A, "-o", folder, "--force")
            assert code == 2
            assert "which is compared" in error
        (tmp_path / "here").mkdir()
        (tmp_path / "here" / "x").touch()
        monkeypatch.chdir(tmp_path / "here")
        for folder in (".", "..", "/"):
            assert command("-c", A, A, "-o", folder, "--force")[0] == 2
        assert (tmp_path / "here" / "x").exists()

    def test_links_are_not_followed(self, command, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "x").touch()
        (tmp_path / "o").mkdir()
        (tmp_path / "o" / "bench").symlink_to(tmp_path / "mine")
        (tmp_path / "o" / "result.xlsx").touch()
        assert command("-c", A, A, "-o", tmp_path / "o")[0] == 2
        assert command("-c", A, A, "-o", tmp_path / "o", "--force")[0] == 0
        assert (tmp_path / "mine" / "x").exists()


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], [], set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_report_shows_what_differs_and_runs_nothing(command, tmp_path):
    name = "hyperparameters/hyperparameters_static.json"
    evil = "</td><script>alert(1)</script>@@CHECKS@@"
    for side, value in (("a", 1), ("b", evil)):
        write_pack(tmp_path / f"{side}.zip", {name: {f"x{evil}": value}})
    command("-c", tmp_path / "a.zip", tmp_path / "b.zip", "-o", tmp_path / "o")
    text = (tmp_path / "o/report.html").read_text()
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.tags
    assert evil in "".join(page.text)
    assert "default-src 'none'" in text


def test_the_example_finds_its_three_differences(tmp_path):
    example = Path(__file__).parents[3] / "examples" / "config_check" / "run.py"
    done = subprocess.run(
        [sys.executable, example, "--out", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Found as planted" in done.stdout


def test_packs_of_ours_are_accepted_by_the_existing_tool(reference, tmp_path):
    maker = DATA / "make_config_check.py"
    for side, *arguments in (("a", "--seed", "1"), ("b", "--seed", "2", "--extra-random")):
        command = [
            sys.executable,
            maker,
            tmp_path / f"{side}.zip",
            *arguments,
            "--script",
            DATA / f"train_{side}.sh",
        ]
        subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(
        [reference, "-f", "pytorch", "config_check", "-c", "a.zip", "b.zip", "-o", "theirs"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cli.main(
        ["config_check", "-c", str(tmp_path / "a.zip"), str(tmp_path / "b.zip"), "-o", str(tmp_path / "ours")]
    )
    books = [openpyxl.load_workbook(tmp_path / side / "result.xlsx") for side in ("theirs", "ours")]
    for sheet in books[0].sheetnames[1:]:
        if sheet != "env":
            rows = [
                sorted((list(row) for row in book[sheet].iter_rows(values_only=True)), key=repr)
                for book in books
            ]
            assert rows[0] == rows[1], sheet
