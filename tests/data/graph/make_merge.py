# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden data of tests/cpp/graph/merge_test.cpp from dumps of parallel jobs and the graphs that the
existing tool (release 8.3.0) merged of them.

FOLDER has the inputs tp2, pp2, vpp2, tppp and one, and the results pm_build, pm_cmp, pm_vpp and pm_tppp.
Written is merge/INPUT.deflate: lines of text, behind their size in 4 bytes (little endian). Columns are
divided by tabs:

D, S   dump.json and construct.json of the next rank
N      a node: name, kind, parent, micro step; in the order of the database
C      its children
I, O   one of its inputs or outputs: name, maximum, minimum, mean, norm as in the cells, or -
M      a sentence on how it was merged

Usage: python make_merge.py FOLDER
"""

import json
import sqlite3
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent / "merge"
STATISTICS = ("Max", "Min", "Mean", "Norm")
COLUMNS = (
    "node_name, node_type, up_node, micro_step_id, sub_nodes, input_data, output_data, parallel_merge_info"
)
# Input -> the folder of a result that has its merged graph, and which side of it.
GRAPHS = {
    "tp2": ("pm_build", "NPU"),
    "pp2": ("pm_cmp", "Bench"),
    "vpp2": ("pm_vpp", "Bench"),
    "tppp": ("pm_tppp", "NPU"),
    "one": ("pm_tppp", "Bench"),
}


def input_lines(source: Path) -> list[str]:
    lines = []
    for rank in sorted((source / "step0").iterdir()):
        for mark, name in (("D", "dump.json"), ("S", "construct.json")):
            content = json.loads((rank / name).read_text())
            lines.append(f"{mark}\t{json.dumps(content, separators=(',', ':'))}")
    return lines


def parameter_lines(mark: str, cells: str) -> list[str]:
    named: dict[str, dict[str, Any]] = json.loads(cells)
    return [
        "\t".join([mark, name, *(cell.get(statistic, "-") for statistic in STATISTICS)])
        for name, cell in named.items()
    ]


def graph_lines(database: Path, side: str) -> list[str]:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM tb_nodes WHERE data_source = ? ORDER BY node_order", (side,)
    )
    lines = []
    for name, kind, parent, micro_step, children, inputs, outputs, sentences in rows:
        # The tool forgets the parent of a joined collection, and gives those of the second side other steps.
        parent = "DefaultModel" if "_All_Ranks" in name else parent
        step = str(micro_step) if side == "NPU" else "-"
        lines.append("\t".join(["N", name, kind, parent or "-", step]))
        lines.append("\t".join(["C", *(json.loads(children) if children else [])]))
        lines += parameter_lines("I", inputs) + parameter_lines("O", outputs)
        lines += [f"M\t{sentence}" for sentence in (json.loads(sentences) if sentences else [])]
    return lines


def write(path: Path, lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    deflate = zlib.compressobj(9, wbits=-15)
    path.write_bytes(struct.pack("<I", len(text)) + deflate.compress(text) + deflate.flush())


def main() -> None:
    samples = Path(sys.argv[1])
    TARGET.mkdir(exist_ok=True)
    for name, (result, side) in GRAPHS.items():
        (database,) = (samples / result).glob("*.vis.db")
        write(TARGET / f"{name}.deflate", input_lines(samples / name) + graph_lines(database, side))


if __name__ == "__main__":
    main()
