# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What needs the vendor's converter: kernel dumps in its own binary format."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.files.atomic_file import make_directory
from msprobe.native import InvalidArgument, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    Print = Callable[[str], None]

CONVERTER = "msaccucmp.py"
DEFAULT_CONVERTER = f"/usr/local/Ascend/ascend-toolkit/latest/tools/operator_cmp/compare/{CONVERTER}"
_NAME_PARTS = 5  # {op_type}.{op_name}.{task}.{stream}.{time}


def converter(path: str | None) -> str:
    """Raises UnsupportedError, which names the file that is missing."""
    found = path or DEFAULT_CONVERTER
    if os.path.basename(found) != CONVERTER:
        raise InvalidArgument(f"{found}: expected the path of {CONVERTER}")
    if not os.path.isfile(found):
        raise UnsupportedError(
            f"kernel dumps are read by {CONVERTER} of the CANN toolkit, and there is no {found}: install the "
            "toolkit, or give the path of the file"
        )
    return found


def compare(mine: str, reference: str, output: str, path: str | None, say: Print) -> int:
    """Returns the exit code of the converter."""
    words = [converter(path), "compare", "-m", mine, "-g", reference, "-out", str(make_directory(output))]
    return _run(words, say)


def convert(source: str, form: str | None, output: str, path: str | None, say: Print) -> int:
    """Of a file, or of all files of a folder."""
    words = [converter(path), "convert", "-d", source, "-out", str(make_directory(output))]
    code = _run([*words, "-f", form] if form else words, say)
    if code == 0:
        say(f"SrcFile: {source}")
        for file in sorted(Path(output).rglob("*.npy")):
            say(f" - {file.name}")
        say(f"The arrays are in {os.path.abspath(output)}")
    return code


def convert_by_operator(folder: str, output: str, path: str | None, say: Print) -> int:
    """Each file of a kernel dump into {output}/{op_name}/{time}."""
    found = converter(path)
    files = [Path(root) / name for root, _, names in os.walk(folder) for name in sorted(names)]
    dumps = [file for file in files if len(file.name.split(".")) >= _NAME_PARTS]
    if not dumps:
        raise InvalidArgument(
            f"{folder}: expected files {{op_type}}.{{op_name}}.{{task}}.{{stream}}.{{time}}"
        )
    worst = 0
    for file in dumps:
        parts = file.name.split(".")
        target = os.path.join(output, parts[1], parts[-1])
        worst = max(worst, convert(str(file), None, target, found, say))
    return worst


def now() -> str:
    return time.strftime("%Y%m%d%H%M%S", time.localtime())


def _run(words: list[str], say: Print) -> int:
    say(f"running {' '.join(words)}")
    try:
        code = subprocess.run([sys.executable, *words], check=False).returncode
    except OSError as error:
        raise UnsupportedError(f"{words[0]} cannot be run: {error.strerror}") from error
    if code != 0:
        say(f"{CONVERTER} ended with exit code {code}")
    return code
