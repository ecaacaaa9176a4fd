# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe nan_analyze: the answers of mindstudio-probe, and a planted origin among many ranks."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msprobe import FormatError, InvalidArgument, cli, nan_analyze
from msprobe.native import core
from overflow_support import DATA, INF, NAN, call, tensor, unpacked, value, write_rank


def analyze(step: Path, output: Path, *more: str) -> tuple[int, dict[str, Any] | None]:
    code = cli.main(["-f", "pytorch", "nan_analyze", "-i", str(step), "-o", str(output), *more])
    files = list(output.glob("*")) if output.exists() else []
    assert len(files) <= 1
    return code, json.loads(files[0].read_text("utf-8")) if files else None


# ---- Golden


@pytest.mark.parametrize("name", ["gloo2_L1_nan", "nan_mix", "scalar_inf"])
def test_the_answers_of_the_existing_tool(name: str, tmp_path: Path) -> None:
    expected = json.loads((DATA / "overflow" / f"{name}.json").read_text("utf-8"))
    step = unpacked(name, tmp_path) / "step0"
    for rank, entries in expected.items():  # some archives came without stack.json
        folder = step / rank.replace("_", "")
        folder = folder if folder.is_dir() else step / "rank"
        stacks = {str(i): [[entry["op_name"]], entry["stack_info"]] for i, entry in enumerate(entries)}
        if not (folder / "stack.json").exists():
            (folder / "stack.json").write_text(json.dumps(stacks), encoding="utf-8")
    code, found = analyze(step, tmp_path / "output")
    assert code == 1
    assert found is not None
    assert list(found) == list(expected)
    for rank, entries in expected.items():
        assert len(found[rank]) == len(entries)
        for ours, theirs in zip(found[rank], entries, strict=True):
            assert list(ours)[: len(theirs)] == list(theirs)
            for key, content in theirs.items():
                assert json.dumps(ours[key]) == json.dumps(content), key


def test_a_healthy_run_is_exit_code_0_and_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = unpacked("gloo2_L1", tmp_path) / "step0"
    assert analyze(step, tmp_path / "output") == (0, None)
    assert "No NaN and no infinity was found; no file was written." in capsys.readouterr().out


# ---- The short answer


def test_the_short_answer_names_rank_call_reason_and_stack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"Torch.log.0.forward": call([tensor()], [tensor(NAN)])}
    write_rank(tmp_path / "step0/rank3", data)
    stack = {"0": [["Torch.log.0.forward"], [f"File a.py, line {i}, in f, \n x\x1b[31m" for i in range(9)]]}
    (tmp_path / "step0/rank3/stack.json").write_text(json.dumps(stack))
    (tmp_path / "step0/rank3/construct.json").write_text(
        '{"Torch.log.0.forward": "Module.fc.Linear.forward.0", "Module.fc.Linear.forward.0": null}'
    )
    code, found = analyze(tmp_path / "step0", tmp_path / "output")
    assert code == 1
    assert found is not None
    (path,) = (tmp_path / "output").iterdir()
    assert re.fullmatch(r"anomaly_analyze_\d{19}\.json", path.name)
    out = capsys.readouterr().out.splitlines()
    assert out[:5] == [
        "rank 3: Torch.log.0.forward (before communication)",
        "  why: all that went in is good; output.0 has Max NaN",
        "  in: Module.fc.Linear.forward.0",
        "  called from:",
        "    File a.py, line 0, in f, x?[31m",
    ]
    assert "    and 3 more" in out
    assert found["rank_3"][0]["construct_info"] == ["Module.fc.Linear.forward.0", "Torch.log.0.forward"]


def test_a_backward_record_has_the_keys_of_one(tmp_path: Path) -> None:
    data = {"Torch.log.0.backward": {"input": [tensor()], "output": [tensor(INF), None]}}
    write_rank(tmp_path / "step0/rank", data)
    code, found = analyze(tmp_path / "step0", tmp_path / "output")
    assert code == 1
    assert found is not None
    (entry,) = found["rank_0"]
    assert entry["data_info"] == {"input": [tensor()], "output": [tensor(INF), None]}
    assert entry["stack_info"] == {}


# ---- Property: one planted origin, ranks that communicate in every way, decoys behind it


