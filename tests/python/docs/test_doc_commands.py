# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every command of the documentation runs, page by page, in a folder with what the page takes for granted.

MSPROBE_TEST_SLOW=symptoms: those that start trainings on the pages by symptom, too; four minutes.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from doc_blocks import PAGES, REPOSITORY, Block, blocks, console_commands
from msprobe import cli
from msprobe.cli import COMMANDS

HERE = Path(__file__).parent
SHELL = ("sh", "console")
ALL = [block for page in PAGES for block in blocks(page)]
RUN = [block for block in ALL if block.language in SHELL and not block.not_run]
# Their whole pages, with the training of symptom_training.py.
SYMPTOMS = "docs/symptoms/" if "symptoms" in os.environ.get("MSPROBE_TEST_SLOW", "") else None
PAGES_TO_RUN = sorted({str(block.page.relative_to(REPOSITORY)) for block in RUN})

# Commands that leave the machine, or change more than the folder they run in.
_NOT_IN_A_TEST = re.compile(r"\b(sudo|apt-get|curl|wget|ssh|pip install|git clone)\b")


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        # The models are small: more threads would only cost.
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
        check=False,
    )


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the first hour, a comparison of them as a graph, and what doc_recordings.py makes."""
    folder = tmp_path_factory.mktemp("records")
    python, train = sys.executable, REPOSITORY / "examples/first_hour/train.py"
    for command in (
        [python, "-m", "msprobe", "run", "--quiet", "-o", "run_a", str(train), "--steps", "3"],
        [python, "-m", "msprobe", "run", "--quiet", "-o", "run_b", str(train), "--steps", "3", "--fault"],
        [python, str(HERE / "doc_recordings.py")],
    ):
        result = run(command, folder)
        assert result.returncode == 0, result.stdout
    compare = [python, "-m", "msprobe", "graph", "run_a/dump/step0", "run_b/dump/step0", "-o", "graph"]
    result = run(compare, folder)
    assert result.returncode in (0, 1), result.stdout
    return folder


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A folder with the commands of the environment under test."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, words in (
        ("msprobe", f'"{HERE / "doc_msprobe.py"}"'),
        ("python", ""),
        ("torchrun", "-m torch.distributed.run --standalone"),
    ):
        file = commands / name
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', encoding="utf-8")
        file.chmod(0o755)
    return commands


# ---- what a page takes for granted: name in its folder -> what it is


def _copies(**names: str) -> Callable[[Path, Path], None]:
    """Names with `__` for a dot; values below the folder of records."""

    def prepare(records: Path, folder: Path) -> None:
        for name, source in names.items():
            target = folder / name.replace("__", ".")
            target.parent.mkdir(parents=True, exist_ok=True)
            if (records / source).is_dir():
                shutil.copytree(records / source, target)
            else:
                shutil.copy(records / source, target)

    return prepare


def _training_script(records: Path, folder: Path) -> None:
    shutil.copy(REPOSITORY / "examples/first_hour/train.py", folder)
    _copies(probe_a="run_a/grad_probe", probe_b="run_b/grad_probe")(records, folder)


def _launcher(records: Path, folder: Path) -> None:
    (folder / "config.yaml").write_text("dump_path: run_c\ntask: statistics\n", encoding="utf-8")
    script = folder / "launch.sh"
    script.write_text("#!/bin/sh\npython examples/first_hour/train.py --steps 2\n", encoding="utf-8")
    script.chmod(0o755)


def _launch_scripts(records: Path, folder: Path) -> None:
    _copies(pack_a__zip="run_a/config_check.zip", pack_b__zip="run_b/config_check.zip")(records, folder)
    _copies(bench__zip="run_a/config_check.zip", cmp__zip="run_b/config_check.zip")(records, folder)
    (folder / "train.sh").write_text("torchrun --nproc-per-node 2 train.py --lr 0.1\n", encoding="utf-8")
    (folder / "settings.yaml").write_text("seed: 1\n", encoding="utf-8")


def _checkpoints(records: Path, folder: Path) -> None:
    for name, file in (("run_a", "a.bin"), ("run_b", "b.bin"), ("run_a_copied", "a.bin")):
        (folder / name).mkdir()
        shutil.copy(records / file, folder / name / "pytorch_model.bin")


def _graphs(records: Path, folder: Path) -> None:
    (file,) = (records / "graph").glob("*.vis.db")
    (folder / "results").mkdir()
    for name in ("compare_20261121.vis.db", "compare.vis.db", "results/one.vis.db"):
        shutil.copy(file, folder / name)
    _copies(run_a="run_a", run_b="run_b")(records, folder)


def _perturbed(records: Path, folder: Path) -> None:
    shutil.copy(REPOSITORY / "examples/first_hour/train.py", folder)
    _copies(run_a="run_a", run_b="run_b")(records, folder)


def _symptom_scripts(shell: Path, folder: Path) -> None:
    training = (HERE / "symptom_training.py").read_text(encoding="utf-8")
    for name in ("train.py", "reference/train.py", "train_old.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(training, encoding="utf-8")
    (folder / "train_new.py").write_text(training.replace("default=1e-3", "default=2e-3"), encoding="utf-8")
    for name in ("old-env", "new-env"):
        (folder / name).mkdir()
        (folder / name / "bin").symlink_to(shell)


# Of docs/symptoms/rollout.md: what the training has when it saves.
_ROLLOUT = """import torch
tokens, mask = torch.randint(0, 100, (4, 6)), torch.ones(4, 6)
rollout = -torch.rand(4, 6)
old = rollout + 0.01
"""

PREPARE: dict[str, Callable[[Path, Path], None]] = {
    "README.md": _training_script,
    "docs/accuracy.md": _copies(dump__json="tensors/step0/rank0/dump.json"),
    "docs/check.md": _copies(dump="tensors", run_a="tensors", run_b="tensors"),
    "docs/checkpoint.md": _checkpoints,
    "docs/commands.md": _copies(run_a="run_a", run_b="run_b"),
    "docs/compare.md": _copies(run_a="run_a", run_b="run_b"),
    "docs/config_check.md": _launch_scripts,
    "docs/dump.md": _copies(dump="dump"),
    "docs/first_hour.md": _launcher,
    "docs/grad_probe.md": _copies(
        probe_a="run_a/grad_probe",
        probe_b="run_b/grad_probe",
        REFERENCE="run_a/grad_probe",
        TARGET="run_b/grad_probe",
    ),
    "docs/graph.md": _copies(run_a="run_a", run_b="run_b"),
    "docs/limits.md": _copies(dump_a="run_a/dump", pack__zip="run_a/config_check.zip"),
    "docs/operator_script.md": _copies(dump="tensors", run_b="tensors"),
    "docs/perturb.md": _perturbed,
    "docs/overflow.md": _copies(dump="nan", run_b="nan"),
    "docs/rl.md": _copies(dump_a="rl_a", dump_b="rl_b", sent__bin="a.bin", received__bin="a.bin"),
    **{
        f"docs/{page}.md": _copies(run_a="run_a", run_b="run_b")
        for page in (
            "confidence",
            "symptoms/fsdp",
            "symptoms/more_gpus",
            "symptoms/reference",
            "symptoms/reproducible",
            "symptoms/resume",
            "symptoms/slow",
            "symptoms/upgrade",
        )
    },
    "docs/symptoms/kernel.md": _copies(run_b="tensors"),
    "docs/symptoms/nan.md": _copies(run_b="nan"),
    "docs/symptoms/rollout.md": _copies(rl_run="rl_a"),
    "docs/show.md": _copies(model__bin="a.bin", other__bin="b.bin", dump="nan", run_b="nan"),
    "docs/viewer.md": _graphs,
}


@pytest.mark.parametrize("name", PAGES_TO_RUN)
def test_the_commands_of_a_page_run(name: str, records: Path, shell: Path, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    # A copy: what is recorded has the state of the repository around the script.
    shutil.copytree(REPOSITORY / "examples", folder / "examples")
    PREPARE.get(name, lambda records, folder: None)(records, folder)
    is_whole = SYMPTOMS is not None and name.startswith(SYMPTOMS)
    if is_whole:
        _symptom_scripts(shell, folder)
    environment = {
        **({"DOC_SAVES": "1"} if name == "docs/symptoms/resume.md" else {}),
        "PATH": f"{shell}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    for block in blocks(REPOSITORY / name):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.not_run and not is_whole:
            continue
        elif block.language == "python" and is_whole:
            result = run([sys.executable, "-c", _ROLLOUT + block.text], folder, **environment)
            assert result.returncode == 0, f"{block}:\n{result.stdout}"
        elif block.language == "sh":
            result = run(["bash", "-euo", "pipefail", "-c", block.text], folder, **environment)
            assert result.returncode == 0, f"{block}:\n{result.stdout}"
        elif block.language == "console":
            _check_console(block, folder, environment)


def _check_console(block: Block, folder: Path, environment: dict[str, str]) -> None:
    """Each command ends with 0 or 1, and with what `echo $?` shows below it."""
    code = 0
    for command, shown in console_commands(block.text):
        if command == "echo $?":
            assert shown == [str(code)], f"{block}: the exit code was {code}"
            continue
        result = run(["bash", "-c", command], folder, DOC_EXACT_CODES="1", **environment)
        code = result.returncode
        assert code in (0, 1), f"{block}: {command}:\n{result.stdout}"


def test_every_block_with_commands_says_so() -> None:
    """A block without a language, or of another one, would not be run."""
    commands = re.compile(r"^(\$ |msprobe [a-z]|torchrun |python |pip |cmake |\./dev )", re.MULTILINE)
    wrong = [
        f"{block}: language {block.language!r}, expected sh or console"
        for block in ALL
        if block.language not in (*SHELL, "python", "cpp", "cmake", "json", "yaml")
        and commands.search(block.text)
    ]
    assert wrong == []


def test_what_is_run_stays_in_its_folder() -> None:
    assert [str(block) for block in RUN if _NOT_IN_A_TEST.search(block.text)] == []


# `msprobe run --steps 5`, in a sentence or a table; what stands behind a script or a launcher is not ours.
_INLINE = re.compile(r"`msprobe ([a-z_]+)((?: [^`]*)?)`")
_OF_THE_PROGRAM = re.compile(r" \S+\.(?:py|ipynb)\b| '| -m | torchrun | python ")
_ELSEWHERE = ("docs/migration.md", "docs/compatibility.md", "docs/adr/")  # options of mindstudio-probe


def test_commands_and_options_inside_of_sentences_exist(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for page in PAGES:
        name = str(page.relative_to(REPOSITORY))
        if name.startswith(_ELSEWHERE):
            continue
        for command, words in _INLINE.findall(page.read_text(encoding="utf-8")):
            if command == "help":
                continue
            if command not in COMMANDS:
                wrong.append(f"{name}: msprobe {command}: no such command")
                continue
            options = re.findall(r"(?<= )--[a-z][a-z-]*", _OF_THE_PROGRAM.split(words)[0])
            wrong += [
                f"{name}: msprobe {command} {option}: no such option"
                for option in options
                if option not in _help(command, capsys)
            ]
    assert wrong == []


@functools.cache
def _help(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """With the options of mindstudio-probe, which some pages name."""
    capsys.readouterr()
    for words in ([command, "--help"], ["help", "mindstudio"]):
        with contextlib.suppress(SystemExit):
            cli.main(words)
    return capsys.readouterr().out


def test_python_and_json_of_the_pages_can_be_read() -> None:
    for block in ALL:
        if block.language == "python":
            ast.parse(block.text, str(block))
        elif block.language == "json" and block.text.startswith(("{", "[")) and "..." not in block.text:
            for document in block.text.split("\n\n"):
                json.loads(document)


def test_a_page_that_is_prepared_for_exists_and_is_run() -> None:
    assert set(PREPARE) - set(PAGES_TO_RUN) == set()


@pytest.mark.parametrize("page", ["README.md", "docs/first_hour.md"])
def test_the_answer_that_is_shown_first_is_a_real_one(page: str, records: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "msprobe", "diagnose", "run_a", "run_b", "-o", str(tmp_path / "answer")]
    result = run(command, records, NO_COLOR="1")
    assert result.returncode == 1
    shown = next(block.text for block in blocks(REPOSITORY / page) if "layers.1.norm1.eps" in block.text)
    real = {line.rstrip() for line in result.stdout.splitlines()}
    lines = [line.rstrip() for line in shown.splitlines() if "/index.html" not in line]
    assert len(lines) > 8
    assert [line for line in lines if line not in real] == []
