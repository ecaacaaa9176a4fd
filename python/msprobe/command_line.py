# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the parsers of several commands share."""

from __future__ import annotations

import argparse

from msprobe.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import NoReturn


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line; the help has the rest."""
        self.exit(2, printable(f"{self.prog}: error: {message}; see {self.prog} --help") + "\n")


def thread_count(text: str) -> int:
    """Of an option --threads."""
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) <= 1024):
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1024, found {text!r}")
    return int(text)