class Run:
    """A step of some ranks. Each has one tensor, which is bad or not."""

    def __init__(self, ranks: int, random_: random.Random) -> None:
        self.random = random_
        self.data: list[dict[str, Any]] = [{} for _ in range(ranks)]
        self.bad = [False] * ranks
        self.received_bad = [False] * ranks
        self.counters: list[Counter[str]] = [Counter() for _ in range(ranks)]

    def add(self, rank: int, name: str, record: dict[str, Any]) -> str:
        number = self.counters[rank][name]
        self.counters[rank][name] += 1
        full = f"{name}.{number}.forward"
        self.data[rank][full] = record
        return full

    def tensor(self, bad: bool) -> dict[str, Any]:
        return tensor(NAN if bad else 1.0)

    def compute(self, rank: int, makes_bad: bool = False) -> str:
        before = self.bad[rank]
        self.bad[rank] |= makes_bad
        return self.add(rank, "Torch.mul", call([self.tensor(before)], [self.tensor(self.bad[rank])]))

    def decoy(self, rank: int) -> None:
        """Looks like an origin, but stands behind bad values that have arrived."""
        if self.received_bad[rank]:
            self.add(rank, "Torch.where", call([tensor()], [tensor(INF)]))

    def receive(self, rank: int, bad: bool) -> None:
        self.received_bad[rank] |= bad
        self.bad[rank] |= bad

    def message(self, source: int, destination: int) -> None:
        bad = self.bad[source]
        tag = self.random.choice([{}, {"tag": value(7)}])
        before = self.tensor(self.random.random() < 0.2)  # empty memory
        kind = self.random.choice(["", "i"])
        self.add(
            source,
            f"Distributed.{kind}send",
            call([self.tensor(bad)], [self.tensor(bad)], dst=value(destination), **tag),
        )
        sender = {"src": value(source)}
        self.add(destination, f"Distributed.{kind}recv", call([before], [self.tensor(bad)], **sender, **tag))
        self.receive(destination, bad)

    def collective(self, members: list[int]) -> None:
        everybody = len(members) == len(self.data)
        group = (
            {}
            if everybody and self.random.random() < 0.5
            else {"group": {"type": "torch.ProcessGroup", "group_ranks": members, "group_id": "0"}}
        )
        kind = self.random.choice(["all_reduce", "broadcast", "all_gather", "reduce"])
        root = self.random.choice(members)
        bad = self.bad[root] if kind == "broadcast" else any(self.bad[rank] for rank in members)
        was_bad = list(self.bad)
        for rank in members:
            own = self.tensor(was_bad[rank])
            if kind == "all_gather":
                parts = [self.tensor(was_bad[other]) for other in members]
                empty = [self.tensor(self.random.random() < 0.2) for _ in members]
                record = call([empty, own], [parts, own], **group)
            elif kind == "reduce":
                record = call(
                    [own], [self.tensor(bad if rank == root else was_bad[rank])], dst=value(root), **group
                )
            elif kind == "broadcast":
                record = call([own, value(root)], [self.tensor(bad), value(root)], **group)
            else:
                record = call([own], [self.tensor(bad)], **group)
            self.add(rank, f"Distributed.{kind}", record)
            if kind == "broadcast":
                self.bad[rank] = bad  # replaced by what the root has
                self.received_bad[rank] |= bad
            elif kind != "reduce" or rank == root:
                self.receive(rank, bad)


@pytest.mark.parametrize("seed", range(60))
def test_a_planted_origin_is_found(seed: int, tmp_path: Path) -> None:
    random_ = random.Random(seed)
    ranks = random_.randint(1, 12)
    run = Run(ranks, random_)
    events = random_.randint(5, 150)
    culprit, moment = random_.randrange(ranks), random_.randrange(events)
    expected = None
    for event in range(events):
        if event == moment:
            expected = run.compute(culprit, makes_bad=True)
        kind = random_.random()
        if kind < 0.4 or ranks == 1:
            rank = random_.randrange(ranks)
            run.compute(rank)
            run.decoy(rank)
        elif kind < 0.7:
            source, destination = random_.sample(range(ranks), 2)
            run.message(source, destination)
        else:
            run.collective(sorted(random_.sample(range(ranks), random_.randint(2, ranks))))
    for rank, data in enumerate(run.data):
        write_rank(tmp_path / f"rank{rank}", data)
    found = core.find_origins(tmp_path, threads=random_.randint(1, 3))
    assert [(origin.rank, origin.record) for origin in found.origins] == [(culprit, expected)]
    assert found.notes == []


