# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every #include and import follows the layers of CONTRIBUTING.md: down only, no feature knows another, and
no two files know each other, by whatever way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

# ---- C++: which modules a module may include, itself aside. What is not listed is a feature.
BASE: set[str] = set()
DATA = {"base"}
TRACE = {"base", "operators", "stats", "metrics", "io"}
VERDICT = {*TRACE, "trace"}
FEATURE = {*VERDICT, "verdict"}
MAY_INCLUDE = {
    "base": BASE,
    "operators": DATA,
    "stats": DATA,
    "metrics": {"base", "stats"},
    "io": DATA,
    "trace": TRACE,
    "verdict": VERDICT,
    "config": {*FEATURE, "dump"},  # makes the options of a dump of its keys
}

# The module of a header of cpp/include and cpp/private; those not listed are named after their module.
MODULE_OF_HEADER = {
    **dict.fromkeys(
        ("error", "log", "tensor_view", "thread_pool", "content_hash", "export", "version"), "base"
    ),
    **dict.fromkeys(("tensor_file", "pt_file", "safetensors", "table", "sheet", "file", "document"), "io"),
    **dict.fromkeys(
        (
            "torch_dump",
            "torch_capture",
            "torch_versions",
            "torch_debugger",
            "torch_monitor",
            "torch_perturb",
            "torch_program_monitor",
            "torch_memory",
            "torch_tensors",
        ),
        "torch",
    ),
    **dict.fromkeys(("monitor_frame", "monitor_alarms", "monitor_plan", "monitor_session"), "monitor"),
    **dict.fromkeys(
        (
            "dump_pair",
            "event_log",
            "record_name",
            "trace_reader",
            "trace_match",
            "trace_compare",
            "training_state",
        ),
        "trace",
    ),
    **dict.fromkeys(("graph_file", "graph_merge"), "graph"),
    **dict.fromkeys(("trainer_mon", "free_benchmark"), "compat"),
    "result_error": "metrics",
    **dict.fromkeys(("step_walk", "known_values"), "verdict"),
    "compare_report": "compare",
    **dict.fromkeys(("viewer_cell", "viewer_digest"), "viewer"),
}

# What C++ programs include, and is installed; what the bindings include besides.
PUBLIC, PRIVATE = "cpp/include/", "cpp/private/"
HEADERS = (PUBLIC, PRIVATE)
TORCH_HEADERS = tuple(f"{root}msprobe/torch" for root in HEADERS)

# Headers of others: where they may appear, as the beginning of a path in the repository.
THIRD_PARTY = (
    (
        re.compile(r"(torch|ATen|c10|caffe2)/"),
        ("cpp/src/torch/", *TORCH_HEADERS, "bindings/torch/"),
    ),
    (re.compile(r"Python\.h$|pybind11/"), ("bindings/",)),
    (re.compile(r"nlohmann/"), ("cpp/src/io/document/json_document.cpp",)),
    (re.compile(r"yaml-cpp/"), ("cpp/src/io/document/yaml_document.cpp",)),
    (re.compile(r"Eigen/"), ("cpp/src/metrics/",)),
    (re.compile(r"zlib\.h$"), ("cpp/src/io/zip/",)),
    (re.compile(r"libdeflate\.h$"), ("cpp/src/base/", "cpp/src/config_check/pack_file.cpp")),
    (
        re.compile(r"sqlite3\.h$|SQLiteCpp/"),
        ("cpp/src/io/sqlite/", "cpp/src/graph/", "cpp/src/monitor/", "cpp/src/viewer/"),
    ),
    (
        re.compile(r"hwy/"),
        tuple(f"cpp/src/{module}/" for module in ("base", "stats", "metrics", "checkpoint", "perturb", "rl")),
    ),
)

