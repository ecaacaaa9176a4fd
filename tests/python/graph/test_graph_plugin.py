# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Our files in the TensorBoard plugin that users have. Opt-in, as it needs an environment of its own:

python -m venv FOLDER && FOLDER/bin/pip install tensorboard tb-graph-ascend==8.3.2
MSPROBE_TEST_PLUGIN=FOLDER python -m pytest tests/python/graph/test_graph_plugin.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graph_support import BLOCK, LINEAR, call, records, write_rank
from msprobe.cli import main

Answer = dict[str, Any]

_WAIT = 120  # seconds for an answer, on a busy machine


class Viewer:
    """The plugin's interface for its page."""

    def __init__(self, address: str) -> None:
        self._address = f"{address.rstrip('/')}/data/plugin/graph_ascend/"
        self.runs: dict[str, Any] = json.loads(self._read("load_meta_dir"))["data"]
        self._open = ""

    def ask(self, run: str, name: str, **more: Any) -> Any:
        """What it says of the file of a run. Fails unless it says that all went well."""
        (tag,) = self.runs[run]["tags"]
        where = {"run": run, "tag": tag, "type": "db", "lang": "en"}
        if run != self._open:  # it remembers one
            self._read(f"loadGraphData?{urllib.parse.urlencode(where)}")
            self._open = run
            self.ask(run, "loadGraphConfigInfo")  # as its page does
        place = {**where, "microStep": -1, "rank": 0, "step": 0}
        answer: Answer = json.loads(self._read(name, {"metaData": place, **more}))
        assert answer["success"] is True, answer
        return answer["data"]

    def visible(self, run: str, side: str, node: str = "root") -> Answer:
        """The nodes that are drawn when a node is opened."""
        shown = self.ask(run, "changeNodeExpandState", nodeInfo={"nodeName": node, "nodeType": side})
        assert isinstance(shown, dict)
        return {name.removeprefix("N___").removeprefix("B___"): value for name, value in shown.items()}

    def _read(self, name: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + name, data, {"Content-Type": "application/json"}, method="POST" if data else "GET"
        )
        with urllib.request.urlopen(request, timeout=_WAIT) as answer:
            content: bytes = answer.read()
        return content


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    environment = os.environ.get("MSPROBE_TEST_PLUGIN")
    if not environment:
        pytest.skip("MSPROBE_TEST_PLUGIN names no folder")
    folder = tmp_path_factory.mktemp("plugin")
    write_graphs(folder)
    command = [f"{environment}/bin/tensorboard", "--logdir", str(folder / "files"), "--port", "0"]
    with subprocess.Popen(
        [*command, "--host", "127.0.0.1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        timer = threading.Timer(_WAIT, server.terminate)
        timer.start()
        try:
            yield Viewer(address_of(server))
        finally:
            timer.cancel()
            server.terminate()


def address_of(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    said = ""
    for line in server.stdout:
        said += line
        if found := re.search(r"http://[^\s/]+/", line):
            # It talks on; nobody must wait for a full pipe.
            threading.Thread(target=server.stdout.read, daemon=True).start()
            return found[0]
    raise AssertionError(f"TensorBoard did not start: {said}")


def write_graphs(folder: Path) -> None:
    golden, target = write_rank(folder / "golden"), write_rank(folder / "target", records(relu=0.15))
    bad = write_rank(folder / "bad", {**records(), "Torch.relu.0.forward": call(float("nan"))})
    for rank in range(2):
        write_rank(folder / f"ranks/rank{rank}", records(linear=0.1 * (rank + 1)))
    sizes = ("--rank_size", "2", "--tp", "2", "--pp", "1")
    for name, words in (
        ("single", [target]),
        ("overflow", [bad, "-oc"]),
        ("compare", [golden, target]),
        ("merged", [folder / "ranks", *sizes]),
    ):
        assert main(["graph", *map(str, words), "-o", str(folder / "files" / name), "--quiet"]) in (0, 1)


def test_it_finds_all_files(viewer: Viewer) -> None:
    assert sorted(viewer.runs) == ["compare", "merged", "overflow", "single"]
    assert all(run["type"] == "db" and len(run["tags"]) == 1 for run in viewer.runs.values())


@pytest.mark.parametrize("run", ["single", "overflow", "compare", "merged"])
def test_it_opens_them(viewer: Viewer, run: str) -> None:
    config = viewer.ask(run, "loadGraphConfigInfo")
    assert config["isSingleGraph"] is (run != "compare")
    assert config["overflowCheck"] == (run == "overflow")
    assert (config["ranks"], config["steps"], config["microSteps"]) == ([0], [0], 1)
    if run == "compare":
        assert config["task"] == "summary"
        assert "#FF704D" in config["colors"]


@pytest.mark.parametrize(
    ("run", "side"), [("single", "Single"), ("compare", "NPU"), ("compare", "Bench"), ("merged", "Single")]
)
def test_it_shows_the_model_level_by_level(viewer: Viewer, run: str, side: str) -> None:
    top = viewer.visible(run, side)
    assert {"DefaultModel", BLOCK} <= {*top}
    assert any(name.startswith("Apis_Between_Modules") for name in top)
    below = viewer.visible(run, side, BLOCK)
    assert {LINEAR, "Torch.relu.0.forward"} <= {*below}
    assert below[LINEAR]["parentNode"].endswith(BLOCK)


def test_it_shows_matches_and_colours(viewer: Viewer) -> None:
    viewer.visible("compare", "NPU")
    below = viewer.visible("compare", "NPU", BLOCK)
    assert float(below["Torch.relu.0.forward"]["precisionIndex"]) == pytest.approx(0.5)
    assert float(below[LINEAR]["precisionIndex"]) == 0
    link = below[LINEAR]["matchedNodeLink"]
    assert [name.removeprefix("B___") for name in link][-1] == LINEAR


def test_it_shows_the_parameters_and_the_stack_of_a_node(viewer: Viewer) -> None:
    shown = viewer.ask("compare", "getNodeInfo", nodeInfo={"nodeName": LINEAR, "nodeType": "NPU"})
    ours, theirs = shown["npu"], shown["bench"]
    cells = ours["output_data"][f"{LINEAR}.output.0"]
    assert (cells["Mean"], cells["MeanRelativeErr"]) == ("0.1", "0.0%")
    assert f"{LINEAR}.output.0" in theirs["output_data"]
    assert "File model.py, line 3" in str(ours["stack_info"])


def test_it_tells_of_merging(viewer: Viewer) -> None:
    names = viewer.ask("merged", "loadGraphAllNodeList")["npuNodeList"]
    notes = [
        viewer.ask("merged", "getNodeInfo", nodeInfo={"nodeName": name, "nodeType": "Single"})["npu"]
        for name in names
    ]
    assert any("merg" in str(one["parallel_merge_info"]) for one in notes)


def test_it_filters(viewer: Viewer) -> None:
    assert viewer.ask("compare", "screen", type="precision", values=[[0.4, 0.6]]) == ["Torch.relu.0.forward"]
    assert viewer.ask("overflow", "screen", type="overflow", values=["critical"]) == ["Torch.relu.0.forward"]


def test_it_lists_all_nodes(viewer: Viewer) -> None:
    lists = viewer.ask("compare", "loadGraphAllNodeList")
    assert lists["npuUnMatchNodes"] == []
    assert {BLOCK, LINEAR, "Torch.relu.0.forward"} <= {*lists["npuMatchNodes"]}
    assert {*lists["npuNodeList"]} == {*lists["benchNodeList"]}
