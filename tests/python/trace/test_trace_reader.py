# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The native reader of traces against json.load and a plain reading of the format, on every golden dump and
on files in which any value is replaced by another."""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from msprobe import FormatError, _core

DUMPS = sorted((Path(__file__).resolve().parents[2] / "data" / "dump").glob("*.tar.gz"))
FIELDS = {"Max": "max", "Min": "min", "Mean": "mean", "Norm": "norm"}
VALUES = ("value", "group_ranks", "format")
TEXTS = ("dtype", "md5", "data_name")
PARTS = ("input_args", "input_kwargs", "input", "output", "parameters")


class WrongError(Exception):
    """The plain reading refuses the file."""


def expect(condition: bool) -> None:
    if not condition:
        raise WrongError


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def holds_object(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(holds_object, value)))


def scalar(value: Any, is_value: bool) -> Any:
    """Lists are kept as their text where a list belongs."""
    if isinstance(value, (dict, list)):
        return str(value) if is_value and not holds_object(value) else ""
    return value


def leaf(value: dict[str, Any]) -> dict[str, Any]:
    item = {"type": value["type"]} if value["type"] else {}
    for key in TEXTS:
        expect(value.get(key) is None or isinstance(value[key], str))
        if value.get(key):
            item[key] = value[key]
    if "shape" in value:
        shape = value["shape"]
        expect(isinstance(shape, list))
        expect(all(is_number(extent) and isinstance(extent, int) for extent in shape))
        item["shape"] = str(shape)
    if "requires_grad" in value:
        expect(isinstance(value["requires_grad"], bool))
        item["requires_grad"] = value["requires_grad"]
    for key, name in FIELDS.items():
        if key in value:
            item[name] = scalar(value[key], is_value=False)
    for key in value:  # the last one in the file counts
        if key in VALUES:
            item["value"] = scalar(value[key], is_value=key != "format")
    return item


def flatten(value: Any, part: str, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    where = {"part": part, "path": ".".join(path)}
    if value is None:
        yield where
    elif isinstance(value, dict) and isinstance(value.get("type"), str):
        for entry in value.values():  # leaves inside of it are no items, but have to be sound
            list(flatten(entry, part, path))
        yield {**where, **leaf(value)}
    elif isinstance(value, (dict, list)):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in entries:
            yield from flatten(entry, part, (*path, str(key)))


def record_items(name: str, record: Any) -> Iterator[dict[str, Any]]:
    expect(record is None or isinstance(record, dict))
    for key, value in (record or {}).items():
        if ".parameters_grad" in name:
            for gradient in value if isinstance(value, list) else [value]:
                yield from flatten(gradient, "parameters_grad", (key,))
        elif key in PARTS:
            yield from flatten(value, key, ())
        elif key == "is_recompute":
            expect(value is None or isinstance(value, bool))


def plain_reading(document: Any, is_debug: bool) -> list[tuple[str, list[dict[str, Any]]]]:
    expect(isinstance(document, dict) and "data" in document)
    for key in ("task", "level", "framework", "dump_data_dir"):
        expect(document.get(key) is None or isinstance(document[key], str))
    data = document["data"]
    expect(data is None or isinstance(data, dict))
    return [
        (name, list(flatten(value, "saved", ()) if is_debug else record_items(name, value)))
        for name, value in (data or {}).items()
    ]


def same(left: Any, right: Any) -> bool:
    """Equal, of the same kinds, and NaN is NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, (list, tuple)) and type(left) is type(right):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


def check(path: Path) -> bool:
    """Both read the same, or both refuse: then False."""
    try:
        expected = plain_reading(json.loads(path.read_text(encoding="utf-8")), path.name == "debug.json")
    except WrongError:
        with pytest.raises(FormatError, match=re.escape(str(path))):
            _core.read_trace(path)
        return False
    found = _core.read_trace(path).records()
    for left, right in zip(found, expected):
        assert same(left, right), f"{path}: {left[0]}: found {left[1]}, expected {right[1]}"
    assert len(found) == len(expected)
    return True


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def files_of(archive: Path, folder: Path) -> list[Path]:
    """The JSON files of a golden dump, unpacked."""
    return unpack(archive, folder, lambda member: member.name.endswith(".json") and member.isfile())


