# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Sets up mindstudio-probe in an environment of its own, to be measured against.

    python benchmarks/reference_env.py DIR [--release 8.3.0]

Release 8.1.1 is the one to measure against, but for graphs: there it is 8.3.0. The tool is no dependency of
this project; nothing outside DIR is touched. Takes about 2 GiB and needs a package index.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from pathlib import Path

RELEASE = "8.1.1"
GRAPH_RELEASE = "8.3.0"
TORCH = "2.13.0"


# torch first, so that the tool's loose requirement does not choose another one. service_identity is what its
# TLS dependency needs and does not declare; it was written for numpy 1.
def _steps(release: str) -> tuple[tuple[str, ...], ...]:
    return (
        (f"torch=={TORCH}",),
        (f"mindstudio-probe=={release}", "service_identity==24.2.0", "numpy<2"),
    )


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def is_ready(environment: Path, release: str = RELEASE) -> bool:
    """Whether mindstudio-probe can be imported there, with a torch of the expected version."""
    python = python_of(environment)
    if not python.exists():
        return False
    code = (
        "import importlib.metadata as m, torch; from msprobe.pytorch import PrecisionDebugger; "
        f"assert m.version('mindstudio-probe') == {release!r} and torch.__version__.startswith({TORCH!r})"
    )
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def set_up(environment: Path, release: str = RELEASE) -> Path:
    """Makes the environment unless it is there; returns its interpreter."""
    if not is_ready(environment, release):
        venv.create(environment, with_pip=True)
        for packages in _steps(release):
            subprocess.run([python_of(environment), "-m", "pip", "install", "--quiet", *packages], check=True)
        if not is_ready(environment, release):
            raise RuntimeError(
                f"{environment}: mindstudio-probe {release} was installed, but cannot be imported"
            )
    return python_of(environment)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", metavar="DIR", type=Path)
    parser.add_argument("--release", default=RELEASE)
    options = parser.parse_args()
    try:
        print(set_up(options.directory, options.release))
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"reference_env: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
