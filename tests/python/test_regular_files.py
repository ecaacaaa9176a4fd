# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pipes, devices and whatever else is no regular file: one sentence, no waiting and no endless reading."""

from __future__ import annotations

import os
import signal
import socket
import stat
from pathlib import Path

import pytest
from msprobe import IoError
from msprobe.cli import main
from msprobe.files.append_file import append_lines
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.regular_file import open_to_read, open_to_write, read_bytes, read_text

KINDS = ["pipe", "device", "link to a device", "folder", "socket"]


@pytest.fixture(params=KINDS)
def special(request, tmp_path):
    """Puts one of them at a path."""
    sockets = []

    def put(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if request.param == "pipe":
            os.mkfifo(path)
        elif request.param == "folder":
            path.mkdir()
        elif request.param == "socket":
            sockets.append(socket.socket(socket.AF_UNIX))
            os.chdir(path.parent)  # the name of a socket is short
            sockets[-1].bind(path.name)
        elif request.param == "device" and os.geteuid() == 0:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
        else:
            path.symlink_to("/dev/zero")
        return path

    before = os.getcwd()
    yield put
    os.chdir(before)
    for one in sockets:
        one.close()


@pytest.fixture(autouse=True)
def no_waiting():
    def give_up(*_):
        raise AssertionError("it waits, or reads without an end")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("read", [open_to_read, read_bytes, read_text])
def test_only_regular_files_are_read(read, special, tmp_path):
    with pytest.raises(OSError, match=r"regular file|directory|No such device"):
        read(special(tmp_path / "x"))


def test_only_regular_files_are_written(special, tmp_path):
    path = special(tmp_path / "x")
    with pytest.raises(OSError, match=r"regular file|directory|No such device"):
        open_to_write(path)
    with pytest.raises(IoError, match="cannot write"):
        append_lines(path, "line\n")


def test_what_is_read_at_once_has_a_limit(tmp_path):
    (tmp_path / "x").write_bytes(b"12345")
    assert read_bytes(tmp_path / "x", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_text(tmp_path / "x", 4)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than"):
        read_bytes(tmp_path / "sparse")


COMMANDS = {
    "anomaly": ["anomaly_processor", "-d", "{folder}"],
    "run_ut csv_path": ["run_ut", "-api_info", "{dump}", "-o", "{out}", "-csv_path", "{file}"],
    "run_ut": ["run_ut", "-api_info", "{file}", "-o", "{out}"],
    "compare": ["compare", "-i", "{file}", "-o", "{out}"],
    "graph": ["graph", "-i", "{file}", "-o", "{out}"],
    "config_check": ["config_check", "-c", "{file}", "{file}", "-o", "{out}"],
    "show": ["show", "{file}"],
    "trend": ["trend", "{file}"],
    "view": ["view", "{file}", "--export", "{out}.html"],
    "diagnose": ["diagnose", "{folder}", "{folder}", "-o", "{out}"],
    "op_generate": ["op_generate", "-i", "{file}", "-o", "{out}"],
    "config": ["config", "check", "{file}"],
    "ckpt": ["ckpt", "{file}", "{file}", "-o", "{out}"],
    "rl": ["rl_compare", "{folder}", "{folder}", "-o", "{out}"],
    "reproduce": ["reproduce", "{folder}", "-o", "{out}"],
}
NAMES = {
    "anomaly": "rank0/anomaly.json",
    "diagnose": "run.rank0.json",
    "rl": "step0/rank0/x.npy",
    "reproduce": "step0/rank0/dump.json",
    "trend": "monitor.db",
    "view": "x.vis.db",
    "config_check": "p.zip",
    "ckpt": "m.pt",
    "run_ut csv_path": "accuracy_checking_details_1.csv",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_ends_with_a_sentence(name, special, tmp_path, capsys):
    file = special(tmp_path / "in" / NAMES.get(name, "x.json"))
    dump = tmp_path / "dump.json"
    dump.write_text('{"task": "statistics", "data": {}}')
    places = {"file": file, "folder": tmp_path / "in", "out": tmp_path / "out", "dump": dump}
    words = [word.format(**places) for word in COMMANDS[name]]
    if words[0] == "anomaly_processor":
        from msprobe.core.monitor.anomaly_processor import main as command
    else:
        command = None
    try:
        code = main(words) if command is None else command(words[1:])
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert code in (0, 1, 2)


def test_folders_have_one_mode_all_the_way_down(tmp_path):
    before = os.umask(0o022)
    try:
        make_directory(tmp_path / "a" / "b" / "c")
        write_text(tmp_path / "a" / "b" / "c" / "x", "x")
    finally:
        os.umask(before)
    modes = {
        stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c")
    }
    assert modes == {0o750}
    assert stat.S_IMODE((tmp_path / "a/b/c/x").stat().st_mode) == 0o640
