# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Serves a page of this machine until it is ended."""

from __future__ import annotations

import argparse
import errno
import os
import secrets
import signal
import sys
import threading

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from types import FrameType

    from msprobe.viewer.server import Answers, Server

_PORT = 6066


def serve(asked: argparse.Namespace, api: Answers, shown: str) -> int:
    """Serves the page until it is ended. asked: with the options of add_serving(). Raises IoError."""
    from msprobe.native import log_on_stderr

    with log_on_stderr("ERROR"):
        server = _bind(asked.host, asked.port, api)
        _end_on_signals(server)
        print(f"msprobe view: {shown}\nOpen {server.url()}\nCtrl-C ends it.", flush=True)
        if not asked.no_browser and _has_screen():
            import webbrowser

            threading.Thread(target=webbrowser.open, args=(server.url(),), daemon=True).start()
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print()
        finally:
            server.server_close()
    return 0


def _bind(host: str, port: int | None, api: Answers) -> Server:
    """On the wanted port; without a wish on a free one near 6066. Raises IoError."""
    from msprobe.native import IoError
    from msprobe.viewer.server import Server

    token = secrets.token_urlsafe(18)
    ports = [port] if port is not None else [*range(_PORT, _PORT + 20), 0]
    for one in ports:
        try:
            return Server(host, one, api, token)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or one == ports[-1]:
                reason = (
                    os.strerror(error.errno) if isinstance(error.errno, int) and error.errno > 0 else error
                )
                raise IoError(f"cannot listen on {host}, port {one}: {reason}") from error
    raise AssertionError("the last port was tried")


def _end_on_signals(server: Server) -> None:
    """So that what is in the temporary folder is removed."""

    def end(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)


def _has_screen() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def add_serving(parser: argparse.ArgumentParser, of: str = "") -> None:
    """Where the page is served."""
    add = parser.add_argument
    of = of.strip() + " " if of else ""
    add("--port", type=_port, help=f"{of}port to listen on (default: the first free one from 6066 on)")
    add(
        "--host",
        default="127.0.0.1",
        help=f"{of}address to listen on (default: 127.0.0.1, this machine only)",
    )
    add("--no-browser", action="store_true", help=f"{of}do not open a browser, only print the address")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 65535, found {text!r}")
    return int(text)
