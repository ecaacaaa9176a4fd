# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""run_ut: every call of a dump is checked, and written down at once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.compat.accuracy.checker import ALWAYS_SKIPPED, Checker
from msprobe.compat.accuracy.config import RunUtConfig, load_run_ut_config
from msprobe.compat.accuracy.error_data import save_error_data
from msprobe.compat.accuracy.result_files import (
    FORM,
    Form,
    ResultFiles,
    continued_files,
    new_files,
    read_rows,
)
from msprobe.compat.mindspore_calls import MindSporeDump
from msprobe.files.dump_folders import dump_file, framework_of
from msprobe.native import InvalidArgument, UnsupportedError
from msprobe.replay.dump_file import Dump
from msprobe.replay.execution import device_named
from msprobe.replay.functions import function_named
from msprobe.replay.loop import each_call
from msprobe.tensors.float32_products import roundings
from msprobe.terminal.progress import Progress
from msprobe.training.torch_state import switches

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.compat.accuracy.checker import CallResult
    from msprobe.replay.dump_file import RecordedCall

_PREFIXES = ("Functional", "Tensor", "Torch", "VF", "Aten")


@dataclass(frozen=True)
class RunUtOptions:
    """How run_ut checks."""

    output: str = "./"
    """Folder of the results; made if needed."""
    devices: Sequence[int | str] = (0,)
    """Numbers of devices, or "cpu". Without an accelerator every number is the CPU."""
    save_error_data: bool = False
    """Keep the tensors of calls that do not pass."""
    jit_compile: bool = False
    """For the NPU."""
    continue_from: str = ""
    """The result file of an interrupted run, which is continued."""
    filter_api: bool = False
    """Leave out later calls whose arguments differ in their values only."""
    config: RunUtConfig = field(default_factory=RunUtConfig)
    step: int | None = None
    """Of a folder with several dumps; None: the first."""
    rank: int | None = None
    shows_progress: bool = False


@dataclass(frozen=True)
class RunUtResult:
    """What was found, and where it is."""

    results: Path
    details: Path
    counts: dict[str, int]
    """How many calls have which status, forward and backward together: "pass", "Warning", "error", "SKIP"."""

    @property
    def agrees(self) -> bool:
        """No call is judged an error."""
        return self.counts.get("error", 0) == 0


def run_ut(
    api_info: str | os.PathLike[str],
    out_path: str | os.PathLike[str] = "./",
    *,
    device: int | str = 0,
    config_path: str | os.PathLike[str] | None = None,
    save_error_data: bool = False,
    result_csv_path: str = "",
    filter_api: bool = False,
) -> RunUtResult:
    """Checks the calls of a dump.json (level L1 or mix) and writes accuracy_checking_result_{time}.csv and
    accuracy_checking_details_{time}.csv into `out_path`.

    Raises InvalidArgument for wrong options; IoError, FormatError for a dump that cannot be read.
    """
    options = RunUtOptions(
        output=os.fspath(out_path),
        devices=(device,),
        save_error_data=save_error_data,
        continue_from=result_csv_path,
        filter_api=filter_api,
        config=load_run_ut_config(config_path) if config_path else RunUtConfig(),
    )
    return check_dump(os.fspath(api_info), options)


def check_dump(path: str, options: RunUtOptions) -> RunUtResult:
    """As run_ut(), with options that are checked already. path: also a folder, see Dump."""
    job = prepare(path, options)
    device = device_of(options.devices[0], options.jit_compile)
    names = job.names
    with Progress("Processing", shown=options.shows_progress) as progress:
        work(job, device, names, progress)
    return result_of(job.files)


@dataclass(frozen=True)
class Job:
    """What all processes of one run_ut share."""

    path: str
    options: RunUtOptions
    files: ResultFiles
    names: list[str]
    """Of the calls that are left to check."""
    framework: str = "pytorch"

    @property
    def error_folder(self) -> Path:
        return Path(self.options.config.error_data_path) / f"ut_error_data{self.files.time}"


