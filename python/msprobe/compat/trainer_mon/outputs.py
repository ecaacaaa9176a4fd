# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where the numbers of TrainerMon go: csv files, tensorboard, or nowhere (format api)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from msprobe.files.append_file import append_lines
from msprobe.files.atomic_file import make_directory
from msprobe.native import IoError, core, log

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe._core import MonitorCsv, MonitorFrame, MonitorLabels
    from msprobe.compat.trainer_mon.settings import TrainerSettings


@dataclass
class Task:
    """One kind of what is measured."""

    tag: str  # the end of its tags
    file: str  # the beginning of its files' names
    micro_steps: bool = False
    frame: MonitorFrame = field(default_factory=core.MonitorFrame)


class Tags:
    """The names of rows."""

    def __init__(self, labels: MonitorLabels, rank: int) -> None:
        self._labels = labels
        self._rank = rank
        self._whole: dict[int, str] = {}  # of labels whose tag is not made of their name

    def set_whole(self, label: int, name: str, place: str) -> None:
        self._whole[label] = f"{name}/rank{self._rank}/{place}"

    def of(self, task: Task, frame: MonitorFrame) -> list[str]:
        """For each row of the frame."""
        all_ = self._labels.all()
        tags = []
        for label, micro_step, _ in frame.values([]):
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


def append_to_record(folder: Path, file: str, step: int, count: int, text: str, header: str) -> None:
    """To `{file}_{a}-{b}.csv`, `count` steps in each. Raises IoError."""
    first = step // count * count
    if not folder.is_dir():
        make_directory(folder)
    append_lines(folder / f"{file}_{first}-{first + count - 1}.csv", text, header)


class CsvOutput:
    """csv files of `step_count_per_record` steps."""

    def __init__(self, folder: Path, settings: TrainerSettings, labels: MonitorLabels) -> None:
        self._folder = make_directory(folder)
        self._settings = settings
        self._labels = labels
        self._tables: dict[str, MonitorCsv] = {}
        self._complained: set[str] = set()

    def write(self, task: Task, tags: list[str], step: int) -> None:
        if task.file not in self._tables:
            self._tables[task.file] = core.MonitorCsv(
                list(self._settings.ops), self._settings.ndigits, task.micro_steps
            )
        table = self._tables[task.file]
        count = self._settings.step_count_per_record
        text = table.rows(task.frame, self._labels, step)
        try:
            append_to_record(self._folder, task.file, step, count, text, table.header())
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
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            from msprobe.native import UnsupportedError

            raise UnsupportedError(
                'format "tensorboard" needs the package tensorboard, which is not installed: '
                "`pip install tensorboard`"
            ) from error
        make: Any = SummaryWriter
        self.writer = make(str(make_directory(folder)))
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
