# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe export: event logs become the JSON files of a dump. The logs are written here byte by byte, as
docs/formats/trace_log.md says.
"""

from __future__ import annotations

import functools
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from msprobe import FormatError, IoError
from msprobe.native import core

RECORD, PART, FILL, CONSTRUCT, STACK, HEADER = range(1, 7)
API_FORWARD, SAVED = 0, 5
INPUT_ARGS, VALUE = 0, 5


def text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


def event(kind: int, fields: bytes) -> bytes:
    length = (8 + len(fields) + 7) // 8 * 8
    return (struct.pack("<IB3x", length, kind) + fields).ljust(length, b"\0")


def optional(value: str | None) -> bytes:
    return struct.pack("<B", value is not None) + text(value or "")


def header(task: str = "statistics", level: str = "mix", folder: str | None = None) -> bytes:
    framework = text("pytorch") + text("torch") + b"\x07"  # 7: all that a framework may say
    return event(HEADER, text(task) + text(level) + optional(folder) + framework)


def record(number: int, name: str, kind: int = API_FORWARD, stack: int = 0xFFFFFFFF) -> bytes:
    return event(RECORD, struct.pack("<IIBB2x", number, stack, kind, 0) + text(name))


def part(number: int, which: int, elements: bytes) -> bytes:
    return event(PART, struct.pack("<IB3xI", number, which, len(elements)) + elements)


def stack(number: int, *frames: str) -> bytes:
    return event(STACK, struct.pack("<II", number, len(frames)) + b"".join(map(text, frames)))


def integer(value: int) -> bytes:
    return struct.pack("<Bq", 3, value)


def tensor(shape: tuple[int, ...], numbers: tuple[float, ...]) -> bytes:
    """float32, requires_grad."""
    return struct.pack(f"<BBBB{len(shape)}IB4f", 8, 1, 1, len(shape), *shape, 1, *numbers)


def log(*events: bytes) -> bytes:
    return b"MSPROBE\x02".ljust(64, b"\0") + b"".join(events)


def small_log(name: str = "Torch.add.0.forward") -> bytes:
    return log(
        header(),
        stack(0, "File a.py, line 1, in f, \n f()"),
        event(CONSTRUCT, text(name) + optional(None)),
        record(0, name, stack=0),
        part(0, INPUT_ARGS, tensor((2, 3), (1.5, -1.0, 0.25, 2.0)) + integer(7)),
    )


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def data(folder: Path) -> Any:
    return json.loads((folder / "dump.json").read_text())["data"]


@pytest.fixture
def export(command_line):
    return functools.partial(command_line, "export")


class TestOneLog:
    def test_makes_the_files_beside_the_log(self, export, tmp_path):
        path = write(tmp_path / "trace.msprobe", small_log())
        assert export(path) == (0, f"{tmp_path}: 1 records, 1 tensors\n", "")
        assert json.loads((tmp_path / "dump.json").read_text()) == {
            "task": "statistics",
            "level": "mix",
            "framework": "pytorch",
            "dump_data_dir": None,
            "data": {
                "Torch.add.0.forward": {
                    "input_args": [
                        {
                            "type": "torch.Tensor",
                            "dtype": "torch.float32",
                            "shape": [2, 3],
                            "Max": 1.5,
                            "Min": -1.0,
                            "Mean": 0.25,
                            "Norm": 2.0,
                            "requires_grad": True,
                        },
                        {"type": "int", "value": 7},
                    ],
                    "is_recompute": False,
                }
            },
        }
        assert json.loads((tmp_path / "construct.json").read_text()) == {"Torch.add.0.forward": None}
        assert json.loads((tmp_path / "stack.json").read_text()) == {
            "0": [["Torch.add.0.forward"], ["File a.py, line 1, in f, \n f()"]]
        }
        assert path.read_bytes() == small_log()

    def test_output_folder_and_any_name(self, export, tmp_path):
        path = write(tmp_path / "copy of a log", small_log())
        code, _, _ = export(path, "-o", tmp_path / "made" / "here")
        assert code == 0
        assert sorted(file.name for file in (tmp_path / "made" / "here").iterdir()) == [
            "construct.json",
            "dump.json",
            "stack.json",
        ]
        assert not (tmp_path / "dump.json").exists()

    def test_a_log_in_the_current_folder(self, export, tmp_path, monkeypatch):
        write(tmp_path / "trace.msprobe", small_log())
        monkeypatch.chdir(tmp_path)
        assert export("trace.msprobe") == (0, ".: 1 records, 1 tensors\n", "")
        assert (tmp_path / "dump.json").exists()

    def test_level_debug_and_the_data_folder(self, export, tmp_path):
        content = log(
            header("tensor", "debug", "./dump/step0/rank/dump_tensor_data"),
            record(0, "x.0.debug", SAVED),
            part(0, VALUE, integer(1)),
        )
        write(tmp_path / "trace.msprobe", content)
        assert export(tmp_path)[0] == 0
        assert json.loads((tmp_path / "debug.json").read_text()) == {
            "task": "tensor",
            "level": "debug",
            "framework": "pytorch",
            "dump_data_dir": "./dump/step0/rank/dump_tensor_data",
            "data": {"x.0.debug": {"type": "int", "value": 1}},
        }
        assert not (tmp_path / "dump.json").exists()

    def test_files_made_before_are_replaced(self, export, tmp_path):
        write(tmp_path / "trace.msprobe", small_log())
        write(tmp_path / "dump.json", b"{}")
        assert export(tmp_path)[0] == 0
        assert list(data(tmp_path)) == ["Torch.add.0.forward"]


class TestFolders:
    def test_all_logs_of_a_dump_in_the_order_of_steps(self, export, tmp_path):
        folders = [f"step{step}/rank{rank}" for step in (2, 10) for rank in (0, 1)]
        for folder in folders:
            write(tmp_path / "dump" / folder / "trace.msprobe", small_log(folder))
        code, out, _ = export(tmp_path / "dump")
        assert code == 0
        assert [line.split(": ")[0] for line in out.splitlines()] == [
            str(tmp_path / "dump" / folder) for folder in folders
        ]
        assert all(list(data(tmp_path / "dump" / folder)) == [folder] for folder in folders)

    def test_folders_are_kept_below_the_output(self, export, tmp_path):
        for folder in ("step0/rank0", "step1/rank0"):
            write(tmp_path / "dump" / folder / "trace.msprobe", small_log(folder))
        assert export(tmp_path / "dump", "-o", tmp_path / "out")[0] == 0
        assert list(data(tmp_path / "out/step1/rank0")) == ["step1/rank0"]
        assert not (tmp_path / "dump/step0/rank0/dump.json").exists()

    def test_one_bad_log_does_not_hide_the_others(self, export, tmp_path):
        write(tmp_path / "step0/rank/trace.msprobe", b"not a log" * 20)
        write(tmp_path / "step1/rank/trace.msprobe", small_log())
        code, out, error = export(tmp_path)
        assert code == 2
        assert out == f"{tmp_path / 'step1/rank'}: 1 records, 1 tensors\n"
        assert error.startswith(f"msprobe export: error: {tmp_path / 'step0/rank/trace.msprobe'}: byte 0: ")
        assert error.count("\n") == 1
        assert not (tmp_path / "step0/rank/dump.json").exists()


class TestMissingEnds:
    def test_a_killed_process(self, export, tmp_path):
        write(tmp_path / "trace.msprobe", small_log() + bytes(4096))
        code, out, _ = export(tmp_path)
        assert code == 0
        assert "the end of the log is missing: the process ended before it closed the log" in out
        assert list(data(tmp_path)) == ["Torch.add.0.forward"]

    def test_a_log_that_was_cut(self, export, tmp_path):
        more = small_log() + record(1, "Torch.add.1.forward")
        write(tmp_path / "trace.msprobe", more[:-8])
        code, out, _ = export(tmp_path)
        assert code == 0
        assert f"the end of the log is missing: byte {len(small_log())}: " in out
        assert list(data(tmp_path)) == ["Torch.add.0.forward"]

    @pytest.mark.parametrize("length", range(64, 400, 7))
    def test_cut_anywhere(self, export, tmp_path, length):
        write(tmp_path / "trace.msprobe", small_log()[:length])
        code, _, _ = export(tmp_path)
        assert code == (0 if length >= 64 + len(header()) else 2)
        if code == 0:
            assert set(data(tmp_path)) <= {"Torch.add.0.forward"}


class TestErrors:
    def test_no_log(self, export, tmp_path):
        for path in (tmp_path, tmp_path / "absent"):
            code, out, error = export(path)
            assert (code, out) == (2, "")
            assert "expected an event log" in error
            assert str(path) in error

    def test_no_path(self, export):
        code, _, error = export()
        assert code == 2
        assert "TRACE_FILE_OR_FOLDER" in error

    def test_a_log_of_another_version(self, export, tmp_path):
        path = write(tmp_path / "trace.msprobe", small_log().replace(b"MSPROBE\x02", b"MSPROBE\x01"))
        code, _, err = export(path)
        assert code == 2
        assert "expected an event log of this version of msprobe" in err

    def test_a_log_without_a_header(self, export, tmp_path):
        write(tmp_path / "trace.msprobe", log(record(0, "a")))
        code, _, error = export(tmp_path)
        assert code == 2
        assert "expected a header" in error
        assert not (tmp_path / "dump.json").exists()

    def test_an_output_that_is_a_file(self, export, tmp_path):
        write(tmp_path / "trace.msprobe", small_log())
        code, _, error = export(tmp_path, "-o", write(tmp_path / "file", b""))
        assert code == 2
        assert str(tmp_path / "file") in error

    def test_names_that_would_command_the_terminal(self, export, tmp_path):
        path = write(tmp_path / "a\x1b[31m" / "trace.msprobe", small_log())
        code, out, _ = export(path)
        assert code == 0
        assert "\x1b" not in out

    def test_help(self, export):
        code, out, _ = export("--help")
        assert code == 0
        assert "usage: msprobe export" in out


class TestBinding:
    def test_errors_are_ours(self, tmp_path):
        with pytest.raises(IoError):
            core.export_event_log(tmp_path / "absent", tmp_path)
        with pytest.raises(FormatError, match="expected an event log"):
            core.export_event_log(write(tmp_path / "other", bytes(100)), tmp_path)

    def test_report(self, tmp_path):
        report = core.export_event_log(write(tmp_path / "log", small_log()), tmp_path / "out")
        assert (report.records, report.tensors, report.cut) == (1, 1, "")
