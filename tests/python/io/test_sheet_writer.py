# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""SheetWriter as Python sees it, and what openpyxl and calamine, which share no code with it, read back."""

from __future__ import annotations

import math
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
import pytest
from msprobe import InvalidArgument, IoError
from msprobe.native import core
from python_calamine import CalamineWorkbook

TEXTS = ("", "plain", 'a<b>&"c"', "  lead", "tail\t", "line\nbreak", "é😀", "=1+1", "@x", "[1, 2]", "'")


def random_doubles(count: int) -> list[float]:
    source = random.Random(1)
    values = (struct.unpack("<d", source.randbytes(8))[0] for _ in range(2 * count))
    return [0.0, -0.0, 0.1 + 0.2, 5e-324, *[v for v in values if math.isfinite(v)][:count]]


def test_two_other_readers_see_the_same_cells_and_colours(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    numbers = random_doubles(3000)
    fills = (None, "red", "yellow")
    with core.SheetWriter(path, threads=2) as writer:
        writer.begin_sheet("Verdict", ["text"])
        writer.begin_sheet("Sheet", ["text", "number", "integer", "bool"])
        for i, number in enumerate(numbers):
            writer.add_row((TEXTS[i % len(TEXTS)], number, -i, i % 2 == 0), fills[i % 3])  # type: ignore[arg-type]

    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            ElementTree.fromstring(archive.read(name))

    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["Verdict", "Sheet"]
    rows = list(book["Sheet"].iter_rows(min_row=2))
    calamine = CalamineWorkbook.from_path(path).get_sheet_by_name("Sheet").to_python()[1:]
    assert len(rows) == len(calamine) == len(numbers)
    colours = ("00000000", "FFFF0000", "00FFFF00")  # those of mindstudio-probe
    for i, (number, row, other) in enumerate(zip(numbers, rows, calamine)):
        text = TEXTS[i % len(TEXTS)]
        assert struct.pack("<d", row[1].value) == struct.pack("<d", number)
        assert struct.pack("<d", other[1]) == struct.pack("<d", number)  # type: ignore[arg-type]
        assert [row[0].value or "", row[2].value] == [text, -i]
        assert row[3].value is (i % 2 == 0)
        assert other[0] == text
        assert row[0].data_type != "f"
        assert {cell.fill.fgColor.rgb for cell in row} == {colours[i % 3]}


def test_the_block_decides_whether_the_file_is_there(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with pytest.raises(KeyboardInterrupt), core.SheetWriter(path) as writer:  # noqa: PT012
        writer.begin_sheet("Sheet", ["a"])
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidArgument, match="after it was discarded"):
        writer.add_row(["x"])
    with pytest.raises(InvalidArgument, match="at least one sheet"), core.SheetWriter(path):
        pass
    path.write_text("old")
    with core.SheetWriter(path) as writer:
        writer.begin_sheet("Sheet", ["a"])
        assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["t.xlsx"]
    assert path.read_bytes()[:2] == b"PK"


def test_cells_of_python(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with core.SheetWriter(path) as writer:
        writer.begin_sheet("Sheet", ["a", "b", "c"])
        writer.add_row([None, 2**63 - 1, 10**30])
        writer.add_row(["\ud800", True, 1e-5])
        for cell, found in (([1], "list"), (b"x", "bytes"), (1j, "complex")):
            with pytest.raises(InvalidArgument, match=f"in a cell, found {found}"):
                writer.add_row([cell, 1, 1])  # type: ignore[list-item]
        with pytest.raises(InvalidArgument, match='column "b": expected a finite number, or text, found nan'):
            writer.add_row([1, math.nan, 1])
        with pytest.raises(InvalidArgument, match='expected the fill "red", "yellow" or None, found "blue"'):
            writer.add_row([1, 1, 1], "blue")  # type: ignore[arg-type]
    header, rows = core.read_csv(path)
    assert header == ["a", "b", "c"]
    assert rows == [["", str(2**63 - 1), str(10**30)], ["\\ud800", "True", "1e-05"]]


def test_threads_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with core.SheetWriter(path) as writer:
        writer.begin_sheet("Sheet", ["thread", "number"])

        def add(name: str) -> None:
            for i in range(2000):
                writer.add_row([name, i])

        threads = [threading.Thread(target=add, args=(str(i),)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    _, rows = core.read_csv(path)
    for name in "0123":
        assert [int(row[1]) for row in rows if row[0] == name] == list(range(2000))


def test_a_folder_that_takes_nothing_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "absent/t.xlsx"
    with pytest.raises(IoError, match="cannot create") as caught:
        core.SheetWriter(path)
    assert caught.value.filename == str(path)
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(IoError, match="Permission denied"):
            core.SheetWriter(tmp_path / "t.xlsx")
        tmp_path.chmod(0o700)


FILL_A_LIMITED_FILE = """
import resource, signal, sys
from msprobe.native import core
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))
try:
    with core.SheetWriter(sys.argv[1]) as writer:
        writer.begin_sheet("Sheet", ["a"])
        for i in range(1000000):
            writer.add_row([i * 0.123456789])
except OSError as error:
    print(error.errno, error.filename, str(error))
"""


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    result = subprocess.run(
        [sys.executable, "-c", FILL_A_LIMITED_FILE, path], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith(f"27 {path} cannot write {path}: ")
    assert list(tmp_path.iterdir()) == []


REPLACE_A_COVER_IN_A_LIMITED_FILE = """
import resource, signal, sys
from msprobe.native import core
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    core.replace_cover(sys.argv[1], ["x"])
except OSError as error:
    print(error.errno, error.filename)
"""


def test_a_full_disk_leaves_a_table_as_it_was_when_its_cover_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with core.SheetWriter(path, cover="Verdict") as writer:
        writer.begin_sheet("Sheet", ["a"])
        for i in range(10000):
            writer.add_row([i * 0.123456789])
    before = path.read_bytes()
    assert len(before) > 20000
    result = subprocess.run(
        [sys.executable, "-c", REPLACE_A_COVER_IN_A_LIMITED_FILE, path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == f"27 {path}\n"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    code = """
import resource, sys
from msprobe.native import core
with core.SheetWriter(sys.argv[1], threads=2) as writer:
    writer.begin_sheet("Sheet", ["a", "b"])
    row = ["Module.layer.Linear.forward.0.input.0" * 5, 0.123456789]
    for _ in range(1000):
        writer.add_row(row)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200000):
        writer.add_row(row)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    result = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "t.xlsx"], capture_output=True, text=True, check=True
    )
    assert int(result.stdout) < 8 << 10  # KiB; the XML has 60 MB


def test_a_kill_by_ctrl_c_leaves_no_file_of_its_name(tmp_path: Path) -> None:
    code = """
import sys
from msprobe.native import core
with core.SheetWriter(sys.argv[1]) as writer:
    writer.begin_sheet("Sheet", ["a"])
    print("ready", flush=True)
    while True:
        writer.add_row([1.5])
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "t.xlsx"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    process.wait(60)
    process.stdout.close()
    assert process.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_the_cover_is_the_last_sheet_and_the_one_that_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with core.SheetWriter(path, cover="Verdict") as writer:
        writer.begin_sheet("Sheet", ["a"])
        for number in range(1000):
            writer.add_row([number])

    def shown() -> list[str]:
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            for name in archive.namelist():
                ElementTree.fromstring(archive.read(name))
        book = openpyxl.load_workbook(path)
        assert book.sheetnames == ["Sheet", "Verdict"]
        assert book.active is book["Verdict"]
        assert CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()[:2] == [["a"], [0.0]]
        assert [row[0] for row in book["Sheet"].iter_rows(values_only=True)] == ["a", *range(1000)]
        return [row[0] for row in book["Verdict"].iter_rows(values_only=True)]

    assert shown() == ["There is no verdict yet."]
    long = [f"line {number} <&>" for number in range(3000)]
    for lines in (long, ["  one é ", "=2"], long[:5]):
        core.replace_cover(path, lines)
        assert shown() == lines
    assert [file.name for file in tmp_path.iterdir()] == ["t.xlsx"]


def test_a_cover_is_replaced_where_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with core.SheetWriter(path) as writer:
        writer.begin_sheet("Sheet", ["a"])
    before = path.read_bytes()
    with pytest.raises(InvalidArgument, match="with a cover, found none"):
        core.replace_cover(path, ["x"])
    assert path.read_bytes() == before
    for content in (b"", b"PK", before[:-1], before + b"x"):
        path.write_bytes(content)
        with pytest.raises(InvalidArgument, match="expected a spreadsheet of msprobe with a cover"):
            core.replace_cover(path, ["x"])
        assert path.read_bytes() == content
    with pytest.raises(IoError):
        core.replace_cover(tmp_path / "missing.xlsx", ["x"])
    with (
        pytest.raises(InvalidArgument, match="found it twice"),
        core.SheetWriter(path, cover="Sheet") as writer,
    ):
        writer.begin_sheet("Sheet", ["a"])
