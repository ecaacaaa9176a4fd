# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""merge_result: mindstudio-probe's result cell by cell, and what happens to everything that is wrong."""

from __future__ import annotations

import logging
import random
import shutil
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pytest
from msprobe import Error, FormatError, InvalidArgument, UnsupportedError
from msprobe.cli import main
from msprobe.compat.merge_result.merge_result import merge_result
from msprobe.compat.merge_result.result_table import REAL_DATA_INDICES, STATISTICS_INDICES, Cell
from msprobe.native import core

DATA = Path(__file__).resolve().parents[3] / "data/compare/merge"
RESULTS = {
    0: DATA / "compare_result_rank0_20261121070916.xlsx",
    1: DATA / "compare_result_rank1_20261121070916.xlsx",
}
GOLDEN = DATA / "multi_ranks_compare_merge_20261121071129.xlsx"
CONFIG = "api: [Distributed.all_reduce, Distributed.all_gather]\ncompare_index: [Max diff, MeanRelativeErr]\n"
TIME = "20260101000000"

Sheets = dict[str, list[tuple[object, ...]]]


def sheets_of(path: Path) -> Sheets:
    book = openpyxl.load_workbook(path)
    return {sheet.title: [tuple(row) for row in sheet.iter_rows(values_only=True)] for sheet in book}


def write_table(
    path: Path, columns: Sequence[str], rows: Sequence[Sequence[Cell | None]], sheet: str = "Sheet"
) -> None:
    with core.SheetWriter(path) as writer:
        writer.begin_sheet(sheet, columns)
        for row in rows:
            writer.add_row(row)


STATISTICS = ["NPU Name", *STATISTICS_INDICES, "NPU max", "Bench max"]
REAL_DATA = ["NPU Name", *REAL_DATA_INDICES, "NPU max", "Bench max"]


