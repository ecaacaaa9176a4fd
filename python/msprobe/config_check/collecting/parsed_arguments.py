# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Remembers what argparse makes of the command line of the program."""

from __future__ import annotations

import argparse
import functools
from typing import TYPE_CHECKING, Any

from msprobe.hooks.functions import AttributeExchange

if TYPE_CHECKING:
    from collections.abc import Callable


class ParsedArguments:
    """install() and stop() may be called in any order, any number of times."""

    def __init__(self) -> None:
        self._exchange: AttributeExchange | None = None
        self._found: list[argparse.Namespace] = []

    def install(self) -> None:
        """From now on; what was found before is forgotten."""
        if self._exchange is None:
            self._found = []
            wrapper = self._wrapper(argparse.ArgumentParser.parse_known_args)
            self._exchange = AttributeExchange(argparse.ArgumentParser, "parse_known_args", wrapper)
            self._exchange.install()

    def stop(self) -> None:
        """Puts argparse back; what was found stays."""
        if self._exchange is not None:
            self._exchange.remove()
            self._exchange = None

    def namespaces(self) -> list[argparse.Namespace]:
        """As the program has them now: it may have changed them."""
        return list(self._found)

    def _wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        found = self._found

        @functools.wraps(original)
        def parse_known_args(
            parser: argparse.ArgumentParser, args: Any = None, namespace: Any = None, **options: Any
        ) -> Any:
            result = original(parser, args, namespace, **options)
            # A list of arguments is not the command line: a library asks itself something.
            if args is None and all(result[0] is not one for one in found):
                found.append(result[0])
            return result

        return parse_known_args
