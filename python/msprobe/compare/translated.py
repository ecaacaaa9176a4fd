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
    from collections.abc import Callable, Collection

    from msprobe.compare.framework_names import FrameworkNames

FOLDER = "target_as_pytorch"
REFERENCE_FOLDER = "reference_in_common"
_TENSORS = "dump_tensor_data"


def translated(
    dump: Path, names: FrameworkNames, folder: Path, wanted: Collection[str] | None = None
) -> Path:
    """Writes the files of one rank into `folder`; tensors stay where they are. Gives its dump.json. wanted:
    records, by PyTorch's names; None: all. Raises as the readers of these files.
    """

    def is_wanted(name: str) -> bool:
        return wanted is None or name in wanted

    make_directory(folder)
    write_dump(folder, as_pytorch(core.read_json(dump), names), is_wanted)
    write_beside(folder, dump, names, is_wanted)
    return folder / "dump.json"


def write_dump(folder: Path, content: dict[str, Any], is_wanted: Callable[[str], bool]) -> None:
    """dump.json with the wanted records alone."""
    write_json(folder / "dump.json", {**content, "data": _only(content["data"], is_wanted)})


def write_beside(folder: Path, dump: Path, names: FrameworkNames, is_wanted: Callable[[str], bool]) -> None:
    """What `dump` has beside it: construct.json with the wanted records alone, stack.json, its tensors."""
    if is_there(construct := dump.with_name("construct.json")):
        found = renamed(core.read_json(construct), names)
        write_json(folder / construct.name, _only(found, is_wanted))
    if is_there(stacks := dump.with_name("stack.json")):
        write_json(folder / stacks.name, renamed(core.read_json(stacks), names))
    tensors, link = dump.with_name(_TENSORS), folder / _TENSORS
    if tensors.is_dir() and not link.is_symlink():
        link.symlink_to(tensors.resolve())


def as_pytorch(content: dict[str, Any], names: FrameworkNames) -> dict[str, Any]:
    """A dump.json."""
    data = content["data"]
    records = {names.other_record(name): _record(name, value, names) for name, value in data.items()}
    return {**content, "framework": "pytorch", "data": records}


def _only(records: dict[str, Any], is_wanted: Callable[[str], bool]) -> dict[str, Any]:
    return {name: value for name, value in records.items() if is_wanted(name)}


def write_json(path: Path, content: Any) -> None:
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