@pytest.mark.parametrize("archive", DUMPS, ids=lambda path: path.name.split(".")[0])
def test_every_golden_dump_is_read_as_json_and_the_format_say(archive: Path, tmp_path: Path) -> None:
    kinds = set()
    for path in files_of(archive, tmp_path):
        kinds.add(path.name)
        document = json.loads(path.read_text(encoding="utf-8"))
        if path.name in ("dump.json", "debug.json"):
            assert check(path)
            trace = _core.read_trace(path)
            assert (trace.path, trace.task, trace.level) == (path, document["task"], document["level"])
            assert (trace.framework, trace.dump_data_dir) == (
                document["framework"],
                document["dump_data_dir"],
            )
            assert trace.has_md5 == ('"md5"' in path.read_text(encoding="utf-8"))
        elif path.name == "construct.json":
            assert _core.read_construct(path) == document
        elif path.name == "stack.json":
            stacks = _core.read_stacks(path)
            for names, frames in document.values():
                assert all(stacks.frames(name) == frames for name in names)
            assert stacks.frames("unknown") == []
    assert kinds & {"dump.json", "debug.json"}


Replace = Callable[[Any], Any]


def places(value: Any, replace: Replace) -> Iterator[Replace]:
    """Functions that make the document with another value in one place each."""
    yield replace
    if isinstance(value, (dict, list)):
        for key, entry in list(value.items() if isinstance(value, dict) else enumerate(value)):

            def put(other: Any, key: Any = key) -> Any:
                changed = copy.copy(value)
                changed[key] = other
                return replace(changed)

            yield from places(entry, put)


OTHERS = (None, True, 5, -1.5, "x", "", [], {}, [1], [None], {"type": "y"}, [{"type": "z"}], math.nan)


def test_any_value_in_any_place_is_read_as_the_format_says_or_refused(tmp_path: Path) -> None:
    tensor = {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [2, 3],
        "Max": 1.5,
        "Norm": None,
        "requires_grad": True,
        "md5": "00ff00ff",
        "data_name": "x.pt",
    }
    record = {
        "input_args": [tensor, None, [{"type": "slice", "value": [1, None, "b"]}]],
        "input_kwargs": {"group": {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "ab"}},
        "is_recompute": False,
        "output": {"a": {"type": "int", "value": 3}},
    }
    gradients = {"w.b": [{**tensor, "shape": []}], "b": [None]}
    data = {"Functional.f.0.forward": record, "Module.m.parameters_grad": gradients}
    document = {
        "task": "statistics",
        "level": "mix",
        "framework": "pytorch",
        "dump_data_dir": None,
        "data": data,
    }
    outcomes = {
        check(write(tmp_path / name, change(other)))
        for change in places(document, lambda other: other)
        for other in OTHERS
        for name in ("dump.json", "debug.json")
    }
    assert outcomes == {True, False}


def random_value(random_source: random.Random, depth: int) -> Any:
    def deeper() -> Any:
        return random_value(random_source, depth - 1)

    leaves: list[Callable[[], Any]] = [
        lambda: None,
        lambda: random_source.choice([True, 0, -7, 2**70, 0.1, -0.0, 1e-310, math.nan, -math.inf]),
        lambda: "".join(random_source.choices("a.\"'\\\n\té😀\x7f", k=random_source.randrange(4))),
    ]
    inner: list[Callable[[], Any]] = [
        lambda: [deeper() for _ in range(random_source.randrange(4))],
        lambda: {
            random_source.choice([*KEYS, "a", "é"]): deeper() for _ in range(random_source.randrange(4))
        },
        lambda: {"type": "t", **{random_source.choice(KEYS): deeper() for _ in range(3)}},
    ]
    return random_source.choice(leaves + inner * (depth > 0))()


KEYS = (*FIELDS, *VALUES, *TEXTS, "shape", "type", "requires_grad")


def test_random_documents_are_read_as_the_format_says_or_refused(tmp_path: Path) -> None:
    random_source = random.Random(0)
    read = 0
    for _ in range(3000):
        parts = random_source.sample(PARTS, 2)
        record = {part: random_value(random_source, 4) for part in parts}
        name = random_source.choice(["f", "m.parameters_grad"])
        document = {"data": {name: record, "g": {"output": [random_value(random_source, 2)]}}}
        read += check(write(tmp_path / random_source.choice(["dump.json", "debug.json"]), document))
    assert 500 < read < 2900
