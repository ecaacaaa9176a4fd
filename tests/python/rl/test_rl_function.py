# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe.rl_compare(): what it returns, shows and writes."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import msprobe
import numpy as np
import pytest
import torch
from msprobe.rl.result import RlResult
from rl_records import Save


def values(reward: float) -> dict[str, np.ndarray]:
    log_probs = -np.arange(1.0, 7.0).reshape(2, 3)
    return {"rewards": np.full(4, reward), "rollout_log_probs": log_probs, "old_log_probs": log_probs}


def test_two_records(save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference, target = save("a", values(1.0), values(1.0)), save("b", values(1.0), values(2.0))
    before = sorted(tmp_path.rglob("*"))
    result = msprobe.rl_compare(reference, str(target))
    assert sorted(tmp_path.rglob("*")) == before  # without an output nothing is written
    assert isinstance(result, RlResult)
    assert not result.same
    assert repr(result) == f"<RlResult: {result.sentence}>"
    first = result.table()[0]
    assert (first["kind"], first["key"], first["step"]) == ("values", "rewards", 1)
    assert ">rewards</td>" in result._repr_html_()
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda rows: ("frame", rows)))
    assert result.to_pandas() == ("frame", result.table())
    assert msprobe.rl_compare(reference, target, tolerance=0.6).same


def test_results_that_exist_are_replaced_with_force_only(save: Save, tmp_path: Path) -> None:
    record, out = save("a", values(1.0)), tmp_path / "out"
    assert msprobe.rl_compare(record, record, out, table="csv").same
    files = {"verdict.json", "report.html", "rewards.csv", "rollout_log_probs.csv", "old_log_probs.csv"}
    assert {path.name for path in out.iterdir()} == files
    with pytest.raises(msprobe.InvalidArgument, match="there are results already"):
        msprobe.rl_compare(record, record, out)
    msprobe.rl_compare(record, record, out, force=True)
    assert not list(out.glob("*.csv"))


def test_one_record_and_weights(save: Save, tmp_path: Path) -> None:
    for name in ("sent", "received"):
        torch.save({"w": torch.full((3,), 1.0 if name == "sent" else 2.0)}, tmp_path / f"{name}.pt")
    weights = tmp_path / "sent.pt", tmp_path / "received.pt"
    record = save("a", values(1.0))
    assert msprobe.rl_compare(record).sentence == "The records agree: 6 tokens of rollout and training"
    both = msprobe.rl_compare(record, weights=weights)
    assert [row["kind"] for row in both.table()] == ["weights"]
    assert both.within
    assert msprobe.rl_compare(weights=(weights[0], weights[0])).same


def test_what_does_not_go_together(save: Save, tmp_path: Path) -> None:
    record = save("a", values(1.0))
    with pytest.raises(msprobe.InvalidArgument, match="expected a reference"):
        msprobe.rl_compare()
    with pytest.raises(msprobe.InvalidArgument, match="expected a reference"):
        msprobe.rl_compare(target=record)
    with pytest.raises(msprobe.InvalidArgument, match="mapping"):
        msprobe.rl_compare(record, mapping="vllm")
    with pytest.raises(msprobe.InvalidArgument):
        msprobe.rl_compare(tmp_path / "none", record, tmp_path / "out")
    assert not (tmp_path / "out").exists()
