# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The online check: statuses of the offline check over TCP, TLS and a folder; a training that no checker
stops; what others send.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import children
import pytest
import torch
from children import Child
from msprobe import InvalidArgument, IoError
from msprobe.compat.accuracy.run import run_ut
from msprobe.compat.accuracy.server import Server
from msprobe.config import load_config
from msprobe.transport import frames
from msprobe.transport.received import Arrivals
from msprobe.transport.shared_folder import LOCK, FolderWatch
from msprobe.transport.tls import context
from online_support import Checker, certificates, free_port, statuses, table, train

STEPS = 3
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the command openssl")


pytestmark = pytest.mark.usefixtures("no_accelerator")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates(tmp_path_factory.mktemp("tls") / "good")


@pytest.fixture(scope="module")
def other_tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of another authority."""
    return certificates(tmp_path_factory.mktemp("tls") / "other")


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[float], list[list[list[str]]]]:
    """Gradients of the training, and the statuses of each step, checked from files."""
    folder = tmp_path_factory.mktemp("offline")
    gradients = children.run(train, str(folder), {"online_run_ut": False}, STEPS)
    found = []
    for step in range(STEPS):
        dump = folder / f"dump/step{step}/rank/dump.json"
        found.append(statuses(run_ut(dump, folder / f"out{step}", device="cpu").results))
    return gradients, found


def meeting(kind: str, folder: Path, tls: Path | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keys of the checker and of the training."""
    if kind == "folder":
        (folder / "shared").mkdir()
        keys: dict[str, Any] = {"nfs_path": str(folder / "shared")}
    else:
        keys = {"host": "127.0.0.1", "port": free_port()}
        if kind == "tls":
            keys["tls_path"] = str(tls)
    return keys, {"online_run_ut": True, **keys}


def said(folder: Path) -> str:
    """By the training and its courier."""
    return (folder / "said").read_text()


# ---- the same statuses


@pytest.mark.parametrize("kind", ["tcp", pytest.param("tls", marks=needs_openssl), "folder"])
def test_statuses_are_those_of_the_offline_check(
    kind: str, request: pytest.FixtureRequest, offline: Any, tmp_path: Path
) -> None:
    tls = request.getfixturevalue("tls") if kind == "tls" else None
    keys, section = meeting(kind, tmp_path, tls)
    checker = Checker(tmp_path, **keys)
    gradients = children.run(train, str(tmp_path), section, STEPS)
    (result,) = checker.join().values()
    assert gradients == offline[0]
    assert result.steps == STEPS
    assert result.agrees
    expected = [[*row, str(step)] for step in range(STEPS) for row in offline[1][step]]
    assert len(expected) > 5 * STEPS
    assert statuses(result.files.results) == expected
    # Functions whose results need not be equal are compared with the device of the checker, too.
    header, *rows = table(result.compare_results)
    assert header == ["API Name", "Forward Test Success", "Backward Test Success", "Message", "Step"]
    assert ["Functional.softmax.0", "pass", "pass", "", "0"] in rows
    assert not any(row[0].startswith("Torch.relu") for row in rows)
    # Nothing is left.
    assert list((tmp_path / "dump").iterdir()) == []
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".csv"}
    assert kind != "folder" or list((tmp_path / "shared").iterdir()) == []


def test_two_ranks_and_a_folder(offline: Any, tmp_path: Path) -> None:
    keys, section = meeting("folder", tmp_path, None)
    checker = Checker(tmp_path, rank_list=[0, 1], **keys)
    children.run_ranks(train, str(tmp_path), section, 2)
    results = checker.join()
    assert sorted(results) == [0, 1]
    for rank, result in results.items():
        assert result.files.results.name.endswith(f"_rank{rank}.csv")
        assert statuses(result.files.results) == [
            [*row, str(step)] for step in range(2) for row in offline[1][step]
        ]


