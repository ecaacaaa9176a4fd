# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where the numbers of TrainerMon go: csv files, tensorboard, or nowhere (format api)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from msprobe.files.append_file import append_lines
from msprobe.files.atomic_file import make_directory
from msprobe.monitoring.anomalies import TAGS
from msprobe.monitoring.sinks import summary_writer
from msprobe.native import IoError, core, log

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe._core import MonitorCsv, MonitorFrame, MonitorLabels
    from msprobe.compat.trainer_mon.settings import TrainerSettings


# What the names of files begin with, where it is not the tag.
_FILES = {
    "unreduced_gradient": "grad_unreduced", "gradient": "grad_reduced", "gradient_moment": "other",
    "communication": "other",
}  # fmt: skip
WORDS = {of: (tag, _FILES.get(of, tag)) for of, tag in TAGS.items()}
"""Of what TrainerMon records: the end of the tags, and the beginning of the names of files."""


@dataclass
class Task:
    """The rows of one quantity."""

    tag: str
    file: str
    micro_steps: bool
    frame: MonitorFrame


class Tags:
    """The names of rows."""

    def __init__(self, labels: MonitorLabels, rank: int) -> None:
        self._labels = labels
        self._rank = rank
        self._places: dict[tuple[str, str], int] = {}  # labels of collectives
        self._whole: dict[int, str] = {}  # of labels whose tag is not made of their name

    def of_collective(self, name: str, place: str) -> int:
        """Its label."""
        key = name, place
        if key not in self._places:
            label = self._places[key] = self._labels.add(0, f"{name}.{place}")
            self._whole[label] = f"{name}/rank{self._rank}/{place}"
        return self._places[key]

    def of(self, task: Task) -> list[str]:
        """For each row."""
        all_ = self._labels.all()
        tags = []
        for label, micro_step, _ in task.frame.values([]):
            stage, name, _ = all_[label]
            micro = f":{micro_step}" if micro_step >= 0 else ""
            tags.append(self._whole.get(label) or f"{stage}:{name}{micro}/rank{self._rank}/{task.tag}")
        return tags


class Output(Protocol):
    """One format."""

    def write(self, task: Task, tags: list[str], step: int) -> None:
        """The rows of a task in one step. Never raises because of a disk."""

    def close(self) -> None: ...


class ApiOutput:
    """Nothing on disk."""

    def write(self, task: Task, tags: list[str], step: int) -> None:
        pass

    def close(self) -> None:
        pass


class CsvOutput:
    """Files `{name}_{a}-{b}.csv` of `step_count_per_record` steps. qualifies_dtypes: as core.MonitorCsv."""

    def __init__(
        self, folder: Path, settings: TrainerSettings, labels: MonitorLabels, *, qualifies_dtypes: bool = True
    ) -> None:
        self._folder = make_directory(folder)
        self._settings = settings
        self._labels = labels
        self._qualifies_dtypes = qualifies_dtypes
        self._tables: dict[str, MonitorCsv] = {}
        self._complained: set[str] = set()

    def write(self, task: Task, tags: list[str], step: int) -> None:
        if task.file not in self._tables:
            self._tables[task.file] = core.MonitorCsv(
                list(self._settings.ops), self._settings.ndigits, task.micro_steps, self._qualifies_dtypes
            )
        table = self._tables[task.file]
        count = self._settings.step_count_per_record
        first = step // count * count
        text = table.rows(task.frame, self._labels, step)
        try:
            make_directory(self._folder)
            path = self._folder / f"{task.file}_{first}-{first + count - 1}.csv"
            append_lines(path, text, table.header())
            self._complained.discard(task.file)
        except IoError as error:
            if task.file not in self._complained:
                self._complained.add(task.file)
                log.warning("%s; step %d is not recorded there, training goes on", error, step)

    def close(self) -> None:
        pass


class TensorBoardOutput:
    """Scalars `{tag}_{op}`, through torch's SummaryWriter."""

    def __init__(self, folder: Path, settings: TrainerSettings) -> None:
        self.writer = summary_writer(folder)
        self._settings = settings
        self._complained = False

    def write(self, task: Task, tags: list[str], step: int) -> None:
        ops = self._settings.numbers
        for tag, (_, _, values) in zip(tags, task.frame.values(ops)):
            for op, value in zip(ops, values):
                self._guarded(self.writer.add_scalar, f"{tag}_{op}", value, step)

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self._guarded(self.writer.add_scalar, tag, value, step)

    def add_image(self, tag: str, image: Any, step: int) -> None:
        self._guarded(self.writer.add_image, tag, image, global_step=step, dataformats="CHW")

    def close(self) -> None:
        self._guarded(self.writer.close)

    def _guarded(self, call: Any, *args: Any, **kwargs: Any) -> None:
        try:
            call(*args, **kwargs)
        except OSError as error:
            if not self._complained:
                self._complained = True
                log.warning("tensorboard: %s: training goes on without", error)