def statistics_row(name: str, diff: Cell) -> list[Cell]:
    return [name, *[diff] * 8, 2.0, 0.5]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two small results of statistics and a configuration."""
    (tmp_path / "in").mkdir()
    for rank in (0, 1):
        rows = [statistics_row(f"Torch.add.{i}.forward.input.0", i + rank / 2) for i in range(3)]
        write_table(tmp_path / f"in/compare_result_rank{rank}_{TIME}.xlsx", STATISTICS, rows)
    (tmp_path / "c.yaml").write_text("api: [Torch.add]\ncompare_index: [Max diff]\n")
    return tmp_path


def merge(folder: Path) -> Path:
    return merge_result(str(folder / "in"), str(folder / "out"), str(folder / "c.yaml"))


def refusal(folder: Path, kind: type[Error] = InvalidArgument) -> str:
    with pytest.raises(kind) as caught:
        merge(folder)
    assert not (folder / "out").exists() or not list((folder / "out").iterdir())
    text = str(caught.value)
    assert "\n" not in text
    return text.replace(f"{folder}/", "")


# ---- golden


@pytest.mark.parametrize(
    "name", ["compare_result_rank{0}_{1}.xlsx", "compare_result_rank{0}-rank{0}_{1}.xlsx"]
)
def test_the_result_of_the_existing_tool_is_reproduced(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    for rank, path in RESULTS.items():
        shutil.copy(path, tmp_path / "in" / name.format(rank, TIME))
    (tmp_path / "c.yaml").write_text(CONFIG)
    options = ["-i", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "-config", str(tmp_path / "c.yaml")]
    assert main(["-f", "pytorch", "merge_result", *options]) == 0
    (output,) = (tmp_path / "out").iterdir()
    assert capsys.readouterr().out == f"{output}\n"
    assert output.name.startswith("multi_ranks_compare_merge_")
    expected = sheets_of(GOLDEN)
    assert len(expected["Max diff"]) == 17
    assert sheets_of(output) == expected


def test_a_csv_gives_the_same(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for rank, path in RESULTS.items():
        (rows,) = sheets_of(path).values()
        target = tmp_path / f"in/compare_result_rank{rank}_{TIME}.csv"
        write_table(target, [str(cell) for cell in rows[0]], rows[1:])  # type: ignore[arg-type]
    (tmp_path / "c.yaml").write_text(CONFIG)
    assert sheets_of(merge(tmp_path)) == sheets_of(GOLDEN)


# ---- rules


def test_ranks_stand_in_the_order_of_their_numbers_and_missing_rows_are_empty(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    names = {10: ["Torch.a.0", "Torch.c.0"], 2: ["Torch.a.0", "Torch.b.0"], 0: ["Torch.a.0"]}
    for rank, present in names.items():
        rows = [statistics_row(name, rank) for name in present]
        write_table(tmp_path / f"in/compare_result_rank{rank}-rank{rank}_{TIME}.xlsx", STATISTICS, rows)
    (tmp_path / "c.yaml").write_text("api: ['Torch.[abc]']\n")
    sheets = sheets_of(merge(tmp_path))
    assert tuple(sheets) == STATISTICS_INDICES
    assert sheets["Mean diff"] == [
        ("NPU Name", "rank0", "rank2", "rank10"),
        ("Torch.a.0", 0, 2, 10),
        ("Torch.b.0", None, 2, None),
        ("Torch.c.0", None, None, 10),
    ]


def test_real_data_without_a_number_shows_both_maxima(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for rank in (0, 1):
        rows: list[list[Cell]] = [
            ["Torch.a.0", "N/A", "unsupported", "Nan", 0.1 + 0.2, "shape unmatched", 1.0, "inf\t", 0.25],
        ]
        write_table(tmp_path / f"in/compare_result_rank{rank}_{TIME}.xlsx", REAL_DATA, rows)
    (tmp_path / "c.yaml").write_text("api: [Torch]\ncompare_index:\n")
    sheets = sheets_of(merge(tmp_path))
    shown = [sheets[index][1][1] for index in REAL_DATA_INDICES]
    maxima = "NPU:inf\t  Bench:0.25"
    assert shown == [maxima, maxima, maxima, 0.1 + 0.2, "shape unmatched", 1]


def test_a_name_matches_up_to_a_dot_and_anywhere(folder: Path) -> None:
    (folder / "c.yaml").write_text("api: ['dd.1', 'Torch.ad']\ncompare_index: [Max diff]\n")
    assert [row[0] for row in sheets_of(merge(folder))["Max diff"][1:]] == ["Torch.add.1.forward.input.0"]


def test_rows_of_one_name_are_kept_apart(folder: Path) -> None:
    for rank in (0, 1):
        rows = [statistics_row("Torch.add.0", rank), statistics_row("Torch.add.0", rank + 10)]
        write_table(folder / f"in/compare_result_rank{rank}_{TIME}.xlsx", STATISTICS, rows)
    assert sheets_of(merge(folder))["Max diff"][1:] == [("Torch.add.0", 0, 1), ("Torch.add.0", 10, 11)]


def test_numbers_of_random_results_arrive_with_the_same_bits(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = random.Random(1)
    values = {
        rank: [source.uniform(-1, 1) * 10.0 ** source.randint(-300, 300) for _ in range(500)]
        for rank in range(3)
    }
    for rank, numbers in values.items():
        rows = [statistics_row(f"Torch.a.{i}", number) for i, number in enumerate(numbers)]
        suffix = "csv" if rank == 1 else "xlsx"
        write_table(tmp_path / f"in/compare_result_rank{rank}_{TIME}.{suffix}", STATISTICS, rows)
    (tmp_path / "c.yaml").write_text("api: [Torch.a]\ncompare_index: [Min diff]\n")
    rows = sheets_of(merge(tmp_path))["Min diff"][1:]
    assert [row[1:] for row in rows] == list(zip(*values.values()))


def test_the_table_is_found_behind_other_sheets_and_in_parts(folder: Path) -> None:
    with core.SheetWriter(folder / f"in/compare_result_rank1_{TIME}.xlsx") as writer:
        writer.begin_sheet("Verdict", ["text"])
        for part in (1, 0):
            writer.begin_sheet(f"Sheet_part_{part}", STATISTICS)
            writer.add_row(statistics_row(f"Torch.add.{part}.x", part))
    assert [row[0] for row in sheets_of(merge(folder))["Max diff"][4:]] == ["Torch.add.0.x", "Torch.add.1.x"]


def test_other_files_are_passed_by(folder: Path) -> None:
    for name in (
        "advisor_rank0_20260101000000.txt",
        "~$compare_result.xlsx",
        "notes.csv",
        merge(folder).name,
    ):
        (folder / "in" / name).write_text("")
    merge(folder)


def test_what_looks_like_a_mistake_is_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / f"in/compare_result_rank0_{TIME}.xlsx").rename(folder / f"in/compare_result_rank_{TIME}.xlsx")
    (folder / "c.yaml").write_text("api: [Torch.add, Torch.mul]\ncompare_indx: [Max diff]\n")
    with caplog.at_level(logging.WARNING, "msprobe"):
        assert len(sheets_of(merge(folder))) == 8
    text = caplog.text
    assert '"compare_indx" is ignored' in text
    assert "the name has no rank, it is merged as rank 0" in text
    assert 'no result has a row for "Torch.mul"' in text


# ---- errors


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("compare_index: [Max diff]", '"api": expected a list of operator names, found no such key'),
        ("api: Torch.add", '"api": expected a list, found text'),
        ("api:", '"api": expected a list, found nothing'),
        ("api: []", '"api": expected at least one entry, found an empty list'),
        ("api: [1]", '"api": expected a list of texts, found a number in it'),
        ("api: ['']", '"api": expected a list of texts, found empty text in it'),
        ("api: ['a(']", '"api": expected regular expressions, found "a("'),
        ("api: [Torch.add]\ncompare_index: Max diff", '"compare_index": expected a list, found text'),
        (
            "api: [Torch.add]\ncompare_index: [Cosine]",
            '"compare_index": expected columns of compare_result_rank0',
        ),
        ("api: [Torch.nothing]", '"api": expected names of operators in the results, found none'),
        ("- api", "expected a YAML mapping, found a list"),
        ("", "expected a YAML mapping, found nothing"),
        ("api: [a\n", "line 2, column 1: expected YAML"),
        ("api: [a]\napi: [b]", 'line 2: "api": the key stands twice'),
        (
            "api: !!python/object/apply:os.system [true]",
            'line 1: the tag "tag:yaml.org,2002:python/object/apply:os.system" is not read',
        ),
        ("api: " + "[" * 5000, "c.yaml: "),
        ("~: 2", "line 1: expected a key that is text, found nothing"),
    ],
)
def test_a_wrong_configuration_is_one_message(folder: Path, text: str, expected: str) -> None:
    (folder / "c.yaml").write_text(text)
    message = refusal(folder)
    assert message.startswith("c.yaml: ")
    assert expected in message


def test_a_configuration_that_cannot_be_read(folder: Path) -> None:
    (folder / "c.yaml").write_bytes(b"api: [\xff]")
    assert refusal(folder) == "c.yaml: byte 6: expected UTF-8 text"
    (folder / "c.yaml").write_bytes(b"#" * (11 << 20))
    assert "expected at most 10 MiB, found" in refusal(folder)
    (folder / "c.yaml").unlink()
    assert refusal(folder) == "c.yaml: cannot read the YAML file: No such file or directory"
    (folder / "c.yaml").mkdir()
    assert "c.yaml: " in refusal(folder)


def test_the_folder_must_hold_two_results_and_nothing_that_looks_like_one(folder: Path) -> None:
    second = folder / f"in/compare_result_rank1_{TIME}.xlsx"
    shutil.copy(second, folder / "in/compare_result_rank1_20270101000000.xlsx")
    assert "expected one result for rank 1, found compare_result_rank1_2026" in refusal(folder)
    (folder / "in/compare_result_rank1_20270101000000.xlsx").unlink()
    for name in (
        "other.xlsx",
        "debug_compare_result_rank1_20260101000000.xlsx",
        "compare_result_rank1_1.csv",
    ):
        shutil.copy(second, folder / "in" / name)
        assert refusal(folder).endswith(f"found {name}")
        (folder / "in" / name).unlink()
    second.unlink()
    assert refusal(folder).endswith("compare_result_rank{N}_{time}.xlsx or .csv, found 1")
    shutil.rmtree(folder / "in")
    assert refusal(folder) == "in: expected a folder of results: No such file or directory"


def test_results_of_md5_and_of_two_kinds_are_refused(folder: Path) -> None:
    path = folder / f"in/compare_result_rank1_{TIME}.xlsx"
    write_table(path, ["NPU Name", "NPU MD5", "BENCH MD5", "Result"], [["a", "1", "1", "pass"]])
    assert "found a comparison of md5" in refusal(folder)
    write_table(path, REAL_DATA, [])
    assert "expected a comparison of the same kind as in/compare_result_rank0" in refusal(folder)


@pytest.mark.parametrize("name", ["Sheet1", "result"])
def test_the_only_sheet_may_have_any_name(folder: Path, name: str) -> None:
    expected = sheets_of(merge(folder))
    for path in (folder / "in").iterdir():
        columns, *rows = next(iter(sheets_of(path).values()))
        write_table(path, [str(one) for one in columns], rows, sheet=name)
    assert sheets_of(merge(folder)) == expected


def test_a_foreign_spreadsheet_is_refused(folder: Path) -> None:
    path = folder / f"in/compare_result_rank1_{TIME}.xlsx"
    with core.SheetWriter(path) as writer:
        for name in ("Other", "More"):
            writer.begin_sheet(name, STATISTICS)
    assert refusal(folder, FormatError).endswith('expected a sheet called Sheet, found "Other", "More"')
    write_table(path, ["a", "b"], [["NPU Name", 1]])
    assert 'expected a first row with the column "NPU Name", found "a", "b"' in refusal(folder, FormatError)
    write_table(path, STATISTICS[:5], [])
    assert "expected the columns of a comparison of real data" in refusal(folder, FormatError)
    write_table(path, STATISTICS[:-1], [statistics_row("Torch.add.0", 1)[:-1]])
    assert 'expected a column "Bench max"' in refusal(folder, FormatError)


def test_damaged_spreadsheets_are_refused(folder: Path) -> None:
    path = folder / f"in/compare_result_rank1_{TIME}.xlsx"
    whole = path.read_bytes()
    for content in (b"", b"PK", b"NPU Name,Max diff\n", whole[:100], whole[: len(whole) // 2], whole[:-1]):
        path.write_bytes(content)
        assert refusal(folder, FormatError).startswith(f"in/{path.name}: expected an xlsx file: ")
    source = random.Random(2)
    refused = 0
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        path.write_bytes(damaged)
        try:
            merge(folder)
        except (FormatError, InvalidArgument):
            refused += 1
    assert refused > 100  # the others hit what does not matter


def replace_sheet(path: Path, text: bytes) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/worksheets/sheet1.xml"] = text
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"<sheetData>" + b" " * (100 << 20), "bytes that unpack to"),
        (b'<c r="A1"/><c r="XFD1048576"/>', "found 2 cells scattered over 1048576 rows and 16384 columns"),
        (b"<c r='A1'/><c r='XFD1048576'/>", "expected every cell to have its place"),
        (b'<row r="1048576"><c/></row>', "expected every cell to have its place"),
        (b"<x:c>", "expected every cell to have its place"),
    ],
)
def test_a_spreadsheet_that_would_fill_the_memory_is_refused(
    folder: Path, text: bytes, expected: str
) -> None:
    path = folder / f"in/compare_result_rank1_{TIME}.xlsx"
    replace_sheet(path, text)
    assert expected in refusal(folder, FormatError)


def test_a_damaged_csv_is_refused(folder: Path) -> None:
    (folder / f"in/compare_result_rank1_{TIME}.xlsx").unlink()
    path = folder / f"in/compare_result_rank1_{TIME}.csv"
    path.write_text("NPU Name,a\nx\n")
    assert refusal(folder, FormatError).endswith("line 2: expected 2 cells as in the header, found 1")
    path.write_bytes(b"")
    assert "the file is empty" in refusal(folder, FormatError)


def test_a_missing_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    assert "`pip install python-calamine`" in refusal(folder, UnsupportedError)


def test_the_command_ends_with_2_and_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.yaml").write_text("api: []")
    assert (
        main(["merge_result", "-i", str(folder / "in"), "-o", str(folder), "-config", str(folder / "c.yaml")])
        == 2
    )
    error = capsys.readouterr().err
    assert error.startswith("msprobe merge_result: error: ")
    assert error.count("\n") == 1
    with pytest.raises(SystemExit) as left:
        main(["merge_result", "-i", str(folder)])
    assert left.value.code == 2
