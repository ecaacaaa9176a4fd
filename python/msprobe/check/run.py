# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A whole check: every call of every rank and step is judged, and written down at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msprobe.check.result import CheckedCall, CheckResult
from msprobe.check.table import CallTable
from msprobe.files.atomic_file import make_directory
from msprobe.files.dump_folders import RANK, STEP, Form, form_of, number_of, numbered
from msprobe.files.regular_file import is_there
from msprobe.files.run_folder import dump_of
from msprobe.native import FormatError, InvalidArgument, UnsupportedError, import_torch
from msprobe.replay.attribution import Attribution, attribute
from msprobe.replay.dump_file import Dump
from msprobe.replay.execution import device_named
from msprobe.replay.functions import NEVER_RUN
from msprobe.replay.judgement import CallJudgement, Setting, judge
from msprobe.replay.loop import each_call
from msprobe.tensors.float32_products import roundings
from msprobe.terminal.progress import Progress
from msprobe.training.torch_state import switches


@dataclass(frozen=True)
class CheckOptions:
    """What is checked, and how."""

    calls: tuple[str, ...] = ()
    """Only calls whose names hold one of these; empty: all."""
    device: str = ""
    """ "cpu", "cuda", "cuda:1", "npu:0"; empty: an accelerator where there is one."""
    dtype: str = ""
    """Run in this dtype in place of the recorded one."""
    repeat: int = 1
    """Run each call so often: is it the same each time, bit by bit?"""
    results: str = "auto"
    """ "recorded": judge what the dump holds; "rerun": what a run gives now; "auto": recorded results where
    there are any and no accelerator to run on."""
    inputs_of: Path | None = None
    """A dump of the reference: its arguments are given to the operators."""
    ranks: Collection[int] | None = None
    steps: Collection[int] | None = None
    operators: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Implementations to be judged in place of torch's, by name: "Functional.softmax"."""
    worst: int = 10
    """So many calls are named."""
    shows_progress: bool = False


def check(
    dump: str | Path,
    output: str | Path | None = None,
    *,
    calls: Collection[str] = (),
    device: str = "",
    dtype: str = "",
    repeat: int = 1,
    results: str = "auto",
    inputs_of: str | Path | None = None,
    operators: Mapping[str, Callable[..., Any]] | None = None,
) -> CheckResult:
    """Judges every call of a dump against the truth: the same call in float64 (docs/check.md).

    dump: a dump.json, or the folder of a rank, a step or a run; level L1 or mix, task tensor or statistics.
    output: folder for calls.csv, verdict.json and report.html; None: nothing is written.
    operators: implementations to judge in place of torch's, e.g. {"Functional.softmax": my_softmax}.

    Raises InvalidArgument for wrong options or a path that is no dump; FormatError and IoError for one that
    cannot be read, or has no call that could be run.
    """
    options = CheckOptions(
        calls=tuple(calls),
        device=device,
        dtype=dtype,
        repeat=repeat,
        results=results,
        inputs_of=None if inputs_of is None else Path(inputs_of),
        operators=operators or {},
    )
    result = check_dump(Path(dump), options, None if output is None else Path(output))
    if output is not None:
        from msprobe.check.outputs import write_outputs

        write_outputs(result)
    return result


def check_dump(path: Path, options: CheckOptions, output: Path | None = None) -> CheckResult:
    """As check(), but for the files that stand beside the table."""
    start = time.monotonic()
    path = dump_of(path)
    if options.inputs_of is not None:
        options = replace(options, inputs_of=dump_of(options.inputs_of))
    torch = import_torch()
    _check_options(options, torch)
    files = list(_dump_files(path, options))
    dumps = [_opened(file) for file in files]
    if not any(dump.names for _, dump in dumps):
        dumps[0][1].require_calls()
    device = _device(options)
    source = _source(options, device, [dump for _, dump in dumps])
    setting = Setting(
        device=device,
        source=source,
        dtype=options.dtype,
        repeat=options.repeat,
        operators=options.operators,
        threads=torch.get_num_threads(),
        roundings=roundings(switches(), device.partition(":")[0]),
    )
    names = [_wanted(dump, options) for _, dump in dumps]
    if not any(names):
        raise InvalidArgument(f"{path}: no call has a name with {' or '.join(options.calls)}")
    table = None if output is None else CallTable(make_directory(output) / "calls.csv")
    jobs = [
        (file, dump, reference, name, of_dump)
        for (file, dump), wanted in zip(dumps, names)
        for reference in [_reference_of(file, path, options)]
        for of_dump in [_setting_of(dump, setting)]
        for name in wanted
    ]
    calls: list[CheckedCall] = []
    with Progress("calls", shown=options.shows_progress) as progress:
        for checked in each_call(jobs, lambda job: _checked(*job), device, progress):
            calls.append(checked)
            if table is not None:
                table.write(checked)
    return CheckResult(
        dump=path,
        output=output,
        setting=replace(setting, operators={}),
        operators=sorted(options.operators),
        inputs_of=options.inputs_of,
        calls=calls,
        seconds=time.monotonic() - start,
    )


