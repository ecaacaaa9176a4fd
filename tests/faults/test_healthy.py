# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Healthy pairs of real kernels, as users have them: nobody is accused. Always asked; no noise is made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from judging import SAME
from run import CONTEXT

SCRIPT = Path(__file__).parent / "healthy_script.py"
KERNELS = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "plain": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}
WAYS = (
    *("threads", "no_mkldnn", "channels_last", "fused_attention", "checkpointing", "foreach", "fused"),
    *("clipped_by_parts", *KERNELS),
)
DTYPES = ("float32", "bfloat16")


def _record(folder: Path, *ways: str) -> None:
    """Vector instructions are chosen where torch is imported: those need an interpreter of their own."""
    words = ["run", "-o", str(folder), str(SCRIPT), *ways]
    environment = {key: value for way in ways for key, value in KERNELS.get(way, {}).items()}
    if environment:
        command = [sys.executable, "-m", "msprobe", *words]
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr.decode()
        return
    process = CONTEXT.Process(target=_run, args=(words,))
    process.start()
    process.join(300)
    assert process.exitcode == 0


def _run(words: list[str]) -> None:
    from msprobe.cli import main

    sys.exit(main(words))


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each dtype."""
    folder = tmp_path_factory.mktemp("healthy")
    for dtype in DTYPES:
        _record(folder / dtype, dtype)
    return folder


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_nobody_is_accused(references: Path, tmp_path: Path, dtype: str, way: str) -> None:
    _record(tmp_path / "target", dtype, way)
    runs = [str(references / dtype), str(tmp_path / "target")]
    process = CONTEXT.Process(
        target=_run, args=(["diagnose", *runs, "-o", str(tmp_path / "answer"), "--quiet", "--no-graph"],)
    )
    process.start()
    process.join(300)
    answer = json.loads((tmp_path / "answer" / "diagnose.json").read_text(encoding="utf-8"))
    assert answer["status"] in SAME, answer["sentence"]
    assert answer["cause"] is None
