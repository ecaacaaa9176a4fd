# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The comparison for Python programs, with the names and arguments of mindstudio-probe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msprobe.compare.inputs import Paths, mapping_of
from msprobe.compare.outputs import write_outputs
from msprobe.compare.run import CompareOptions, compare_runs
from msprobe.files.dump_folders import Form, form_of
from msprobe.native import InvalidArgument, log

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Union

    from msprobe.compare.result import CompareResult

    PathLike = Union[str, os.PathLike[str]]

_KEYS = ("npu_json_path", "bench_json_path", "stack_json_path", "is_print_compare_log")


def compare(
    input_param: Mapping[str, object],
    output_path: PathLike,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    data_mapping: PathLike | Mapping[str, str] | None = None,
    suffix: str = "",
) -> CompareResult:
    """Compares two dump.json, or two debug.json, and writes the table, verdict.json and report.html.

    input_param: `npu_json_path` (the run under test), `bench_json_path` (the reference), and, if wanted,
        `stack_json_path` and `is_print_compare_log` (log the verdict, default True).
    stack_mode: use `stack_json_path`. Without that key, stack.json beside the dump is used where it is.
    auto_analyze: write mindstudio-probe's advisor file.
    fuzzy_match: pair names that differ in the count of a call or the class of a module.
    data_mapping: a YAML file or a mapping, name of an item -> its name in the reference.
    suffix: added to the names of the table and the advisor file.

    Raises InvalidArgument, FormatError, IoError; a file that cannot be read leaves no result.
    """
    for key in input_param:
        if key not in _KEYS:
            raise InvalidArgument(f'input_param: found the key "{key}", expected {", ".join(_KEYS)}')
    target, reference = (_path_in(input_param, key) for key in _KEYS[:2])
    stack = _path_in(input_param, _KEYS[2]) if input_param.get(_KEYS[2]) is not None else None
    shows_log = input_param.get(_KEYS[3], True)
    _check_switches({"stack_mode": stack_mode, "auto_analyze": auto_analyze, "fuzzy_match": fuzzy_match})
    _check_switches({f'input_param: "{_KEYS[3]}"': shows_log})
    if not isinstance(suffix, str):
        raise InvalidArgument(f"suffix: expected a text, found {suffix!r}")
    for path in (target, reference):
        if form_of(path) is not Form.FILE:
            raise InvalidArgument(f"{path}: expected a file; compare_distributed() compares folders")
    options = CompareOptions(
        output=Path(output_path),
        stack_mode=stack_mode,
        advice=auto_analyze,
        fuzzy=fuzzy_match,
        data_mapping=mapping_of(data_mapping),
        suffix=suffix,
        shows_progress=False,
    )
    return _run(Paths(target, reference, stack), options, shows_log=bool(shows_log))


def compare_distributed(
    npu_dump_dir: PathLike,
    bench_dump_dir: PathLike,
    output_path: PathLike,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    is_print_compare_log: bool = True,
) -> CompareResult:
    """Compares two folders of steps (with rank0, rank1, ...) or two whole dump paths (with step0, step1,
    ...).

    All ranks and steps that both have are compared, in threads; what only one has is in `left_out` of the
    result. A pair that cannot be compared is in `left_out` too, with its error; when none can be, its error
    is raised. `stack_mode` is accepted: stack.json beside a dump is used where it is. The other arguments,
    and what is raised: see compare().
    """
    _check_switches({"stack_mode": stack_mode, "auto_analyze": auto_analyze, "fuzzy_match": fuzzy_match})
    _check_switches({"is_print_compare_log": is_print_compare_log})
    options = CompareOptions(
        output=Path(output_path),
        stack_mode=stack_mode,
        advice=auto_analyze,
        fuzzy=fuzzy_match,
        shows_progress=False,
    )
    paths = Paths(Path(npu_dump_dir), Path(bench_dump_dir))
    return _run(paths, options, shows_log=is_print_compare_log)


def _run(paths: Paths, options: CompareOptions, *, shows_log: bool) -> CompareResult:
    result = compare_runs(paths, options)
    assert result is not None  # there is one process only
    culprits = result.culprits
    write_outputs(result, culprits)
    if shows_log:
        log.info("%s: %s", options.output, result.answer(culprits))
    return result


def _check_switches(found: Mapping[str, object]) -> None:
    for name, value in found.items():
        if not isinstance(value, bool):
            raise InvalidArgument(f"{name}: expected a bool, found {value!r}")


def _path_in(input_param: Mapping[str, object], key: str) -> Path:
    value = input_param.get(key)
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise InvalidArgument(f'input_param: "{key}": expected a path, found {value!r}')
    return Path(value)
