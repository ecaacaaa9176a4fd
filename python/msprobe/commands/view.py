# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe view: graphs of models, and records of the monitor."""

from __future__ import annotations

from pathlib import Path

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    import argparse


def main(arguments: list[str]) -> int:
    from msprobe.viewer import command

    parser = command.parser()
    asked = parser.parse_args(arguments)
    if not _is_record(asked.path):
        return command.view(parser, asked)
    if asked.step is not None:
        parser.error("--step: is about a graph; a record of the monitor is shown whole")
    return _show(asked)


def _show(asked: argparse.Namespace) -> int:
    from msprobe.commands.trend import export, show
    from msprobe.files.new_results import check_new_file
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
    from msprobe.viewer.command import has_graphs

    return not has_graphs(given)
