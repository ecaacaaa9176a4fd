# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe init and msprobe config check: exit code 0 when the file is written, or is right; 2 on errors."""

from __future__ import annotations

import os

from msprobe.terminal.command_line import Parser, add_screen

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.config import Config

_HEAD = """\
# Configuration of msprobe. All keys may be left out: this is what `msprobe run` does without a file.
# Used by:  msprobe run -c {name} train.py ARGUMENTS
#           MSPROBE_CONFIG={name} python train.py      (a script that is started otherwise)
#           with msprobe.capture(model, config="{name}"): ...
#           PrecisionDebugger("{name}")                 (calls in your own code)
# Explain:  msprobe config check {name}

"""
# Of msprobe run, where it does not take the default of the key.
_OF_RUN = {
    "level": "mix",
    "step": ["0-2"],
    "dump_path": "./msprobe_run",
    "diagnosis": ["all"],
    "json": "packed",
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
    parser.add_argument(
        "--task",
        metavar="TASK",
        default="statistics",
        help="what is to be recorded (default: statistics)",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    asked = parser.parse_args(arguments)
    if not asked.file.endswith((".yaml", ".yml")):
        parser.error(f"{asked.file}: expected a name that ends in .yaml: JSON has no comments")
    if os.path.lexists(asked.file) and not asked.force:
        parser.error(f"{asked.file}: there is such a file; choose another name, or replace it with --force")
    from pathlib import Path

    from msprobe.config.documentation import available_tasks, commented_yaml
    from msprobe.files.atomic_file import write_text
    from msprobe.terminal.printable import printable

    if asked.task not in available_tasks():
        parser.error(f"--task: expected one of {', '.join(available_tasks())}, found {asked.task}")
    tasks = list(dict.fromkeys((asked.task, "grad_probe")))  # msprobe run uses both sections
    content = commented_yaml(tasks, {**_OF_RUN, "task": asked.task})
    write_text(Path(asked.file), _HEAD.format(name=asked.file) + content)
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
    from msprobe.config import load_config, read_file
    from msprobe.native import log_on_stderr

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        given = read_file(asked.file)
        # A file for `msprobe run` needs no folder: -o names it.
        folder = None if given.get("dump_path") else "msprobe_run"
        config = load_config(asked.file, dump_path=folder)
        if "grad_probe" in given and config.task != "grad_probe":  # msprobe run uses both sections
            load_config(asked.file, task="grad_probe", dump_path=folder)
    if asked.json:
        import json
        from dataclasses import fields

        values = {one.name: getattr(config, one.name) for one in fields(config) if one.name != "native"}
        print(json.dumps({**values, "section": config.native.section}, indent=1))
    elif not asked.quiet:
        print("\n".join(_explanation(asked.file, config, given)))
    return 0


def _explanation(path: str, config: Config, given: dict[str, object]) -> list[str]:
    from msprobe.config.documentation import available_tasks, keys_of
    from msprobe.terminal.printable import printable

    tasks = available_tasks()
    levels = next(dict(row["words"]) for row in keys_of("") if row["name"] == "level")
    rows = [
        ("task", config.task, tasks[config.task]),
        ("level", config.level, levels[config.level]),
        ("step", _numbers(config.steps), ""),
        ("rank", _numbers(config.ranks), ""),
        ("dump_path", config.dump_path, "is there" if os.path.isdir(config.dump_path) else "will be made"),
    ]
    if config.task == "grad_probe":
        rows[1] = ("level", config.level, "not used by this task")
    section = given.get(config.task)
    known = section if isinstance(section, dict) else {}
    values = config.native.section
    for row in keys_of(config.task):
        name = row["name"]
        rows.append(
            (f"{config.task}.{name}", _shown(values[name]), "default" if known.get(name) is None else "")
        )
    width = max(len(name) for name, _, _ in rows)
    lines = [f"{printable(path)}: valid"]
    for name, value, text in rows:
        lines.append(f"  {name:{width}}  {printable(value)}" + (f"  ({text})" if text else ""))
    others = [name for name in given if name in tasks and name not in (config.task, "grad_probe")]
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
    if isinstance(value, list):
        text = ", ".join(str(one) for one in value) or "[]"
    elif isinstance(value, dict):
        text = ", ".join(f"{name} {one}" for name, one in value.items()) or "{}"
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)  # as the file has it
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."
