# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The comparisons of the existing tool (tests/data/compare/golden), cell by cell with their colours, but for
what docs/compatibility.md lists; RULES says that list in code.
"""

from __future__ import annotations

import json
import math
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openpyxl
import pytest
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
RED = "FFFF0000"
BAD_EXTREMES = "maximum or minimum is nan, -inf, or inf"
ZERO_D = (
    "This is type of 0-d tensor, can not calculate 'Cosine', 'EucDist', 'One Thousandth Err Ratio' and "
    "'Five Thousandths Err Ratio'. "
)
NO_ABSOLUTE = "Cannot compare by MaxAbsError, the data contains nan/inf/-inf in dump data."
NO_RELATIVE = "Cannot compare by MaxRelativeError, the data contains nan/inf/-inf in dump data."

Row = dict[str, Any]


# ---- what is meant to differ


def zero_d_message_once(sample: str, row: Row) -> None:
    """The sentences about a tensor without dimensions stand there once, not up to 16 times."""
    text = row.get("Err_message")
    if isinstance(text, str) and text.startswith(ZERO_D):
        for sentence in (ZERO_D, NO_ABSOLUTE, NO_RELATIVE):
            head, found, tail = text.partition(sentence)
            text = head + found + tail.replace(sentence, "")
        row["Err_message"] = text


def nan_is_red(sample: str, row: Row) -> None:
    """A NaN is as bad as an infinity."""
    if row.get("NPU max") in ("Nan", "nan") and row["colour"] != RED:
        row["colour"] = RED
        row["Err_message"] = "\n".join(filter(None, (row["Err_message"], BAD_EXTREMES)))


def zeros_against_ones(sample: str, row: Row) -> None:
    """A cosine that cannot be computed because one side is all zero does not hide a large error."""
    one_sided = "Cannot compare by Cosine Similarity, All the data is Zero"
    if one_sided in str(row.get("Err_message")) and row["MaxAbsErr"] > 0.001:
        assert row["Accuracy Reached or Not"] == "Yes"
        row["Accuracy Reached or Not"] = "No"


def null_without_counterpart(sample: str, row: Row) -> None:
    """A null passes only when there is a null on the other side."""
    if row.get("Result") == "pass" and row["Bench Name"] == "N/A":
        row["Result"] = "N/A"


def complex_with_imaginary_part(sample: str, row: Row) -> None:
    """n = [1 + 1j, 2], b = [1 + 1j, 2.5]: the imaginary part counts."""
    if sample == "edge_tensor" and row["NPU Name"] == "Torch.complex.0.forward.output.0":
        assert row["Cosine"] == 0.996545758245  # of the real parts
        row["Cosine"] = round(7 / math.sqrt(6 * 8.25), 12)


RULES: list[Callable[[str, Row], None]] = [
    zero_d_message_once,
    nan_is_red,
    zeros_against_ones,
    null_without_counterpart,
    complex_with_imaginary_part,
]


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
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    target, golden = (str(folder / path) for path in PATHS[sample])
    file = folder / "compare.json"
    file.write_text(json.dumps({"npu_path": target, "bench_path": golden, "is_print_compare_log": False}))
    code = main(["-f", "pytorch", "compare", "-i", str(file), "-o", str(folder / "out"), "--quiet"])
    return Compared(folder / "out", code)


def table_of(path: Path) -> tuple[list[str], list[Row]]:
    sheet = openpyxl.load_workbook(path)["Sheet"]
    header, *rows = sheet.iter_rows()
    names = [cell.value for cell in header]
    return names, [
        {
            **{name: cell.value for name, cell in zip(names, cells)},
            "colour": cells[0].fill.fgColor.rgb if cells[0].fill.fill_type else None,
        }
        for cells in rows
    ]


def is_same(expected: Any, found: Any) -> bool:
    if (
        isinstance(expected, str)
        and expected.endswith("%")
        and isinstance(found, str)
        and found.endswith("%")
    ):
        expected, found = float(expected[:-1]), float(found[:-1])
    if isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        return math.isclose(expected, found, rel_tol=1e-6, abs_tol=1e-12) or expected != expected != found
    return bool(expected == found)


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
        names, expected = table_of(theirs)
        found_names, found = table_of(ours(compared.output, theirs))
        if sample in WITHOUT_STACKS:
            names.remove("NPU_Stack_Info")
        assert found_names == [*names, "Match"]
        assert len(found) == len(expected)
        for index, (row, our_row) in enumerate(zip(expected, found)):
            for rule in RULES:
                rule(sample, row)
            for name in (*names, "colour"):
                what = f"{theirs.name}, row {index}, {row['NPU Name']}, {name}"
                assert is_same(row[name], our_row[name]), f"{what}: {row[name]!r}, found {our_row[name]!r}"


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
