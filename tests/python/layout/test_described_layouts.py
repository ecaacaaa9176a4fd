# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Plain shards of which a file, or what the training engine wrote on them, says how they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msprobe.api import diagnose
from msprobe.layout.described import FILE, place_shards, read_description
from msprobe.layout.job import open_job
from msprobe.layout.replicas import check_replicas
from msprobe.native import InvalidArgument
from written_jobs import State, entry, state, write_job

_GOOD = """
ranks: {dp: 2, tp: 2}
parameters:
  "*.norm.weight": "h # tp:replicated"
  "*.weight": "out[tp] in"
"""


def numbers(content: str, shape: list[int], **more: Any) -> dict[str, Any]:
    return entry(content, **{"shape": shape, "min": -1.0, "max": 1.0, "mean": 0.0, "norm": 2.0, **more})


def job(norms: str = "nnnn", halves: str = "abab", gradients: str = "cdcd") -> list[State]:
    """On each of four ranks, dp x tp: a weight that is cut, and a norm."""

    def values(rank: int, cut: str, whole: str) -> dict[str, Any]:
        return {"0.fc.weight": numbers(cut, [2, 4]), "0.norm.weight": numbers(whole, [4], max=2.0)}

    return [
        state(
            rank,
            ranks=4,
            weights=values(rank, halves[rank], norms[rank]),
            gradients=values(rank, gradients[rank], "g"),
        )
        for rank in range(4)
    ]


def described(folder: Path, states: list[State], text: str = _GOOD) -> Path:
    run = write_job(folder, [states])
    (run / FILE).write_text(text)
    return run


def whole() -> list[State]:
    norm = 8**0.5
    weights = {
        "0.fc.weight": numbers("w", [4, 4], norm=norm),
        "0.norm.weight": numbers("n", [4], max=2.0),
    }
    gradients = {**weights, "0.norm.weight": numbers("g", [4], max=2.0)}
    return [state(0, ranks=1, weights=weights, gradients=gradients)]


def test_shards_are_put_together_and_copies_are_known(tmp_path: Path) -> None:
    run = described(tmp_path / "run", job())
    states = open_job(run).states_of(0)
    place_shards(states, read_description(run))
    place = states[3]["parameters"]["0.fc.weight"]["dtensor"]
    assert (place["shape"], place["coordinate"]) == ([4, 4], [1, 1])
    assert place["placements"] == ["Replicate", "Shard(0)"]
    assert states[0]["gradients_at_optimizer"][0]["gradients"]["0.fc.weight"]["dtensor"] == {
        **place,
        "coordinate": [0, 0],
    }
    reference = write_job(tmp_path / "one", [whole()])
    found = diagnose(reference, run, tmp_path / "out", graph=False)
    assert found.status in ("equal", "rounding"), found.sentence


@pytest.mark.parametrize(
    ("change", "name", "ranks"),
    [
        ({"norms": "nnnm"}, "0.norm.weight", (3,)),
        ({"halves": "abax"}, "0.fc.weight", (1, 3)),
    ],
)
def test_a_copy_that_is_none_is_named(
    tmp_path: Path, change: dict[str, str], name: str, ranks: tuple[int, ...]
) -> None:
    found = check_replicas(open_job(described(tmp_path, job(**change))))
    assert [(one.name, one.off) for one in found.mismatches][:1] == [(name, ranks)]
    assert "described as a copy" in found.mismatches[0].why


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ranks: {dp: 3, tp: 2}\nparameters: {}", "number of processes, 4, found 6"),
        ("ranks: {dp: 4}\nparameters: {'*': 'out[tp] in'}", "tp: expected one of the axes dp"),
        ("ranks: {tp: 4}\nparameters: {'*': 'out[tp:torn] in'}", "torn: expected one of zigzag"),
        ("ranks: {tp: 4}\nparameters: {'*': 'out[tp in'}", "expected dimensions as"),
        ("ranks: {tp: 4}\nparameters: {'*': 'a b c'}", "as many dimensions as 0.fc.weight has, 2, found 3"),
        ("ranks: {tp: 4}\nparameters: {'*': 'a[tp] b[tp]'}", "tp: expected it once"),
        ("ranks: [2]\nparameters: {}", "ranks: expected a mapping of axes"),
        ("ranks: {tp: 4}\nweights: {}", "weights: expected the keys ranks and parameters"),
    ],
)
def test_what_does_not_fit_is_said_with_file_and_key(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        check_replicas(open_job(described(tmp_path, job(), text)))
    assert told in str(error.value)
    assert FILE in str(error.value)


def test_what_an_engine_writes_on_its_parameters_is_a_description(tmp_path: Path) -> None:
    states = job()
    for rank, one in enumerate(states):
        first = rank // 2 * 2
        one["layout"]["cut"] = [{"axis": "tp", "ranks": [first, first + 1], "parameters": {"0.fc.weight": 0}}]
    run = write_job(tmp_path / "run", [states])
    reference = write_job(tmp_path / "one", [whole()])
    found = diagnose(reference, run, tmp_path / "out", graph=False)
    assert found.status in ("equal", "rounding"), found.sentence
    assert "Shard(0) along tp" in " ".join(found.notes)