def test_a_rank_that_nobody_wants_trains_on(offline: Any, tmp_path: Path) -> None:
    keys, section = meeting("tcp", tmp_path, None)
    checker = Checker(tmp_path, rank_list=[1], **keys)
    gradients = children.run(train, str(tmp_path), section, STEPS, 2)
    assert gradients == offline[0]
    assert "rank 0 is not in rank_list [1]" in said(tmp_path)
    assert checker.results == {}


def test_a_wrong_result_is_an_error(tmp_path: Path) -> None:
    """What the training's device computed is judged, not what is computed here."""
    keys, section = meeting("tcp", tmp_path, None)
    checker = Checker(tmp_path, **keys)
    assert children.run(_wrong_softmax, str(tmp_path), section)
    (result,) = checker.join().values()
    assert not result.agrees
    found = {row[0]: row[1] for row in statuses(result.files.results)}
    assert found == {"Functional.softmax.0": "error", "Torch.relu.0": "pass"}


def _wrong_softmax(folder: str, section: dict[str, Any]) -> bool:
    from msprobe.pytorch import PrecisionDebugger

    path = Path(folder) / "config.json"
    path.write_text(
        json.dumps({"task": "tensor", "dump_path": f"{folder}/dump", "level": "L1", "tensor": section})
    )
    library = torch.library.Library("aten", "IMPL")
    library.impl("_softmax", lambda x, dim, half: torch.exp(x) * 1.1, "CPU")
    PrecisionDebugger(path)
    PrecisionDebugger.start()
    torch.relu(torch.nn.functional.softmax(torch.randn(4, 6), dim=-1))
    PrecisionDebugger.stop()
    PrecisionDebugger.step()
    PrecisionDebugger._reset()
    return True


# ---- a training goes on


@pytest.mark.parametrize("kind", ["tcp", "folder"])
def test_without_a_checker_steps_are_left_out_and_counted(kind: str, offline: Any, tmp_path: Path) -> None:
    _, section = meeting(kind, tmp_path, None)
    gradients = children.run(train, str(tmp_path), section, 8, 0.5, 2)
    assert gradients[:STEPS] == offline[0]
    text = said(tmp_path)
    assert text.count("further ones are left out") == 1
    assert "of 8 steps were not checked" in text
    assert list((tmp_path / "dump").iterdir()) == []
    if kind == "tcp":
        assert text.count("no checker at 127.0.0.1") == 1


def test_a_checker_that_takes_nothing_slows_no_training(offline: Any, tmp_path: Path) -> None:
    keys, section = meeting("tcp", tmp_path, None)
    arrivals = Arrivals([0], 1)
    with Server("127.0.0.1", keys["port"], "", arrivals, tmp_path / "taken"):
        begin = time.monotonic()
        gradients = children.run(train, str(tmp_path), section, 10, 1.0, 2)
        assert time.monotonic() - begin < 30
    assert gradients[:STEPS] == offline[0]
    assert "steps were not checked" in said(tmp_path)


def test_a_checker_that_comes_back_goes_on(tmp_path: Path) -> None:
    """A step is delivered when the checker has all of it; one that dies loses what it has not checked."""
    keys, section = meeting("tcp", tmp_path, None)
    first = Arrivals([0], 1)
    with Server("127.0.0.1", keys["port"], "", first, tmp_path / "first"):
        training = Child(train, str(tmp_path), section, 4)
        taken = next(iter(first))
    assert taken.step == 0
    second = Arrivals([0], 10)
    with Server("127.0.0.1", keys["port"], "", second, tmp_path / "second"):
        steps = [step.step for step in second]
        training.result()
    assert steps == sorted(steps)
    assert steps[-1] == 3
    assert len(steps) >= 2