def prepare(path: str, options: RunUtOptions) -> Job:
    """Reads the dump and makes or continues the files."""
    check_lists(options.config)
    if os.path.isdir(path):
        path = str(dump_file(Path(path), options.step, options.rank))
    framework = framework_of(Path(path))
    form = FORM
    if framework == "mindspore":
        from msprobe.compat.accuracy import mindspore

        if find_spec("mindspore") is None:
            raise UnsupportedError(
                f"{path}: a dump of MindSpore is checked where MindSpore is installed, with numpy below 2, "
                "and PyTorch beside it"
            )
        form = Form(mindspore.RESULT_HEADER, mindspore.DETAILS_HEADER)
        dump: Dump = MindSporeDump(path)
    else:
        dump = Dump(path)
    dump.require_calls()
    done: set[str] = set()
    if options.continue_from:
        files, done = continued_files(options.continue_from, options.config.precision, form)
    else:
        files = new_files(options.output, options.config.precision, form=form)
    names = different_calls(dump) if options.filter_api else dump.names
    return Job(path, options, files, [name for name in names if name not in done], framework)


def work(
    job: Job, device: str, names: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> None:
    """Checks these calls in this process."""
    judge = _judge_of_mindspore(job) if job.framework == "mindspore" else _judge(job, device)
    for result in each_call(names, judge, device, progress):
        if job.options.save_error_data:
            save_error_data(job.error_folder, result)
        job.files.write(replace(result, data=None))


def _judge_of_mindspore(job: Job) -> Callable[[str], CallResult]:
    from msprobe.compat.accuracy.mindspore import check

    dump = MindSporeDump(job.path)
    return lambda name: check(dump.call(name))


def _judge(job: Job, device: str) -> Callable[[str], CallResult]:
    import torch

    dump = Dump(job.path)
    config = job.options.config
    checker = Checker(
        device,
        config.white_list,
        config.black_list,
        threads=torch.get_num_threads(),
        roundings=roundings(switches(), device.partition(":")[0]),
    )

    def judge(name: str) -> CallResult:
        return checker.skipped(name) or checker.check(dump.call(name))

    return judge


def result_of(files: ResultFiles) -> RunUtResult:
    counts: Counter[str] = Counter()
    for row in read_rows(files.results, files.form.results):
        counts.update(status for status in row[1:3] if status != " ")
    return RunUtResult(files.results, files.details, dict(counts))


def device_of(device: int | str, compile_operators: bool = False) -> str:
    return device if isinstance(device, str) else device_named(device, compile_operators=compile_operators)


def check_lists(config: RunUtConfig) -> None:
    """Raises InvalidArgument for a name that no function has."""
    for key, names in (("white_list", config.white_list), ("black_list", config.black_list)):
        unknown = [name for name in names if not _is_known(name)]
        if unknown:
            raise InvalidArgument(
                f'"run_ut.{key}": Invalid api in {key}: {unknown}, expected names of functions: "linear"'
            )


def _is_known(name: str) -> bool:
    if name in ALWAYS_SKIPPED or name.startswith("npu_"):
        return True
    return any(function_named(prefix, name) is not None for prefix in _PREFIXES)


# ---- -f


def different_calls(dump: Dump) -> list[str]:
    """The names without those of later calls of a function whose arguments differ from an earlier one's in
    Max and Min alone.
    """
    seen: set[tuple[str, str]] = set()
    names = []
    for call in dump.calls():
        key = call.name.rpartition(".")[0], _arguments_without_range(call)
        if key not in seen:
            seen.add(key)
            names.append(call.name)
    return names


def _arguments_without_range(call: RecordedCall) -> str:
    """The statistics of keyword arguments count, those of positional ones do not: as in mindstudio-probe,
    whose records had no others than Max and Min.
    """
    args = [
        {key: value for key, value in arg.items() if key not in _VALUES}
        for arg in call.args
        if isinstance(arg, dict)
    ]
    return repr((args, call.kwargs))


_VALUES = ("Max", "Min", "Mean", "Norm", "md5", "data_name")
