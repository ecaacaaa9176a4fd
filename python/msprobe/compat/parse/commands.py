# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of the prompt: cad, vc, dc, pt, pk and cn."""

from __future__ import annotations

import argparse
import math
import os
from typing import TYPE_CHECKING, NoReturn

from msprobe.compat.parse import arrays, converted, vendor
from msprobe.native import InvalidArgument, core
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = "parse_data"  # below the current folder


class WrongCommand(Exception):
    """The words of a command are wrong; the text says what and what is expected."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongCommand(f"{self.prog}: {message}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise WrongCommand(message or "")  # after the help


def run(words: list[str]) -> int:
    """Runs one command. Raises WrongCommand, and errors of msprobe; returns an exit code."""
    name, *arguments = words
    if name not in COMMANDS:
        raise WrongCommand(
            f"Command invalid: expected one that begins with {'/'.join(COMMANDS)}, found {name!r}; "
            "!COMMAND runs a command of the shell"
        )
    return COMMANDS[name][0](arguments)


def _say(text: str) -> None:
    print(printable(text))


def _cad(arguments: list[str]) -> int:
    parser = _parser("cad", "Converts a kernel dump to .npy files, grouped by operators and times.")
    _path(parser, "-m", "--my_dump_path", "DIR", "the dump, a folder")
    _output(parser)
    parser.add_argument("-asc", "--msaccucmp_path", dest="converter", metavar="FILE", help=_CONVERTER)
    asked = parser.parse_args(arguments)
    output = asked.output or os.path.join(DATA, "batch_dump_convert", vendor.now())
    return vendor.convert_by_operator(_there(asked.path), output, asked.converter, _say)


def _vc(arguments: list[str]) -> int:
    parser = _parser(
        "vc", "Compares two kernel dumps; two that were converted to .npy without the converter."
    )
    _path(parser, "-m", "--my_dump_path", "DIR", "the dump under test")
    parser.add_argument("-g", "--golden_dump_path", dest="reference", metavar="DIR", required=True,
                        help="the reference")  # fmt: skip
    _output(parser)
    _converter(parser)
    asked = parser.parse_args(arguments)
    mine, reference = _there(asked.path), _there(asked.reference)
    for folder in (mine, reference):
        if not os.path.isdir(folder):
            raise InvalidArgument(f"{folder}: expected a folder")
    if converted.holds_only_npy(mine) and converted.holds_only_npy(reference):
        output = asked.output or os.path.join(DATA, "batch_compare_result")
        path = converted.compare_converted(mine, reference, output)
        _say(f"Compare result is saved in: {path}")
        return 0
    output = asked.output or os.path.join(DATA, "compare_result")
    return vendor.compare(mine, reference, output, asked.converter, _say)


def _dc(arguments: list[str]) -> int:
    parser = _parser("dc", "Converts a file or folder of a kernel dump to .npy files.")
    _path(parser, "-n", "--name", "PATH", "file or folder")
    parser.add_argument(
        "-f", "--format", dest="form", metavar="FORMAT", help="layout to convert to: NCHW, ND, ..."
    )
    _output(parser)
    _converter(parser)
    asked = parser.parse_args(arguments)
    output = asked.output or os.path.join(DATA, "dump_convert")
    return vendor.convert(_there(asked.path), asked.form, output, asked.converter, _say)


def _pt(arguments: list[str]) -> int:
    parser = _parser("pt", "Prints an array, and writes FILE.txt.")
    _path(parser, "-n", "--name", "FILE", ".npy, or .pt with one tensor")
    arrays.print_array(parser.parse_args(arguments).path, _say)
    return 0


def _pk(arguments: list[str]) -> int:
    parser = _parser("pk", "Prints statistics and call stack of an API of a dump.")
    _path(parser, "-f", "--file", "FILE", "dump.json")
    parser.add_argument("-n", "--name", dest="name", metavar="API", required=True,
                        help="its name; without forward or backward both")  # fmt: skip
    asked = parser.parse_args(arguments)
    return _print_api(_there(asked.path), asked.name)


def _cn(arguments: list[str]) -> int:
    parser = _parser("cn", "Compares two arrays element by element.")
    _path(parser, "-m", "--my_dump_path", "FILE", "the array under test")
    add = parser.add_argument
    add("-g", "--golden_dump_path", dest="reference", metavar="FILE", required=True, help="the reference")
    add(
        "-p",
        "--print",
        dest="count",
        metavar="N",
        type=_count,
        default=20,
        help="rows of the tables (default: 20)",
    )
    add(
        "-al",
        "--atol",
        dest="atol",
        metavar="T",
        type=_tolerance,
        default=0.001,
        help="absolute (default: 0.001)",
    )
    add(
        "-rl",
        "--rtol",
        dest="rtol",
        metavar="T",
        type=_tolerance,
        default=0.001,
        help="relative (default: 0.001)",
    )
    add("-s", "--save", dest="save", action="store_true", help="write both as text, too")
    asked = parser.parse_args(arguments)
    arrays.compare_arrays(
        asked.path,
        asked.reference,
        _say,
        count=asked.count,
        atol=asked.atol,
        rtol=asked.rtol,
        save=asked.save,
    )
    return 0


COMMANDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "cad": (_cad, "converts a kernel dump, grouped by operators"),
    "vc": (_vc, "compares two kernel dumps, or two folders of .npy files"),
    "dc": (_dc, "converts files of a kernel dump"),
    "pk": (_pk, "prints statistics and stack of one API of a dump"),
    "cn": (_cn, "compares two arrays element by element"),
    "pt": (_pt, "prints an array: first elements, shape, dtype, max, min, mean; and writes FILE.txt"),
}


def summary() -> str:
    """One line for each command."""
    return "\n".join(f"  {name:4} {text}" for name, (_, text) in COMMANDS.items())


def _print_api(path: str, name: str) -> int:
    trace = core.read_trace(path)
    found = [(record, items) for record, items in trace.records() if _belongs(record, name)]
    if not found:
        raise InvalidArgument(f"{path}: there is no API {name}")
    stacks = core.default_stack_path(path)
    frames = core.read_stacks(stacks) if stacks is not None else None
    for record, items in found:
        _say("Statistic Info:")
        for item in items:
            _say(f"  {_item_line(record, item)}")
        lines = frames.frames(record) if frames is not None else []
        if lines:
            _say(f"Trace back({record}):")
        for line in lines:
            _say(f"  {' '.join(line.split())}")
    return 0


def _belongs(record: str, name: str) -> bool:
    """The older names have underscores in place of dots."""
    plain, wanted = record.replace(".", "_"), name.replace(".", "_")
    return plain == wanted or plain.startswith(f"{wanted}_")


def _item_line(record: str, item: core._TraceItem) -> str:
    part = "input" if item["part"].startswith("input") else item["part"]
    name = ".".join(one for one in (record, part, item["path"]) if one)
    if "dtype" not in item:
        return f"[{name}][type: {item.get('type', '')}][value: {item.get('value')}]"
    parts = [f"[{name}]", f"[dtype: {item['dtype']}]", f"[shape: {item.get('shape', '')}]"]
    parts += [f"[{key}: {item.get(key)}]" for key in ("max", "min", "mean")]
    return "".join(parts)


_CONVERTER = f"path of {vendor.CONVERTER} (default: {vendor.DEFAULT_CONVERTER})"


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    return _Parser(prog=name, description=description, allow_abbrev=False)


def _path(parser: argparse.ArgumentParser, short: str, long: str, metavar: str, text: str) -> None:
    parser.add_argument(short, long, dest="path", metavar=metavar, required=True, help=text)


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-out", "--output_path", dest="output", metavar="DIR",
                        help=f"folder for the result (default: below ./{DATA})")  # fmt: skip


def _converter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-cmp_path", "--msaccucmp_path", dest="converter", metavar="FILE", help=_CONVERTER)


def _there(path: str) -> str:
    if not os.path.exists(path):
        raise InvalidArgument(f"{path} does not exist")
    if os.path.isdir(path) and not os.listdir(path):
        raise InvalidArgument(f"{path}: the folder is empty")
    return path


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000_000):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 1000000, found {text!r}")
    return int(text)


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return value
