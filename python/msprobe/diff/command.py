# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe diff: two tensors, or two files of one kind. Exit code 0 when they are equal, 1 when they differ,
2 on errors.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.result import Result
from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import Parser, add_place, add_runs, add_screen
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.result import Cell
    from msprobe.sources.source import Entry, Source
    from msprobe.tensors.content import Content

_MOST = 20

_EPILOG = """exit code: 0 equal, 1 they differ, 2 an error.
REFERENCE and TARGET are files or folders as msprobe show takes them. With NAME that entry of both is compared
(of TARGET: TARGET_NAME, where it has another name); without it all entries are.
example: msprobe diff a.npy b.npy
         msprobe diff run_a run_b Functional.linear.0.forward
         msprobe diff a.safetensors b.safetensors lm_head.weight"""


@dataclass(frozen=True, repr=False)
class DiffResult(Result):
    """Of two tensors, two texts, or two files entry by entry."""

    same: bool
    sentence: str
    lines: list[str] = field(default_factory=list)
    """For a person."""
    data: dict[str, Any] = field(default_factory=dict)
    """As --json prints it."""

    def table(self) -> Sequence[dict[str, Cell]]:
        """Of two files the entries that differ; of two tensors how far they are apart; of texts the lines."""
        if "differing" in self.data:
            rows = [(name, "only in the reference") for name in self.data["only_in_reference"]]
            rows += [(name, "only in the target") for name in self.data["only_in_target"]]
            rows += [(one["name"], one["difference"]) for one in self.data["differing"]]
            return [{"name": name, "difference": why} for name, why in rows]
        if "metrics" in self.data:
            row = {key: self.data[key] for key in ("equal", "not_close", "cosine", "l2")}
            return [{**row, **self.data["metrics"]}]
        return [{"line": line} for line in self.lines]


@dataclass(frozen=True)
class DiffOptions:
    name: str | None = None
    target_name: str | None = None
    rtol: float = 0.001
    atol: float = 0.001
    most: int = _MOST
    """Elements to list."""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    from msprobe.native import log_on_stderr
    from msprobe.sources.opening import open_source

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        a = open_source(asked.reference, asked.step, asked.rank)
        b = open_source(asked.target, asked.step, asked.rank)
        options = DiffOptions(asked.name, asked.target_name, asked.rtol, asked.atol, asked.most)
        answer = compare_sources(a, b, options)
    if asked.json:
        from msprobe.files.page import strict

        data = {"same": answer.same, "sentence": answer.sentence, **answer.data}
        print(json.dumps(strict(data), indent=1, allow_nan=False))
    elif not asked.quiet:
        print(Paint(sys.stdout).answer(printable(answer.sentence), good=answer.same))
        for line in answer.lines:
            print(f"  {printable(line)}".rstrip())
    return 0 if answer.same else 1


def compare_sources(a: Source, b: Source, options: DiffOptions) -> DiffResult:
    """Raises InvalidArgument, FormatError and IoError."""
    if options.name is not None or a.only() is not None or b.only() is not None:
        ours, theirs = _entry(a, options.name), _entry(b, options.target_name or options.name)
        return _entries(ours, theirs, options)
    return _sources(a, b, options)


def _entry(source: Source, name: str | None) -> Entry:
    """A file with one tensor needs no name."""
    from msprobe.native import InvalidArgument

    only = source.only()
    if only is not None:
        return only
    if name is None:
        raise InvalidArgument(f"{source.path}: it has several entries; expected the NAME of one")
    return source.entry(name)


# ---- two entries


def _entries(a: Entry, b: Entry, options: DiffOptions) -> DiffResult:
    from msprobe.native import InvalidArgument
    from msprobe.sources.source import Text

    if isinstance(a, Text) and isinstance(b, Text):
        return _texts(a, b)
    if isinstance(a, Text) or isinstance(b, Text):
        raise InvalidArgument(f"{a.name} and {b.name}: expected two tensors, or none")
    return _tensors(a, b, options)


def _tensors(a: Content, b: Content, options: DiffOptions) -> DiffResult:
    from msprobe.sources.as_json import pair_data
    from msprobe.tensors.pairing import pair
    from msprobe.tensors.text import head_line, paired_lines

    if a.shape != b.shape:
        lines = [f"reference  {head_line(a)}", f"target     {head_line(b)}"]
        data = {"reference": {"shape": list(a.shape)}, "target": {"shape": list(b.shape)}}
        return DiffResult(False, f"{_names(a, b)}: the shapes differ", lines, data)
    found = pair(a, b, relative=options.rtol, absolute=options.atol, most=options.most)
    dtypes = "" if a.dtype == b.dtype else f", as {a.dtype} and {b.dtype}"
    words = f"equal{dtypes}" if found.equal else "different"
    sentence = f"{_names(a, b)}: {words}"
    return DiffResult(found.equal, sentence, paired_lines(a, b, found), pair_data(a, b, found))


def _names(a: Entry, b: Entry) -> str:
    return a.name if a.name == b.name else f"{a.name} and {b.name}"


