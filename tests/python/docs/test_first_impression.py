# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What somebody sees first: a short README with its commands, and the animated picture of the first hour."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html import unescape

from doc_blocks import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
PICTURE = REPOSITORY / "docs/images/first_hour.svg"


def test_the_readme_is_short_and_has_the_commands_of_a_clone() -> None:
    assert len(README.splitlines()) < 120
    for command in ("./dev setup",):
        assert re.search(rf"^{re.escape(command)} ", README, re.MULTILINE)


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", README)
    assert len(links) > 20
    assert [link for link in links if not (REPOSITORY / link).exists()] == []


def test_every_picture_of_the_pages_is_made_by_the_command() -> None:
    """One that nothing makes shows words and places of an earlier version."""
    images = REPOSITORY / "docs/images"
    maker = (images / "make.py").read_text(encoding="utf-8")
    assert [file.name for file in images.glob("*.png") if f'"{file.name}"' not in maker] == []


def test_the_picture_is_small_needs_nothing_and_shows_the_three_commands() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text) < 500_000
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "<script" not in text
    assert "url(" not in text
    title = unescape(text.split("<title>")[1].split("</title>")[0])
    told = (REPOSITORY / "docs/first_hour.md").read_text(encoding="utf-8")
    for command in ("msprobe run -o run_a", "msprobe run -o run_b", "msprobe diagnose run_a run_b"):
        assert command in title
        assert command in told
    assert "layers.1.norm1.eps" in text