def _check_options(options: CheckOptions, torch: Any) -> None:
    if options.repeat < 1:
        raise InvalidArgument(f"repeat: expected 1 or more, found {options.repeat}")
    if options.results not in ("auto", "recorded", "rerun"):
        raise InvalidArgument(f'results: expected "auto", "recorded" or "rerun", found {options.results!r}')
    if options.results == "recorded" and (options.dtype or options.repeat > 1 or options.operators):
        raise InvalidArgument(
            "recorded results have one dtype and one run: expected no dtype, repeat or operators"
        )
    dtype = getattr(torch, options.dtype, None) if options.dtype else torch.float32
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise InvalidArgument(f"dtype: expected a floating-point dtype of torch, found {options.dtype!r}")


# ---- which dumps


@dataclass(frozen=True)
class _File:
    path: Path
    step: int
    rank: int


def _dump_files(path: Path, options: CheckOptions) -> Iterator[_File]:
    form = form_of(path)
    if form is Form.FILE:
        yield _File(path, number_of(STEP, path.parent.parent), number_of(RANK, path.parent))
        return
    if form is Form.RANK:
        yield _File(path / "dump.json", number_of(STEP, path.parent), number_of(RANK, path))
        return
    steps = numbered(path, STEP) if form is Form.RUN else {number_of(STEP, path): path}
    found = False
    for step, step_folder in sorted(steps.items()):
        if options.steps is not None and step not in options.steps:
            continue
        for rank, folder in sorted(numbered(step_folder, RANK).items()):
            file = folder / "dump.json"
            if (options.ranks is None or rank in options.ranks) and is_there(file):
                found = True
                yield _File(file, step, rank)
    if not found:
        raise InvalidArgument(f"{path}: expected a dump.json of the wanted ranks and steps, found none")


def _opened(file: _File) -> tuple[_File, Dump]:
    return file, Dump(str(file.path))


def _reference_of(file: _File, dump: Path, options: CheckOptions) -> Dump | None:
    """The dump of the reference that belongs to a file: in the same place below its own path."""
    root = options.inputs_of
    if root is None:
        return None
    form = form_of(root)
    if form is not form_of(dump):
        raise InvalidArgument(f"{root} is {form.value}: expected {form_of(dump).value}, as {dump}")
    if form is Form.FILE:
        return Dump(str(root))
    own = root if form is Form.RANK else None
    if own is None:
        folder = root
        if form is Form.RUN:
            steps = numbered(root, STEP)
            if file.step not in steps:
                raise InvalidArgument(f"{root}: expected a folder of step {file.step}, as in {dump}")
            folder = steps[file.step]
        ranks = numbered(folder, RANK)
        if file.rank not in ranks:
            raise InvalidArgument(f"{folder}: expected a folder of rank {file.rank}, as in {dump}")
        own = ranks[file.rank]
    return Dump(str(own / "dump.json"))


# ---- what is judged


def _device(options: CheckOptions) -> str:
    """Raises InvalidArgument for one that is not there."""
    if not options.device:
        return "cpu" if options.results == "recorded" else device_named(0)
    kind, _, number = options.device.partition(":")
    if kind == "cpu":
        return "cpu"
    if kind not in ("cuda", "npu") or (number and not number.isdecimal()):
        raise InvalidArgument(
            f'device: expected "cpu", "cuda" or "npu", with a number, found {options.device!r}'
        )
    found = device_named(int(number or 0))
    if not found.startswith(kind):
        raise InvalidArgument(f"device: there is no {kind} device here")
    return found


def _source(options: CheckOptions, device: str, dumps: list[Dump]) -> Any:
    if options.results == "recorded":
        if all(dump.folder is None for dump in dumps):
            raise UnsupportedError(
                f"{dumps[0].path}: its results were not recorded: expected a dump of task tensor, or results "
                "to be run again"
            )
        return "recorded"
    rerun = options.results == "rerun" or options.device or options.dtype or options.repeat > 1
    if rerun or options.operators or device != "cpu" or any(dump.folder is None for dump in dumps):
        return "device"
    return "recorded"


def _setting_of(dump: Dump, setting: Setting) -> Setting:
    """Results of the training were computed by its own switches, where they stand beside the dump."""
    if setting.source != "recorded":
        return setting
    recorded = dump.training_state().get("determinism")
    switches = recorded.get("start") if isinstance(recorded, dict) else None
    of_dump = roundings(switches, str(switches.get("device"))) if isinstance(switches, dict) else {}
    return replace(setting, roundings=of_dump)


def _wanted(dump: Dump, options: CheckOptions) -> list[str]:
    return [
        name
        for name in dump.names
        if name.partition(".")[0] not in NEVER_RUN
        and (not options.calls or any(part in name for part in options.calls))
    ]


def _checked(file: _File, dump: Dump, reference: Dump | None, name: str, setting: Setting) -> CheckedCall:
    try:
        if reference is not None:
            found = _attributed(dump, reference, name, setting)
            return CheckedCall(file.step, file.rank, found.judgement, found.shares, found.reason)
        return CheckedCall(file.step, file.rank, judge(dump.call(name), setting))
    except FormatError as error:
        return CheckedCall(file.step, file.rank, CallJudgement(name, "skipped", str(error)))


def _attributed(dump: Dump, reference: Dump, name: str, setting: Setting) -> Attribution:
    if name in reference.names:
        return attribute(dump, reference, name, setting)
    judgement = judge(dump.call(name), setting)
    return Attribution(judgement, reason="the reference has no call of this name")
