# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""All commands have one face: help, errors, names of options, completion."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from msprobe import cli
from msprobe.cli import COMMANDS
from msprobe.completion import command as completion

# Commands with an answer have --json and --quiet; the others say in one line what they wrote.
WITH_ANSWER = {
    "diagnose",
    "compare",
    "graph",
    "graph_visualize",
    "ckpt",
    "grad_compare",
    "rl_compare",
    "config_check",
    "config",
    "doctor",
    "check",
}
# Names that do the same everywhere; whoever has the short one has the meaning.
MEANING = {"-h": "--help", "-o": "--output"}
TENSOR = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
ANOTHER_NAME = {
    "graph_visualize": "graph",
    "overflow_check": "run_overflow_check",
    "acc_check": "run_ut",
    "multi_acc_check": "multi_run_ut",
}


@pytest.fixture
def call(command_line):
    return command_line


@pytest.mark.parametrize("command", COMMANDS)
def test_help(call, command):
    code, text, error = call(command, "--help")
    assert (code, error) == (0, "")
    name = ANOTHER_NAME.get(command, command)
    assert text.startswith(f"usage: msprobe {name}")
    assert "example: " in text
    assert f"msprobe {name}" in text.partition("example: ")[2]
    assert "exit code: " in text
    assert call(command, "-h")[1] == text


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_option_is_one_line_and_2(call, command):
    code, text, error = call(command, "--frobnicate")
    assert (code, text) == (2, "")
    name = ANOTHER_NAME.get(command, command)
    assert error.startswith(f"msprobe {name}: error: ")
    assert error.endswith(f"; see msprobe {name} --help\n")
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_options_have_one_meaning(command):
    options = completion.options_of(command)
    assert {"-h", "--help"} <= set(options)
    for short, long in MEANING.items():
        if short in options:
            assert any(option.startswith(long) for option in options), (command, short)
    assert ("-o" in options) == ("--output" in options)
    assert {"--json", "--quiet"} <= set(options) or command not in WITH_ANSWER
    assert not {"--verbose", "--silent", "-q"} & set(options)


@pytest.mark.parametrize("command", sorted(WITH_ANSWER - {"doctor"}))
def test_a_file_that_is_not_there(call, command, tmp_path):
    words = {
        "config": ("check",),
    }.get(command, ())
    names = ("absent.json",) if command in ("config", "check") else ("absent.zip", "absent.zip")
    code, text, error = call(command, *words, *(str(tmp_path / name) for name in names))
    assert (code, text) == (2, "")
    assert "absent." in error
    assert error.count("\n") == 1


DATA = Path(__file__).parents[2] / "data"
SAMPLE = str(DATA / "trace" / "sample")


ANSWERS = {
    "compare": (SAMPLE, SAMPLE),
    "graph": (SAMPLE, SAMPLE),
    "diagnose": (SAMPLE, SAMPLE),
    "grad_compare": (
        str(DATA / "grad_probe" / "l1_a"),
        str(DATA / "grad_probe" / "l1_b"),
        "--no-pictures",
    ),
    "config_check": (str(DATA / "config_check/dyn_a.zip"), str(DATA / "config_check/dyn_b.zip")),
    "ckpt": ("a.safetensors", "a.safetensors"),
    "rl_compare": ("--weights", "a.safetensors", "a.safetensors"),
    "check": (SAMPLE, "--device", "cpu"),
}


class TestColours:
    @pytest.fixture
    def said(self, monkeypatch, tmp_path):
        """said(command, is_terminal) -> what the command prints."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(TENSOR)) + TENSOR + bytes(4))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)

        def said(command, is_terminal):
            out = io.StringIO()
            monkeypatch.setattr(out, "isatty", lambda: is_terminal, raising=False)
            monkeypatch.setattr(sys, "stdout", out)
            name = "out.json" if command == "ckpt" else "out"
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            code = cli.main([command, *ANSWERS[command], "-o", str(folder / name)])
            assert code in (0, 1)
            return code, out.getvalue()

        return said

    @pytest.mark.parametrize("command", ANSWERS)
    def test_a_terminal_gets_the_answer_in_green_or_red(self, said, command):
        code, text = said(command, is_terminal=True)
        assert text.startswith("\x1b[1;31m" if code else "\x1b[1;32m")

    @pytest.mark.parametrize("command", ANSWERS)
    def test_nothing_else_gets_colours(self, said, command, monkeypatch):
        assert "\x1b" not in said(command, is_terminal=False)[1]
        for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
            with monkeypatch.context() as patched:
                patched.setenv(name, value)
                assert "\x1b" not in said(command, is_terminal=True)[1]


class TestCompletion:
    def test_bash(self, tmp_path):
        script = tmp_path / "completion.sh"
        script.write_text(completion.bash())

        def complete(*words):
            setting = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
            line = f'. {script}; {setting}; _msprobe; printf "%s\\n" "${{COMPREPLY[@]}}"'
            return subprocess.run(
                ["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, check=True
            ).stdout.split()

        assert complete("msprobe", "grad") == ["grad_compare", "grad_export"]
        assert set(complete("msprobe", '""')) == {*COMMANDS, "--help", "--version"}
        assert complete("msprobe", "compare", "--bitw") == ["--bitwise"]
        assert complete("msprobe", "compare", "comp") == ["completion.sh"]

    def test_zsh_is_a_script(self, tmp_path):
        text = completion.zsh()
        assert all(f"'{command}:" in text for command in COMMANDS)
        if shutil.which("zsh"):
            (tmp_path / "c.zsh").write_text(text)
            subprocess.run(["zsh", "-n", tmp_path / "c.zsh"], check=True)

    def test_another_shell(self, call):
        code, _, error = call("completion", "fish")
        assert code == 2
        assert "shell: expected bash or zsh, found 'fish'" in error


class TestConfigCommands:
    def test_what_init_writes_is_right(self, call, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert call("init")[0] == 0
        code, text, error = call("config", "check", "config.yaml")
        assert (code, error) == (0, "")
        assert text.startswith("config.yaml: valid\n  task ")
        assert "0-2" in text

    def test_it_says_what_msprobe_run_does_without_a_file(self, call, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        from msprobe.recording.settings import run_settings

        call("init")
        assert run_settings("config.yaml") == run_settings()

    def test_a_file_is_not_replaced(self, call, tmp_path):
        path = tmp_path / "x.yaml"
        path.write_text("mine")
        assert call("init", str(path))[0] == 2
        assert path.read_text() == "mine"
        assert call("init", "--force", str(path))[0] == 0

    def test_json_has_no_comments(self, call):
        assert "JSON has no comments" in call("init", "x.json")[2]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("task: statistic", '"task": expected one of'),
            ("levl: mix", 'unknown key: did you mean "level"?'),
            ("step: 3", '"step": expected a list'),
            ("grad_probe: {grad_level: L7}", "grad_level must be one of"),
            ("a: [", "expected YAML"),
            ("- 1", "expected an object, found a list"),
        ],
    )
    def test_a_wrong_file(self, call, tmp_path, text, problem):
        path = tmp_path / "c.yaml"
        path.write_text(text)
        code, out, error = call("config", "check", str(path))
        assert (code, out) == (2, "")
        assert problem in error
        assert str(path) in error
