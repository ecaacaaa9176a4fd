# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
from msprobe.diagnose.command import main
from msprobe.layout.job import open_job
from msprobe.layout.replicas import ReplicaResult, check_replicas
from msprobe.native import NothingToCompare
from written_jobs import State, ddp, entry, state, write_job

WEIGHTS = {"norm.weight": entry("a"), "fc.weight": entry("b")}


def check(folder: Path, steps: list[list[State]]) -> ReplicaResult:
    return check_replicas(open_job(write_job(folder, steps)))


def healthy(rank: int, **changed: object) -> State:
    kept: dict[str, object] = {
        "weights": WEIGHTS,
        "gradients": {"norm.weight": entry("c"), "fc.weight": entry("d")},
        "local": {"norm.weight": entry(f"own{rank}"), "fc.weight": entry(f"of{rank}")},
        "states": {"norm.weight": entry("e")},
        "copies": ddp(),
        **changed,
    }
    return state(rank, **kept)  # type: ignore[arg-type]


def test_equal_replicas_agree(tmp_path: Path) -> None:
    result = check(tmp_path, [[healthy(0), healthy(1)]] * 2)
    assert (result.status, result.mismatches) == ("equal", [])
    assert result.compared == 2 * 6  # two weights, two gradients, one setting, one state
    assert result.layout == ["DistributedDataParallel keeps it equal on ranks 0-1"]


def test_a_gradient_that_was_not_reduced_is_named_with_the_collective(tmp_path: Path) -> None:
    own = [{"norm.weight": entry(f"own{rank}"), "fc.weight": entry("d")} for rank in range(2)]
    result = check(tmp_path, [[healthy(rank, gradients=own[rank]) for rank in range(2)]])
    first = result.mismatches[0]
    assert (first.step, first.kind, first.parameter) == (0, "gradient", "norm.weight")
    assert (
        "the all-reduce of DistributedDataParallel over ranks 0-1 should have made it equal" in first.should
    )
    assert "it was not reduced" in first.should
    assert "Replicas disagree first at step 0: the gradient of norm.weight" in result.sentence


def test_a_stale_replica_is_named_in_the_step_where_it_is_seen(tmp_path: Path) -> None:
    stale = {**WEIGHTS, "fc.weight": entry("stale")}
    ranks = 4
    steps = [
        [healthy(rank, copies=ddp(ranks), ranks=ranks) for rank in range(ranks)],
        [
            healthy(rank, copies=ddp(ranks), ranks=ranks, weights=stale if rank == 2 else WEIGHTS)
            for rank in range(ranks)
        ],
    ]
    first = check(tmp_path, steps).mismatches[0]
    assert (first.step, first.kind, first.parameter, first.off) == (1, "weight", "fc.weight", (2,))
    assert "step 1: the weight fc.weight on rank 2 is not that on ranks 0-1, 3" in first.sentence
    assert "changed outside of the optimizer" in first.should


def test_a_learning_rate_of_one_rank_is_a_setting(tmp_path: Path) -> None:
    first = check(tmp_path, [[healthy(0), healthy(1, lr=0.2)]]).mismatches[0]
    assert (first.kind, first.name) == ("setting", "optimizer.groups.0.lr")


def test_parameters_that_the_wrapper_leaves_out_may_differ(tmp_path: Path) -> None:
    copies = ddp(without=("fc.weight",))
    own = [{**WEIGHTS, "fc.weight": entry(f"own{rank}")} for rank in range(2)]
    result = check(tmp_path, [[healthy(rank, copies=copies, weights=own[rank]) for rank in range(2)]])
    assert result.status == "equal"


def test_without_a_wrapper_the_first_weights_tell(tmp_path: Path) -> None:
    """A module that differs in one weight is cut, and its equal bias may be a shard of zeros."""
    cut = [{"fc.weight": entry(f"shard{rank}"), "fc.bias": entry("0")} for rank in range(2)]
    steps = [
        [healthy(rank, copies=[], weights={"norm.weight": entry("a"), **cut[rank]}) for rank in range(2)],
        [
            healthy(
                rank,
                copies=[],
                weights={"norm.weight": entry("a"), **cut[rank], "fc.bias": entry(f"moved{rank}")},
                gradients={"norm.weight": entry(f"norm{rank}")},
            )
            for rank in range(2)
        ],
    ]
    result = check(tmp_path, steps)
    first = result.mismatches[0]
    assert (first.step, first.kind, first.parameter, first.declared) == (1, "gradient", "norm.weight", False)
    assert {one.parameter for one in result.mismatches} == {"norm.weight"}


def placed(content: str, coordinate: list[int], placements: list[str]) -> dict[str, object]:
    mesh = {"mesh": "m", "mesh_shape": [2, 2], "mesh_dims": ["dp", "tp"]}
    return entry(content, dtensor={"shape": [8], "placements": placements, "coordinate": coordinate, **mesh})


