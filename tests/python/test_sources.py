# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What no source may do, read from the sources themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sorted((ROOT / "python" / "msprobe").rglob("*.py"))
NATIVE = sorted(path for folder in ("cpp/src", "bindings") for path in (ROOT / folder).rglob("*.[ch]*"))

# ---- files are opened at one place (files/regular_file.py, open_regular()): no pipe, no device

OPENS = re.compile(
    r"(?<![\w.])(?<!def )open\(|\bos\.open\(|\bos\.fdopen\(|\bio\.open(_code)?\(|\.open\(\"|\.open\('"
    r"|\.read_text\(|\.read_bytes\("
    r"|\bnp\.load\(|\btorch\.load\(|\bnumpy\.load\(|(?<!Bad)ZipFile\((?!file[,)])|\bcopyfile\(|\bfileinput\b|\.tofile\(|\.fromfile\("
)
# File -> what it opens: files of this package, null, a copy of a pipe that it has, a script that Python runs,
# a regular file that is copied, a member of an archive that is open, what the kernel says of a process.
MAY_OPEN = {
    "files/regular_file.py": 1,
    "cli.py": 1,
    "compare/framework_names.py": 1,
    "compare/framework_settings.py": 1,
    "compare/verdict_page.py": 1,
    "compat/online_dispatch/workers.py": 3,
    "config/documentation.py": 1,
    "config_check/packs/parts.py": 1,
    "experiment/own_folder.py": 1,
    "files/page.py": 1,
    "frameworks/mindspore/calls.py": 1,
    "hooks/api_list.py": 1,
    "perturb/second_call.py": 1,
    "recording/launch.py": 2,
    "recording/script.py": 1,
    "viewer/server.py": 1,
}


def code_of(path: Path) -> str:
    """Without comments and docstrings, which may speak of anything."""
    text = re.sub(r'(?m)^\s*"""(?:.|\n)*?"""', "", path.read_text())
    return re.sub(r"(?m)#.*$", "", text)


def test_python_opens_files_at_one_place():
    found = {}
    for path in PYTHON:
        lines = [line for line in code_of(path).splitlines() if OPENS.search(line)]
        lines = [line for line in lines if "open(descriptor" not in line]
        if lines:
            found[str(path.relative_to(ROOT / "python" / "msprobe"))] = len(lines)
    assert found == MAY_OPEN


def test_native_code_opens_files_at_one_place():
    opens = re.compile(r"(?<!\w)::open(at)?\(|\bfopen\(|\b[io]?fstream\b")
    found = {
        str(path.relative_to(ROOT))
        for path in NATIVE
        if opens.search(re.sub(r"(?m)//.*$", "", path.read_text()))
    }
    assert found == {"cpp/src/io/file/file.cpp"}


# ---- a Python object is never let go of without the GIL

OBJECTS = re.compile(
    r"(?<!Held<)\b(?:py|pybind11)::(?:object|dict|list|tuple|function|str|bytes|weakref|type|module_|iterator|sequence|args"
    r"|kwargs|cpp_function|int_|float_|bool_|set)\b"
)


def members_of(text: str) -> list[str]:
    """The statements that stand directly in a class or struct."""
    text = re.sub(r"(?m)//.*$|^\s*#.*$", "", text)
    text = re.sub(r'"(?:\\.|[^"\\])*"', '""', text)
    found: list[str] = []
    scopes: list[bool] = []
    start = 0
    for at, character in enumerate(text):
        if character not in "{};":
            continue
        statement = text[start:at].strip()
        start = at + 1
        if character == "{":
            opens = re.search(r"\b(class|struct|union)\b[^;()]*$", statement) is not None
            scopes.append(opens and "enum" not in statement)
        elif character == "}":
            if scopes:
                scopes.pop()
        elif scopes and scopes[-1] and "(" not in statement:
            found.append(re.sub(r"\b(public|private|protected)\s*:", "", statement).strip())
    return found


@pytest.mark.parametrize(
    "path", [path for path in NATIVE if "bindings" in path.parts], ids=lambda path: path.name
)
def test_members_that_are_python_objects_are_held(path):
    members = [one for one in members_of(path.read_text()) if OBJECTS.search(one)]
    members = [one for one in members if not one.startswith(("using ", "static ", "friend "))]
    members = [one for one in members if "& " not in one]  # a reference keeps nothing
    assert members == [], f"{path}: expected Held<>"


def test_the_scan_sees_members():
    text = "struct A { py::object a; void f() { py::dict b; } std::vector<py::list> c; Held<py::dict> d; };"
    assert [one for one in members_of(text) if OBJECTS.search(one)] == [
        "py::object a",
        "std::vector<py::list> c",
    ]