# What is not written for one framework names none: how a framework writes its types and calls comes as data.
# These read or write files that a framework has made.
FRAMEWORK = re.compile(r'"[^"\n]*(?:torch|mindspore)[^"\n]*"', re.IGNORECASE)
MAY_NAME_A_FRAMEWORK = (
    "cpp/src/torch/",
    *TORCH_HEADERS,
    "cpp/src/io/pt/",
    "cpp/src/io/zip/zip_archive.cpp",
    "cpp/private/msprobe/pt_file.h",
    "cpp/src/checkpoint/",
    "cpp/src/trace/record_name.cpp",  # the prefixes of names
    "cpp/src/config/tables.cpp",  # what keys mean, for people
    "cpp/src/compat/csv_rows.cpp",  # tables that spell dtypes as torch does
    "cpp/src/compare/advice.cpp",  # sentences of the file advisor_*.txt
    "cpp/src/verdict/choose.cpp",  # a generator that diagnosis.json names
    "cpp/src/compat/free_benchmark.cpp",  # a file that has torch's dtypes and sizes
)

NATIVE = {"_core", "_torch"}

# ---- Python: parts of python/msprobe from the top down; each may use those of the layers below its own. What
# is not listed is a feature, which uses the layers below it and no other feature.
ABOVE_FEATURES = (
    {"__init__", "__main__"},
    {"api", "cli", "pytorch", "core", "mindspore"},
    {"compat"},
    {"commands"},
    {"repeat", "resume", "hunt"},
    {"autostart", "capturing", "experiment"},
    {"recorders"},
    {"debugger"},
    {"training_monitor"},
    {"diagnose"},
    {"sources"},
)
FEATURES_LAYER = len(ABOVE_FEATURES)
# The floor for what is like mindstudio-probe uses everything. Only its doors use it: names that are imported,
# and commands that are not there.
DOORS_OF_COMPAT = {"__init__", "cli", "pytorch", "core", "mindspore"}
BELOW_FEATURES = (
    {"recording", "seed"},
    {"training", "replay", "transport", "frameworks"},
    {"hooks"},
    {"config"},
    {"files", "result", "tensors"},
    {"terminal"},
    {"native"},
    NATIVE,
)
LAYER_OF = {
    **{part: depth for depth, parts in enumerate(ABOVE_FEATURES) for part in parts},
    **{part: FEATURES_LAYER + 1 + depth for depth, parts in enumerate(BELOW_FEATURES) for part in parts},
}
HEAVY = {"torch", "numpy", "matplotlib", "pandas", "PIL"}

