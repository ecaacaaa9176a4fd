# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A dump of MindSpore as PyTorch would have written it: the verdict of two frameworks is that of two dumps of
one, whose records, parameters and dtypes have the same names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.regular_file import is_there
from msprobe.native import core

if TYPE_CHECKING:
    from collections.abc import Collection

    from msprobe.compare.framework_names import FrameworkNames

FOLDER = "target_as_pytorch"
REFERENCE_FOLDER = "reference_in_common"
_TENSORS = "dump_tensor_data"
_OF_RECORDS = ("construct.json", "stack.json")


def translated(
    dump: Path, names: FrameworkNames, folder: Path, wanted: Collection[str] | None = None
) -> Path:
    """Writes the files of one rank into `folder`; tensors stay where they are. Gives its dump.json. wanted:
    records, by PyTorch's names; None: all. Raises as the readers of these files.
    """
    make_directory(folder)
    content = as_pytorch(core.read_json(dump), names)
    _write(folder / "dump.json", {**content, "data": _only(content["data"], wanted)})
    for file in _OF_RECORDS:
        if is_there(source := dump.with_name(file)):
            found = renamed(core.read_json(source), names)
            _write(folder / file, _only(found, wanted) if file == "construct.json" else found)
    tensors, link = dump.with_name(_TENSORS), folder / _TENSORS
    if tensors.is_dir() and not link.is_symlink():
        link.symlink_to(tensors.resolve())
    return folder / "dump.json"


def as_pytorch(content: dict[str, Any], names: FrameworkNames) -> dict[str, Any]:
    """A dump.json."""
    data = content["data"]
    records = {names.other_record(name): _record(name, value, names) for name, value in data.items()}
    return {**content, "framework": "pytorch", "data": records}


def _only(records: dict[str, Any], wanted: Collection[str] | None) -> dict[str, Any]:
    return {name: value for name, value in records.items() if wanted is None or name in wanted}


def _write(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=1))


def _record(name: str, value: Any, names: FrameworkNames) -> Any:
    if not isinstance(value, dict):
        return value
    if name.endswith(".parameters_grad"):
        return {names.other_parameter(key): _value(item) for key, item in value.items()}
    record = {key: _value(item) for key, item in value.items()}
    if isinstance(record.get("parameters"), dict):
        record["parameters"] = {names.other_parameter(k): v for k, v in record["parameters"].items()}
    return names.arranged(name, record)


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _value(item) for key, item in value.items()}
    if found.get("type") == "mindspore.Tensor":
        found["type"], found["dtype"] = "torch.Tensor", f"torch.{str(found.get('dtype')).lower()}"
    elif found.get("type") == "mindspore.dtype":
        found["type"], found["value"] = "torch.dtype", f"torch.{str(found.get('value')).lower()}"
    return found


def renamed(value: Any, names: FrameworkNames) -> Any:
    """Names of records as keys of construct.json, as its values, and in the lists of stack.json."""
    if isinstance(value, dict):
        return {names.other_record(key): renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    return names.other_record(value) if isinstance(value, str) else value
