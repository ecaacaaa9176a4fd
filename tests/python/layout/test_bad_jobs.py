# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs of which something is missing, unknown or contradicts itself: said, and no difference."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cut_by_hand import NAMES, copied, entry, on_each, one, plain_shards, random_values, sharded, stages
from msprobe.api import diagnose
from msprobe.diagnose.answer import Answer
from msprobe.layout.activations import calls_of
from msprobe.layout.described import FILE
from msprobe.layout.job import open_job
from msprobe.layout.names import other_names
from msprobe.layout.replicas import check_replicas
from msprobe.native import InvalidArgument, NothingToCompare
from written_jobs import State, write_job


@pytest.fixture
def values() -> dict[str, torch.Tensor]:
    return random_values()


def answer(folder: Path, reference: list[State], target: list[State]) -> Answer:
    runs = [write_job(folder / name, [states]) for name, states in (("a", reference), ("b", target))]
    return diagnose(runs[0], runs[1], folder / "out", graph=False)


def told(found: Answer) -> dict[str, str]:
    """Reasons, by what was left out."""
    return {left.what: left.reason for left in found.not_compared if left.is_difference}


# ---- a rank that died in mid-step


def no_folder(rank: Path) -> None:
    shutil.rmtree(rank)


def no_files(rank: Path) -> None:
    for file in rank.iterdir():
        file.unlink()


def half_a_file(rank: Path) -> None:
    file = rank / "diagnosis.json"
    file.write_text(file.read_text()[:500])


HALVES = "not joined: not all of its shards were recorded"
NO_BATCH = "not joined: not all of the batch was recorded"
DIED = [
    (copied, no_folder, "not recorded in the target", {}),
    (copied, no_files, "there is no diagnosis.json in the target", {}),
    (copied, half_a_file, "diagnosis.json is no JSON in the target", {}),
    (sharded, no_folder, "not recorded in the target", {"8 values of the target, as fc.weight": HALVES}),
    (plain_shards, no_folder, "not recorded in the target", {"4 values of the target, as fc.weight": HALVES}),
    (
        stages,
        half_a_file,
        "diagnosis.json is no JSON in the target",
        {"4 values of the target, as norm.weight": "not joined: a rank that may hold it was not recorded"},
    ),
]


@pytest.mark.parametrize(("layout", "died", "reason", "others"), DIED)
def test_a_rank_that_died_in_mid_step_is_said(
    tmp_path: Path,
    values: dict[str, torch.Tensor],
    layout: Callable[[dict[str, torch.Tensor]], list[State]],
    died: Callable[[Path], None],
    reason: str,
    others: dict[str, str],
) -> None:
    batch = torch.arange(40).reshape(8, 5)

    def fed(states: list[State], *parts: torch.Tensor) -> list[State]:
        calls = [[{"model": "", "tensors": {"args.0": entry(part)}}] for part in parts]
        return [{**one, "inputs": call} for one, call in zip(states, calls)]

    reference = write_job(tmp_path / "one", [fed(one(values), batch)] * 2)
    target = write_job(tmp_path / "two", [fed(layout(values), batch[:4], batch[4:].contiguous())] * 2)
    died(target / "step1" / "rank1")
    found = diagnose(reference, target, tmp_path / "out", graph=False)
    assert found.status == "incomplete", found.sentence
    expected = {
        "step 1, rank 1": reason,
        "1 values of the target, as args.0": NO_BATCH,
        **others,
    }
    assert told(found) == {f"dump: {what}": why for what, why in expected.items()}