def test_a_killed_training_is_checked_as_far_as_it_came(tmp_path: Path, caplog: Any) -> None:
    keys, section = meeting("folder", tmp_path, None)
    checker = Checker(tmp_path, **keys)
    training = Child(_killed, str(tmp_path), section)
    with pytest.raises(AssertionError, match="the process died"):
        training.result()
    (result,) = checker.join().values()
    assert result.steps == 1
    deadline = time.monotonic() + 10
    while list((tmp_path / "dump").iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list((tmp_path / "dump").iterdir()) == []


def _killed(folder: str, section: dict[str, Any]) -> None:
    import signal

    from msprobe.pytorch import PrecisionDebugger

    path = Path(folder) / "config.json"
    path.write_text(
        json.dumps({"task": "tensor", "dump_path": f"{folder}/dump", "level": "L1", "tensor": section})
    )
    PrecisionDebugger(path)
    for _ in range(2):
        PrecisionDebugger.start()
        torch.relu(torch.randn(3))
        PrecisionDebugger.stop()
        PrecisionDebugger.step()
        while any((Path(folder) / "dump").glob("*/step0")):
            time.sleep(0.05)
        PrecisionDebugger.start()
        torch.relu(torch.randn(3))
        os.kill(os.getpid(), signal.SIGKILL)


# ---- what others send


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Server, Arrivals]]:
    arrivals = Arrivals([0], 4)
    with Server("127.0.0.1", 0, "", arrivals, tmp_path / "taken", grace=0.1, silence=1.0) as made:
        yield made, arrivals


def connect(server: Server, rank: int = 0) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), 10)
    frames.exchange_magic(connection)
    frames.send(connection, frames.HELLO, {"client": "abc", "rank": rank, "host": "here"})
    assert frames.receive(connection, (frames.OKAY, frames.STOP)).kind == frames.OKAY
    return connection


def file_frame(name: str, body: bytes, length: int | None = None) -> bytes:
    text = json.dumps({"name": name}).encode()
    head = struct.pack(">4sIQ", frames.FILE, len(text), len(body) if length is None else length)
    return head + text + body


HOSTILE = {
    "a giant body": (file_frame("dump.json", b"", 1 << 62), "free"),
    "a giant header": (struct.pack(">4sIQ", frames.FILE, 1 << 31, 0), "header of"),
    "half a frame": (file_frame("dump.json", b"{", 100), "nothing came for too long"),
    "a wrong checksum": (file_frame("dump.json", b"{}") + b"0000", "checksum is wrong"),
    "a name above": (file_frame("../dump.json", b"{}"), "expected a file of a step"),
    "a name elsewhere": (file_frame("/etc/passwd", b"{}"), "expected a file of a step"),
    "a hidden name": (file_frame("dump_tensor_data/.x", b"{}"), "expected a file of a step"),
    "no name of a file": (file_frame("dump_tensor_data/\ud800", b"{}"), "expected a file of a step"),
    "a deep name": (file_frame("dump_tensor_data/a/b", b"{}"), "expected a file of a step"),
    "an unknown kind": (b"EVIL" + bytes(12), "expected a frame of msprobe"),
    "no JSON": (struct.pack(">4sIQ", frames.FILE, 3, 0) + b"{]}", "expected JSON"),
    "another count": (b"", "files were sent"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_frames_end_one_connection(name: str, server: Any, tmp_path: Path, caplog: Any) -> None:
    made, arrivals = server
    data, expectation = HOSTILE[name]
    with connect(made) as connection:
        frames.send(connection, frames.STEP, {"step": 0})
        if data:
            connection.sendall(data)
        else:
            frames.send(connection, frames.DONE, {"files": 7})
        with pytest.raises((frames.Gone, OSError)):
            frames.receive(connection, (frames.OKAY,))
    deadline = time.monotonic() + 5
    while expectation not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.02)
    assert expectation in caplog.text
    assert list((tmp_path / "taken").iterdir()) == []
    assert not (tmp_path / "dump.json").exists()
    with connect(made) as good:
        frames.send(good, frames.STEP, {"step": 1})
        good.sendall(file_frame("dump.json", b"{}") + struct.pack(">I", _checksum("dump.json", b"{}")))
        frames.send(good, frames.DONE, {"files": 1})
        assert frames.receive(good, (frames.OKAY,)).kind == frames.OKAY
    assert next(iter(arrivals)).step == 1


def _checksum(name: str, body: bytes) -> int:
    import zlib

    return zlib.crc32(json.dumps({"name": name}).encode() + body)


def test_another_protocol_is_refused(server: Any, caplog: Any) -> None:
    """For example frames with four numbers in front of a pickle."""
    made, _ = server
    with socket.create_connection(("127.0.0.1", made.port), 10) as connection:
        connection.sendall(struct.pack(">4Q", 100, 0, 0, 0) + b"00000000" + b"x" * 100)
        connection.settimeout(10)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1) == b""
    deadline = time.monotonic() + 5
    while "both sides have to be msprobe" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "both sides have to be msprobe" in caplog.text


