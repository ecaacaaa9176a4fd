# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: help, wrong command lines, and msprobe grad_compare."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msprobe import InternalError, __version__, native
from msprobe.commands.table import GROUPS, MINDSTUDIO
from msprobe.grad_probe import comparator

DATA = Path(__file__).parents[2] / "data" / "grad_probe"
A, B = str(DATA / "l1_a"), str(DATA / "l1_b")
SAMPLE = str(DATA.parent / "trace" / "sample")
INTERRUPTED = (130, "", "msprobe grad_compare: interrupted\n")


@pytest.fixture
def msprobe(command_line):
    return command_line


@pytest.fixture
def rejected(msprobe):
    """The one line on standard error of a wrong command line."""

    def run(*arguments):
        code, out, error = msprobe(*arguments)
        assert (code, out) == (2, "")
        assert error.count("\n") == 1
        return error.removesuffix("\n")

    return run


class TestCommandLine:
    def test_each_command_has_a_folder_of_its_own(self, msprobe, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert msprobe("grad_compare", A, A, "--no-pictures", "--quiet") == (0, "", "")
        assert (tmp_path / "grad_comparison/verdict.json").exists()
        assert msprobe("graph", SAMPLE, "--quiet")[0] == 0
        assert msprobe("compare", SAMPLE, SAMPLE, "--quiet")[0] == 0
        assert {path.name for path in tmp_path.iterdir()} == {"grad_comparison", "graph", "comparison"}
        assert msprobe("compare", "-tp", SAMPLE, "-gp", SAMPLE, "--quiet")[0] == 0
        assert (tmp_path / "output").exists()  # as mindstudio-probe has it

    def test_help(self, msprobe):
        for flag in ("-h", "--help", "help"):
            code, out, error = msprobe(flag)
            assert (code, error) == (0, "")
            assert "usage: msprobe" in out
            for title, group in GROUPS.items():
                block = out.partition(f"{title}:\n")[2].partition("\n\n")[0].splitlines()
                assert [line.split()[0] for line in block] == [*group]
            assert not [name for name in MINDSTUDIO if f"  {name} " in out]
            assert "msprobe help mindstudio" in out

    def test_help_of_what_is_of_mindstudio_probe(self, msprobe):
        code, out, error = msprobe("help", "mindstudio")
        assert (code, error) == (0, "")
        assert all(f"  {name} " in out for name in MINDSTUDIO)
        for option in ("-gp, --golden_path", "--consistent_check", "-progress_log"):
            assert option in out
            assert option not in msprobe("compare", "--help")[1]

    def test_version(self, msprobe):
        assert msprobe("--version") == (0, f"msprobe {__version__}\n", "")

    def test_no_command_is_help(self, msprobe):
        assert msprobe() == msprobe("--help")

    def test_an_unknown_command(self, rejected):
        assert rejected("grad_comare", "x") == (
            'msprobe: error: unknown command "grad_comare": did you mean "grad_compare"?'
        )
        assert rejected("xyz") == ('msprobe: error: unknown command "xyz": msprobe --help has all of them')
        assert rejected("--halp") == 'msprobe: error: unknown option "--halp": did you mean "--help"?'

    def test_control_characters_do_not_reach_the_terminal(self, rejected):
        assert rejected("a\x1b[31m\nb").startswith('msprobe: error: unknown command "a?[31m?b"')

    @pytest.mark.parametrize(
        "words",
        [("-f", "pytorch"), ("--framework", "pytorch"), ("--framework=pytorch",), ("-f", "mindspore")],
    )
    def test_the_framework_may_stand_anywhere(self, msprobe, words, tmp_path):
        rest = ["grad_compare", A, A, "-o", str(tmp_path), "--no-pictures", "--quiet", "--force"]
        for place in range(len(rest) + 1):
            if place != 4:  # not between -o and its value
                assert msprobe(*rest[:place], *words, *rest[place:]) == (0, "", "")

    def test_an_unknown_framework(self, rejected):
        for words in (("-f", "jax"), ("--framework=jax",), ("--framework", "jax")):
            assert rejected(*words, "grad_compare") == (
                'msprobe: error: expected pytorch or mindspore after -f, found "jax"'
            )
        assert rejected("-f") == 'msprobe: error: expected pytorch or mindspore after -f, found ""'

    def test_as_a_module(self):
        command = [sys.executable, "-m", "msprobe", "--version"]
        assert subprocess.run(command, capture_output=True, text=True).stdout == f"msprobe {__version__}\n"

    @pytest.mark.parametrize("arguments", [["--help"], ["wrong"], ["-f"], []])
    def test_an_answer_needs_no_native_code(self, arguments):
        code = (
            "import sys; from msprobe.cli import main; main(sys.argv[1:]);"
            "heavy = {'torch', 'numpy', 'matplotlib', 'pandas', 'msprobe._core', 'argparse', 'logging'};"
            "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
        )
        result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr

    def test_a_bug_keeps_its_traceback_and_is_no_difference(self, monkeypatch, msprobe):
        monkeypatch.setattr(comparator, "compare_ranks", lambda *_, **__: {}["x"])
        code, out, error = msprobe("grad_compare", A, A, "-o", "out")
        assert (code, out) == (2, "")
        assert "KeyError: 'x'\nmsprobe grad_compare: error: a fault of msprobe; please report" in error

    def test_an_error_of_ours_is_one_line(self, monkeypatch, rejected):
        def fail(*_, **__):
            raise InternalError("first\nsecond")

        monkeypatch.setattr(comparator, "compare_ranks", fail)
        assert rejected("grad_compare", A, A, "-o", "out") == "msprobe grad_compare: error: first?second"


class TestGradCompare:
    def test_the_same_run(self, msprobe, tmp_path):
        code, out, error = msprobe("grad_compare", A, A, "-o", tmp_path, "--no-pictures")
        assert (code, error) == (0, "")
        assert out == (
            f"The two runs agree: 52 gradients compared, none suspicious\n\nreport: {tmp_path}/report.html\n"
        )

    def test_two_runs_that_differ(self, msprobe, tmp_path):
        code, out, error = msprobe("grad_compare", A, B, "-o", tmp_path, "--no-pictures")
        assert (code, error) == (1, "")
        lines = out.splitlines()
        assert lines[0] == "The two runs diverge at step 0: parameter emb.weight of rank 0"
        assert lines[2].split() == ["step", "similarity", "before", "parameter"]
        assert lines[3].split() == ["0", "0.8788", "emb.weight"]
        assert lines[7].split() == ["1", "0.8333", "1.0000", "norm.bias"]
        assert lines[-1] == f"report: {tmp_path}/report.html"

    def test_at_most_ten_lines(self, msprobe, tmp_path):
        for side in ("a", "b"):
            shutil.copytree(A, tmp_path / side)
        for path in (tmp_path / "b" / "rank0" / "step0").iterdir():
            path.unlink()
        code, out, _ = msprobe(
            "grad_compare", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "o", "--no-pictures"
        )
        assert code == 1
        lines = out.splitlines()
        assert lines[0] == "No difference was seen, but 13 parts could not be compared"
        assert all(line.startswith("  rank 0: ") for line in lines[2:12])
        assert lines[12] == "  and 3 more in verdict.json"

    def test_a_damaged_file_is_told_beside_the_differences(self, msprobe, tmp_path):
        shutil.copytree(B, tmp_path / "b")
        damaged = next((tmp_path / "b/rank0/step1").iterdir())
        damaged.write_bytes(damaged.read_bytes()[:20])
        code, out, _ = msprobe("grad_compare", A, tmp_path / "b", "-o", tmp_path / "o", "--no-pictures")
        assert code == 1
        lines = out.splitlines()
        assert lines[0].startswith("The two runs diverge at step 0")
        (told,) = [line for line in lines if "nothing can be compared" in line]
        assert str(damaged) in told

    def test_json(self, msprobe, tmp_path):
        code, out, error = msprobe("grad_compare", A, B, "-o", tmp_path, "--no-pictures", "--json")
        assert (code, error) == (1, "")
        assert out == (tmp_path / "verdict.json").read_text()
        assert json.loads(out)["verdict"] == "differs"

    def test_quiet(self, msprobe, tmp_path):
        for _ in range(2):  # the second time, there would be a warning
            assert msprobe("grad_compare", A, B, "-o", tmp_path, "--no-pictures", "--quiet", "--force") == (
                1,
                "",
                "",
            )

    def test_warnings_are_shown_once(self, monkeypatch, msprobe, tmp_path):
        def warn(*words, **options):
            native.log.warning("%s", "once")
            return compare(*words, **options)

        compare = comparator.compare_ranks
        monkeypatch.setattr(comparator, "compare_ranks", warn)
        _, _, error = msprobe("grad_compare", A, B, "-o", tmp_path, "--no-pictures")
        assert error == "msprobe: WARNING: once\n"

    def test_several_ranks(self, msprobe, tmp_path):
        ranks = [DATA / "l1_ranks_a", DATA / "l1_ranks_b"]
        code, out, _ = msprobe("grad_compare", *ranks, "-o", tmp_path, "--no-pictures", "--threads", 2)
        assert code == 1
        assert out.splitlines()[2].split() == ["rank", "step", "similarity", "before", "parameter"]

    def test_single_rank_directories(self, msprobe, tmp_path):
        code, *_ = msprobe("grad_compare", A + "/rank0", B + "/rank0", "-o", tmp_path, "--no-pictures")
        assert code == 1
        golden = DATA / "cmp_l1" / "rank0" / "similarities.csv"
        assert (tmp_path / "similarities.csv").read_bytes() == golden.read_bytes()

    def test_pictures(self, msprobe, tmp_path):
        assert msprobe("grad_compare", A, A, "-o", tmp_path)[0] == 0
        assert len(list((tmp_path / "rank0" / "similarities_picture").iterdir())) == 14

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ([], "the following arguments are required: REFERENCE, TARGET"),
            ([A, "-o", "out"], "the following arguments are required: TARGET"),
            ([A, B, "-o", "out", "--bogus"], 'unknown option "--bogus"'),
            (
                [A, B, "-o", "out", "--threads", "x"],
                "argument --threads: expected a number from 0 to 1024, found 'x'",
            ),
            ([A, B, "-o", "out", "--threads", "-1"], "argument --threads: expected "),
            ([A, B, "-o", "out", "--json", "--quiet"], "not allowed with argument"),
            ([A, B, "-o"], "argument -o/--output: expected one argument"),
        ],
    )
    def test_wrong_arguments(self, rejected, arguments, problem):
        message = rejected("grad_compare", *arguments)
        assert message.startswith("msprobe grad_compare: error: ")
        assert problem in message

    def test_help(self, msprobe):
        code, out, error = msprobe("grad_compare", "--help")
        assert (code, error) == (0, "")
        assert "exit code: 0 the runs agree" in out

    def test_bad_input_is_one_line_and_exit_code_2(self, tmp_path):
        (tmp_path / "file").touch()
        (tmp_path / "empty").mkdir()
        (tmp_path / "link").symlink_to(A)
        for path, problem in (
            (tmp_path / "none", "none"),
            (tmp_path / "file", "file"),
            (tmp_path / "empty", "no matched ranks"),
            (tmp_path / "link", "link"),
        ):
            command = [
                sys.executable,
                "-m",
                "msprobe",
                "grad_compare",
                A,
                str(path),
                "-o",
                str(tmp_path / "out"),
            ]
            result = subprocess.run(command, capture_output=True, text=True)
            assert (result.returncode, result.stdout) == (2, "")
            assert result.stderr.startswith("msprobe grad_compare: error: ")
            assert problem in result.stderr
            assert result.stderr.count("\n") == 1
            assert not (tmp_path / "out").exists()

    def test_an_output_that_cannot_be_written(self, rejected, tmp_path):
        (tmp_path / "file").touch()
        for out in (tmp_path / "file", tmp_path / "file" / "below"):
            message = rejected("grad_compare", A, B, "-o", out)
            assert message.startswith("msprobe grad_compare: error: cannot create the directory ")
            assert "Not a directory" in message

    def test_ctrl_c(self, monkeypatch, msprobe, tmp_path):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(comparator, "compare_ranks", interrupt)
        assert msprobe("grad_compare", A, B, "-o", tmp_path) == INTERRUPTED

    def test_ctrl_c_while_a_native_module_starts(self, monkeypatch, msprobe, tmp_path):
        def fail_to_start(*_, **__):  # as the loader of native modules reports an interrupt
            raise ImportError("initialization failed") from KeyboardInterrupt()

        monkeypatch.setattr(comparator, "compare_ranks", fail_to_start)
        assert msprobe("grad_compare", A, B, "-o", tmp_path) == INTERRUPTED

    def test_ctrl_c_while_pictures_are_drawn(self, tmp_path):
        runs = tmp_path / "run"
        names = [f"p{index}" for index in range(2000)]
        (runs / "rank0" / "step0").mkdir(parents=True)
        with (runs / "rank0" / "grad_summary_0.csv").open("w", newline="") as file:
            file.write("param_name,max\r\n" + "".join(f"{name},1\r\n" for name in names))
        content = (DATA / "l1_a" / "rank0" / "step0" / "scale.npy").read_bytes()
        for name in names:
            (runs / "rank0" / "step0" / f"{name}.npy").write_bytes(content)
        out = tmp_path / "out"
        process = subprocess.Popen(
            [sys.executable, "-m", "msprobe", "grad_compare", str(runs), str(runs), "-o", str(out)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        pictures = out / "rank0" / "similarities_picture"
        for _ in range(1200):
            if pictures.exists() and len(os.listdir(pictures)) > 10:
                break
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it, too
        printed, error = process.communicate(timeout=60)
        assert (process.returncode, printed, error) == INTERRUPTED
        assert not out.exists()

    def test_a_reader_that_goes_away(self, tmp_path):
        command = (
            f"{sys.executable} -m msprobe grad_compare {A} {B} -o {tmp_path} --no-pictures --json | true"
        )
        result = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert result.stderr == ""
