# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which C++ unit test of the verdict notices that a number of the verdict is twice or half as large.

    python tests/faults/mutants.py OUT                        all numbers
    python tests/faults/mutants.py OUT --only '^(own|sum)$'   some

A copy of the sources in OUT is changed and built. That takes some minutes the first time; a changed number of
model.inc is one file, and takes seconds. The exit code is 1 where one is not noticed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("cpp", "cmake", "tests/cpp", "tests/data", "tests/fuzz")
NUMBERS, CONSTANTS = Path("cpp/src/verdict/model.cpp"), Path("cpp/src/verdict/operator_error.h")


def write(path: Path, content: bytes) -> None:
    """Nothing is built again for a file that is the same."""
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def copy_of_sources(into: Path) -> Path:
    for part in PARTS:
        shutil.copytree(
            ROOT / part,
            into / part,
            dirs_exist_ok=True,
            copy_function=lambda source, target: write(Path(target), Path(source).read_bytes()),
        )
        for path in (into / part).rglob("*"):
            if path.is_file() and not (ROOT / path.relative_to(into)).exists():
                path.unlink()  # sources are found by folder
    for file in ("CMakeLists.txt", "CMakePresets.json"):
        write(into / file, (ROOT / file).read_bytes())
    return into


def changeable() -> dict[Path, str]:
    """The files that numbers stand in. model.cpp with the table itself in place of its #include."""
    table = (ROOT / "cpp/src/verdict/model.inc").read_text()
    model = (ROOT / NUMBERS).read_text().replace('#include "verdict/model.inc"\n', table)
    return {NUMBERS: model, CONSTANTS: (ROOT / CONSTANTS).read_text()}


def first_failing(sources: Path, build: Path, texts: dict[Path, str]) -> str | None:
    """The unit test of the verdict that fails first; None: all pass."""
    for file, text in texts.items():
        write(sources / file, text.encode())
    make = ["cmake", "--build", str(build), "--target", "msprobe_tests", "--", "--quiet"]
    subprocess.run(make, check=True)
    files = sorted((ROOT / "tests/cpp/verdict").glob("*_test.cpp"))
    tags = ",".join(f"[#{file.stem}]" for file in files)
    test = [str(build / "tests/cpp/msprobe_tests"), "--filenames-as-tags", tags, "--reporter", "xml"]
    answer = subprocess.run(test, stdout=subprocess.PIPE)
    if answer.returncode == 0:
        return None
    of_failing = ".//TestCase/OverallResult[@success='false']/.."
    return ElementTree.fromstring(answer.stdout).findall(of_failing)[0].attrib["name"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="numbers whose name has this regular expression")
    options = parser.parse_args()

    sources, build = copy_of_sources(options.out / "sources"), options.out.resolve() / "build"
    # File by file: a changed number is one of them.
    configure = ["cmake", "--preset", "core", "-B", str(build), "-DMSPROBE_COMPILE_TOGETHER=OFF"]
    subprocess.run(configure, cwd=sources, check=True, stdout=subprocess.PIPE)
    texts = changeable()
    if failing := first_failing(sources, build, texts):
        sys.exit(f"as the numbers are, this fails: {failing}")
    unnoticed = asked = 0
    for file, pattern in ((NUMBERS, r"(?m)^NUMBER\((\w+), ([^,]+)"), (CONSTANTS, r"double (k\w+) = ([^;]+)")):
        # model.cpp has the table more than once.
        for name, value in dict(re.findall(pattern, texts[file])).items():
            for factor in ("2.0", "0.5") if re.search(options.only, name) else ():
                here = rf"(\b{name}(?:,| =) ){re.escape(value)}"
                changed = re.sub(here, rf"\g<1>{value} * {factor}", texts[file])
                failing = first_failing(sources, build, {**texts, file: changed})
                print(name, "x", factor, f"noticed by {failing!r}" if failing else "not noticed", flush=True)
                asked += 1
                unnoticed += failing is None
    print(f"{asked - unnoticed} of {asked} are noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