def test_a_second_process_of_a_rank_is_refused(server: Any) -> None:
    made, _ = server
    first = connect(made)
    with socket.create_connection(("127.0.0.1", made.port), 10) as second:
        frames.exchange_magic(second)
        frames.send(second, frames.HELLO, {"client": "other", "rank": 0})
        answer = frames.receive(second, (frames.STOP,))
    assert answer.header["reason"] == "another process sends rank 0"
    first.close()


def test_a_step_that_comes_twice_is_checked_once(server: Any) -> None:
    made, arrivals = server
    with connect(made) as connection:
        for step in (5, 5, 6):
            frames.send(connection, frames.STEP, {"step": step})
            frames.send(connection, frames.DONE, {"files": 0})
            frames.receive(connection, (frames.OKAY,))
        frames.send(connection, frames.BYE)
        frames.receive(connection, (frames.OKAY,))
    assert [step.step for step in arrivals] == [5, 6]


def test_a_broken_step_is_left_out_and_the_rest_goes_on(tmp_path: Path, caplog: Any) -> None:
    shared = tmp_path / "shared"
    for step, text in ((0, "{"), (1, json.dumps({"task": "tensor", "level": "L1", "data": {}}))):
        (shared / f"rank0_abc/step{step}").mkdir(parents=True)
        (shared / f"rank0_abc/step{step}/dump.json").write_text(text)
    (shared / "rank0_abc/end").write_text("")
    (shared / "Functional.relu.0.pt").write_bytes(b"\x80\x04.")
    (shared / "start_12").write_text("")
    results = Checker(tmp_path, nfs_path=str(shared)).join()
    assert results[0].steps == 1
    assert "step 0 of rank 0 is left out" in caplog.text
    assert caplog.text.count("are pickles, which are not read") == 1
    assert sorted(path.name for path in shared.iterdir()) == ["Functional.relu.0.pt", "start_12"]


# ---- TLS


@needs_openssl
def test_a_client_of_another_authority_is_refused(
    tls: Path, other_tls: Path, tmp_path: Path, caplog: Any
) -> None:
    keys, _ = meeting("tls", tmp_path, tls)
    section = {"online_run_ut": True, **keys, "tls_path": str(other_tls)}
    with Server("127.0.0.1", keys["port"], str(tls), Arrivals([0], 2), tmp_path / "taken"):
        assert len(children.run(train, str(tmp_path), section, 1, 0.5)) == 1
        with socket.create_connection(("127.0.0.1", keys["port"]), 10) as plain:
            plain.sendall(frames.MAGIC)
            plain.settimeout(10)
            with contextlib.suppress(ConnectionError):
                while plain.recv(100):
                    pass
    assert "certificate of the other side is not accepted" in said(tmp_path)
    assert "a connection from 127.0.0.1 was ended: TLS failed" in caplog.text


@needs_openssl
def test_a_client_without_a_certificate_is_refused(tls: Path, tmp_path: Path, caplog: Any) -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.load_verify_locations(tls / "ca.crt")
    with Server("127.0.0.1", 0, str(tls), Arrivals([0], 2), tmp_path / "taken") as server:
        # With TLS 1.3 it is told at the first read.
        with pytest.raises((OSError, frames.Gone)), connected(bare, server.port) as connection:
            frames.exchange_magic(connection)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname = False
        old.load_verify_locations(tls / "ca.crt")
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError), connected(old, server.port):
            pass
        # The client may know before the server has said so, and a server that is closed says nothing more.
        wait_until(lambda: "peer did not return a certificate" in caplog.text)