# Frameworks are imported below frameworks/. Parts that were there before it and import torch themselves; the
# list only gets shorter.
FRAMEWORKS = {"torch", "mindspore"}
IMPORTS_TORCH_STILL = {
    "experiment",
    "repeat",
    "compat",
    "config_check",
    "dump",
    "grad_probe",
    "hooks",
    "monitoring",
    "native",
    "perturb",
    "recorders",
    "recording",
    "replay",
    "reproduce",
    "rl",
    "seed",
    "training",
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def violations(root: Path) -> list[str]:
    """One sentence per arrow that is not allowed in the tree below `root`, and per circle."""
    all_arrows = (cpp_arrows(root), room_arrows(root), python_arrows(root))
    circles = dict.fromkeys(" -> ".join(circle) for arrows in all_arrows for circle in circles_of(arrows))
    return [
        *cpp_violations(root),
        *python_violations(root),
        *(f"{circle.split()[0]} is part of a circle: {circle}" for circle in circles),
    ]


Arrows = dict[str, set[str]]


def circles_of(arrows: Arrows) -> list[list[str]]:
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


def cpp_files(root: Path) -> list[Path]:
    folders = (root / "cpp", root / "bindings")
    return sorted(p for folder in folders for p in folder.rglob("*") if p.suffix in (".h", ".cpp", ".in"))


def cpp_violations(root: Path) -> Iterator[str]:
    for path in cpp_files(root):
        here = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        if here.startswith("cpp/") and not here.startswith(MAY_NAME_A_FRAMEWORK):
            for literal in FRAMEWORK.findall(re.sub(r"//.*|#\s*include.*", "", text)):
                yield f"{here} names a framework: {literal}"
        for mark, header in INCLUDE.findall(text):
            ours = mark == '"' or header.startswith("msprobe/")
            problem = own_problem(root, path, here, header) if ours else third_party_problem(here, header)
            if problem:
                yield f"{here} includes {header}: {problem}"


def cpp_arrows(root: Path) -> Arrows:
    """Which file includes which of ours."""
    return {path.relative_to(root).as_posix(): set(own_headers(root, path)) for path in cpp_files(root)}


def room_arrows(root: Path) -> Arrows:
    """Which room of a module uses which other one of it, as `io/pt` uses `io/zip`. A file beside the rooms is
    one by itself.
    """
    arrows: Arrows = {}
    for path, headers in cpp_arrows(root).items():
        for header in headers:
            if path.startswith("cpp/src/") and header.startswith("cpp/src/"):
                user, used = room_of(path), room_of(header)
                if user != used and module_of(path) == module_of(header):
                    arrows.setdefault(user, set()).add(used)
    return arrows


def room_of(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[:4]) if len(parts) > 4 else path


def own_headers(root: Path, path: Path) -> Iterator[str]:
    for mark, header in INCLUDE.findall(path.read_text(encoding="utf-8")):
        target = locate(root, path, header) if mark == '"' or header.startswith("msprobe/") else None
        if target is not None:
            yield target


def own_problem(root: Path, path: Path, here: str, header: str) -> str | None:
    target = locate(root, path, header)
    if target is None:
        return "there is no such header in the repository (others' headers stand in <>)"
    if here.startswith("bindings/"):
        folder = here.split("/")[1]
        if target.startswith(TORCH_HEADERS) and folder != "torch":
            return "only bindings/torch may use torch"
        near = target.startswith("bindings/") and target.split("/")[1] in (folder, Path(target).name)
        if not near and not target.startswith(HEADERS):
            return "bindings use the headers of include, private and their own folder only"
        return None
    if target.startswith("bindings/"):
        return "nothing in cpp/ knows the bindings"
    if here.startswith(PUBLIC) and not target.startswith(PUBLIC):
        return "a public header includes public headers only"
    if here.startswith(PRIVATE) and not target.startswith(HEADERS):
        return "a header for bindings includes no header of cpp/src"
    user, used = module_of(here), module_of(target)
    allowed = MAY_INCLUDE.get(user, FEATURE)
    uses_all = {user, used} != {"torch", "compat"} and user in ("torch", "compat")
    if used != user and used not in allowed and not uses_all:
        return f"{user} may include {', '.join(sorted(allowed)) or 'nothing'} and itself, not {used}"
    return None


def locate(root: Path, path: Path, header: str) -> str | None:
    for folder in (path.parent, root / "cpp/src", root / PRIVATE, root / PUBLIC):
        for suffix in ("", ".in"):
            candidate = folder / (header + suffix)
            if candidate.is_file():
                return candidate.resolve().relative_to(root.resolve()).as_posix()
    return None


def module_of(path: str) -> str:
    if path.startswith("cpp/src/"):
        return path.split("/")[2]
    stem = Path(path).name.split(".")[0]
    return MODULE_OF_HEADER.get(stem, stem)


def third_party_problem(here: str, header: str) -> str | None:
    for pattern, places in THIRD_PARTY:
        if pattern.match(header):
            return None if here.startswith(places) else f"it belongs into {' and '.join(places)} only"
    if here.startswith(HEADERS) and not re.fullmatch(r"[a-z_]+", header):
        return "a header of a library needs nothing but the standard library"
    return None


def python_violations(root: Path) -> Iterator[str]:
    package = root / "python/msprobe"
    for path in sorted(package.rglob("*.py")):
        here = path.relative_to(package).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        user = part_of(path.relative_to(package))
        for target in own_imports(tree, path.relative_to(package.parent)):
            # `from msprobe import x` of a name that is no module reads the package itself
            used = target[0] if target and is_part(package, target[0]) else "__init__"
            if problem := part_problem(user, used):
                yield f"python/msprobe/{here} imports {'.'.join(('msprobe', *target))}: {problem}"
        for framework in sorted(imported_roots(tree) & FRAMEWORKS):
            if user != "frameworks" and (framework != "torch" or user not in IMPORTS_TORCH_STILL):
                yield f"python/msprobe/{here} imports {framework}: frameworks are imported below frameworks/"
        for name in module_level_imports(tree.body):
            if name.split(".")[0] in HEAVY:
                yield f"python/msprobe/{here} imports {name} at module level: import msprobe must be fast"


def part_of(path: Path) -> str:
    """A feature's command joins it with others: it stands where all commands do, above features."""
    parts = path.with_suffix("").parts
    is_command = len(parts) == 2 and parts[1] == "command" and parts[0] != "compat"
    return "commands" if is_command else parts[0]


def python_arrows(root: Path) -> Arrows:
    """Which module imports which of ours, in functions and for types, too. A package is its __init__."""
    package = root / "python/msprobe"
    modules = {module_name(path.relative_to(package.parent)): path for path in package.rglob("*.py")}
    arrows: Arrows = {}
    for name, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        imported = own_imports(tree, path.relative_to(package.parent))
        used = (module_among(modules, ".".join(("msprobe", *target))) for target in imported)
        arrows[name] = {one for one in used if one is not None} - {name}
    return arrows


def module_name(path: Path) -> str:
    return ".".join(path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts)


def module_among(modules: Iterable[str], name: str) -> str | None:
    """`msprobe.compare.run` of `msprobe.compare.run.compare_runs`. Native modules are none of these."""
    if name.startswith(tuple(f"msprobe.{native}" for native in NATIVE)):
        return None
    return next((name for name in (name, name.rpartition(".")[0]) if name in modules), None)


def is_part(package: Path, name: str) -> bool:
    return name in NATIVE or (package / name).is_dir() or (package / f"{name}.py").is_file()


def part_problem(user: str, used: str) -> str | None:
    above, below = LAYER_OF.get(user, FEATURES_LAYER), LAYER_OF.get(used, FEATURES_LAYER)
    if used == "compat" and user not in (*DOORS_OF_COMPAT, used):
        return "nothing uses the floor for compatibility"
    if user == used or above < below:
        return None
    if above == below == FEATURES_LAYER:
        return f"a feature does not know another one ({used})"
    return f"{used} is not below {user}"


def own_imports(tree: ast.Module, path: Path) -> Iterator[tuple[str, ...]]:
    """What the file imports of msprobe: also in functions, for types only, or by import_module("...")."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = path.parts[: len(path.parts) - node.level] if node.level else ()
            module = ".".join((*above, *(node.module or "").split("."))).strip(".")
            # `from msprobe import cli` imports a module by its last name
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            names = [str(argument.value) for argument in node.args[:1] if isinstance(argument, ast.Constant)]
        yield from (tuple(name.split(".")[1:]) for name in names if name.split(".")[0] == "msprobe")


def imported_roots(tree: ast.Module) -> set[str]:
    """First names of all imports, those in functions and for types, too."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names += [str(one.value) for one in node.args[:1] if isinstance(one, ast.Constant)]
    return {name.split(".")[0] for name in names}


def module_level_imports(body: list[ast.stmt]) -> Iterator[str]:
    """What importing the file imports: everything outside functions and `if TYPE_CHECKING`."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from module_level_imports(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for field in ("body", "orelse", "finalbody", "handlers"):
                yield from module_level_imports(getattr(node, field, []))


# ---- tests


def test_the_tree_keeps_its_layers() -> None:
    assert len(cpp_files(REPOSITORY)) > 20  # it looks where the code is
    assert len(list((REPOSITORY / "python/msprobe").rglob("*.py"))) > 5
    assert violations(REPOSITORY) == []


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
        "python/msprobe/files/text.py": "import json\n",
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