def _texts(a: Any, b: Any) -> DiffResult:
    import difflib

    if a.lines == b.lines:
        return DiffResult(True, f"{_names(a, b)}: equal", [], {"lines": []})
    lines = list(difflib.unified_diff(a.lines, b.lines, "reference", "target", lineterm="", n=2))
    return DiffResult(False, f"{_names(a, b)}: different", lines[:500], {"lines": lines})


# ---- two files


def _sources(a: Source, b: Source, options: DiffOptions) -> DiffResult:
    from msprobe.native import InvalidArgument

    if a.kind != b.kind and not {a.kind, b.kind} <= {"checkpoint", "file of torch.save"}:
        raise InvalidArgument(
            f"{a.path} is a {a.kind} and {b.path} a {b.kind}: expected two of a kind, or the "
            "NAME of a tensor in both"
        )
    ours, theirs = {row.name: row for row in a.rows()}, {row.name: row for row in b.rows()}
    both = [name for name in ours if name in theirs]
    only = [[name for name in ours if name not in theirs], [name for name in theirs if name not in ours]]
    differing = [(name, why) for name in both if (why := _difference(a, b, name, options))]
    lines = [
        f"only in the {side}: {name}"
        for side, names in zip(("reference", "target"), only)
        for name in names[:_MOST]
    ]
    lines += [f"{name}: {why}" for name, why in differing[:_MOST]]
    shown = (len(only[0]), len(only[1]), len(differing))
    left_out = sum(max(count - _MOST, 0) for count in shown)
    lines += [f"and {left_out} more"] if left_out else []
    count = sum(shown)
    data = {
        "entries": len(both),
        "only_in_reference": only[0],
        "only_in_target": only[1],
        "differing": [{"name": name, "difference": why} for name, why in differing],
    }
    unseen = [
        f"not compared: {one.others} in {one.path}; msprobe diagnose compares all, --step and --rank choose"
        for one in (a, b)
        if one.others
    ]
    if count == 0:
        return DiffResult(True, f"equal: {len(both)} entries", unseen, data)
    hint = _WHOLE.get(a.kind)
    lines += [f"{hint} says more"] if hint else []
    lines += unseen
    return DiffResult(False, f"{count} of {len(set(ours) | set(theirs))} entries differ", lines, data)


# What compares two of a kind as a whole.
_WHOLE = {
    "checkpoint": "msprobe ckpt REFERENCE TARGET",
    "dump": "msprobe compare REFERENCE TARGET",
    "pack": "msprobe config_check -c REFERENCE TARGET",
    "RL record": "msprobe rl_compare REFERENCE TARGET",
    "database": "msprobe view",
}


def _difference(a: Source, b: Source, name: str, options: DiffOptions) -> str:
    """In a few words; empty: the entries are equal."""
    from msprobe.sources.source import Text

    found = a.difference(b, name)
    if found is not None:
        return found
    ours, theirs = a.entry(name), b.entry(name)
    if isinstance(ours, Text) and isinstance(theirs, Text):
        if ours.lines == theirs.lines:
            return ""
        changed = next((pair for pair in zip(ours.lines, theirs.lines) if pair[0] != pair[1]), None)
        return "other lines" if changed is None else f"{_cut(changed[0])} | {_cut(changed[1])}"
    if isinstance(ours, Text) or isinstance(theirs, Text):
        return "a tensor on one side only"
    return _tensor_difference(ours, theirs, options)


def _tensor_difference(a: Content, b: Content, options: DiffOptions) -> str:
    from msprobe.tensors.pairing import pair
    from msprobe.tensors.text import number, shape_text

    if a.shape != b.shape:
        return f"shapes {shape_text(a.shape)} and {shape_text(b.shape)}"
    found = pair(a, b, relative=options.rtol, absolute=options.atol, most=0)
    if found.equal:
        return ""
    metrics = found.metrics
    different = f"{metrics['count'] - metrics['equal_bits']} of {metrics['count']} elements differ"
    absolute, relative = number(metrics["max_absolute"]), number(metrics["max_relative"])
    return f"{different}, largest absolute error {absolute}, relative {relative}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 100 else text[:100] + " ..."


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe diff",
        description="Compares two tensors element by element, or two files of one kind entry by entry.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add_runs(parser, "file or folder, as msprobe show takes it")
    add("name", metavar="NAME", nargs="?", help="an entry of both")
    add("target_name", metavar="TARGET_NAME", nargs="?", help="its name in TARGET, where it is another")
    add_place(parser)
    add("--rtol", metavar="T", type=_tolerance, default=0.001, help="relative tolerance (default: 0.001)")
    add("--atol", metavar="T", type=_tolerance, default=0.001, help="absolute tolerance (default: 0.001)")
    add("--most", metavar="N", type=_count, default=_MOST, help=f"elements to list (default: {_MOST})")
    add_screen(parser, "print JSON")
    return parser


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of 0 or more, found {text!r}")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 1_000_000):
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1000000, found {text!r}")
    return int(text)
