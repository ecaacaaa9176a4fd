# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run of a notebook: cells run in order, and tracebacks name them."""

from __future__ import annotations

import json

import pytest
from msprobe.files.regular_file import read_text
from recording_support import BEGINNING, recorded, run_file


def notebook(path, *cells):
    """A file with these cells: text of code, or ("markdown", text)."""
    path.write_text(
        json.dumps(
            {
                "nbformat": 4,
                "nbformat_minor": 5,
                "metadata": {},
                "cells": [
                    {"cell_type": cell[0], "source": [cell[1]], "metadata": {}}
                    if isinstance(cell, tuple)
                    else {"cell_type": "code", "source": cell.splitlines(keepends=True), "metadata": {}}
                    for cell in cells
                ],
            }
        )
    )


def test_it_is_recorded_as_a_script_is(tmp_path):
    notebook(
        tmp_path / "train.ipynb",
        ("markdown", "# A training"),
        "%matplotlib inline\n!pip list\n" + BEGINNING,
        "%%bash\nfalse",
        "if True:\n    %time\ntrain(3)\nprint('end', sys.argv)",
    )
    done = recorded("train.ipynb", "--lr", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("end ['train.ipynb', '--lr', '1']\n")
    assert "for IPython only, left out: %matplotlib inline; !pip list" in done.stderr
    assert "%%bash" in done.stderr
    about = run_file(tmp_path / "out")
    assert (about["steps"], about["program"][0]) == (3, "train.ipynb")
    (stacks,) = (read_text(path / "stack.json") for path in tmp_path.glob("out/dump/step0/*"))
    assert "train.ipynb, cell 1" in stacks
    assert about["recorded"]["config"] == "config_check.zip"


def test_a_traceback_has_the_cell_and_the_line(tmp_path):
    notebook(tmp_path / "t.ipynb", "import torch", "x = 1\nfail = x / 0")
    done = recorded("--quiet", "t.ipynb", cwd=tmp_path)
    assert done.returncode == 1
    assert f'File "{tmp_path}/t.ipynb, cell 2", line 2' in done.stderr
    assert "fail = x / 0" in done.stderr
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    "text", ["", "[]", '{"cells": 3}', '{"cells": [{"cell_type": "code", "source": 3}]}']
)
def test_what_is_no_notebook_is_one_clear_line(tmp_path, text):
    (tmp_path / "t.ipynb").write_text(text)
    done = recorded("--quiet", "t.ipynb", cwd=tmp_path)
    assert done.returncode != 0
    assert "t.ipynb: " in done.stderr
    assert "expected" in done.stderr
