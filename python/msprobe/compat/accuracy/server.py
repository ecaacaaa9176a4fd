# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The checker's end of TCP: takes steps of several trainings and ranks into a folder. Whatever one connection
sends, the others go on.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any

from msprobe.compat.accuracy import pickled
from msprobe.files.atomic_file import make_directory
from msprobe.files.regular_file import read_bytes
from msprobe.native import Error, FormatError, IoError, log
from msprobe.transport import frames
from msprobe.transport.received import Arrivals, ReceivedStep, refusal, say_lost
from msprobe.transport.tls import context, reason_of

if TYPE_CHECKING:
    from pathlib import Path

_SHAKE = 15.0  # seconds to say who one is
_SILENCE = 60.0  # seconds without a byte, after which a training is lost; it says every 10 that it is alive
_GRACE = 60.0  # seconds that a lost training may take to come back
_BEAT = 5.0  # seconds between two words to one that waits
_MOST_CONNECTIONS = 256
_MOST_FILES = 1_000_000
_SPARE = 1 << 28  # bytes of the disk that are left free


class Server:
    """`with Server(...) as server:`, then `arrivals` has the steps.

    folder: for steps on their way; it is made, and removed at the end. tls_path: "" is plain TCP.
    accept_pickle: trainings with mindstudio-probe may send, too.
    Raises IoError where it cannot listen, InvalidArgument for certificates that cannot be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls_path: str,
        arrivals: Arrivals,
        folder: Path,
        *,
        accept_pickle: bool = False,
        grace: float = _GRACE,
        silence: float = _SILENCE,
    ) -> None:
        self._tls = context(tls_path, "server") if tls_path else None
        self._arrivals = arrivals
        self._folder = folder
        self._accepts_pickle = accept_pickle
        self._grace, self._silence = grace, silence
        self._lock = threading.Lock()
        self._connected: dict[int, str] = {}  # rank -> client
        self._seen: set[tuple[str, int]] = set()  # client, step
        self._connections: set[socket.socket] = set()
        self._count = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        try:
            self._socket = socket.create_server((host, port), backlog=_MOST_CONNECTIONS)
        except OSError as error:
            raise IoError(f"cannot listen on {host}:{port}: {reason_of(error)}") from error
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> Server:
        make_directory(self._folder)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._arrivals.close()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends accept(), which would keep the port
        self._socket.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        slots = threading.Semaphore(_MOST_CONNECTIONS)
        while not self._arrivals.is_closed:
            try:
                connection, address = self._socket.accept()
            except OSError:
                return  # closed
            if not slots.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection, address[0], slots), daemon=True).start()

    def _serve(self, connection: socket.socket, address: str, slots: threading.Semaphore) -> None:
        with self._lock:
            self._connections.add(connection)
        try:
            with connection:
                connection.settimeout(_SHAKE)
                if self._tls is None:
                    self._talk(connection, address)
                else:
                    with self._tls.wrap_socket(connection, server_side=True) as wrapped:
                        self._talk(wrapped, address)
        except frames.Gone:
            pass
        except (Error, OSError) as error:  # ssl.SSLError and timeouts are OSErrors
            if not self._arrivals.is_closed:
                log.warning("a connection from %s was ended: %s", address, _words(error))
        finally:
            with self._lock:
                self._connections.discard(connection)
            slots.release()

    def _talk(self, connection: Any, address: str) -> None:
        first = frames.first_bytes(connection)
        if first != frames.MAGIC:
            if not pickled.may_begin_frame(first):
                raise FormatError(f"expected a connection of msprobe, found {first!r}")
            if not self._accepts_pickle:
                raise FormatError(
                    "it sends pickles, as mindstudio-probe does: both sides have to be msprobe, or "
                    '"run_ut.accept_pickle" of the checker true'
                )
            self._talk_in_pickles(connection, address, first)
            return
        connection.sendall(frames.MAGIC)
        hello = frames.receive(connection, (frames.HELLO,)).header
        client, rank = str(hello.get("client"))[:64], hello.get("rank")
        if not client.isalnum() or isinstance(rank, bool) or not isinstance(rank, int):
            raise FormatError("HELO: expected client and rank")
        reason = refusal(rank, self._arrivals.ranks) or self._join(client, rank)
        if reason:
            frames.send(connection, frames.STOP, {"reason": reason})
            return
        name = f"{str(hello.get('host'))[:64]!r} at {address}"
        log.info("%s sends rank %d", name, rank)
        said_bye = False
        try:
            frames.send(connection, frames.OKAY)
            connection.settimeout(self._silence)
            said_bye = self._take_steps(connection, client, rank)
        except frames.Gone:
            pass
        finally:
            connection.close()
            self._leave(client, rank, name, said_bye)

    def _join(self, client: str, rank: int) -> str:
        """Why a client is refused; empty: it is in."""
        with self._lock:
            other = self._connected.get(rank)
            if other not in (None, client):
                return f"another process sends rank {rank}"
            self._connected[rank] = client
        self._arrivals.begin(rank)
        return ""

    def _leave(self, client: str, rank: int, name: str, said_bye: bool) -> None:
        if not said_bye and not self._arrivals.is_closed:
            deadline = time.monotonic() + self._grace
            with self._lock:
                self._connected.pop(rank, None)
            while time.monotonic() < deadline:
                with self._lock:
                    if rank in self._connected:
                        return  # it has come back, or another has taken its place
                if self._arrivals.is_closed:
                    return
                time.sleep(0.05)
            say_lost(name, rank)
        with self._lock:
            if self._connected.get(rank) in (None, client):
                self._connected.pop(rank, None)
                self._arrivals.end(rank)

    # ---- calls of mindstudio-probe, one by one

    def _talk_in_pickles(self, connection: Any, address: str, first: bytes) -> None:
        client = f"pickle{id(connection):x}"
        ranks: set[int] = set()
        said_bye = False
        connection.settimeout(self._silence)
        try:
            while not said_bye:  # then it waits until the connection is closed
                rest = frames.exactly(connection, pickled.HEAD.size - len(first), may_end=not first)
                said_bye = self._take_frame(connection, pickled.HEAD.unpack(first + rest), client, ranks)
                first = b""
        except frames.Gone:
            pass
        finally:
            connection.close()
            for rank in ranks:
                self._leave(client, rank, f"rank {rank} at {address}", said_bye)

    def _take_frame(
        self, connection: Any, head: tuple[int, int, int, int], client: str, ranks: set[int]
    ) -> bool:
        """True: there will be no more."""
        length, sequence, rank, step = head
        digits = frames.exactly(connection, pickled.CHECKSUM_SIZE)
        self._require_room(length)
        with self._lock:
            self._count += 1
            folder = self._folder / f"{self._count}"
        received = ReceivedStep(client, rank, step, folder)
        code, is_kept = pickled.OKAY, False
        try:
            make_directory(folder)
            message = folder / "call.pt"
            checksum = frames.write_bytes(connection, length, message, "a call")
            if digits.decode("ascii", "replace") != f"{checksum:08x}":
                code = pickled.DAMAGED
            elif length == len(pickled.END) and read_bytes(message) == pickled.END:
                code = pickled.OVER
            else:
                is_kept = self._take_call(received, message, ranks)
        finally:
            if not is_kept:
                received.discard()
        connection.sendall(pickled.answer(code, sequence, rank, step))
        return code == pickled.OVER

    def _take_call(self, received: ReceivedStep, message: Path, ranks: set[int]) -> bool:
        """Whether it goes on to who checks it."""
        rank = received.rank
        if refusal(rank, self._arrivals.ranks):
            return False
        if rank not in ranks:
            reason = self._join(received.client, rank)
            if reason:
                raise FormatError(reason)
            ranks.add(rank)
        try:
            pickled.write_as_step(message, received.folder)
        except Error as error:
            log.warning("a call of step %d, rank %d is left out: %s", received.step, rank, error)
            return False
        message.unlink()
        return self._arrivals.put(received)

    # ---- steps

    def _take_steps(self, connection: Any, client: str, rank: int) -> bool:
        """True: the training has said good-bye."""
        while True:
            frame = frames.receive(connection, (frames.STEP, frames.ALIVE, frames.BYE))
            if frame.kind == frames.BYE:
                frames.send(connection, frames.OKAY)
                return True
            if frame.kind == frames.STEP:
                step = frame.header.get("step")
                if isinstance(step, bool) or not isinstance(step, int) or step < 0:
                    raise FormatError("STEP: expected its number")
                self._take_step(connection, client, rank, step)

    def _take_step(self, connection: Any, client: str, rank: int, step: int) -> None:
        with self._lock:
            self._count += 1
            folder = self._folder / f"{self._count}"
        received = ReceivedStep(client, rank, step, folder)
        try:
            self._take_files(connection, folder)
        except BaseException:
            received.discard()
            raise
        with self._lock:
            is_new = (client, step) not in self._seen
            self._seen.add((client, step))
        if is_new:
            if not self._arrivals.put(received, _Reassurance(connection)):
                received.discard()
                return
        else:  # it was sent again because our answer was lost
            received.discard()
        frames.send(connection, frames.OKAY)

    def _take_files(self, connection: Any, folder: Path) -> None:
        make_directory(folder / frames.TENSORS)
        for count in range(_MOST_FILES):
            frame = frames.receive(connection, (frames.FILE, frames.DONE), body=True)
            if frame.kind == frames.DONE:
                if frame.header.get("files") != count:
                    raise FormatError(f"DONE: {frame.header.get('files')} files were sent, {count} came")
                return
            name = frame.header.get("name")
            if not isinstance(name, str) or not frames.is_file_of_step(name):
                raise FormatError(f"FILE: expected a file of a step, found {str(name)[:80]!r}")
            frames.receive_body(connection, frame, folder / name, self._require_room)
        raise FormatError(f"more than {_MOST_FILES:,} files")

    def _require_room(self, length: int) -> None:
        free = shutil.disk_usage(self._folder).free
        if length + _SPARE > free:
            raise FormatError(f"a file of {length:,} bytes, and there are {free:,} free")


class _Reassurance:
    """Tells a training that its checker is busy, and not lost."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._next = time.monotonic() + _BEAT

    def __call__(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _BEAT
            frames.send(self._connection, frames.WAIT)


def _words(error: Exception) -> str:
    if isinstance(error, (TimeoutError, socket.timeout)):
        return "nothing came for too long"
    return reason_of(error) if isinstance(error, (OSError, ssl.SSLError)) else str(error)
