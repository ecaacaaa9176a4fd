# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Cuts dump.json, stack.json and construct.json out of a dump of the existing tool (release 8.1.1, sample
statistics_mix: a small transformer at level mix), so that a test can write every byte of them.

Usage: python make_sample.py FOLDER_OF_A_RANK
"""

import json
import sys
from pathlib import Path

NAMES = (
    "Functional.embedding.0.forward",
    "Module.embed.Embedding.forward.0",
    "Module.embed.Embedding.parameters_grad",
    "Functional.embedding.0.backward",
)


def cut(folder: Path) -> dict[str, object]:
    dump = json.loads((folder / "dump.json").read_text())
    dump["data"] = {name: dump["data"][name] for name in NAMES}
    construct = json.loads((folder / "construct.json").read_text())
    stacks = json.loads((folder / "stack.json").read_text())
    stack = [
        [
            [name for name in names if name in NAMES],
            [frame for frame in frames if "/msprobe/" not in frame][:2],
        ]
        for names, frames in stacks.values()
        if set(names) & set(NAMES)
    ]
    return {
        "dump.json": dump,
        "stack.json": {str(index): entry for index, entry in enumerate(stack)},
        "construct.json": {name: construct[name] for name in NAMES if name in construct},
    }


if __name__ == "__main__":
    for name, content in cut(Path(sys.argv[1])).items():
        with open(Path(__file__).parent / "sample" / name, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
