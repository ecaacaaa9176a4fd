# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One table over all commands: each takes the folder of `msprobe run`, and keeps the same rules for --json,
--quiet, results that exist already, Ctrl-C, help and mistyped options.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from msprobe import cli
from msprobe.cli import COMMANDS
from msprobe.completion import command as completion

TRAINING = """
import sys
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    hidden = model(torch.ones(2, 4))
    if "--fault" in sys.argv:
        hidden = hidden / 0
    loss = hidden.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class Row:
    """How a command is called with runs. `words`: {a} and {b} are two runs, {out} is a name for results."""

    words: str
    codes: tuple[int, ...] = (0, 1)
    has_json: bool = True
    has_quiet: bool = True
    refuses: bool = True
    """To write over its results; else they have the time in their names, as in mindstudio-probe, or none."""
    needs: str = ""


# Commands that take dumps, gradients, packs or records of the monitor, and so a run.
OF_RUNS = {
    "diagnose": Row("{a} {b} -o {out}"),
    "compare": Row("{a} {b} -o {out}"),
    "graph": Row("{a} {b} -o {out}"),
    "graph_visualize": Row("{b} -o {out}"),
    "grad_compare": Row("{a} {b} -o {out} --no-pictures"),
    "grad_export": Row("{a} -o {out}", codes=(0,)),
    "config_check": Row("{a} {b} -o {out}"),
    "show": Row("{a} Functional.linear.0.forward", refuses=False),
    "diff": Row("{a} {b}", refuses=False),
    "trend": Row("{a} {b} --export {out}"),
    "view": Row("{a} {b} --export {out}", has_json=False, has_quiet=False),
    "nan_analyze": Row("{b} -o {out}", codes=(1,), refuses=False),
    "check": Row("{a} -o {out} --device cpu"),
    "reproduce": Row("{a} Functional.linear.0 -o {out}", codes=(0,)),
    "run_ut": Row("-api_info {a} -o {out} -d cpu", refuses=False),
    "multi_run_ut": Row("-api_info {a} -o {out} -d cpu -n 1", refuses=False),
    "acc_check": Row("-api_info {a} --step 1 -o {out} -d cpu", refuses=False),
    "multi_acc_check": Row("-api_info {a} --rank 0 -o {out} -d cpu -n 1", refuses=False),
    "run_overflow_check": Row("-api_info {b}", refuses=False),
    "overflow_check": Row("-i {b} -o {out}", codes=(1,), refuses=False),
    "op_generate": Row("-i {config} -o {folder}", codes=(0,), refuses=False),
}
# What these take is no part of a run: {file} is a file that there is.
OF_OTHER_THINGS = {
    "run": "a script",
    "perturb": "a script",
    "repeat": "a script",
    "hunt": "two commands",
    "resume": "a command",
    "bisect": "a command and a check",
    "export": "event logs, which a run leaves when it is killed; its folder is searched for them",
    "init": "nothing",
    "config": "a configuration",
    "doctor": "nothing",
    "completion": "nothing",
    "ckpt": "checkpoints, which no run records",
    "parse": "arrays and kernel dumps",
    "rl_compare": "records of SingleSave",
    "merge_result": "tables of comparisons",
    "code_mapping": "a graph of MindSpore",
    "explain": "an answer of compare or diagnose",
    "api_precision_compare": "tables of run_ut",
}


def test_the_table_has_every_command():
    assert {*OF_RUNS, *OF_OTHER_THINGS} == set(COMMANDS)
    assert not set(OF_RUNS) & set(OF_OTHER_THINGS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folders of two runs; in the second one everything is infinite."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(TRAINING)
    for name, more in (("a", []), ("b", ["--fault"])):
        words = ["run", "--quiet", "--monitor", "-o", str(folder / name), str(folder / "train.py"), *more]
        subprocess.run([sys.executable, "-m", "msprobe", *words], check=True, cwd=folder)
    return folder


@pytest.fixture
def call(command_line, monkeypatch, tmp_path, runs):
    """call(command, *more words) -> exit code, output, errors: of the command on the two runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    config = {
        "dump_json_path": str(runs / "a"),
        "api_name": "Functional.linear.0",
        "extract_api_path": "entry.json",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))

    def run(command, *more, row=None, out="out"):
        words = (row or OF_RUNS[command]).words.format(
            a=runs / "a", b=runs / "b", out=out, config="config.json", folder="folder"
        )
        return command_line(command, *words.split(), *more)

    return run


@pytest.mark.parametrize("command", OF_RUNS)
def test_it_takes_the_folder_of_a_run(call, command):
    code, text, error = call(command)
    assert code in OF_RUNS[command].codes, error
    assert text
    assert "Traceback" not in error


@pytest.mark.parametrize("command", [name for name, row in OF_RUNS.items() if row.has_json])
def test_json_is_one_document_and_nothing_else(call, command):
    code, text, error = call(command, "--json")
    assert code in OF_RUNS[command].codes, error
    json.loads(text)


@pytest.mark.parametrize("command", [name for name, row in OF_RUNS.items() if row.has_quiet])
def test_quiet_says_nothing(call, command):
    code, text, error = call(command, "--quiet")
    assert (text, error) == ("", "")
    assert code in OF_RUNS[command].codes


@pytest.mark.parametrize("command", [name for name, row in OF_RUNS.items() if row.refuses])
def test_results_that_exist_are_replaced_with_force_only(call, command, tmp_path):
    first = call(command)
    (made,) = tmp_path.glob("out")
    # With --force the config check empties its folder, as its help says.
    mine = made / "notes.txt" if made.is_dir() and command != "config_check" else tmp_path / "notes.txt"
    mine.write_text("of the user")
    before = content(made)
    code, text, error = call(command)
    assert (code, text) == (2, "")
    assert error.startswith(f"msprobe {command}: error: ")
    assert error.count("\n") == 1
    assert "--force" in error
    assert content(made) == before
    assert call(command, "--force")[0] == first[0]
    assert mine.read_text() == "of the user"
    assert not [path for path in made.rglob(".*")]