def test_a_rank_without_its_calls_is_said(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    runs = [write_job(tmp_path / "a", [one(values)]), write_job(tmp_path / "b", [copied(values)])]
    (runs[1] / "step0" / "rank1" / "dump.json").unlink()
    found = diagnose(runs[0], runs[1], tmp_path / "out", graph=False)
    assert told(found) == {"dump: step 0, rank 1": "there is no dump.json in the target"}


def test_one_of_several_shards_is_no_whole(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    """A rank that has no gradient, or whose hooks failed."""
    states = plain_shards(values)
    states[1]["gradients_at_optimizer"] = states[1]["backward"] = []
    found = answer(tmp_path, one(values), states)
    assert found.status == "incomplete", found.sentence
    assert told(found) == {"dump: 2 values of the target, as fc.weight": HALVES}


# ---- what could not be measured


def test_faults_of_a_rank_are_said_with_it_and_are_no_difference(
    tmp_path: Path, values: dict[str, torch.Tensor]
) -> None:
    batch = torch.arange(40).reshape(8, 5)
    (whole,), parts = one(values), copied(values)
    whole["inputs"] = [{"model": "", "tensors": {"args.0": entry(batch)}}]
    parts[0]["inputs"] = [{"model": "", "tensors": {"args.0": entry(batch[:4])}}]
    own = "gradient of 'embed.weight' before the reduction: not measured, the parameter is a DTensor"
    parts[1] |= {"inputs": [], "faults": [own, "inputs: RuntimeError: no", "modules: KeyError: 1"]}
    for state in parts:
        state["gradients_at_optimizer"] = []
    found = answer(tmp_path, [whole], parts)
    assert found.status == "incomplete", found.sentence
    lacking = "not joined: a rank could not measure everything"
    assert told(found) == {
        "dump: step 0, rank 1": 'could not be measured: "inputs: RuntimeError: no" and 1 more in the target',
        "dump: 1 values of the target, as args.0": NO_BATCH,
        "dump: 1 values of the target, as gradients_at_optimizer": lacking,
    }
    state = json.loads((tmp_path / "out/joined/target/step0/rank0/diagnosis.json").read_text())
    assert state["faults"] == ["rank 1: inputs: RuntimeError: no", "rank 1: modules: KeyError: 1"]
    checked = check_replicas(open_job(tmp_path / "b"))
    assert checked.status == "incomplete"
    parts[1]["faults"] = []
    again = answer(tmp_path / "without", [whole], parts)
    assert again.cause is not None
    assert again.cause.name == "input data inputs.args.0"


# ---- a run that failed, and two in one folder


def processes(folder: Path, *said: dict[str, Any]) -> Path:
    """Beside the dump of a run."""
    for rank, content in enumerate(said):
        content = {"format": 1, "world_size": str(len(said)), "outcome": "ended", **content}
        (folder / f"run.rank{rank}.json").write_text(json.dumps(content))
    return folder


FAILED = {"outcome": "RuntimeError", "steps": 2}


@pytest.mark.parametrize(
    ("outcomes", "is_cause"),
    [
        ([FAILED, FAILED], False),
        ([FAILED, {"outcome": "running", "steps": 0}], False),
        ([{"outcome": "KeyError", "steps": 3}] * 2, True),
        ([{"outcome": "ended", "steps": 2}] * 2, True),
    ],
)
def test_what_a_run_that_failed_did_not_come_to_is_no_difference(
    tmp_path: Path, values: dict[str, torch.Tensor], outcomes: list[dict[str, Any]], is_cause: bool
) -> None:
    reference = processes(write_job(tmp_path / "a" / "dump", [one(values)] * 2).parent, {})
    cut_short = [{**state, "optimizer": [], "gradients_at_optimizer": []} for state in copied(values)]
    target = write_job(tmp_path / "b" / "dump", [copied(values), cut_short]).parent
    found = diagnose(reference, processes(target, *outcomes), tmp_path / "out", graph=False)
    if is_cause:
        assert found.cause is not None
        assert found.cause.reason == "the optimizer steps 0 times (reference: 1)"
        return
    assert (found.status, found.cause) == ("incomplete", None), found.sentence
    assert "dump: 2 values of the target, as gradients_at_optimizer" in told(found)


def test_a_killed_rank_leaves_no_step_of_an_optimizer_behind(
    tmp_path: Path, values: dict[str, torch.Tensor]
) -> None:
    """Those that go on cannot reduce, and fail before it."""
    cut_short = [{**state, "optimizer": [], "gradients_at_optimizer": []} for state in copied(values)]
    reference = write_job(tmp_path / "a", [one(values)] * 2)
    target = write_job(tmp_path / "b", [copied(values), cut_short[:1]])
    found = diagnose(reference, target, tmp_path / "out", graph=False)
    assert (found.status, found.cause) == ("incomplete", None), found.sentence


def lives(*spans: tuple[int, int]) -> list[dict[str, Any]]:
    """From one minute of an hour to another."""
    times = [[f"2026-01-02T03:{minute:02}:00+00:00" for minute in span] for span in spans]
    return [{"started": began, "ended": ended} for began, ended in times]


def test_ranks_of_two_jobs_of_one_size_are_told_by_their_times(
    tmp_path: Path, values: dict[str, torch.Tensor]
) -> None:
    others = {name: value + 1 for name, value in values.items()}
    states = [copied(values, 4)[0], *copied(others, 4)[1:3], copied(values, 4)[3]]
    run = write_job(tmp_path / "run" / "dump", [states]).parent
    processes(run, *lives((0, 5), (6, 8), (7, 9), (1, 5)))
    checked = check_replicas(open_job(run))
    assert (checked.status, checked.mismatches) == ("incomplete", [])
    reason = "its ranks are of 2 jobs: ranks 1-2 began when rank 0 had ended"
    assert [(left.what, left.reason) for left in checked.left_out] == [("step 0", reason)]
    reference = write_job(tmp_path / "a", [one(values)])
    found = diagnose(reference, run, tmp_path / "out", graph=False)
    assert told(found)["dump: step 0"] == f"{reason} in the target"
    processes(run, *lives((0, 5), (5, 8), (4, 9), (1, 5)))
    assert check_replicas(open_job(run)).status == "differ"


def test_one_rank_of_each_of_two_jobs_has_no_replica(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    run = write_job(tmp_path / "run" / "dump", [copied(values)]).parent
    processes(run, *lives((6, 8), (0, 5)))
    with pytest.raises(NothingToCompare, match="its ranks are of 2 jobs: rank 0 began when rank 1 had ended"):
        check_replicas(open_job(run))


# ---- another global batch


@pytest.mark.parametrize("rows", [2, 8])
def test_another_global_batch_is_other_data(
    tmp_path: Path, values: dict[str, torch.Tensor], rows: int
) -> None:
    batch = torch.arange(80).reshape(16, 5)

    def fed(states: list[State], *parts: torch.Tensor) -> list[State]:
        calls = [[{"model": "", "tensors": {"args.0": entry(part)}}] for part in parts]
        return [{**one, "inputs": call} for one, call in zip(states, calls)]

    parts = [part.contiguous() for part in batch[: 2 * rows].chunk(2)]
    others = {name: 1.3 * value if name.startswith("g.") else value for name, value in values.items()}
    found = answer(tmp_path, fed(one(values), batch[:8]), fed(copied(others), *parts))
    assert found.cause is not None
    assert (found.cause.stage, found.cause.name) == ("data", "input data inputs.args.0")


# ---- placements


@pytest.mark.parametrize("placement", ["RaggedShard((0,))", "MaskPartial(sum)", "Shard", ""])
def test_a_placement_that_is_not_known_is_left_out(
    tmp_path: Path, values: dict[str, torch.Tensor], placement: str
) -> None:
    states = sharded(values)
    for state in states:
        state["parameters"]["fc.weight"]["dtensor"]["placements"] = [placement]
    found = answer(tmp_path, one(values), states)
    reason = f"not joined: a placement that is not known, {placement}"
    assert told(found) == {"dump: 1 values of the target, as fc.weight": reason}


# ---- forms


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"optimizer": 7}, "optimizer: expected a list, found 7"),
        ({"parameters": [1]}, "parameters: expected an object, found [1]"),
        ({"inputs": "x"}, "inputs: expected a list, found x"),
        (
            {"parameters": {"fc.weight": {"dtype": "x", "dtensor": {"mesh_dims": 5}}}},
            "dtensor: mesh_dims: expected a list of texts, found 5",
        ),
        (
            {"buffers": {"b": {"dtype": "x", "dtensor": {"coordinate": ["b", -1]}}}},
            "dtensor: coordinate: expected a list of whole numbers, found ['b', -1]",
        ),
    ],
)
def test_a_file_of_another_form_is_left_out_or_an_error(
    tmp_path: Path, values: dict[str, torch.Tensor], changed: State, reason: str
) -> None:
    states = copied(values)
    states[1] |= changed
    found = answer(tmp_path / "one", one(values), states)
    assert found.status == "incomplete", found.sentence
    assert told(found)["dump: step 0, rank 1"] == f"diagnosis.json: {reason} in the target"
    states[0] |= changed
    with pytest.raises(NothingToCompare, match=re.escape(f"step 0, rank 0: diagnosis.json: {reason}")):
        answer(tmp_path / "all", one(values), states)


