# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The layers of C++ (CONTRIBUTING.md): which file may include which header."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

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
        ("error", "log", "tensor_view", "thread_pool", "content_hash", "engines", "export", "version"), "base"
    ),
    **dict.fromkeys(
        (
            "tensor_file",
            "pt_file",
            "safetensors",
            "ckpt_file",
            "table",
            "sheet",
            "file",
            "document",
            "packed_step",
        ),
        "io",
    ),
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
            "sketch_text",
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
    (re.compile(r"libdeflate\.h$"), ("cpp/src/base/", "cpp/src/io/zip/deflated.cpp")),
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

# The one table of what engines call their layouts; plain words of it mean other things elsewhere.
WORDS_OF_ENGINES = "cpp/private/msprobe/engines.h"
PLAIN_WORDS = {"module", "process_group", "Parallel"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def cpp_files(root: Path) -> list[Path]:
    folders = (root / "cpp", root / "bindings")
    return sorted(p for folder in folders for p in folder.rglob("*") if p.suffix in (".h", ".cpp", ".in"))


def cpp_violations(root: Path) -> Iterator[str]:
    of_engines = words_of_engines(root)
    for path in cpp_files(root):
        here = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        if here != WORDS_OF_ENGINES:
            yield from of_engines_among(texts_of_cpp(text), of_engines, here)
        if here.startswith("cpp/") and not here.startswith(MAY_NAME_A_FRAMEWORK):
            for literal in FRAMEWORK.findall(re.sub(r"//.*|#\s*include.*", "", text)):
                yield f"{here} names a framework: {literal}"
        for mark, header in INCLUDE.findall(text):
            ours = mark == '"' or header.startswith("msprobe/")
            problem = own_problem(root, path, here, header) if ours else third_party_problem(here, header)
            if problem:
                yield f"{here} includes {header}: {problem}"


def texts_of_cpp(text: str) -> set[str]:
    return set(re.findall(r'"([^"\n]+)"', re.sub(r"//.*|#\s*include.*", "", text)))


def words_of_engines(root: Path) -> set[str]:
    table = root / WORDS_OF_ENGINES
    return texts_of_cpp(table.read_text(encoding="utf-8")) - PLAIN_WORDS if table.is_file() else set()


def of_engines_among(texts: set[str], words: set[str], here: str) -> Iterator[str]:
    """Names with a word of engines, as "tensor_model_parallel_size". Sentences may say what they like."""
    for text in sorted(texts):
        if any(word in text for word in words) and not re.search(r"\s", text):
            yield f"{here} knows {text}: the words of engines stand in {WORDS_OF_ENGINES}"


def cpp_arrows(root: Path) -> dict[str, set[str]]:
    """Which file includes which of ours."""
    return {path.relative_to(root).as_posix(): set(own_headers(root, path)) for path in cpp_files(root)}


def room_arrows(root: Path) -> dict[str, set[str]]:
    """Which room of a module uses which other one of it, as `io/pt` uses `io/zip`. A file beside the rooms is
    one by itself.
    """
    arrows: dict[str, set[str]] = {}
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
