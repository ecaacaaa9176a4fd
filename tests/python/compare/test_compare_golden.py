# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The comparisons of mindstudio-probe (tests/data/compare/golden), cell by cell with their colours, but for
what docs/compatibility.md lists; golden_tables.py says that list in code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from archives import unpack
from golden_tables import RULES, Row, check_tables, table_of
from msprobe.cli import main

DATA = Path(__file__).resolve().parents[2] / "data"
GOLDEN = DATA / "compare" / "golden"

# Of dumps in which stack.json was left out after they had been compared.
WITHOUT_STACKS = {"tensor_mix", "md5_mix", "gloo2"}
ARCHIVES = {
    "tensor_mix": [
        DATA / "dump/tensor_mix.tar.gz",
        GOLDEN / "tensor_mix_view_as.tar.gz",
        GOLDEN / "tensor_mix_perturbed.tar.gz",
    ],
    "statistics_mix": [DATA / "dump/statistics_mix.tar.gz", GOLDEN / "statistics_mix_perturbed.tar.gz"],
    "md5_mix": [DATA / "dump/md5_mix.tar.gz", GOLDEN / "md5_mix_perturbed.tar.gz"],
    "debug": [DATA / "dump/debug_tensor.tar.gz"],
    "gloo2": [DATA / "dump/gloo2_L1.tar.gz", GOLDEN / "gloo2_L1_perturbed.tar.gz"],
    **{f"edge_{mode}": [GOLDEN / "edge.tar.gz"] for mode in ("tensor", "statistics", "md5")},
}
PATHS = {
    **{
        name: (f"{name}/dump/step0/rank/dump.json", f"{name}_perturbed/dump/step0/rank/dump.json")
        for name in ("tensor_mix", "statistics_mix", "md5_mix")
    },
    "debug": ("debug_tensor/dump/step0/rank/debug.json", "debug_tensor/dump/step1/rank/debug.json"),
    "gloo2": ("gloo2_L1_perturbed/dump/step0", "gloo2_L1/dump/step0"),
    **{
        f"edge_{mode}": (f"edge/{mode}/npu/dump.json", f"edge/{mode}/bench/dump.json")
        for mode in ("tensor", "statistics", "md5")
    },
}


# ---- comparing


@dataclass
class Compared:
    output: Path
    code: int


@pytest.fixture(scope="module", params=list(PATHS))
def sample(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def compared(sample: str, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder = tmp_path_factory.mktemp(sample)
    for archive in ARCHIVES[sample]:
        unpack(archive, folder)
    target, golden = (str(folder / path) for path in PATHS[sample])
    file = folder / "compare.json"
    file.write_text(json.dumps({"npu_path": target, "bench_path": golden, "is_print_compare_log": False}))
    code = main(["-f", "pytorch", "compare", "-i", str(file), "-o", str(folder / "out"), "--quiet"])
    return Compared(folder / "out", code)


def golden_files(sample: str) -> Iterator[Path]:
    files = sorted((GOLDEN / sample).iterdir())
    assert files
    yield from files


def ours(output: Path, theirs: Path) -> Path:
    """Our file of the same name, but for the time."""
    stem = theirs.stem.rpartition("_")[0]
    found = list(output.glob(f"{stem}_*{theirs.suffix}"))
    found = [path for path in found if path.stem.rpartition("_")[0] == stem]
    assert len(found) == 1, f"{theirs.name}: {sorted(path.name for path in output.iterdir())}"
    return found[0]


def test_every_cell_and_colour(sample: str, compared: Compared) -> None:
    for theirs in golden_files(sample):
        if theirs.suffix != ".xlsx":
            continue
        without = ("NPU_Stack_Info",) if sample in WITHOUT_STACKS else ()
        check_tables(theirs, ours(compared.output, theirs), sample=sample, without=without)


def test_advice(sample: str, compared: Compared) -> None:
    for theirs in golden_files(sample):
        if theirs.suffix == ".txt":
            assert ours(compared.output, theirs).read_text() == theirs.read_text()


def test_exit_code(sample: str, compared: Compared) -> None:
    assert compared.code == (0 if sample == "debug" else 1)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_is_needed(rule: Callable[[str, Row], None]) -> None:
    for sample in PATHS:
        for path in golden_files(sample):
            for row in table_of(path)[1] if path.suffix == ".xlsx" else []:
                before = dict(row)
                rule(sample, row)
                if row != before:
                    return
    pytest.fail("no sample needs this rule")
