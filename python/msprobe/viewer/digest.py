# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What questions about a whole graph need, in a small database of our own in a temporary folder.

A row of `tb_nodes` holds kilobytes of JSON. The digest of one step and rank holds one short row per node:
place in the tree and in the order of execution, counterpart, values. It is made once, in a process of its
own when the graph is large (the server stays small and answers meanwhile); see digest_cache.py for how it is
kept. Its tables: cpp/private/msprobe/viewer_digest.h.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from msprobe.native import core
from msprobe.viewer.difference import METRICS
from msprobe.viewer.result_file import ResultFile, open_result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Progress = Callable[[int, int], None]

FORMAT = core.DIGEST_FORMAT  # changes with what a digest holds
LEVELS = {"medium": 1, "high": 2, "critical": 3}
FIRST = {"input": "input_ulps", "weight": "weight_ulps", "gradient": "gradient_ulps", "output": "output_ulps"}
METRIC_COLUMNS = {name: f"m{index}" for index, name in enumerate(METRICS)}
# The columns of `series` and the types of their arrays. Where a place has none it is -1, a value NaN.
SERIES = {
    **dict.fromkeys(("first", "peer", "shape", "stack"), "<i4"),
    **dict.fromkeys(("value", "overflow", *FIRST.values(), "worst_ulps", *METRIC_COLUMNS.values()), "<f8"),
}


def build(result: ResultFile, step: int, rank: int, path: Path, progress: Progress | None = None) -> None:
    """Writes the digest of one graph (both sides) to `path`. `progress` is told of the nodes that were read
    and all of them. Raises FormatError for a damaged file, and IoError where the digest cannot be written.
    """
    core.write_digest(result.source, step, rank, path, progress=progress)


def main(arguments: list[str]) -> int:
    """The process of a large graph: FILE STEP RANK DIGEST; prints its progress, a number per line."""
    path, step, rank, digest = arguments
    shown = -1
    if hasattr(os, "nice"):
        os.nice(5)  # the tree can be used meanwhile

    def show(done: int, of: int) -> None:
        nonlocal shown
        if done * 100 // of > shown:
            shown = done * 100 // of
            print(shown, flush=True)

    build(open_result(Path(path)), int(step), int(rank), Path(digest), show)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
