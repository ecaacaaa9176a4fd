# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The tab in TensorBoard. Where TensorBoard is not installed, MSPROBE_TENSORBOARD names the interpreter of an
environment with it (and with NumPy)."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from importlib import metadata
from pathlib import Path

import msprobe
import pytest
from viewer_page import CHROMIUM, MISSING, ViewerPage
from viewer_samples import write

PYTHON = os.environ.get("MSPROBE_TENSORBOARD") or (
    sys.executable if importlib.util.find_spec("tensorboard") else None
)
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no TensorBoard: see MSPROBE_TENSORBOARD")
ENTRY = "[tensorboard_plugins]\nmsprobe = msprobe.viewer.tensorboard_tab:Tab\n"


def is_installed():
    """Whether the package is installed here with its entry point."""
    points = [point for one in metadata.distributions() for point in one.entry_points]
    return any(point.group == "tensorboard_plugins" and point.name == "msprobe" for point in points)


@contextlib.contextmanager
def tensorboard(folder: Path, work: Path):
    """The address of a TensorBoard that shows `folder`; the entry point is that of the installed package."""
    described = work / "entry" / "msprobe_entry-0.dist-info"
    described.mkdir(parents=True)
    if not (sys.executable == PYTHON and is_installed()):
        (described / "METADATA").write_text("Metadata-Version: 2.1\nName: msprobe-entry\nVersion: 0\n")
        (described / "entry_points.txt").write_text(ENTRY)
    paths = [str(described.parent), str(Path(msprobe.__file__).parents[1])]
    folders = {"XDG_STATE_HOME": str(work / "state"), "XDG_CACHE_HOME": str(work / "cache")}
    command = [PYTHON, "-m", "tensorboard.main", "--logdir", str(folder), "--port", "0", "--load_fast=false"]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **folders, "PYTHONPATH": os.pathsep.join(paths)},
    ) as process:
        said = []
        try:
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"http://\S+:\d+/", line):
                    yield re.sub(r"//[^:/]+", "//localhost", found[0])
                    return
            raise AssertionError("".join(said))
        finally:
            process.terminate()


def ask(address, name, question, **headers):
    words = {"Content-Type": "application/json", **headers}
    body = json.dumps(question).encode()
    request = urllib.request.Request(f"{address}data/plugin/msprobe/page/api/{name}", body, words)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_tab_shows_the_page_and_answers_only_to_it(tmp_path):
    folder = tmp_path / "runs"
    (folder / "a").mkdir(parents=True)
    path = write(folder / "a" / "one.vis.db")
    write(tmp_path / "outside.vis.db")
    before = path.read_bytes()
    with tensorboard(folder, tmp_path) as address:
        assert ask(address, "files", {})[1]["files"][0]["name"] == "a/one.vis.db"
        status, answer = ask(address, "open", {"file": "../outside.vis.db"})
        assert (status, "no result file" in answer["error"]) == (400, True)
        assert ask(address, "files", {}, Origin="http://elsewhere.example")[0] == 403
        assert ask(address, "files", {}, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert ask(address, "files", {}, **{"Content-Type": "text/plain"})[0] == 403
        with urllib.request.urlopen(f"{address}data/plugins_listing") as listing:
            assert json.loads(listing.read())["msprobe"]["enabled"] is True
        if CHROMIUM is None:
            pytest.skip(MISSING)
        page = ViewerPage(tmp_path / "profile")
        try:
            page.go(f"{address}#msprobe")
            inner = "document.querySelector('tb-dashboard, plugins iframe, iframe')"
            page.until(f"{inner}?.contentDocument?.querySelector('iframe')", 60)
            page.until(
                f"{inner}.contentDocument.querySelector('iframe').contentDocument.querySelector('.finding')",
                60,
            )
            page.go("about:blank")
        finally:
            page.close()
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ["one.vis.db"]
