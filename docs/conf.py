# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Sphinx: the pages of this folder as a site (`./dev docs`, docs/adr/0018). A warning is an error there.

The pages are plain Markdown, for those who read them in the repository. What only the site needs is added
here: the navigation, and the C++ headers below their page.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = Path(__file__).resolve().parent
HEADERS = FOLDER.parent / "cpp" / "include" / "msprobe"

project = "msprobe"
author = "The msprobe authors"
copyright = "2026 The msprobe authors"
_cmake = (FOLDER.parent / "CMakeLists.txt").read_text(encoding="utf-8")
release = re.search(r"project\(msprobe VERSION ([0-9.]+)", _cmake)[1]

extensions = ["myst_parser"]
root_doc = "README"
nitpicky = True
myst_heading_anchors = 3  # named as code hosts name them: the same links work in both places

html_theme = "furo"
html_title = f"msprobe {release}"
html_show_sourcelink = False


def navigation(page: str) -> str:
    """The links of each section of README.md as one part of the navigation. Sphinx warns of a page that is
    not linked there.
    """
    trees = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        links = re.findall(r"\]\(([\w/]+)\.md\)", text)
        if links:
            trees.append(_tree(links, f":caption: {title}"))
    return "".join(trees)


def reference() -> str:
    """The headers, one section each; first the pages of Doxygen, where `./dev docs` makes them."""
    link = '<a href="cpp/index.html">All names, with an index and a search</a>'
    sections = [f"\n```{{raw}} html\n<p>{link}</p>\n```\n"] if shutil.which("doxygen") else []
    for header in sorted(HEADERS.glob("*.h")):
        include = f"../cpp/include/msprobe/{header.name}"
        block = f"```{{literalinclude}} {include}\n:language: cpp\n:lines: 3-\n```"
        sections.append(f"\n## msprobe/{header.name}\n\n{block}\n")
    return "".join(sections)


def _tree(links: list[str], *options: str) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", *options, *links, "```", ""])


def _numbered(folder: str) -> list[str]:
    return sorted(path.stem for path in (FOLDER / folder).glob("*.md") if path.stem != "README")


def without_links_to_the_repository(page: str, folder: Path) -> str:
    """Files beside the site are named. A link to one that is not there stays, and is a warning."""

    def named(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if not target.exists() or target.is_relative_to(FOLDER):
            return link[0]
        return f"{link[1]} (`{target.relative_to(FOLDER.parent)}`)"

    return re.sub(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]+)(?:#[^)\s]*)?\)", named, page)


def add_what_only_the_site_needs(app: Sphinx, name: str, text: list[str]) -> None:
    text[0] = without_links_to_the_repository(text[0], (FOLDER / name).parent)
    if name == "README":
        text[0] += navigation(text[0])
    elif name in ("adr/README", "formats/README"):
        text[0] += _tree(_numbered(name.partition("/")[0]))
    elif name == "cpp_reference":
        text[0] += reference()


def write_first_page(app: Sphinx, error: Exception | None) -> None:
    """Servers and people look for index.html."""
    if error is None and app.builder.name == "html":
        refresh = '<meta http-equiv="refresh" content="0; url=README.html">'
        page = f'<!doctype html>{refresh}<a href="README.html">msprobe</a>\n'
        (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_what_only_the_site_needs)
    app.connect("build-finished", write_first_page)