# ---- Damage


def test_a_rank_that_cannot_be_read_is_told_whether_something_is_found_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rank(tmp_path / "step0/rank0", {"Torch.add.0.forward": call([tensor()], [tensor()])})
    (tmp_path / "step0/rank1").mkdir()
    assert analyze(tmp_path / "step0", tmp_path / "output") == (1, None)
    assert capsys.readouterr().out.startswith("not looked at: step 0, rank 1 (cannot open ")
    write_rank(tmp_path / "step0/rank0", {"Torch.log.0.forward": call([tensor()], [tensor(NAN)])})
    assert analyze(tmp_path / "step0", tmp_path / "output")[0] == 1
    assert capsys.readouterr().out.startswith("not looked at: step 0, rank 1 (cannot open ")


def test_what_earlier_steps_lack_is_told_beside_a_later_origin(tmp_path: Path) -> None:
    good, bad = call([tensor()], [tensor()]), call([tensor()], [tensor(NAN)])
    for step, rank in ((0, 0), (0, 1), (1, 0), (2, 0), (2, 1)):
        log = bad if (step, rank) == (2, 0) else good
        write_rank(tmp_path / f"step{step}/rank{rank}", {"Torch.log.0.forward": log})
    (tmp_path / "step0/rank1/dump.json").write_text("{")
    result = nan_analyze(tmp_path)
    assert (result.step, result.found, result.unread_ranks) == (2, True, [1])
    assert [one.what for one in result.left_out] == ["step 0, rank 1", "step 1, rank 1"]
    assert "not looked at: step 0, rank 1 (" in result.sentence


@pytest.mark.parametrize("cut", range(0, 640, 37))
def test_a_dump_that_is_cut_is_an_error(cut: int, tmp_path: Path) -> None:
    path = write_rank(tmp_path / "rank", {"Torch.log.0.forward": call([tensor()], [tensor(NAN)])})
    text = path.read_text("utf-8")
    assert cut < len(text) - 1
    path.write_text(text[:cut], encoding="utf-8")
    with pytest.raises(FormatError):
        core.find_origins(tmp_path)


def test_a_record_that_changes_while_it_is_read() -> None:
    from msprobe.overflow.origin import report_of

    origin = SimpleNamespace(rank=0, record="Torch.log.0.forward", json='{"input_args":[', cause="computed")
    with pytest.raises(FormatError, match="cannot be read again"):
        report_of(SimpleNamespace(origins=[origin]))  # type: ignore[arg-type]


def test_of_a_dump_path_the_first_bad_step_is_taken(tmp_path: Path) -> None:
    bad = {"Torch.log.0.forward": call([tensor()], [tensor(NAN)])}
    for step, records in ((0, {}), (2, bad), (10, bad)):
        write_rank(tmp_path / f"step{step}/rank0", records)
    result = nan_analyze(tmp_path)
    assert (result.found, result.step) == (True, 2)
    assert [row["call"] for row in result.table()] == ["Torch.log.0.forward"]
    assert not nan_analyze(tmp_path, step=0).found
    with pytest.raises(InvalidArgument, match="there is no step 1"):
        nan_analyze(tmp_path, step=1)
    for wrong in (["-i", str(tmp_path), str(tmp_path)], []):
        with pytest.raises(SystemExit, match="2"):
            cli.main(["nan_analyze", *wrong])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["nan_analyze", "-i", str(tmp_path / "nowhere")])


def test_a_dump_without_statistics_is_said(tmp_path: Path) -> None:
    write_rank(tmp_path / "rank", {})
    assert any("no record has statistics" in note for note in core.find_origins(tmp_path).notes)


def test_exceptions_of_progress_arrive(tmp_path: Path) -> None:
    write_rank(tmp_path / "rank", {})

    def fail(done: int, total: int) -> None:
        raise KeyError(f"{done} of {total}")

    with pytest.raises(KeyError, match="1 of 1"):
        core.find_origins(tmp_path, progress=fail)
