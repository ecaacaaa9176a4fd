# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe view: graphs of models, and records of the monitor. Exit code 0 when it was ended, 2 on errors."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe.terminal.command_line import Parser, absent
from msprobe.viewer.serving import add_serving, serve


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    if not _is_record(asked.path):
        return _view(parser, asked)
    if asked.step is not None:
        parser.error("--step: is about a graph; a record of the monitor is shown whole")
    return _view_record(asked)


def _view_record(asked: argparse.Namespace) -> int:
    from msprobe.files.new_results import check_new_file
    from msprobe.trend.command import export, show
    from msprobe.trend.record import open_records

    if asked.export is not None:
        check_new_file(Path(asked.export), force=asked.force)
    records = open_records([path for path in (asked.path, asked.target) if path is not None], asked.rank)
    if asked.export is None:
        return show(records, asked)
    export(records, Path(asked.export))
    print(asked.export)
    return 0


def _is_record(path: str) -> bool:
    """Whether it is a record of the monitor, or the folder of a run with nothing else that can be shown."""
    from msprobe.trend.record import stores_of

    given = Path(path)
    stores = stores_of(given)
    if not stores:
        return False
    if given.is_file() or next(iter(stores.values())).parent == given:
        return True
    return not _has_graphs(given)


def _view(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> int:
    from msprobe.viewer.graph_of_dumps import command_for, graph_of, is_dump

    path = Path(asked.path)
    for one in (asked.path, asked.target):
        if one is not None and not Path(one).exists():
            parser.error(absent(one))
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


def _has_graphs(folder: Path) -> bool:
    """Whether _view() finds something to show there."""
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


_EPILOG = """exit code: 0 the page was written, or the server ended; 2 an error.
The curves of a run that was recorded with --with monitor: msprobe trend RUN --view
Over ssh: ssh -L 6066:127.0.0.1:6066 HOST, then open the printed address here."""


def _parser() -> argparse.ArgumentParser:
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