def test_shards_are_held_against_those_at_the_same_place(tmp_path: Path) -> None:
    def states(gradient: str) -> list[State]:
        where = [[0, 0], [0, 1], [1, 0], [1, 1]]
        lies = ["Replicate", "Shard(0)"]
        contents = [f"part{at[1]}" for at in where]
        gradients = [*contents[:3], gradient]
        return [
            state(
                rank,
                ranks=4,
                weights={"fc.weight": placed(contents[rank], at, lies)},
                gradients={"fc.weight": placed(gradients[rank], at, lies)},
            )
            for rank, at in enumerate(where)
        ]

    assert check(tmp_path / "fine", [states("part1")]).status == "equal"
    first = check(tmp_path / "off", [states("other")]).mismatches[0]
    assert (first.kind, first.ranks) == ("gradient", (1, 3))
    assert "the reduction along dimension dp of its mesh" in first.should


def test_ranks_that_are_missing_are_told(tmp_path: Path) -> None:
    result = check(tmp_path, [[healthy(rank, ranks=3, copies=ddp(3)) for rank in range(2)]])
    assert result.status == "incomplete"
    assert [(one.step, one.rank) for one in result.left_out] == [(0, 2)]


def test_two_jobs_in_one_folder_are_told(tmp_path: Path) -> None:
    others = [healthy(0, ranks=3, copies=ddp(3)), healthy(1, ranks=3, copies=ddp(3))]
    result = check(tmp_path / "a", [[*others, healthy(2, weights={"fc.weight": entry("other")})]])
    assert any("jobs of 2 and 3 processes" in one.reason for one in result.left_out)
    assert result.mismatches == []
    assert result.compared > 0
    with pytest.raises(NothingToCompare, match="of two ranks: its ranks are of jobs of 2 and 4 processes"):
        check(tmp_path / "b", [[healthy(0), healthy(1, ranks=4)]])


def test_of_ranks_without_the_others_it_says_where_the_copies_are(tmp_path: Path) -> None:
    with pytest.raises(NothingToCompare, match="one rank of 2 was recorded"):
        check(tmp_path, [[healthy(0)]])


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"parameters": 3, "layout": {"copies": [1, {"ranks": "x"}]}}']
)
def test_a_broken_file_is_told_and_stops_nothing(tmp_path: Path, content: str) -> None:
    states = [healthy(rank, ranks=3, copies=ddp(3)) for rank in range(3)]
    folder = write_job(tmp_path, [states])
    (folder / "step0/rank2/diagnosis.json").write_text(content)
    result = check_replicas(open_job(folder))
    assert result.mismatches == []
    assert result.compared > 0


def test_one_process_has_no_replicas(tmp_path: Path) -> None:
    with pytest.raises(NothingToCompare, match="one process trained"):
        check(tmp_path, [[state(0, weights=WEIGHTS, ranks=1)]])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_job(tmp_path / "run", [[healthy(0), healthy(1, lr=0.2)]])
    assert main([str(run), "-o", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("Replicas disagree first at step 0: the setting optimizer.groups.0.lr")
    assert "what this cannot see:" in shown
    content = json.loads((tmp_path / "out/replicas.json").read_text())
    assert content["status"] == "differ"
    assert content["mismatches"][0]["name"] == "optimizer.groups.0.lr"


def test_options_of_two_runs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--all-tables"])
    assert "--all-tables needs two runs" in capsys.readouterr().err


def drawing(rank: int, data: str, seed: str, p: float = 0.1) -> State:
    """A rank of a model with dropout."""
    return {
        **state(rank, weights={"a": entry("1")}, copies=ddp()),
        "inputs": [{"model": "", "tensors": {"args.0": entry(data)}}],
        "rng": {"step": {"torch.cpu": seed, "python": str(rank)}},
        "modules": {"drop": {"class": "torch.nn.Dropout", "training": True, "settings": {"p": p}}},
    }


@pytest.mark.parametrize(
    ("data", "seeds", "p", "note"),
    [
        ("ab", "ss", 0.1, "data of their own and draw the same random numbers"),
        ("aa", "st", 0.1, "the same data and draw other random numbers"),
        ("ab", "st", 0.1, ""),
        ("aa", "ss", 0.1, ""),
        ("ab", "ss", 0.0, ""),
    ],
)
def test_dropout_of_ranks(tmp_path: Path, data: str, seeds: str, p: float, note: str) -> None:
    ranks = [drawing(rank, data[rank], seeds[rank], p) for rank in range(2)]
    result = check_replicas(open_job(write_job(tmp_path / "run", [ranks])))
    assert result.status == "equal"
    assert (len(result.notes) == 1 and note in result.notes[0]) if note else result.notes == []