def content(path: Path) -> dict[str, tuple[int, int]]:
    """Names, with the time of the last change and the size."""
    paths = [path, *path.rglob("*")]
    return {str(one): (one.stat().st_mtime_ns, one.stat().st_size) for one in paths if one.is_file()}


# Called last by each command that writes a folder.
LAST = {
    "diagnose": "msprobe.diagnose.answer_file.answer_json",
    "compare": "msprobe.compare.outputs.write_verdict",
    "graph": "msprobe.compare.verdict_file.write_verdict",
    "grad_compare": "msprobe.grad_probe.verdict.Verdict.to_json",
    "check": "msprobe.check.outputs.write_verdict",
}


@pytest.mark.parametrize("command", LAST)
def test_after_ctrl_c_there_is_a_word_and_nothing_half(call, command, monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(LAST[command], interrupt)
    assert call(command) == (130, "", f"msprobe {command}: interrupted\n")
    # A check takes long: the rows of the calls that were judged stay.
    assert [path.name for path in tmp_path.glob("out/*")] == (["calls.csv"] if command == "check" else [])


@pytest.mark.parametrize("command", LAST)
def test_with_force_earlier_results_come_back_after_ctrl_c(call, command, monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    call(command)
    before = content(tmp_path / "out")
    monkeypatch.setattr(LAST[command], interrupt)
    assert call(command, "--force")[0] == 130
    assert content(tmp_path / "out") == before


@pytest.mark.parametrize("command", ["compare", "graph"])
def test_command_lines_of_mindstudio_probe_go_on_as_there(call, command):
    row = Row("-gp {a}/dump/step0 -tp {b}/dump/step0 -o {out}")
    assert call(command, row=row)[0] == 1
    assert call(command, row=row)[0] == 1


def test_a_folder_that_is_no_result_is_never_replaced(call, tmp_path):
    """`dump` is what a diagnosis calls one of its folders, and a user may, too."""
    (tmp_path / "out/dump").mkdir(parents=True)
    (tmp_path / "out/dump/mine.txt").write_text("mine")
    for more in ((), ("--force",)):
        code, _, error = call("diagnose", *more)
        assert code == 2
        assert "dump" in error
    assert (tmp_path / "out/dump/mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("command", "part", "said"),
    [
        ("compare", "dump", "a dump"),
        ("graph", "dump", "a dump"),
        ("check", "dump", "a dump"),
        ("grad_compare", "grad_probe", "gradients"),
        ("config_check", "config_check.zip", "a config pack"),
    ],
)
def test_a_run_without_the_part_says_so(call, command, part, said, runs, tmp_path):
    shutil.copytree(runs / "a", tmp_path / "poor")
    path = tmp_path / "poor" / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    row = Row(OF_RUNS[command].words.replace("{a}", str(tmp_path / "poor")))
    code, text, error = call(command, row=row)
    assert (code, text) == (2, "")
    assert f"poor: the folder of a run without {said}" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["ckpt", "rl_compare"])
def test_a_run_where_it_makes_no_sense_is_one_clear_line(call, command):
    code, text, error = call(command, row=Row("{a} {b}"))
    assert (code, text) == (2, "")
    assert error.count("\n") == 1
    assert "expected" in error


@pytest.mark.parametrize("command", COMMANDS)
def test_help(capsys, command):
    texts = []
    for words in (["help", command], [command, "--help"]):
        with contextlib.suppress(SystemExit):
            cli.main(words)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != ""


def test_help_of_what_is_none(capsys):
    assert cli.main(["help", "comprae"]) == 2
    assert 'did you mean "compare"?' in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_option_gets_a_suggestion(command_line, command):
    options = [one for one in completion.options_of(command) if one.startswith("--") and len(one) > 5]
    for option in options:
        wrong = option[:-2] + option[-1] + option[-2]
        if wrong in options:
            continue
        code, _, error = command_line(command, wrong)
        assert code == 2
        assert f'unknown option "{wrong}": did you mean "' in error, error
        break
    else:
        pytest.fail("no option to try")


@pytest.mark.parametrize("command", COMMANDS)
def test_one_pair_of_words(capsys, command):
    """reference and target; those of mindstudio-probe only as names of its options and keys."""
    with contextlib.suppress(SystemExit):
        cli.main([command, "--help"])
    text = capsys.readouterr().out
    for theirs in ("--golden_path", "-gp", "npu_path", "bench_path", "--npu_csv_path", "--gpu_csv_path"):
        text = text.replace(theirs, "")
    found = re.findall(r"(?i)\b(golden|bench|baseline|under test|run_a)\b", without_examples(text))
    assert not found
    if command in ("diagnose", "compare", "grad_compare", "ckpt", "diff", "rl_compare", "trend", "graph"):
        assert re.search(r"REFERENCE\]? \[?TARGET", text)


def without_examples(text: str) -> str:
    return text.partition("example: ")[0]


def test_ctrl_c_of_a_command_as_a_program(runs, tmp_path):
    """The signal itself, as a terminal sends it."""
    code = (
        "import os, signal, sys\n"
        "from msprobe import cli\n"
        "import msprobe.compare.outputs as outputs\n"
        "outputs.write_verdict = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.exit(cli.main(['compare', {str(runs / 'a')!r}, {str(runs / 'b')!r}, '-o', 'out']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env={**os.environ}
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.endswith("msprobe compare: interrupted\n")
    assert not (tmp_path / "out").exists()
