# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""packaging/release.py: notes and checksums beside the wheels; the wheels are those of test_packaging.py."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "packaging"))

import release  # noqa: E402

CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.1.0] - 2026-01-01\n\n- old\n"


def test_notes_are_those_of_the_version():
    assert release.notes(CHANGELOG, "0.1.0") == "# msprobe 0.1.0\n\n- old\n"
    assert release.notes(CHANGELOG, "0.2.0") == "# msprobe 0.2.0\n\n- new\n"


def test_the_folder_has_notes_and_checksums(tmp_path):
    assert release.main(["-o", str(tmp_path), "--no-wheels"]) == 1  # no wheel
    (tmp_path / "msprobe-1-py3-none-any.whl").write_bytes(b"wheel")
    assert release.main(["-o", str(tmp_path), "--no-wheels"]) == 0
    assert (tmp_path / "NOTES.md").read_text().startswith(f"# msprobe {release.version()}\n")
    sums = (tmp_path / "SHA256SUMS").read_text()
    assert f"{hashlib.sha256(b'wheel').hexdigest()}  msprobe-1-py3-none-any.whl\n" in sums
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)
