# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What goes over a connection (docs/formats/online_check.md): frames with a kind, a small JSON object and a
body of bytes. Nothing in them is run, and no length is believed.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol

from msprobe.files.regular_file import open_to_write
from msprobe.native import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

MAGIC = b"MSPROBE1"
"""What each side sends first."""
LARGEST_HEADER = 1 << 16
CHUNK = 1 << 20

HELLO, STEP, FILE, DONE, BYE, ALIVE = b"HELO", b"STEP", b"FILE", b"DONE", b"BYE_", b"LIVE"
"""Of the training."""
OKAY, WAIT, STOP = b"OKAY", b"WAIT", b"STOP"
"""Answers of the checker: it is here; it is not lost, wait; do not send more, the reason is in the header."""
_KINDS = (HELLO, STEP, FILE, DONE, BYE, ALIVE, OKAY, WAIT, STOP)

_HEAD = struct.Struct(">4sIQ")  # kind, length of the header, length of the body
_CHECKSUM = struct.Struct(">I")

TENSORS = "dump_tensor_data"
_NAME = re.compile(rf"dump\.json|summary\.json|{TENSORS}/[^./\0\ud800-\udfff][^/\0\ud800-\udfff]{{0,254}}")


class Connection(Protocol):
    """A socket, plain or with TLS."""

    def sendall(self, data: Any, /) -> None: ...

    def recv(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Frame:
    kind: bytes
    header: dict[str, Any]
    length: int
    """Of the body, which is not read yet."""
    checksum: int
    """Of the header; that of the frame goes on with the body."""


class Gone(Exception):
    """The other side has closed the connection between two frames."""


def is_file_of_step(name: str) -> bool:
    """Whether a file of a recorded step is one that travels, by its path below the step."""
    return _NAME.fullmatch(name) is not None


def send(connection: Connection, kind: bytes, header: dict[str, Any] | None = None) -> None:
    text = json.dumps(header or {}).encode()
    connection.sendall(_HEAD.pack(kind, len(text), 0) + text + _CHECKSUM.pack(zlib.crc32(text)))


def send_file(connection: Connection, name: str, file: IO[bytes], size: int) -> None:
    """The first `size` bytes of a file. Raises FormatError where it has become shorter."""
    text = json.dumps({"name": name}).encode()
    checksum = zlib.crc32(text)
    connection.sendall(_HEAD.pack(FILE, len(text), size) + text)
    while size > 0:
        chunk = file.read(min(CHUNK, size))
        if not chunk:
            raise FormatError(f"{name}: the file has become shorter")
        checksum = zlib.crc32(chunk, checksum)
        connection.sendall(chunk)
        size -= len(chunk)
    connection.sendall(_CHECKSUM.pack(checksum))


def receive(connection: Connection, wanted: Iterable[bytes], *, body: bool = False) -> Frame:
    """The next frame, without its body and checksum where it may have a body. Raises Gone, FormatError."""
    head = exactly(connection, _HEAD.size, may_end=True)
    kind, header_length, length = _HEAD.unpack(head)
    if kind not in _KINDS:
        raise FormatError(f"expected a frame of msprobe, found {head[:8]!r}")
    if kind not in wanted:
        raise FormatError(f"expected {' or '.join(k.decode() for k in wanted)}, found {kind.decode()}")
    if header_length > LARGEST_HEADER:
        raise FormatError(f"a header of {header_length:,} bytes, expected at most {LARGEST_HEADER:,}")
    has_body = body and kind == FILE
    if length and not has_body:
        raise FormatError(f"{kind.decode()}: a body of {length:,} bytes, expected none")
    text = exactly(connection, header_length)
    checksum = zlib.crc32(text)
    if not has_body:
        _check(connection, checksum, kind.decode())
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{kind.decode()}: expected JSON: {error}") from error
    if not isinstance(header, dict):
        raise FormatError(f"{kind.decode()}: expected an object")
    return Frame(kind, header, length, checksum)


def receive_body(connection: Connection, frame: Frame, path: Path, check: Callable[[int], None]) -> None:
    """Writes the body to a file. check: called with the length first, raises where it is too much.
    Raises FormatError, OSError.
    """
    check(frame.length)
    name = str(frame.header.get("name"))
    checksum = write_bytes(connection, frame.length, path, name, frame.checksum)
    _check(connection, checksum, name)


def write_bytes(connection: Connection, length: int, path: Path, name: str, checksum: int = 0) -> int:
    """The next `length` bytes to a new file; returns their checksum, which goes on from `checksum`.
    Raises FormatError, OSError.
    """
    left = length
    with open_to_write(path, is_new=True) as file:
        while left > 0:
            chunk = connection.recv(min(CHUNK, left))
            if not chunk:
                raise FormatError(f"{name}: the connection ended {left:,} bytes early")
            checksum = zlib.crc32(chunk, checksum)
            file.write(chunk)
            left -= len(chunk)
    return checksum


def _check(connection: Connection, checksum: int, what: str) -> None:
    """Reads the end of a frame."""
    if _CHECKSUM.unpack(exactly(connection, _CHECKSUM.size))[0] != checksum:
        raise FormatError(f"{what}: its checksum is wrong")


def exchange_magic(connection: Connection) -> None:
    """Raises Gone, FormatError for another protocol."""
    connection.sendall(MAGIC)
    found = first_bytes(connection)
    if found != MAGIC:
        raise FormatError(f"expected a connection of msprobe, found {found!r}")


def first_bytes(connection: Connection) -> bytes:
    """As many as the other side's magic has. Raises Gone, FormatError."""
    return exactly(connection, len(MAGIC), may_end=True)


def exactly(connection: Connection, size: int, *, may_end: bool = False) -> bytes:
    """So many bytes. Raises Gone for none where it `may_end` there, FormatError for fewer."""
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            if may_end and not parts:
                raise Gone
            raise FormatError("the connection ended inside of a frame")
        parts += part
    return bytes(parts)
