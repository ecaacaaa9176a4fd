# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The training state of all ranks of a run, step by step (docs/formats/diagnosis.md)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.files.dump_folders import RANK, STEP, Form, form_of, numbered
from msprobe.files.left_out import LeftOut, left_out
from msprobe.files.ranges import numbers
from msprobe.files.regular_file import read_text
from msprobe.files.run_folder import dump_of, failed_step_in, lifetime_in, processes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    State = dict[str, Any]

FILE = "diagnosis.json"
DUMP = "dump.json"
_VERSION = 1  # docs/formats/diagnosis.md


@dataclass
class Job:
    """Which files there are of a run, and which of them could not be read."""

    folder: Path
    steps: dict[int, dict[int, Path]]
    """Folders of ranks, by step and rank."""
    left_out: list[LeftOut] = field(default_factory=list)
    processes: dict[int, object] = field(default_factory=dict)
    """What run.rank{R}.json holds, by rank."""

    @property
    def ranks(self) -> list[int]:
        """All that recorded any step."""
        return sorted({rank for ranks in self.steps.values() for rank in ranks})

    def states(self) -> Iterator[tuple[int, dict[int, State]]]:
        """By step, the states of its ranks. Only those of one step are in memory."""
        return ((step, self.states_of(step)) for step in sorted(self.steps))

    def states_of(self, step: int) -> dict[int, State]:
        """By rank; empty for a step that was not recorded."""
        folders = self.steps.get(step, {})
        read = {rank: self._read(folder, step, rank) for rank, folder in sorted(folders.items())}
        states = self._of_one_job({rank: state for rank, state in read.items() if state is not None}, step)
        size = max(filter(None, map(world_size, states.values())), default=0)
        expected = {*self.ranks, *range(size)} if folders else set()
        for rank in sorted(expected - set(folders)):
            self._leave_out(left_out("not recorded", step, rank))
        for rank, faults in ((rank, faults_of(state)) for rank, state in states.items()):
            if faults:
                more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
                self._leave_out(left_out(f'could not be measured: "{faults[0]}"{more}', step, rank))
        return states

    def dumps_of(self, step: int) -> Iterator[tuple[int, State]]:
        """What each rank called, one rank at a time in memory; those that have a dump that can be read."""
        without: dict[int, str] = {}
        folders = self.steps.get(step, {})
        for rank, folder in sorted(folders.items()):
            content = _content(folder / DUMP)
            if isinstance(content, dict):
                yield rank, content
            else:
                without[rank] = content
        if len(without) < len(folders):  # else calls were not recorded
            known = {one.rank for one in self.left_out if one.step == step}
            for rank in without.keys() - known:
                self._leave_out(left_out(without[rank], step, rank))

    def missing(self, states: dict[int, State]) -> set[int]:
        """Ranks of the job that are not among the states of a step."""
        sizes = [size for state in states.values() if (size := world_size(state)) is not None]
        return {*self.ranks, *range(max(sizes, default=0))} - set(states)

    def why_lacking(self, states: dict[int, State], step: int) -> str:
        """Why what is not there of a step may have been there all the same; empty: all of it was recorded."""
        if self.missing(states):
            return "a rank that may hold it was not recorded"
        if step in map(failed_step_in, self.processes.values()):
            return "the run failed in this step"
        return "a rank could not measure everything" if any(map(faults_of, states.values())) else ""

    def first_state(self) -> State | None:
        """Of the first step, and the first rank that can be read: how the job is laid out. None: there is
        none.
        """
        for folders in (self.steps[step] for step in sorted(self.steps)):
            for rank in sorted(folders):
                state = _content(folders[rank] / FILE)
                if isinstance(state, dict):
                    return state
        return None

    def _leave_out(self, one: LeftOut) -> None:
        if one not in self.left_out:
            self.left_out.append(one)

    def _of_one_job(self, states: dict[int, State], step: int) -> dict[int, State]:
        """Ranks of two jobs in one folder say different numbers of processes: then those of the job that has
        most of them, or the first one. A process that trained alone has no layout.
        """
        sizes = {rank: 1 if "layout" not in one else world_size(one) for rank, one in states.items()}
        said = Counter(size for size in sizes.values() if size is not None)
        if len(said) < 2:
            return self._at_one_time(states, step)
        of_job = " and ".join(map(str, sorted(said)))
        self._leave_out(left_out(f"its ranks are of jobs of {of_job} processes", step))
        ((kept, _),) = said.most_common(1)
        return {rank: one for rank, one in states.items() if sizes[rank] in (None, kept)}

    def _at_one_time(self, states: dict[int, State], step: int) -> dict[int, State]:
        """The processes of a job train together: none begins when another one has ended."""
        lives = {rank: lifetime_in(self.processes.get(rank)) for rank in states if world_size(states[rank])}
        known = sorted((life, rank) for rank, life in lives.items() if life is not None)
        jobs: list[list[int]] = []
        ends: list[tuple[str, int]] = []
        """Of each job the first one, and whose it is."""
        for (began, ended), rank in known:
            if not jobs or began > ends[-1][0]:
                jobs.append([])
                ends.append((ended, rank))
            jobs[-1].append(rank)
            ends[-1] = min(ends[-1], (ended, rank))
        if len(jobs) < 2:
            return states
        later = numbers("rank", jobs[1])
        self._leave_out(
            left_out(
                f"its ranks are of {len(jobs)} jobs: {later} began when rank {ends[0][1]} had ended", step
            )
        )
        others = {rank for job in jobs if job != max(jobs, key=len) for rank in job}
        return {rank: one for rank, one in states.items() if rank not in others}

    def _read(self, folder: Path, step: int, rank: int) -> State | None:
        content = _content(folder / FILE)
        if isinstance(content, dict) and content.get("version", _VERSION) != _VERSION:
            content = (
                f"{FILE} is of version {str(content['version'])[:20]}, expected {_VERSION}: its rank was "
                "recorded by another msprobe"
            )
        if isinstance(content, dict) and (fault := _fault_of(content)):
            content = f"{FILE}: {fault}"
        if isinstance(content, dict):
            return content
        self._leave_out(left_out(content, step, rank))
        return None


