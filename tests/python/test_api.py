# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The commands as functions: what they take, what they return, and how a result shows itself."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
from pathlib import Path

import msprobe
import pytest
from msprobe.result import Result

DATA = Path(__file__).parents[1] / "data"
SAMPLE = DATA / "trace" / "sample"
PROBES = DATA / "grad_probe" / "l1_a", DATA / "grad_probe" / "l1_b"
PACKS = DATA / "config_check" / "dyn_a.zip", DATA / "config_check" / "dyn_b.zip"
FUNCTIONS = (
    "check",
    "ckpt",
    "compare",
    "config_check",
    "diagnose",
    "diff",
    "grad_compare",
    "graph",
    "nan_analyze",
    "rl_compare",
    "trend",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return {
        "compare": msprobe.compare(SAMPLE, SAMPLE),
        "graph": msprobe.graph(SAMPLE, SAMPLE),
        "graph of one": msprobe.graph(SAMPLE),
        "grad_compare": msprobe.grad_compare(*PROBES),
        "config_check": msprobe.config_check(*PACKS),
        "nan_analyze": msprobe.nan_analyze(SAMPLE),
        "diagnose": msprobe.diagnose(SAMPLE, SAMPLE, out / "diagnosis"),
    }


def test_every_function_is_public():
    assert set(FUNCTIONS) <= set(msprobe.__all__)
    assert dir(msprobe) == sorted(msprobe.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_package_of_the_same_name_is_called_and_has_its_modules(name):
    function = getattr(msprobe, name)
    parameters = list(inspect.signature(function).parameters)
    wanted = {"check": "dump", "nan_analyze": "dump", "graph": "runs"}.get(name, "reference")
    assert parameters[0] == wanted
    if wanted == "reference":
        assert parameters[1] in ("target", "targets")


def test_it_does_not_matter_what_is_imported_first():
    for statement in ("import msprobe.compare.inputs", "from msprobe.compare import run", "import msprobe"):
        code = (
            f"{statement}\nimport msprobe\nassert callable(msprobe.compare)\n"
            "import msprobe.compare.inputs as inputs\nassert msprobe.compare.inputs is inputs\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


def test_results_show_themselves(results):
    for name, result in results.items():
        assert isinstance(result, Result), name
        text = repr(result)
        assert text == f"<{type(result).__name__}: {result.sentence}>"
        assert len(text) < 400
        assert "\n" not in text
        assert "<strong>" in result._repr_html_()
        rows = result.table()
        assert all(row.keys() == rows[0].keys() for row in rows)
    assert len(results["grad_compare"].table()) == len(results["grad_compare"].verdict.findings) > 0
    assert len(results["config_check"].table()) > 0
    assert "<td>" in results["config_check"]._repr_html_()


def test_what_comes_from_files_is_no_markup():
    class Hostile(Result):
        sentence = "<script>"

        def table(self):
            return [{"name": "<b>", "value": 1.0 / 3, "none": None}] * 30

    text = Hostile()._repr_html_()
    assert "<script>" not in text
    assert "&lt;b&gt;" in text
    assert "0.333333" in text
    assert text.count("<tr>") == 21
    assert "and 10 more" in text


def test_pandas(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(msprobe.UnsupportedError, match="pip install pandas"):
        results["compare"].to_pandas()
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda rows: ("frame", rows)))
    assert results["config_check"].to_pandas() == ("frame", results["config_check"].table())


def test_without_an_output_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert msprobe.compare(SAMPLE, SAMPLE).agree
    assert not msprobe.grad_compare(*PROBES).same
    msprobe.config_check(*PACKS)
    assert not list(tmp_path.iterdir())


def test_results_that_exist_are_replaced_with_force_only(tmp_path):
    out = tmp_path / "out"
    calls = (
        lambda **more: msprobe.compare(SAMPLE, SAMPLE, out / "compare", **more),
        lambda **more: msprobe.grad_compare(*PROBES, out / "grad", pictures=False, **more),
        lambda **more: msprobe.config_check(*PACKS, out / "config", **more),
        lambda **more: msprobe.diagnose(SAMPLE, SAMPLE, out / "diagnose", **more),
    )
    for call in calls:
        call()
        with pytest.raises(msprobe.InvalidArgument, match="there are results already"):
            call()
        call(force=True)


def test_checkpoints(tmp_path):
    torch = pytest.importorskip("torch")
    for name, value in (("a", 1.0), ("b", 2.0)):
        torch.save({"w": torch.full((3,), value), "v": torch.ones(2)}, tmp_path / f"{name}.pt")
    result = msprobe.ckpt(tmp_path / "a.pt", tmp_path / "b.pt", tmp_path / "out.json")
    assert [(row["parameter"], row["equal"]) for row in result.table()] == [("w", False), ("v", True)]
    assert result.sentence == "The checkpoints differ: 1 of 2 parameters."
    with pytest.raises(msprobe.InvalidArgument, match="there is such a file"):
        msprobe.ckpt(tmp_path / "a.pt", tmp_path / "b.pt", tmp_path / "out.json")
    msprobe.ckpt(tmp_path / "a.pt", tmp_path / "b.pt", tmp_path / "out.json", force=True)


def test_diff(tmp_path):
    numpy = pytest.importorskip("numpy")
    for name, value in (("a", 1.0), ("b", 2.0)):
        numpy.save(tmp_path / f"{name}.npy", numpy.full(3, value, numpy.float32))
    result = msprobe.diff(tmp_path / "a.npy", tmp_path / "b.npy")
    assert repr(result) == f"<DiffResult: {result.sentence}>"
    assert (result.same, result.table()[0]["not_close"]) == (False, 3)
    assert msprobe.diff(tmp_path / "a.npy", tmp_path / "b.npy", rtol=1.0).table()[0]["not_close"] == 0
    assert msprobe.diff(tmp_path / "a.npy", tmp_path / "a.npy").same
    same = msprobe.diff(SAMPLE, SAMPLE)
    assert (same.same, same.table()) == (True, [])
    with pytest.raises(msprobe.InvalidArgument):
        msprobe.diff(tmp_path / "a.npy", SAMPLE)


def test_wrong_numbers_of_runs():
    with pytest.raises(msprobe.InvalidArgument, match="found 3"):
        msprobe.graph(SAMPLE, SAMPLE, SAMPLE)
