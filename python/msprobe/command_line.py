# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the parsers of several commands share."""

from __future__ import annotations

import argparse

from msprobe.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import NoReturn


# What the help of a command shows last, where its own text has no example.
_EXAMPLES = {
    "init": "msprobe init && msprobe run -c config.yaml train.py",
    "config": "msprobe config check config.yaml",
    "doctor": "msprobe doctor --json > report.json",
    "completion": 'eval "$(msprobe completion bash)"',
    "compare": "msprobe compare golden_dump target_dump -o comparison",
    "ckpt": "msprobe ckpt run_a/checkpoints run_b/checkpoints -o similarity.json",
    "grad_compare": "msprobe grad_compare probe_a probe_b -o comparison",
    "merge_result": "msprobe merge_result -i comparisons -o merged -config indexes.yaml",
    "view": "msprobe view result",
    "export": "msprobe export dump",
    "config_check": "msprobe config_check -c pack_a.zip pack_b.zip -o result",
    "nan_analyze": "msprobe nan_analyze -i dump/step0 -o result",
    "run_overflow_check": "msprobe run_overflow_check -api_info dump/step0/rank0/dump.json",
}


class Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        """With an example in every one."""
        text = super().format_help()
        example = _EXAMPLES.get(self.prog.rpartition(" ")[2])
        return text if example is None or "example: " in text else f"{text}example: {example}\n"

    def error(self, message: str) -> NoReturn:
        """One line; the help has the rest."""
        self.exit(2, printable(f"{self.prog}: error: {message}; see {self.prog} --help") + "\n")


def thread_count(text: str) -> int:
    """Of an option --threads."""
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) <= 1024):
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1024, found {text!r}")
    return int(text)
