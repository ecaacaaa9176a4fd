# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every #include and import follows the layers of CONTRIBUTING.md: down only, no feature knows another, and
no two files know each other, by whatever way.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from cpp_layers import (
    HEADERS,
    MODULE_OF_HEADER,
    cpp_arrows,
    cpp_files,
    cpp_violations,
    module_of,
    room_arrows,
)
from python_layers import (
    IMPORTS_TORCH_STILL,
    imported_roots,
    part_of,
    python_arrows,
    python_violations,
    used_by_the_floor_alone,
)

REPOSITORY = Path(__file__).resolve().parents[2]


def violations(root: Path) -> list[str]:
    """One sentence per arrow that is not allowed in the tree below `root`, and per circle."""
    all_arrows = (cpp_arrows(root), room_arrows(root), python_arrows(root))
    circles = dict.fromkeys(" -> ".join(circle) for arrows in all_arrows for circle in circles_of(arrows))
    return [
        *cpp_violations(root),
        *python_violations(root),
        *(f"{circle.split()[0]} is part of a circle: {circle}" for circle in circles),
    ]


def circles_of(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Circles as "a, b, c, a", from the first name on; of those that share nodes one at least."""
    found: list[list[str]] = []
    done: set[str] = set()

    def walk(node: str, way: list[str]) -> None:
        if node in way:
            circle = way[way.index(node) :]
            first = circle.index(min(circle))
            found.append([*circle[first:], *circle[: first + 1]])
            return
        if node in done:
            return
        for target in sorted(arrows.get(node, ())):
            walk(target, [*way, node])
        done.add(node)

    for node in sorted(arrows):
        walk(node, [])
    return found


# ---- tests


def test_the_tree_keeps_its_layers() -> None:
    assert len(cpp_files(REPOSITORY)) > 20  # it looks where the code is
    assert len(list((REPOSITORY / "python/msprobe").rglob("*.py"))) > 5
    assert violations(REPOSITORY) == []


def test_what_the_floor_for_compatibility_alone_uses_lies_in_it() -> None:
    assert used_by_the_floor_alone(REPOSITORY) == []


def test_the_list_of_parts_that_import_torch_only_gets_shorter() -> None:
    package = REPOSITORY / "python/msprobe"
    parts = {
        part_of(path.relative_to(package))
        for path in package.rglob("*.py")
        if "torch" in imported_roots(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert parts - {"frameworks"} == IMPORTS_TORCH_STILL


def test_every_header_belongs_to_a_module() -> None:
    """A header of another name would be a feature of its own, which no rule knows."""
    headers = [path.relative_to(REPOSITORY).as_posix() for path in cpp_files(REPOSITORY)]
    headers = [header for header in headers if header.startswith(HEADERS)]
    modules = {path.name for path in (REPOSITORY / "cpp/src").iterdir()}
    assert len(headers) > 20
    assert [header for header in headers if module_of(header) not in modules] == []
    assert set(MODULE_OF_HEADER) <= {Path(header).name.split(".")[0] for header in headers}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree that keeps the layers."""
    files = {
        "cpp/include/msprobe/error.h": "#include <string>\n",
        "cpp/include/msprobe/stats.h": '#include "msprobe/error.h"\n',
        "cpp/private/msprobe/engines.h": 'auto kHeld = "module", kCompiled = "_orig_mod"; // "sharded"\n',
        "cpp/private/msprobe/table.h": '#include "msprobe/error.h"\n',
        "cpp/include/msprobe/trace.h": '#include "msprobe/stats.h"\n',
        "cpp/include/msprobe/dump.h": '#include "msprobe/trace.h"\n',
        "cpp/private/msprobe/graph.h": '#include "msprobe/trace.h"\n',
        "cpp/include/msprobe/torch.h": '#include <ATen/core/Tensor.h>\n#include "msprobe/dump.h"\n',
        "cpp/src/base/crc32.h": "#include <cstdint>\n",
        "cpp/src/stats/kernels.h": '#include "base/crc32.h"\n#include <hwy/highway.h>\n',
        "cpp/src/dump/writer.cpp": '#include "stats/kernels.h"\n#include "msprobe/table.h"\n',
        "cpp/src/graph/build.h": '#include "msprobe/trace.h"\n',
        "cpp/src/torch/tensor.cpp": '#include <ATen/ATen.h>\n#include "dump/../stats/kernels.h"\n',
        "bindings/summary.h": "#include <pybind11/pybind11.h>\n",
        "bindings/core/module.cpp": '#include "../summary.h"\n#include "msprobe/dump.h"\n',
        "bindings/torch/module.cpp": '#include <torch/extension.h>\n#include "msprobe/torch.h"\n',
        "python/msprobe/__init__.py": "from msprobe.dump.writer import dump\n",
        "python/msprobe/cli.py": "from importlib import import_module\nimport_module('msprobe.graph')\n",
        "python/msprobe/config.py": "import json\n",
        "python/msprobe/files/text.py": "PARTS = 'module', 'sharded', 'in an _orig_mod'\n",
        "python/msprobe/hooks/__init__.py": "from msprobe.config import Config\n",
        "python/msprobe/compat/names.py": "from msprobe.dump import writer\nfrom msprobe.graph import x\n",
        "python/msprobe/dump/__init__.py": "from msprobe.hooks import hook\n",
        "python/msprobe/dump/writer.py": "from .. import config\ndef f():\n    import torch\n",
        "python/msprobe/graph/__init__.py": "if TYPE_CHECKING:\n    import numpy\nimport msprobe._core\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_tree_with_all_allowed_arrows_passes(tree: Path) -> None:
    assert violations(tree) == []


@pytest.mark.parametrize(
    ("path", "line", "reason"),
    [
        ("cpp/include/msprobe/error.h", '#include "msprobe/stats.h"', "base may include nothing"),
        ("cpp/include/msprobe/stats.h", '#include "msprobe/trace.h"', "stats may include base and itself"),
        ("cpp/include/msprobe/stats.h", "#include <msprobe/trace.h>", "stats may include base and itself"),
        ("cpp/include/msprobe/dump.h", '#include "msprobe/table.h"', "public headers only"),
        ("cpp/private/msprobe/table.h", '#include "msprobe/stats.h"', "io may include base and itself"),
        ("cpp/private/msprobe/table.h", '#include "base/crc32.h"', "no header of cpp/src"),
        ("cpp/include/msprobe/stats.h", '#include "stats/kernels.h"', "public headers only"),
        ("cpp/include/msprobe/stats.h", "#include <hwy/highway.h>", "into cpp/src/base/"),
        ("cpp/include/msprobe/stats.h", "#include <fmt/format.h>", "but the standard library"),
        ("cpp/include/msprobe/stats.h", "#include <ATen/ATen.h>", "into cpp/src/torch/"),
        ("cpp/include/msprobe/trace.h", '#include "msprobe/dump.h"', "trace may include"),
        ("cpp/src/base/crc32.h", '  #  include  "msprobe/torch.h"', "not torch"),
        ("cpp/src/base/crc32.h", '#include "msprobe/absent.h"', "no such header"),
        ("cpp/src/stats/kernels.h", '#include "msprobe/trace.h"', "not trace"),
        ("cpp/src/dump/writer.cpp", '#include "graph/build.h"', "not graph"),
        ("cpp/src/dump/writer.cpp", '#include "msprobe/graph.h"', "not graph"),
        ("cpp/src/dump/writer.cpp", '#include "msprobe/torch.h"', "not torch"),
        ("cpp/src/dump/writer.cpp", "#include <torch/torch.h>", "into cpp/src/torch/"),
        ("cpp/src/dump/writer.cpp", 'const char* kType = "torch.Tensor";', "names a framework"),
        ("cpp/include/msprobe/stats.h", 'auto name = "a MindSpore tensor";', "names a framework"),
        ("cpp/src/dump/writer.cpp", "#include <Python.h>", "it belongs into bindings/"),
        ("cpp/src/dump/writer.cpp", '#include "../../../bindings/summary.h"', "nothing in cpp/ knows"),
        ("cpp/src/torch/tensor.cpp", "#include <pybind11/stl.h>", "it belongs into bindings/"),
        ("bindings/core/module.cpp", '#include "stats/kernels.h"', "their own folder only"),
        ("bindings/core/module.cpp", '#include "../torch/module.cpp"', "their own folder only"),
        ("bindings/core/module.cpp", '#include "msprobe/torch.h"', "only bindings/torch may use torch"),
        ("bindings/core/module.cpp", "#include <c10/core/Device.h>", "into cpp/src/torch/"),
        ("bindings/summary.h", "#include <torch/extension.h>", "into cpp/src/torch/"),
        ("cpp/src/graph/build.h", "#include <Eigen/Core>", "into cpp/src/metrics/"),
        ("cpp/src/dump/writer.cpp", "#include <sqlite3.h>", "into cpp/src/io/sqlite/"),
        ("python/msprobe/dump/writer.py", "from msprobe.graph import build", "another one (graph)"),
        ("python/msprobe/dump/writer.py", "from ..graph import build", "another one (graph)"),
        ("python/msprobe/dump/writer.py", "def g():\n    import msprobe.graph.x", "another one (graph)"),
        ("python/msprobe/dump/writer.py", "import_module('msprobe.graph')", "another one (graph)"),
        ("python/msprobe/dump/writer.py", "from msprobe import graph", "another one (graph)"),
        ("python/msprobe/dump/writer.py", "from msprobe.cli import main", "not below dump"),
        ("python/msprobe/dump/writer.py", "from msprobe.compat import names", "nothing uses the floor"),
        ("python/msprobe/dump/writer.py", "from msprobe import Error", "not below dump"),
        ("python/msprobe/hooks/__init__.py", "from msprobe.dump import writer", "not below hooks"),
        ("python/msprobe/config.py", "from msprobe.dump import writer", "not below config"),
        ("python/msprobe/files/text.py", "from msprobe.hooks import hook", "not below files"),
        ("python/msprobe/dump/writer.py", 'PART = "_orig_mod"', "the words of engines"),
        ("cpp/src/dump/writer.cpp", 'auto part = "_orig_mod.weight";', "the words of engines"),
        ("python/msprobe/config.py", "import numpy", "imports numpy at module level"),
        (
            "python/msprobe/config.py",
            "try:\n    from pandas import io\nfinally:\n    pass",
            "at module level",
        ),
        ("python/msprobe/graph/__init__.py", "def f():\n    import torch", "below frameworks/"),
        ("python/msprobe/dump/writer.py", "import_module('mindspore.nn')", "below frameworks/"),
        ("python/msprobe/cli.py", "class A:\n    import matplotlib.pyplot", "at module level"),
    ],
)
def test_a_planted_arrow_is_seen(tree: Path, path: str, line: str, reason: str) -> None:
    with (tree / path).open("a") as file:
        file.write(f"\n{line}\n")
    found = [*cpp_violations(tree), *python_violations(tree)]
    assert len(found) == 1, found
    assert found[0].startswith(path)
    assert reason in found[0]
    assert set(found) <= set(violations(tree))


@pytest.mark.parametrize(
    ("lines", "circle"),
    [
        (
            {
                "cpp/src/graph/build.h": '#include "graph/names.h"',
                "cpp/src/graph/names.h": '#include "build.h"',
            },
            "cpp/src/graph/build.h -> cpp/src/graph/names.h -> cpp/src/graph/build.h",
        ),
        (
            {
                "cpp/src/io/pt/read.cpp": '#include "io/zip/size.h"',
                "cpp/src/io/zip/size.h": "",
                "cpp/src/io/zip/zip.cpp": '#include "../quotes.h"',
                "cpp/src/io/quotes.h": '#include "io/pt/text.h"',
                "cpp/src/io/pt/text.h": "",
            },
            "cpp/src/io/pt -> cpp/src/io/zip -> cpp/src/io/quotes.h -> cpp/src/io/pt",
        ),
        (
            {
                "python/msprobe/files/text.py": "from msprobe.files import page",
                "python/msprobe/files/page.py": "from .text import a",
            },
            "msprobe.files.page -> msprobe.files.text -> msprobe.files.page",
        ),
        (
            {
                "python/msprobe/graph/a.py": "if TYPE_CHECKING:\n    from msprobe.graph.b import B",
                "python/msprobe/graph/b.py": "from .c import C",
                "python/msprobe/graph/c.py": "def f():\n    from . import a",
            },
            "msprobe.graph.a -> msprobe.graph.b -> msprobe.graph.c -> msprobe.graph.a",
        ),
        (
            {
                "python/msprobe/graph/a.py": "from msprobe.graph import B",
                "python/msprobe/graph/__init__.py": "from .a import B",
            },
            "msprobe.graph -> msprobe.graph.a -> msprobe.graph",
        ),
    ],
)
def test_a_planted_circle_is_seen(tree: Path, lines: dict[str, str], circle: str) -> None:
    for path, line in lines.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        with (tree / path).open("a") as file:
            file.write(f"\n{line}\n")
    first = circle.split(" -> ", maxsplit=1)[0]
    assert violations(tree) == [f"{first} is part of a circle: {circle}"]