def test_a_rank_of_another_job_is_left_out(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    others = {name: value + 1 for name, value in values.items()}
    (alone,) = one(others)
    found = answer(tmp_path, one(values), [copied(values)[0], {**alone}])
    assert found.status == "incomplete", found.sentence
    assert told(found)["dump: step 0"] == "its ranks are of jobs of 1 and 2 processes in the target"


# ---- versions


def test_a_rank_of_a_later_version_is_left_out(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    states = copied(values)
    states[1] = {**states[1], "version": 2}
    found = answer(tmp_path, one(values), states)
    assert found.status == "incomplete", found.sentence
    reason = "diagnosis.json is of version 2, expected 1: its rank was recorded by another msprobe"
    assert told(found) == {"dump: step 0, rank 1": f"{reason} in the target"}


def test_forms_of_other_versions_are_not_held_against_each_other(
    tmp_path: Path, values: dict[str, torch.Tensor]
) -> None:
    states = copied(values)
    weight = states[1]["parameters"]["fc.weight"]
    earlier = {**{key: one for key, one in weight.items() if key != "sketch"}, "crc32": "0a1b2c3d"}
    states[1] = {**states[1], "parameters": {**states[1]["parameters"], "fc.weight": earlier}}
    reason = "its ranks recorded it in forms that cannot be compared, as other versions of msprobe do"
    checked = check_replicas(open_job(write_job(tmp_path / "run", [states])))
    assert (checked.status, checked.mismatches) == ("incomplete", [])
    assert [(left.what, left.reason) for left in checked.left_out] == [
        ("step 0, 1 values, as the weight fc.weight", reason)
    ]
    found = answer(tmp_path, one(values), states)
    assert found.status == "incomplete", found.sentence
    assert told(found)["dump: 1 values of the target, as fc.weight"] == f"not joined: {reason}"


# ---- sources that contradict each other


def test_ranks_that_contradict_each_other_are_not_joined(
    tmp_path: Path, values: dict[str, torch.Tensor]
) -> None:
    rows, columns = sharded(values, dim=0), sharded(values, dim=1)
    states = [rows[0], columns[1]]
    found = answer(tmp_path, one(values), states)
    assert found.status == "incomplete", found.sentence
    reason = "not joined: its ranks contradict each other: Shard(0) and Shard(1)"
    assert told(found) == {"dump: 4 values of the target, as fc.weight": reason}


def written_on(states: list[State], dim: int) -> list[State]:
    """As a training engine writes it on its parameters."""
    cut = [{"axis": "tp", "ranks": [0, 1], "parameters": {"fc.weight": dim}}]
    return [{**state, "layout": {**state["layout"], "cut": cut}} for state in states]


SOURCES: list[tuple[Any, str, str]] = [
    (
        lambda values: sharded(values, dim=1),
        "its DTensor says, dimension 1 in 2 parts",
        "dimension 0 in 2 parts",
    ),
    (
        lambda values: written_on(plain_shards(values), 1),
        "the training engine says, dimension 1",
        "dimension 0",
    ),
    (copied, "DistributedDataParallel says, copies on ranks 0-1", "dimension 0 in 2 parts"),
]


@pytest.mark.parametrize(("layout", "expected", "found"), SOURCES)
def test_a_file_that_contradicts_another_source_is_refused(
    tmp_path: Path, values: dict[str, torch.Tensor], layout: Any, expected: str, found: str
) -> None:
    run = write_job(tmp_path / "run", [layout(values)])
    (run / FILE).write_text('ranks: {tp: 2}\nparameters: {"fc.weight": "out[tp] in"}')
    with pytest.raises(InvalidArgument) as error:
        check_replicas(open_job(run))
    assert f"{FILE}: parameters: fc.weight: expected what {expected}" in str(error.value)
    assert f"found {found}" in str(error.value)


def test_a_file_that_says_the_same_is_taken(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    reference = write_job(tmp_path / "one", [one(values)])
    for name, states in (("dtensor", sharded(values, dim=1)), ("plain", written_on(plain_shards(values), 1))):
        run = write_job(tmp_path / name, [states])
        (run / FILE).write_text('ranks: {tp: 2}\nparameters: {"fc.weight": "out in[tp]"}')
        found = diagnose(reference, run, tmp_path / f"{name}_out", graph=False)
        assert found.status in ("equal", "rounding"), found.sentence


# ---- several stages of a pipeline on one rank


def chunks(layers: dict[str, Any], rank: int) -> dict[str, Any]:
    """Two stages on each of two ranks, one behind the other: of four layers those that follow `rank`, each
    stage with numbers of its own.
    """
    return {
        f"{stage}.layers.0.{name}": layers[f"layers.{2 * stage + rank}.{name}"]
        for stage in (0, 1)
        for name in NAMES
    }


@pytest.mark.parametrize("fault", ["", "g.layers.3.fc.weight"])
def test_stages_of_one_rank_have_the_names_of_the_whole(tmp_path: Path, fault: str) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = {"fc.weight": (6, 5), "norm.weight": (6,)}
    layers = {
        f"{kind}layers.{layer}.{name}": torch.ones(shapes[name])
        if (kind, name) == ("", "norm.weight")
        else torch.randn(shapes[name], generator=generator)
        for kind in ("", "g.", "m.")
        for layer in range(4)
        for name in NAMES
    }

    def of(kind: str, off: str = "") -> dict[str, Any]:
        found = {name: value for name, value in layers.items() if name.startswith(kind + "layers")}
        return {
            name.removeprefix(kind): entry(value * 1.5 if name == off else value)
            for name, value in found.items()
        }

    whole = on_each(1, lambda kind, _: of(kind))
    parts = on_each(2, lambda kind, rank: chunks(of(kind, fault), rank))
    for rank, part in enumerate(parts):  # the second one is given what the first one computed
        given = entry(torch.randn(2, 5, generator=generator) if rank else torch.arange(4).reshape(2, 2))
        part["inputs"] = [{"model": "0", "tensors": {"args.0": given}}]
    whole[0]["inputs"] = [{"model": "", "tensors": {"args.0": entry(torch.arange(4).reshape(2, 2))}}]
    found = answer(tmp_path, whole, parts)
    if fault:
        assert found.cause is not None
        assert found.cause.name == "gradient layers.3.fc.weight", found.sentence
    else:
        assert found.status in ("equal", "rounding"), found.sentence
        assert told(found) == {}


def test_calls_of_stages_have_the_names_of_the_whole(tmp_path: Path) -> None:
    weights = {f"layers.{layer}.{name}": entry(torch.randn(6)) for layer in range(4) for name in NAMES}
    whole = on_each(1, lambda kind, _: {} if kind else weights)
    parts = on_each(2, lambda kind, rank: {} if kind else chunks(weights, rank))
    job = open_job(write_job(tmp_path, [parts]))
    for rank in range(2):
        called = {f"Module.{stage}.layers.0.fc.Linear.forward.0": {"output": []} for stage in (0, 1)}
        (tmp_path / "step0" / f"rank{rank}" / "dump.json").write_text(json.dumps({"data": called}))
    names = other_names(job.states_of(0), dict(enumerate(whole)))
    found = calls_of(job, 0, names)
    assert sorted(found) == [(f"layers.{layer}.fc", "forward") for layer in range(4)]
