# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a user does in the page of the viewer, and what the page then shows."""

from __future__ import annotations

import contextlib
import json

from viewer_page import serving

BLOCK = "Module.layers.1.Block.forward.0"

# How many nodes are in a class of the colouring, but for those without a counterpart.
COLOURED = (
    "[...document.querySelectorAll('.class')].filter(one => !one.textContent.startsWith('unmatched'))"
    ".reduce((sum, one) => sum + Number(one.querySelector('b')?.textContent ?? 0), 0)"
)
# Of the target, then of the reference, wherever they stand.
SELECTED = (
    "[...document.querySelectorAll('.pane')]"
    ".sort((a, b) => a.querySelector('canvas').dataset.side - b.querySelector('canvas').dataset.side)"
    ".map(e => e.querySelector('.pane-head .path').textContent)"
)


def selected(page):
    return page.run(f"return {SELECTED}")


def is_selected(page, target, golden):
    page.until(
        f"JSON.stringify({SELECTED}) === {json.dumps(json.dumps([target, golden], separators=(',', ':')))}"
    )


def press(page, text):
    """A button by its text."""
    begins = f"b => b.textContent.trim().startsWith({json.dumps(text)})"
    find = f"[...document.querySelectorAll('button')].find({begins})"
    page.until(f"{find} && !{find}.disabled")
    page.run(f"{find}.click()")


def press_exactly(page, name, inside):
    find = (
        f"[...document.querySelectorAll('{inside} button')].find(b => b.textContent === {json.dumps(name)})"
    )
    page.until(f"{find} && !{find}.disabled")
    page.run(f"{find}.click()")


def text(page, selector="body"):
    return page.run(f"return document.querySelector({json.dumps(selector)})?.innerText ?? ''")


@contextlib.contextmanager
def shown(page, path, state):
    """A server whose page is left before it ends: no request is cut off."""
    with serving(path, state) as address:
        try:
            yield address
        finally:
            page.go("about:blank")


def tap(page, key):
    """A key, and what it does is done."""
    page.key(key)
    settle(page)


def settle(page):
    page.until("document.querySelector('main')?.getAttribute('aria-busy') !== 'true'")


def open_page(page, address, **options):
    page.run("localStorage.clear(); return 1") if page.run("return location.protocol") == "http:" else None
    page.go("about:blank")
    page.go(address, **options)
    page.until(
        "document.querySelector('.finding, .node, .picked, .tab-body p.pad:not(.soft), [role=alert], .files')"
    )


def give_own(page, content):
    page.run(
        "const input = document.querySelector('.menu input[type=file]');"
        "const chosen = new DataTransfer();"
        f"chosen.items.add(new File([{json.dumps(content)}], 'own.json'));"
        "input.files = chosen.files; input.dispatchEvent(new Event('change', {bubbles: true}))"
    )


def box_of(label):
    """A list of the top bar."""
    return (
        "[...document.querySelectorAll('label.place')]"
        f".find(one => one.textContent.startsWith({json.dumps(label)}))?.querySelector('select')"
    )


def choose(page, label, value):
    page.run(
        f"const box = {box_of(label)}; box.value = {json.dumps(str(value))};"
        "box.dispatchEvent(new Event('change', {bubbles: true}))"
    )


def chosen(page, label):
    return page.run(f"return {box_of(label)}.value")
