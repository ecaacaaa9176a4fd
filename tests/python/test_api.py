# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The commands as functions: what they take, what they return, and how a result shows itself."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
import types
from pathlib import Path

import msprobe
import pytest
from msprobe import cli
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
    "hunt",
    "nan_analyze",
    "repeat",
    "resume",
    "rl_compare",
    "run",
    "show",
    "trend",
    "view",
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
    others = {"check": "dump", "nan_analyze": "dump", "graph": "runs", "run": "program", "show": "file"}
    others.update(repeat="command", resume="command")
    wanted = others.get(name, "reference")
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
    assert "<td " in results["config_check"]._repr_html_()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_is_that_of_the_function(name):
    text = pydoc.render_doc(getattr(msprobe, name), renderer=pydoc.plaintext)
    assert text.startswith(f"Python Library Documentation: function {name} in module msprobe.")
    assert "PACKAGE CONTENTS" not in text


def test_a_mistyped_name_gets_a_suggestion():
    with pytest.raises(AttributeError, match=r"did you mean 'diagnose'\?"):
        _ = msprobe.diagnos


def test_errors_speak_python(tmp_path, capsys):
    """And the command line says the same in its own words."""
    msprobe.compare(SAMPLE, SAMPLE, tmp_path / "out")
    with pytest.raises(msprobe.InvalidArgument, match=r"replace what is there with force=True$"):
        msprobe.compare(SAMPLE, SAMPLE, tmp_path / "out")
    assert cli.main(["compare", str(SAMPLE), str(SAMPLE), "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.endswith("replace what is there with --force\n")


def test_a_result_in_a_notebook_leads_to_its_page(results, tmp_path, monkeypatch):
    answer = results["diagnose"]
    assert answer.page.name == "index.html"
    assert answer.page.exists()
    assert f"href='{answer.page.as_uri()}'" in answer._repr_html_()
    assert "max-width:900px" in answer._repr_html_()
    monkeypatch.chdir(answer.page.parents[1])
    assert "href='diagnosis/index.html'" in answer._repr_html_()
    assert results["compare"].page is None
    assert "<a " not in results["compare"]._repr_html_()


def test_run_show_and_view(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").write_text(
        "import sys, torch\nmodel = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(2):\n    model(torch.ones(2)).sum().backward()\n    optimizer.step()\n"
        "print('said', *sys.argv[1:])\nsys.exit(3)\n"
    )
    result = msprobe.run(["t.py", "--lr", "1"], "run_a", steps="0", without=["config"])
    assert (result.exit_code, result.steps, set(result.recorded)) == (3, 2, {"losses", "gradients", "dump"})
    assert "said --lr 1" in capsys.readouterr().out
    with pytest.raises(msprobe.InvalidArgument, match="or replace it with force=True"):
        msprobe.run("t.py", "run_a")
    with pytest.raises(msprobe.InvalidArgument, match=r"absent\.py does not exist"):
        msprobe.run("absent.py", "run_b")
    shown = msprobe.show("run_a", "Functional.*")
    assert any("Functional.linear.0.forward" in str(row["name"]) for row in shown.table())
    assert str(shown).startswith(f"{shown.title}\n  Functional.")
    page = msprobe.view("run_a", output="page.html")
    assert "<html" in page.read_text()[:200]


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
