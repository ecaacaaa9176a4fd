# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Sets up the existing tool (mindstudio-probe 8.1.1) in an environment of its own, to be measured against.

    python benchmarks/reference_env.py DIR

It is no dependency of this project; nothing outside DIR is touched. Takes about 2 GiB and needs a package
index.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from pathlib import Path

VERSION = "8.1.1"
TORCH = "2.13.0"

# torch first, so that the tool's loose requirement does not choose another one. service_identity is what its
# TLS dependency needs and does not declare; it was written for numpy 1.
_STEPS = (
    (f"torch=={TORCH}",),
    (f"mindstudio-probe=={VERSION}", "service_identity==24.2.0", "numpy<2"),
)


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def is_ready(environment: Path) -> bool:
    """Whether the existing tool can be imported there, with a torch of the expected version."""
    python = python_of(environment)
    if not python.exists():
        return False
    code = (
        "import importlib.metadata as m, torch; from msprobe.pytorch import PrecisionDebugger; "
        f"assert m.version('mindstudio-probe') == {VERSION!r} and torch.__version__.startswith({TORCH!r})"
    )
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def set_up(environment: Path) -> Path:
    """Makes the environment unless it is there; returns its interpreter."""
    if not is_ready(environment):
        venv.create(environment, with_pip=True)
        for packages in _STEPS:
            subprocess.run([python_of(environment), "-m", "pip", "install", "--quiet", *packages], check=True)
        if not is_ready(environment):
            raise RuntimeError(
                f"{environment}: mindstudio-probe {VERSION} was installed, but cannot be imported"
            )
    return python_of(environment)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", metavar="DIR", type=Path)
    try:
        print(set_up(parser.parse_args().directory))
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"reference_env: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
