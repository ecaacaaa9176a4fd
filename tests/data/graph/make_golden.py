# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Cuts what the tests of single rules need out of sample dumps and out of the graphs that the existing tool
(release 8.3.0) made of them.

Usage: python make_golden.py SAMPLES    (a folder with the dumps and, as NAME/*.vis.db, the graphs)
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content) + "\n", encoding="utf-8")


def write_table(path: Path, rows: Iterable[Iterable[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ("\t".join("" if cell is None else str(cell) for cell in row) for row in rows)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def select(samples: Path, name: str, columns: str, where: str = "1") -> list[tuple[Any, ...]]:
    (path,) = (samples / name).glob("*.vis.db")
    with sqlite3.connect(path) as database:
        order = "data_source, step, rank, node_order"
        return database.execute(f"SELECT {columns} FROM tb_nodes WHERE {where} ORDER BY {order}").fetchall()


# ---- Overflow levels


def make_overflow_levels(samples: Path) -> None:
    """All records of a level that is rare, and of the others one of each function or class."""
    dump = read(samples / "nan_npu/step0/rank0/dump.json")
    levels = dict(select(samples, "nan_oc_build", "node_name, overflow_level"))
    assert (
        levels.items()
        >= dict(
            select(samples, "nan_oc_cmp", "node_name, overflow_level", "data_source = 'NPU' AND rank = 0")
        ).items()
    )
    seen = set()
    chosen = {}
    for name, record in dump["data"].items():
        parts = name.split(".")
        kind = (parts[-3], parts[-2] if parts[0] == "Module" else parts[-1], levels[name])
        if levels[name] in ("critical", "medium") or kind not in seen:
            chosen[name] = record
        seen.add(kind)
    write(HERE / "overflow/dump.json", {**dump, "data": chosen})
    write_table(HERE / "overflow/levels.tsv", ((name, levels[name]) for name in chosen))


# ---- Communication links

# The graph, the folder of the dump of either side, the step.
LINKED = (
    ("ranks_build", {"NPU": "st_npu"}, 0),
    ("ranks_cmp", {"NPU": "st_npu", "Bench": "st_bench"}, 0),
    ("steps_cmp", {"NPU": "st_npu", "Bench": "st_bench"}, 1),
    ("md5_ranks", {"NPU": "md5_npu", "Bench": "md5_bench"}, 0),
)


def make_links(samples: Path) -> None:
    """The calls of torch.distributed only, in the order of the graph."""
    rows = []
    for graph, folders, step in LINKED:
        for source, folder in folders.items():
            columns = "rank, node_name, precision_index, matched_distributed"
            where = f"data_source = '{source}' AND step = {step} AND node_name LIKE 'Distributed%'"
            nodes = select(samples, graph, columns, where)
            for rank in (0, 1):
                place = f"{folder}/step{step}/rank{rank}"
                names = [name for r, name, *_ in nodes if r == rank]
                dump = read(samples / place / "dump.json")
                dump["data"] = {name: dump["data"][name] for name in names}
                write(HERE / "links" / place / "dump.json", dump)
                write(HERE / "links" / place / "construct.json", dict.fromkeys(names))
            rows += [(graph, f"{folder}/step{step}", *node) for node in nodes]
    write_table(HERE / "links/expected.tsv", rows)


# ---- Layer mapping

# What of the samples the graphs were made of.
MAPPED = {"lm_plain": ("st_npu", "st_bench"), "var_lm": ("st_npu", "var_bench")}


def make_layer_map(samples: Path) -> None:
    """Names, hierarchy and the inner part of the stacks, without the tensors."""
    rows = []
    for graph, folders in MAPPED.items():
        for folder in folders:
            source, target = samples / folder / "step0/rank0", HERE / "layer_map" / folder
            dump = read(source / "dump.json")
            write(target / "dump.json", {**dump, "data": dict.fromkeys(dump["data"])})
            write(target / "construct.json", read(source / "construct.json"))
            stacks = read(source / "stack.json")
            write(
                target / "stack.json", {key: [names, frames[:6]] for key, (names, frames) in stacks.items()}
            )
        nodes = select(samples, graph, "node_name, matched_node_link", "data_source = 'NPU'")
        names = read(samples / folders[0] / "step0/rank0/dump.json")["data"]
        rows += [
            (graph, *folders, name, json.loads(link)[-1] if link != "[]" else "")
            for name, link in nodes
            if name in names
        ]
    write_table(HERE / "layer_map/expected.tsv", rows)


def main(samples: Path) -> None:
    make_overflow_levels(samples)
    make_links(samples)
    make_layer_map(samples)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
