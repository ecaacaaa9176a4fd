# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe view: exit code 0 when it was ended, 2 on errors."""

from __future__ import annotations

import argparse
import errno
import os
import secrets
import signal
import sys
import threading
from pathlib import Path

from msprobe.terminal.command_line import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from msprobe.viewer.server import Answers, Server

_PORT = 6066


def view(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> int:
    """What was asked of parser()."""
    from msprobe.viewer.graph_of_dumps import command_for, graph_of, is_dump

    path = Path(asked.path)
    for one in (asked.path, asked.target):
        if one is not None and not Path(one).exists():
            parser.error(f"{one}: there is no such file or folder")
    if asked.target is not None or is_dump(path):
        dumps = [Path(one) for one in (asked.path, asked.target) if one is not None]
        if asked.export is None:
            print(f"The graph is made for this view only; to keep it: {command_for(dumps)}", flush=True)
        path = graph_of(dumps)
    if path.is_file() and not path.name.endswith(".vis.db"):
        parser.error(f"{asked.path}: expected a file *.vis.db or a folder with such files")
    if asked.export is not None:
        if not path.is_file():
            parser.error("--export: expected one file *.vis.db, found a folder")
        from msprobe.files.new_results import check_new_file
        from msprobe.viewer.export import export

        check_new_file(Path(asked.export), force=asked.force)
        print(export(path, Path(asked.export), step=asked.step, rank=asked.rank))
        return 0
    return _view_graphs(asked, path)


def _view_graphs(asked: argparse.Namespace, path: Path) -> int:
    from msprobe.viewer.api import Api
    from msprobe.viewer.library import Library

    library = Library(path)
    try:
        return serve(asked, Api(library), str(path))
    finally:
        library.close()


def has_graphs(folder: Path) -> bool:
    """Whether view() finds something to show there."""
    from msprobe.viewer.api import Api
    from msprobe.viewer.graph_of_dumps import is_dump
    from msprobe.viewer.library import Library

    if is_dump(folder):
        return True
    library = Library(folder)
    try:
        found = Api(library).answer("files", {})
        return bool(found["files"] or found["dumps"])
    finally:
        library.close()


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


_EPILOG = """exit code: 0 the page was written, or the server ended; 2 an error.
Over ssh: ssh -L 6066:127.0.0.1:6066 HOST, then open the printed address here."""


def parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe view",
        description="Shows runs, results of graph comparisons (*.vis.db), dumps and records of the monitor "
        "as a web page of this machine.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add(
        "path",
        metavar="FILE_OR_FOLDER",
        help="a folder of msprobe run, a result *.vis.db, a folder with such files, a dump, or a record of "
        "the monitor; with TARGET the reference",
    )
    add("target", nargs="?", metavar="TARGET", help="another run, dump or record: both are compared")
    add_serving(parser)
    add("--export", metavar="OUT.html", help="write one self-contained page instead of serving")
    add("--force", action="store_true", help="of --export: replace a file that is there already")
    add("--step", type=int, help="of --export: the step (default: the first)")
    add("--rank", type=int, help="of --export: the rank (default: the first)")
    return parser


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
