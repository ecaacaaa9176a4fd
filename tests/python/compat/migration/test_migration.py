# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every documented entry point of mindstudio-probe either works or says in one sentence what to use instead.
The table in docs/migration.md is what these tests find; MSPROBE_TEST_WRITE_MIGRATION=1 writes it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from archives import unpack
from documented_entries import COMMANDS, IMPORTS, Entry
from msprobe.commands.table import COMMANDS as OURS
from msprobe.compat.other_names import ABSENT, COMMANDS_NOT_HERE, ELSEWHERE, NOT_HERE

ROOT = Path(__file__).resolve().parents[4]
DATA = ROOT / "tests/data"
PAGE = ROOT / "docs/migration.md"
BEGIN, END = (
    "<!-- entry points: begin, made by tests/python/compat/migration -->",
    "<!-- entry points: end -->",
)
WORKS = "works"
WRITES = bool(os.environ.get("MSPROBE_TEST_WRITE_MIGRATION"))

_IMPORTER = """
import json, sys
found = {}
for statement in json.load(sys.stdin):
    try:
        exec(statement, {})
        found[statement] = ""
    except Exception as error:
        found[statement] = f"{type(error).__name__}: {error}"
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def imports() -> dict[str, str]:
    """What each import statement raises; empty: nothing."""
    texts = json.dumps([entry.text for entry in IMPORTS])
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTER], input=texts, capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


# ---- a folder with what the command lines take for granted


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    unpack(DATA / "dump/statistics_mix.tar.gz", folder)
    dump = next(folder.rglob("dump.json")).parents[1]
    for name in ("golden_dump", "target_dump"):
        shutil.copytree(dump, folder / name)
        rank = next((folder / name).rglob("dump.json")).parent
        rank.rename(folder / name / "rank0")
        (folder / name.replace("dump", "run")).mkdir()
        shutil.copytree(folder / name, folder / name.replace("dump", "run") / "step0")
    unpack(DATA / "overflow/gloo2_L1_nan.tar.gz", folder)
    shutil.move(folder / "gloo2_L1_nan/dump", folder / "nan_dump")
    unpack(DATA / "overflow/exp_sub.tar.gz", folder)
    shutil.move(folder / "exp_sub/dump/step0/rank", folder / "overflow")
    unpack(
        DATA / "checkpoint/samples.tar.xz",
        folder,
        lambda one: one.name.startswith(("a_tp2_pp2", "b_tp2_pp2")),
    )
    (folder / "a_tp2_pp2").rename(folder / "ckpt_a")
    (folder / "b_tp2_pp2").rename(folder / "ckpt_b")
    unpack(DATA / "mindspore/samples.tar.xz", folder)
    shutil.copy(folder / "overflow/dump.json", folder)
    unpack(DATA / "accuracy/samples.tar.xz", folder, lambda one: "run_ut_" in one.name)
    for name, run in (("npu.csv", "run_ut_tensor"), ("gpu.csv", "run_ut_statistics")):
        (details,) = (folder / run).glob("accuracy_checking_details_*.csv")
        shutil.copy(details, folder / name)
    for name, source in (("bench.zip", "dyn_a.zip"), ("cmp.zip", "dyn_b.zip"), ("train.sh", "train_a.sh"),
                         ("train.yaml", "conf_a.yaml")):  # fmt: skip
        shutil.copy(DATA / "config_check" / source, folder / name)
    _write_small_files(folder)
    _make_results(folder)
    return folder


def _write_small_files(folder: Path) -> None:
    def write(name: str, content: object) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")

    target, golden = ("target_dump/rank0/dump.json", "golden_dump/rank0/dump.json")
    stack = "target_dump/rank0/stack.json"
    write(
        "compare.json",
        {"npu_path": target, "bench_path": golden, "stack_path": stack, "is_print_compare_log": True},
    )
    write("graph.json", {"npu_path": "target_dump", "bench_path": "golden_dump"})
    mix = "mix/dump/step0/rank"
    write("ms_compare.json", {"npu_path": f"{mix}/dump.json", "bench_path": f"{mix}/dump.json"})
    write("ms_graph.json", {"npu_path": mix, "bench_path": mix})
    name = "Functional.embedding.0.forward.input.0"
    write("data_mapping.yaml", f"{name}: {name}\n")
    name = "Functional.relu.0.forward.input.0"
    write("ms_data_mapping.yaml", f"{name}: {name}\n")
    write("layers.yaml", "TopLayer:\n  layers: layers\n")
    write("cells.yaml", "fc1.Dense: fc1.Dense\n")
    write("apis.yaml", "[]\n")
    shutil.copytree(DATA / "monitor/alert", folder / "monitor/rank0")
    write("merge.yaml", "api:\n  - Functional.embedding.0.forward\ncompare_index:\n  - Max diff\n")
    write("kernel_dump", "binary")
    # The checker waits for a training: this one has ended already.
    (folder / "shared/rank0_training").mkdir(parents=True)
    write("shared/rank0_training/end", "")
    write("config.json", {"task": "run_ut", "run_ut": {"is_online": True, "nfs_path": "shared"}})
    single = {"dump_json_path": "dump.json", "api_name": "Torch.exp.0", "extract_api_path": "one.json"}
    write("config_op.json", single)
    of_mindspore = {"dump_json_path": mix + "/dump.json", "api_name": "Functional.relu.0"}
    write("ms_config_op.json", {**single, **of_mindspore})
    node = "  %0(a) = PrimFunc_Exp(%p)\n      # Fullname with scope: (Default/net-Net/Exp-op0)\n"
    write("graph.ir", f"subgraph @kernel_graph0() {{\n{node}}}\n")
    (folder / "ms_data").mkdir()
    write("ms_data/Exp.Default_net-Net_Exp-op0.0.0.1.output.0.npy", "")


def _make_results(folder: Path) -> None:
    """Tables of two ranks, for merge_result."""
    for rank in range(2):
        words = ["compare", "golden_dump", "target_dump", "-o", f"made{rank}", "--quiet", "-c"]
        subprocess.run([sys.executable, "-m", "msprobe", *words], cwd=folder, check=True)
        (table,) = (folder / f"made{rank}").glob("compare_result_*.xlsx")
        (folder / "results").mkdir(exist_ok=True)
        shutil.copy(table, folder / "results" / table.name.replace("rank0", f"rank{rank}"))


# Where the documentation has one name for files of two kinds.
_RENAMED = {
    "graph": {"compare.json": "graph.json"},
    "run_overflow_check": {"overflow.json": "overflow/dump.json"},
}
_OF_MINDSPORE = {"dump.json": "mix/dump/step0/rank/dump.json", "config_op.json": "ms_config_op.json"}


def attempt(entry: Entry, prepared: Path, folder: Path) -> tuple[int, str]:
    """Exit code, and what was said on standard error."""
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    words = shlex.split(entry.text)
    command = next((word for word in words[1:] if word in OURS), "")
    renamed = _OF_MINDSPORE if "mindspore" in words else _RENAMED.get(command, {})
    words = [renamed.get(word, word) for word in words]
    program = [sys.executable, *(["-m", "msprobe"] if words[0] == "msprobe" else [])]
    done = subprocess.run(
        [*program, *words[1:]],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr.strip()


def outcome(code: int, error: str) -> str:
    """WORKS, or the sentence that says what to use instead."""
    if code in (0, 1) and "Error while finding module" not in error:
        return WORKS
    return sentence_of(error.splitlines()[-1] if error else "")


def sentence_of(error: str) -> str:
    """Without what stands before it: class, command, module."""
    for sentence in {*NOT_HERE.values(), *COMMANDS_NOT_HERE.values()}:
        if sentence in error:
            return sentence
    return re.sub(r"; see msprobe \w+ --help$", "", re.sub(r"^msprobe( \w+)?: error: ", "", error))


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    return {}


@pytest.mark.parametrize("entry", IMPORTS, ids=lambda entry: entry.text)
def test_an_import_works_or_says_what_to_use(
    entry: Entry, imports: dict[str, str], results: dict[str, str]
) -> None:
    error = imports[entry.text]
    results[entry.text] = sentence_of(error) if error else WORKS
    if error:
        assert error.startswith("ImportError: "), error
        assert sentence_of(error) in NOT_HERE.values(), error


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.text)
def test_a_command_works_or_says_what_to_use(
    entry: Entry, prepared: Path, tmp_path: Path, results: dict[str, str]
) -> None:
    code, error = attempt(entry, prepared, tmp_path / "folder")
    found = outcome(code, error)
    results[entry.text] = found
    assert "Traceback" not in error, error
    if found != WORKS:
        assert re.search(r"msprobe|expected|install", found), error
        assert len(error.splitlines()) == 1, error


def table(results: dict[str, str]) -> str:
    lines = ["| documented in | entry | here |", "|---|---|---|"]
    for entry in (*IMPORTS, *COMMANDS):
        found = results[entry.text].replace("|", "\\|")
        lines.append(f"| {entry.releases} | `{entry.text}` | {found} |")
    return "\n".join(lines)


def test_what_the_pages_say_to_import_is_there() -> None:
    """In running text; blocks of code are run by tests/python/docs."""
    said = re.compile(r"`from (msprobe[\w.]*) import ([\w, ]+?)(?:, \.\.\.)?`")
    statements = set()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = re.sub(f"{BEGIN}.*{END}", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        statements |= {f"from {module} import {names}" for module, names in said.findall(text)}
    assert statements
    texts = json.dumps(sorted(statements))
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTER], input=texts, capture_output=True, text=True, check=True
    )
    assert {statement: error for statement, error in json.loads(done.stdout).items() if error} == {}


def rows_of(page: str) -> dict[str, str]:
    rows = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    found = [re.fullmatch(r"\| [^|]* \| `(.*?)` \| (.*) \|", row) for row in rows]
    return {row[1]: row[2].replace("\\|", "|") for row in found if row}


def may_stand(documented: str, found: str) -> bool:
    """The page never promises more than there is. A feature that has come since may do more than it says."""
    return found in (documented, WORKS) or "this version of msprobe" in documented


def test_the_table_of_the_page_is_what_was_found(results: dict[str, str]) -> None:
    if len(results) < len(IMPORTS) + len(COMMANDS):
        pytest.skip("some of the entries were not tried")
    page = PAGE.read_text(encoding="utf-8")
    if WRITES:
        before, begin, rest = page.partition(BEGIN)
        assert begin, f"{PAGE} has no line {BEGIN}"
        page = f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{rest.partition(END)[2]}"
        PAGE.write_text(page, encoding="utf-8")
    documented = rows_of(page)
    assert sorted(documented) == sorted(results), "MSPROBE_TEST_WRITE_MIGRATION=1 writes the table"
    differing = [text for text, found in results.items() if not may_stand(documented[text], found)]
    assert differing == [], "MSPROBE_TEST_WRITE_MIGRATION=1 writes the table"


# ---- rows that are stale


def test_what_is_there_goes_before_a_row_that_says_it_is_not(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom msprobe import cli\nfrom msprobe.compat import other_names\n"
        "other_names.NOT_HERE['msprobe.seed'] = other_names.COMMANDS_NOT_HERE['show'] = 'it is not here'\n"
        "from msprobe.seed import seed_all\nsys.exit(cli.main(['show', 'a.json']))\n"
    )
    (tmp_path / "a.json").write_text('{"a": 1}', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_each_name_and_command_has_one_row() -> None:
    names = [name for row in ABSENT for name in (*row.names, *row.commands)]
    assert len(names) == len(set(names))


@pytest.mark.skipif(not WRITES, reason="for the run that writes the table: MSPROBE_TEST_WRITE_MIGRATION=1")
def test_no_row_is_stale() -> None:
    stale = [command for command in COMMANDS_NOT_HERE if command in OURS]
    for name in NOT_HERE:
        module, _, attribute = name.rpartition(".")
        path = (ROOT / "python").joinpath(*name.split("."))
        initial = path.parent / "__init__.py"
        exported = initial.is_file() and f'"{attribute}"' in initial.read_text(encoding="utf-8")
        if path.is_dir() or path.with_suffix(".py").is_file() or (module != "msprobe" and exported):
            stale.append(name)
    assert stale == [], "these are there: rows of ABSENT in msprobe/compat/other_names.py"


def test_modules_elsewhere_are_not_on_disk() -> None:
    for name in ELSEWHERE:
        assert not (ROOT / "python").joinpath(*name.split(".")).with_suffix(".py").exists(), name


def test_a_guarded_import_takes_the_other_way() -> None:
    """As frameworks do that can work without."""
    code = (
        "try:\n from msprobe.pytorch import TrainerMon\nexcept ImportError:\n TrainerMon = None\n"
        "import msprobe.pytorch\nassert not hasattr(msprobe.pytorch, 'nothing')\n"
        "try:\n import msprobe.nothing\nexcept ModuleNotFoundError:\n pass\n"
        "from msprobe.pytorch import *\nassert seed_all\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
