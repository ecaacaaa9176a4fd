# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where numbers go beside the store: a csv file, tensorboard, functions of the user."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Protocol

from msprobe.files.append_file import LineFile
from msprobe.files.atomic_file import make_directory
from msprobe.files.csv_cells import guarded
from msprobe.monitoring.store_files import continue_csv
from msprobe.native import IoError, UnsupportedError, log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

HEADER = "step,series,value\n"


class Sink(Protocol):
    """Gets the numbers of each recorded step by the keys of their series. What it raises ends it, and not the
    training.
    """

    name: str

    def write(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class CsvSink:
    """A line for each number: series may come and go."""

    name = "csv"

    def __init__(self, path: Path, start: int) -> None:
        """start: the first step. What an earlier training has written from there on goes; one that still runs
        goes on in its file, under another name. Raises IoError.
        """
        make_directory(path.parent)
        continue_csv(path, start)
        self._file = LineFile(path, HEADER)
        self._complained = False

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            (step, guarded(key), repr(value)) for key, value in numbers.items()
        )
        try:
            self._file.append(text.getvalue())
            self._complained = False
        except IoError as error:  # the disk may have room again later
            if not self._complained:
                log.warning("%s; training goes on", error)
            self._complained = True

    def close(self) -> None:
        self._file.close()


def summary_writer(folder: Path, purge_step: int | None = None) -> Any:
    """torch's, which writes files of tensorboard. Raises UnsupportedError without tensorboard, IoError."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UnsupportedError(
            "files of tensorboard need the package tensorboard, which is not installed: "
            "`pip install tensorboard`"
        ) from error
    make: Any = SummaryWriter
    return make(str(make_directory(folder)), purge_step=purge_step)


class TensorBoardSink:
    """Scalars, through torch's SummaryWriter."""

    name = "tensorboard"

    def __init__(self, folder: Path, start: int) -> None:
        """start: the first step. tensorboard hides what an earlier training has written from there on."""
        self._writer = summary_writer(folder, purge_step=start or None)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        for key, value in numbers.items():
            self._writer.add_scalar(key, value, step)

    def close(self) -> None:
        self._writer.close()


class CallbackSink:
    """`callback(numbers, step=step)`: as `wandb.log`, `mlflow.log_metrics` and `trackio.log` take them."""

    def __init__(self, callback: Callable[..., Any]) -> None:
        self.name = f"callback {getattr(callback, '__qualname__', type(callback).__qualname__)}"
        self._callback = callback

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        self._callback(dict(numbers), step=step)

    def close(self) -> None:
        pass


class Sinks:
    """All of a run."""

    def __init__(self, sinks: list[Sink]) -> None:
        self._sinks = list(sinks)

    def __bool__(self) -> bool:
        return bool(self._sinks)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        for sink in list(self._sinks):
            try:
                sink.write(step, numbers)
            except Exception as error:
                log.warning(
                    "monitor: %s: %s: %s: it gets no more numbers", sink.name, type(error).__name__, error
                )
                self._sinks.remove(sink)

    def close(self) -> None:
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as error:
                log.warning("monitor: %s: %s: %s", sink.name, type(error).__name__, error)
        self._sinks = []
