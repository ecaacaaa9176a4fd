# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that trainings with mindstudio-probe send: refused, or read without running anything where the
configuration asks for them.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from msprobe import FormatError
from msprobe.compat.accuracy import pickled
from msprobe.compat.accuracy.server import Server
from msprobe.replay.dump_file import Dump
from msprobe.transport.received import Arrivals
from online_support import Checker, free_port, statuses

DATA = Path(__file__).parents[2] / "data/online_check"
LINEAR, SOFTMAX = ((DATA / f"{name}.pt").read_bytes() for name in ("linear", "softmax"))


pytestmark = pytest.mark.usefixtures("no_accelerator")


def frame(body: bytes, sequence: int = 0, rank: int = 0, checksum: int | None = None) -> bytes:
    digits = f"{zlib.crc32(body) if checksum is None else checksum:08x}".encode()
    return struct.pack(">QQQQ", len(body), sequence, rank, 0) + digits + body


def answers(connection: socket.socket, count: int) -> list[tuple[bytes, int]]:
    """Code and sequence of each."""
    data = b""
    while len(data) < 29 * count:
        part = connection.recv(29 * count - len(data))
        assert part, "the checker closed the connection"
        data += part
    parts = (struct.unpack(">5sQQQ", data[i : i + 29]) for i in range(0, len(data), 29))
    return [(code, sequence) for code, sequence, _, _ in parts]


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch ran",)


def saved(content: Any, path: Path) -> bytes:
    torch.save(content, path)
    return path.read_bytes()


def test_calls_are_checked_where_the_configuration_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    port = free_port()
    checker = Checker(tmp_path, host="127.0.0.1", port=port, accept_pickle=True)
    evil = saved(("Torch.relu.0", (Evil(),), {}, torch.ones(2), 0, 0), tmp_path / "evil.pt")
    wrong = ("Torch.add.0", (torch.ones(3), 1), {}, torch.full((3,), 9.0), 1, None)
    bodies = [LINEAR, evil, SOFTMAX, saved(wrong, tmp_path / "wrong.pt"), saved([1, 2], tmp_path / "list.pt")]
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.settimeout(20)
        connection.sendall(b"".join(frame(body, i) for i, body in enumerate(bodies)))
        connection.sendall(frame(LINEAR, 5, rank=7))  # nobody wants that rank
        connection.sendall(frame(LINEAR, 6, checksum=1))
        connection.sendall(frame(b"STOP_", 7))
        expected = [*((b"OK___", i) for i in range(6)), (b"ERROR", 6), (b"OVER_", 7)]
        assert answers(connection, 8) == expected
        assert connection.recv(1) == b""  # the training waits for that
    (result,) = checker.join().values()
    assert statuses(result.files.results) == [
        ["Functional.linear.0", "pass", " ", "0"],
        ["Torch.relu.0", "SKIP", "SKIP", "0"],
        ["Functional.softmax.0", "pass", " ", "0"],
        ["Torch.add.0", "error", " ", "0"],
    ]
    assert not (tmp_path / "ran").exists()
    assert "is left out: " in caplog.text
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".csv"}


@pytest.mark.parametrize(
    ("accepts", "data", "reason"),
    [
        (False, frame(LINEAR), "it sends pickles, as mindstudio-probe does"),
        (True, frame(LINEAR)[:-100], "the connection ended 100 bytes early"),
        (True, struct.pack(">QQQQ", 1 << 39, 0, 0, 0) + bytes(8), "free"),
        (True, frame(LINEAR)[:20], "the connection ended inside of a frame"),
        (True, b"\xff" * 64, "expected a connection of msprobe"),
    ],
)
def test_what_is_not_asked_for_or_broken_ends_the_connection(
    accepts: bool, data: bytes, reason: str, tmp_path: Path, caplog: Any
) -> None:
    with (
        Server(
            "127.0.0.1", 0, "", Arrivals([0], 4), tmp_path / "taken", accept_pickle=accepts, grace=0.1
        ) as server,
        socket.create_connection(("127.0.0.1", server.port), 10) as connection,
    ):
        with contextlib.suppress(OSError):  # the server may have ended it already
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        end = time.monotonic() + 10
        while reason not in caplog.text and time.monotonic() < end:
            time.sleep(0.02)
        assert reason in caplog.text
        assert list((tmp_path / "taken").iterdir()) == []


def test_every_kind_of_argument_becomes_a_record(tmp_path: Path) -> None:
    half = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).t()
    content = (
        "Torch.mean.3",
        [half, [torch.ones(2, dtype=torch.bool), None], slice(1, 2), ...],
        {
            "dtype": torch.float64,
            "p": 0.5,
            "device": torch.device("cpu"),
            "c": 1 + 2j,
            "size": torch.Size([2]),
        },
        (torch.tensor(1), 7),
        4,
        None,
    )
    torch.save(content, tmp_path / "call.pt")
    assert pickled.write_as_step(tmp_path / "call.pt", tmp_path / "step") == pickled.PickledCall(0, 4)
    call = Dump(str(tmp_path / "step/dump.json")).call("Torch.mean.3")
    from msprobe.replay.arguments import ArgumentBuilder

    builder = ArgumentBuilder(call.folder, "cpu")
    args = [builder.build(value) for value in call.args]
    assert args[0].dtype is torch.bfloat16
    assert torch.equal(args[0], half)
    assert torch.equal(args[1][0], torch.ones(2, dtype=torch.bool))
    assert args[1][1] is None
    assert args[2:] == [slice(1, 2), ...]
    kwargs = {key: builder.build(value) for key, value in call.kwargs.items()}
    assert kwargs == {
        "dtype": torch.float64,
        "p": 0.5,
        "device": torch.device("cpu"),
        "c": 1 + 2j,
        "size": [2],
    }
    assert [builder.build(value) for value in call.outputs] == [torch.tensor(1), 7]


@pytest.mark.parametrize(
    "content",
    [
        ("../../x", (), {}, None, 0, 0),
        ("Torch.relu.0.forward", (), {}, None, 0, 0),
        ("Torch.relu.0", 3, {}, None, 0, 0),
        ("Torch.relu.0", (), {}, None, -1, 0),
        ("Torch.relu.0", (), {}, None, 0, "0"),
        torch.ones(2),
        {"name": "Torch.relu.0"},
    ],
)
def test_what_is_no_call_is_refused(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "call.pt")
    with pytest.raises(FormatError):
        pickled.write_as_step(tmp_path / "call.pt", tmp_path / "step")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(content))
    with pytest.raises(FormatError):
        pickled.write_as_step(tmp_path / "plain.pt", tmp_path / "step")