def _content(path: Path) -> State | str:
    """Of a file; or why there is none."""
    try:
        content = json.loads(read_text(path))
    except FileNotFoundError:
        return f"there is no {path.name}"
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        return f"{path.name} is no JSON"
    return content if isinstance(content, dict) else f"{path.name} holds no object"


_OBJECTS = ("layout", "parameters", "buffers", "modules")
_LISTS = ("inputs", "backward", "clipping", "gradients_at_optimizer", "optimizer")
_OF_PLACEMENT = ("shape", "placements", "mesh_shape", "mesh_dims", "coordinate", "local_shape", "offset")


def _fault_of(state: State) -> str:
    """What no msprobe writes, which is read further on; empty: nothing."""
    for names, kind, words in ((_OBJECTS, dict, "an object"), (_LISTS, list, "a list")):
        for name in names:
            if not isinstance(state.get(name), (kind, type(None))):
                return f"{name}: expected {words}, found {str(state[name])[:40]}"
    for place in _placements(state):
        for name in _OF_PLACEMENT:
            of = str if name in ("placements", "mesh_dims") else int
            found = place.get(name)
            if found is not None and not (isinstance(found, list) and all(type(one) is of for one in found)):
                words = "texts" if of is str else "whole numbers"
                return f"dtensor: {name}: expected a list of {words}, found {str(found)[:40]}"
    return ""


def _placements(value: Any) -> Iterator[State]:
    """Of all tensors of a file."""
    if isinstance(value, dict):
        if isinstance(place := value.get("dtensor"), dict):
            yield place
        elif "dtype" not in value:
            for one in value.values():
                yield from _placements(one)
    elif isinstance(value, list):
        for one in value:
            yield from _placements(one)


def open_job(path: Path) -> Job:
    """path: of a run, or a folder of steps. Raises InvalidArgument."""
    folder = dump_of(path)
    if form_of(folder) is not Form.RUN:
        return Job(folder, {})
    steps = {step: numbered(at, RANK) for step, at in sorted(numbered(folder, STEP).items())}
    return Job(folder, steps, processes=dict(processes_of(folder)))


MOST_RANKS = 1 << 20


def world_size(state: State) -> int | None:
    """None: the file does not say."""
    size = section(state, "layout").get("world_size")
    return size if isinstance(size, int) and 0 < size <= MOST_RANKS else None


def faults_of(state: State) -> list[str]:
    """What could not be measured of what is joined. Gradients before the reduction are those of each rank."""
    found = state.get("faults")
    faults = [str(one)[:300] for one in found] if isinstance(found, list) else []
    return [one for one in faults if not one.partition(":")[0].endswith(" before the reduction")]


def section(state: State, name: str) -> State:
    """An object of the file; empty where there is none."""
    found = state.get(name)
    return found if isinstance(found, dict) else {}


def sections(states: dict[int, State], name: str) -> dict[int, State]:
    """section() of each rank."""
    return {rank: section(state, name) for rank, state in states.items()}


def items(state: State, name: str) -> list[State]:
    """A list of objects; what is none is passed by."""
    found = state.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def each(
    states: dict[int, State], name: str, takes: Callable[[State], bool] = lambda _: True
) -> Iterator[dict[int, State]]:
    """The items of a list that `takes` is true of, place by place: those of the ranks that have one there."""
    lists = {rank: list(filter(takes, items(state, name))) for rank, state in states.items()}
    for place in range(max(map(len, lists.values()), default=0)):
        yield {rank: found[place] for rank, found in lists.items() if place < len(found)}
