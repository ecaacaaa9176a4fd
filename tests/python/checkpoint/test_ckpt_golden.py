# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The samples: what mindstudio-probe says where it is right, and what is right where it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkpoint_support import close, run
from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints
from msprobe.checkpoint.result import CheckpointResult
from msprobe.checkpoint.similarity_file import similarity

SAME_MODEL = ("a_tp2_pp2", "c_tp1", "d_legacy_tp1", "e_te_tp2", "i_torch_dist_tp2")


def compare(samples: Path, left: str, right: str) -> CheckpointResult:
    return compare_checkpoints(samples / left, samples / right, CheckpointOptions(hash=True))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a_tp2_pp2", "b_tp2_pp2"),
        ("a_tp2_pp2", "c_tp1"),
        ("a_tp2_pp2", "d_legacy_tp1"),
        ("c_tp1", "e_te_tp2"),
    ],
)
def test_the_existing_tool_finds_the_same(samples: Path, left: str, right: str) -> None:
    expected = json.loads((samples / "expected" / f"{left}__{right}.json").read_text())
    found = similarity(compare(samples, left, right), extended=False)
    assert set(expected) <= set(found)
    for name, entry in expected.items():
        assert list(found[name]) == list(entry)  # the keys in their order
        assert (found[name]["numel"], found[name]["shape"]) == (entry["numel"], entry["shape"])
        assert close(found[name]["l2"], entry["l2"]), name
        assert close(found[name]["cos"], entry["cos"]), name


@pytest.mark.parametrize("left", SAME_MODEL)
@pytest.mark.parametrize("right", SAME_MODEL)
def test_one_model_in_two_layouts_is_equal(samples: Path, left: str, right: str) -> None:
    result = compare(samples, left, right)
    assert result.same
    assert len(result.rows) == 53
    assert all(row.hashes[0] == row.hashes[1] is not None for row in result.rows)


def test_gated_layers_are_merged_half_by_half(samples: Path) -> None:
    """mindstudio-probe finds l2 0.90 here."""
    result = compare(samples, "f_glu_tp2", "g_glu_tp1")
    assert result.same
    assert len(result.rows) == 21


def test_what_differs_is_found(samples: Path) -> None:
    result = compare(samples, "b_tp2_pp2", "c_tp1")
    assert not result.same
    assert len(result.differing) == 53
    assert not any(row.hashes[0] == row.hashes[1] for row in result.rows)


@pytest.mark.parametrize("framework", [("-f", "pytorch"), ()])
def test_command(samples: Path, tmp_path: Path, framework: tuple[str, ...]) -> None:
    output = tmp_path / "out.json"
    pair = (samples / "a_tp2_pp2", samples / "i_torch_dist_tp2")
    done = run(*framework, "ckpt", *pair, "-o", output, "--threads", 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert "all bits equal" in done.stdout
    assert len(json.loads(output.read_text())) == 53
    assert (tmp_path / "out.html").read_text().count("@@") == 0


def test_torch_is_not_imported(samples: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from msprobe.checkpoint.comparison import compare_checkpoints as c;"
        f"c({str(samples / 'a_tp2_pp2')!r}, {str(samples / 'c_tp1')!r});"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
