# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe init and msprobe config check: exit code 0 when the file is written, or is right; 2 on errors."""

from __future__ import annotations

import os

from msprobe.terminal.command_line import Parser, add_screen

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.config import Config

_TEMPLATE = """\
# Configuration of msprobe. All keys may be left out: what stands here are the defaults of `msprobe run`.
# Used by:  msprobe run -c {name} train.py ARGUMENTS
#           MSPROBE_CONFIG={name} python train.py      (a script that is started otherwise)
#           with msprobe.capture(model, config="{name}"): ...
#           PrecisionDebugger("{name}")                 (calls in your own code)
# Explain:  msprobe config check {name}

# What the dump keeps of each tensor:
#   statistics      dtype, shape, max, min, mean, norm
#   tensor          the same, and a file with all elements
#   structure       nothing: names, call stacks and hierarchy
#   overflow_check  as tensor, but only where there is a NaN or an infinity
#   grad_probe      no dump: gradients only
task: statistics

# L0: modules. L1: functions. mix: both.
level: mix

# Folder of the run; -o of msprobe run wins.
dump_path: ./msprobe_run

# Steps and ranks: numbers and ranges, both ends included. [] means all.
step: ["0-2"]
rank: []

statistics:
  # md5: also checksums. Equal checksums are equal tensors.
  summary_mode: statistics
  # Only calls whose name holds one of these; a module of level mix switches on all inside. [] means all.
  list: []
  # Only these halves, out of forward, backward, input, output.
  data_mode: [all]
  # The state of the training beside the calls, for msprobe diagnose.
  diagnosis: [all]

grad_probe:
  # L0: max, min, norm, checksum. L1: also the signs, which can be compared. L2: also a distribution.
  grad_level: L1
  # Only these parameters, by their full names. [] means all.
  param_list: []
"""

_TASKS = {
    "statistics": "of each tensor dtype, shape, max, min, mean and norm",
    "tensor": "of each tensor its statistics, and a file with all elements",
    "structure": "names, call stacks and hierarchy; no numbers",
    "overflow_check": "only records with a NaN or an infinity, with their tensors",
    "grad_probe": "gradients at each optimizer step",
}
_LEVELS = {
    "L0": "modules",
    "L1": "functions",
    "L2": "operators of one call",
    "mix": "modules and functions",
    "debug": "what is given to save()",
}
_MOST_SHOWN = 60


def init(arguments: list[str]) -> int:
    parser = Parser(
        prog="msprobe init",
        description="Writes a configuration with comments, for msprobe run and PrecisionDebugger.",
        epilog="exit code: 0 the file is written, 2 an error",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="config.yaml", help="(default: config.yaml)"
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    asked = parser.parse_args(arguments)
    if not asked.file.endswith((".yaml", ".yml")):
        parser.error(f"{asked.file}: expected a name that ends in .yaml: JSON has no comments")
    if os.path.lexists(asked.file) and not asked.force:
        parser.error(f"{asked.file}: there is such a file; choose another name, or replace it with --force")
    from pathlib import Path

    from msprobe.files.atomic_file import write_text
    from msprobe.terminal.printable import printable

    write_text(Path(asked.file), _TEMPLATE.format(name=asked.file))
    if not asked.quiet:
        print(f"{printable(asked.file)} is written. Next: msprobe run -c {printable(asked.file)} train.py")
    return 0


def main(arguments: list[str]) -> int:
    parser = Parser(
        prog="msprobe config",
        usage="msprobe config check [options] FILE",
        description="Checks a configuration and says what it records.",
        epilog="exit code: 0 the file is right, 2 it is not; warnings are printed and change nothing",
    )
    parser.add_argument("check", choices=("check",), help="the only thing to do so far")
    parser.add_argument("file", metavar="FILE", help="config.yaml or config.json")
    add_screen(parser, "print every key with its value as JSON")
    asked = parser.parse_args(arguments)
    from msprobe.config import load_config
    from msprobe.native import log_on_stderr

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        given = _given(asked.file)
        # A file for `msprobe run` needs no folder: -o names it.
        folder = None if given.get("dump_path") else "msprobe_run"
        config = load_config(asked.file, dump_path=folder)
        if "grad_probe" in given and config.task != "grad_probe":  # msprobe run uses both sections
            load_config(asked.file, task="grad_probe", dump_path=folder)
    if asked.json:
        import json
        from dataclasses import asdict

        print(json.dumps(asdict(config), indent=1))
    elif not asked.quiet:
        print("\n".join(_explanation(asked.file, config, given)))
    return 0


def _given(path: str) -> dict[str, object]:
    from msprobe.config.file import read_object

    return read_object(path)


def _explanation(path: str, config: Config, given: dict[str, object]) -> list[str]:
    from dataclasses import fields

    from msprobe.terminal.printable import printable

    rows = [
        ("task", config.task, _TASKS[config.task]),
        ("level", config.level, _LEVELS[config.level]),
        ("step", _numbers(config.steps), ""),
        ("rank", _numbers(config.ranks), ""),
        ("dump_path", config.dump_path, "is there" if os.path.isdir(config.dump_path) else "will be made"),
    ]
    if config.task == "grad_probe":
        rows[1] = ("level", config.level, "not used by this task")
    section = given.get(config.task)
    known = section if isinstance(section, dict) else {}
    for field in fields(config.section):
        if field.name == "task":
            continue
        name = "grad_level" if field.name == "level" else field.name
        value = _shown(getattr(config.section, field.name))
        rows.append((f"{config.task}.{name}", value, "" if name in known else "default"))
    width = max(len(name) for name, _, _ in rows)
    lines = [f"{printable(path)}: right"]
    for name, value, text in rows:
        lines.append(f"  {name:{width}}  {printable(value)}" + (f"  ({text})" if text else ""))
    others = [name for name in given if name in _TASKS and name not in (config.task, "grad_probe")]
    if others:
        lines.append(f"  of other tasks, not checked: {', '.join(others)}")
    return lines


def _numbers(numbers: tuple[int, ...]) -> str:
    """ "0-2, 7"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    more = f", ... ({len(numbers)} numbers)" if len(texts) > 8 else ""
    return ", ".join(texts[:8]) + more if texts else "all"


def _shown(value: object) -> str:
    from dataclasses import fields, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        on = [field.name for field in fields(value) if getattr(value, field.name) is True]
        return ", ".join(on)
    if isinstance(value, tuple):
        value = ", ".join(str(getattr(one, "label", one)) for one in value) or "[]"
    text = "no limits" if value is None else str(value)
    if isinstance(value, bool):
        text = text.lower()  # as the file has it
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."
