# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Data dumps: records with their statistics, tensors and call stacks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msprobe.files.dump_folders import DUMPS
from msprobe.files.regular_file import is_there
from msprobe.native import core
from msprobe.sources.source import Entry, Row, Source, Text
from msprobe.tensors.content import Content, open_tensor_file
from msprobe.tensors.text import number

_MOST_FRAMES = 30


class DumpSource(Source):
    """dump.json or debug.json of one rank and step."""

    kind = "dump"

    def __init__(self, path: str, file: Path) -> None:
        super().__init__(path)
        self._file = file
        self._trace = core.read_trace(file)
        self._records = dict(self._trace.records())
        self._items: dict[str, Any] | None = None  # by their names, once one is asked for
        self._stacks: core.Stacks | None = None

    def title(self) -> str:
        trace = self._trace
        where = "" if str(self._file) == self.path else f" ({os.path.relpath(self._file, self.path)})"
        return (
            f"{self.path}{where}: a dump of {trace.framework or 'pytorch'}, task {trace.task}, level "
            f"{trace.level}, {len(self._records)} records"
        )

    def rows(self) -> list[Row]:
        return [
            Row(name, f"{len(items)} items", {"name": name, "items": len(items)})
            for name, items in self._records.items()
        ]

    def names(self) -> list[str]:
        return list(self._by_name())

    def _by_name(self) -> dict[str, Any]:
        if self._items is None:
            self._items = {
                item_name(record, item): item for record, items in self._records.items() for item in items
            }
        return self._items

    def entry(self, name: str) -> Entry:
        items = self._records.get(name)
        if items is not None and [item_name(name, item) for item in items] != [name]:
            return self._record(name, items)
        item = self._by_name().get(name)
        if item is None:
            raise self.missing(name)
        return self._item(name, item)

    def _record(self, record: str, items: list[Any]) -> Text:
        shown = [(item_name(record, item)[len(record) + 1 :], item) for item in items]
        width = max([len(name) for name, _ in shown], default=0)
        lines = [f"{name:{width}}  {item_text(item)}" for name, item in shown]
        frames = self._frames(record)
        if frames:
            lines += ["called from:", *(f"  {' '.join(frame.split())}" for frame in frames[:_MOST_FRAMES])]
        data = {"name": record, "items": [{"name": name, **item} for name, item in shown], "stack": frames}
        return Text(record, lines, data)

    def _item(self, name: str, item: Any) -> Entry:
        file = self._tensor_of(item)
        if file is not None:
            content = open_tensor_file(file)
            return Content(name, content.dtype, content.shape, content.memory)
        return Text(name, [item_text(item)], {"name": name, **item})

    def _tensor_of(self, item: Any) -> Path | None:
        """The file of its tensor beside the dump. A name that leads elsewhere is not followed."""
        name = item.get("data_name")
        if not name or Path(name).name != name:
            return None
        path = self._file.parent / "dump_tensor_data" / name
        return path if path.is_file() else None

    def _frames(self, record: str) -> list[str]:
        if self._stacks is None:
            path = core.default_stack_path(self._file)
            if path is None:
                return []
            self._stacks = core.read_stacks(path)
        return self._stacks.frames(record)


def item_name(record: str, item: Any) -> str:
    """As the result table of a comparison has it."""
    part = "input" if item["part"].startswith("input") else item["part"]
    part = "" if part == "saved" else f".{part}"
    return f"{record}{part}.{item['path']}" if item["path"] else f"{record}{part}"


def item_text(item: Any) -> str:
    if "value" in item and "dtype" not in item:
        return f"{item.get('type', '')} {item['value']}".strip()
    shape = item.get("shape", "")
    parts = [item.get("dtype", item.get("type", "")), shape if shape.startswith("[") else f"[{shape}]"]
    for key in ("max", "min", "mean", "norm"):
        if key in item:
            value = item[key]
            parts.append(f"{key} {number(value) if isinstance(value, (int, float)) else value}")
    if "md5" in item:
        parts.append(f"md5 {item['md5']}")
    if "data_name" in item:
        parts.append(item["data_name"])
    return "  ".join(part for part in parts if part)


class StackSource(Source):
    """stack.json."""

    kind = "stacks"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._records = _records_beside(path)
        self._stacks = core.read_stacks(path)

    def title(self) -> str:
        known = f" of {len(self._records)} records" if self._records else ""
        return f"{self.path}: call stacks{known}; give the name of a record"

    def rows(self) -> list[Row]:
        rows = []
        for record in self._records:
            frames = self._stacks.frames(record)
            first = " ".join(frames[0].split()) if frames else "no stack"
            rows.append(Row(record, first, {"name": record, "frames": len(frames)}))
        return rows

    def entry(self, name: str) -> Entry:
        frames = self._stacks.frames(name)
        if not frames:
            raise self.missing(name)
        return Text(name, [" ".join(frame.split()) for frame in frames], {"name": name, "stack": frames})


def _records_beside(path: str) -> list[str]:
    """The stacks themselves are found by the names of records."""
    for name in DUMPS:
        dump = Path(path).parent / name
        if is_there(dump):
            return [record for record, _ in core.read_trace(dump).records()]
    return []


class ConstructSource(Source):
    """construct.json: the module that each record belongs to."""

    kind = "hierarchy"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._parents = core.read_construct(path)

    def title(self) -> str:
        return f"{self.path}: the hierarchy of {len(self._parents)} records"

    def rows(self) -> list[Row]:
        return [
            Row(name, f"in {parent}" if parent else "at the top", {"name": name, "parent": parent})
            for name, parent in self._parents.items()
        ]

    def entry(self, name: str) -> Entry:
        if name not in self._parents:
            raise self.missing(name)
        chain = [name]
        while (parent := self._parents.get(chain[-1])) and parent not in chain:
            chain.append(parent)
        children = [child for child, parent in self._parents.items() if parent == name]
        lines = [f"{'  ' * depth}{part}" for depth, part in enumerate(reversed(chain))]
        lines += [f"{'  ' * len(chain)}{child}" for child in children]
        return Text(name, lines, {"name": name, "parents": chain[1:], "children": children})


def open_file(path: str) -> Source:
    """By its name."""
    name = Path(path).name.lower()
    if name == "stack.json":
        return StackSource(path)
    return ConstructSource(path) if name == "construct.json" else DumpSource(path, Path(path))