def wait_until(happened: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"it did not happen within {seconds} s"
        time.sleep(0.01)


@contextlib.contextmanager
def connected(tls: ssl.SSLContext, port: int) -> Iterator[ssl.SSLSocket]:
    plain = socket.create_connection(("127.0.0.1", port), 10)
    with plain, tls.wrap_socket(plain) as connection:
        yield connection


@needs_openssl
def test_certificates_that_cannot_be_used(tls: Path, other_tls: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed"
    shutil.copytree(tls, mixed)
    shutil.copy(other_tls / "server.key", mixed)
    with pytest.raises(InvalidArgument, match=r"server\.key: cannot be used for TLS: key values mismatch"):
        context(str(mixed), "server")
    locked = [
        "openssl",
        "rsa",
        "-aes256",
        "-passout",
        "pass:secret",
        "-in",
        "client.key",
        "-out",
        "locked.key",
    ]
    subprocess.run(locked, cwd=mixed, check=True, capture_output=True)
    os.replace(mixed / "locked.key", mixed / "client.key")
    with pytest.raises(InvalidArgument, match=r"client\.key: the key has a passphrase"):
        context(str(mixed), "client")
    shutil.copy(tls / "client.key", mixed)
    (mixed / "ca.crt").write_text("nothing")
    with pytest.raises(InvalidArgument, match=r"ca\.crt: cannot be used for TLS"):
        context(str(mixed), "client")


# ---- the lock of a folder


def lock(folder: Path, **content: Any) -> Path:
    path = folder / LOCK
    path.write_text(json.dumps(content))
    return path


def test_a_folder_has_one_checker(tmp_path: Path) -> None:
    with (
        FolderWatch(str(tmp_path), Arrivals([0], 1)),
        pytest.raises(InvalidArgument, match="another checker works"),
    ):
        FolderWatch(str(tmp_path), Arrivals([0], 1)).__enter__()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("holder", "age"),
    [
        ({"host": socket.gethostname(), "pid": 2**22 + 1}, 0),
        ({"host": "elsewhere", "pid": 1}, 3600),
        ({}, 3600),
    ],
)
def test_a_stale_lock_is_taken_over(holder: dict[str, Any], age: float, tmp_path: Path, caplog: Any) -> None:
    path = lock(tmp_path, **holder)
    os.utime(path, (time.time() - age, time.time() - age))
    with FolderWatch(str(tmp_path), Arrivals([0], 1)):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert "the lock is taken over" in caplog.text


def test_a_young_lock_of_another_host_is_kept(tmp_path: Path) -> None:
    lock(tmp_path, host="elsewhere", pid=1)
    with pytest.raises(InvalidArgument, match="process 1 on elsewhere"):
        FolderWatch(str(tmp_path), Arrivals([0], 1)).__enter__()


# ---- configuration


@pytest.mark.parametrize(
    ("keys", "expectation"),
    [
        ({"level": "L0"}, '"tensor.online_run_ut": expected level "L1" or "mix"'),
        ({"async_dump": True, "list": ["relu"]}, 'expected "async_dump" false'),
        ({"host": "here"}, '"tensor.host": host is invalid, expected an IPv4 address'),
        ({"port": 70000}, '"tensor.port": port is invalid, expected 1 to 65535'),
        ({"tls_path": "/nowhere"}, '"tensor.tls_path": expected a folder with client.key'),
        ({"nfs_path": "/nowhere"}, '"tensor.nfs_path": expected a folder'),
    ],
)
def test_a_wrong_configuration(keys: dict[str, Any], expectation: str, tmp_path: Path) -> None:
    top = {key: keys.pop(key) for key in ("level", "async_dump") if key in keys}
    section = {"online_run_ut": True, "host": "127.0.0.1", "port": 4000, **keys}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"task": "tensor", "dump_path": str(tmp_path), **top, "tensor": section}))
    with pytest.raises(InvalidArgument) as error:
        load_config(path)
    assert expectation in str(error.value)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(IoError, match="cannot listen on"):
        Server("127.0.0.1", taken.getsockname()[1], "", Arrivals([0], 1), tmp_path)
