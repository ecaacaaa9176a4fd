# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What stands in a page that a command wrote, as a browser reads it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any


class HtmlPage(HTMLParser):
    """Tags, addresses, and the text of each <script> by its id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str | None] = []
        self.scripts: dict[str, str] = {}
        self._script = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag == "script":
            self._script = dict(attrs).get("id") or "code"
            self.scripts[self._script] = ""

    def handle_endtag(self, tag: str) -> None:
        self._script = "" if tag == "script" else self._script

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script] += data

    @property
    def data(self) -> Any:
        return json.loads(self.scripts["data"])

    def rows(self, index: int) -> Any:
        return json.loads(self.scripts[f"rows{index}"])
