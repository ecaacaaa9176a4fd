# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Everything of a release in one folder: the wheels, the notes of its version, and checksums.

    python packaging/release.py -o dist --torch 2.12 2.13

The wheels are made by wheels.py beside this file, with the options that stand behind `--`. NOTES.md is the
section of the version in CHANGELOG.md ([Unreleased], as long as the version has none), and SHA256SUMS is what
`sha256sum -c` reads. With --no-wheels those that are in the folder already are taken. Exit code: 0 all is
there, 1 a step failed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of the release")
    parser.add_argument("--torch", nargs="*", default=[], help="minor versions with a recorder: 2.12 2.13")
    parser.add_argument("--no-wheels", action="store_true", help="take the wheels that are there")
    parser.add_argument("rest", nargs="*", help="behind --: options of wheels.py")
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    if not asked.no_wheels:
        words = [sys.executable, str(REPOSITORY / "packaging/wheels.py"), "-o", str(asked.out)]
        words += ["--torch", *asked.torch] if asked.torch else []
        if subprocess.run([*words, *asked.rest], check=False).returncode:
            return 1
    wheels = sorted(asked.out.glob("*.whl"))
    if not wheels:
        print(f"{asked.out}: no wheel is there", file=sys.stderr)
        return 1
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    (asked.out / "NOTES.md").write_text(notes(changelog, version()), encoding="utf-8")
    files = [*wheels, asked.out / "NOTES.md"]
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (asked.out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    for file in (*files, asked.out / "SHA256SUMS"):
        print(file)
    return 0


def version() -> str:
    text = (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")
    found = re.search(r"project\(msprobe VERSION ([0-9.]+)", text)
    assert found is not None
    return found[1]


def notes(changelog: str, number: str) -> str:
    """The section of the version, or that of what is not released yet; with a title."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    named = {re.match(r"\[?([^\]\s]+)", section)[1]: section for section in sections}  # type: ignore[index]
    section = named.get(number) or named["Unreleased"]
    return f"# msprobe {number}\n\n{section.partition(chr(10))[2].strip()}\n"


if __name__ == "__main__":
    sys.exit(main())
