# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe doctor."""

from __future__ import annotations

import json
import sys
from collections import namedtuple

from msprobe import cli, native
from msprobe.doctor import command as doctor


def findings(**names):
    return {finding.name: finding for finding in doctor.examine()}


def test_a_sound_installation(capsys):
    code = cli.main(["doctor", "--json"])
    content = json.loads(capsys.readouterr().out)
    assert code == int(any(one["level"] == "problem" for one in content))
    by_name = {one["name"]: one for one in content}
    assert by_name["msprobe"]["level"] == "ok"
    assert by_name["torch"]["text"].startswith("2.")
    assert by_name["instruction set"]["text"]


def test_both_tools_in_one_environment(monkeypatch, capsys):
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "8.1.1" if "mindstudio" in name else real(name))
    assert cli.main(["doctor", "--quiet"]) == 1
    assert capsys.readouterr().out.startswith(
        "X mindstudio-probe       8.1.1 is installed in this environment"
    )


def test_a_folder_that_cannot_be_written_and_little_space(monkeypatch):
    monkeypatch.setattr(doctor, "_can_write", lambda folder: False)
    assert findings()["working folder"].level == "problem"
    monkeypatch.undo()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: usage(1, 1, 1))
    assert findings()["working folder"].level == "note"


def test_a_variable_that_nothing_reads(monkeypatch, tmp_path):
    monkeypatch.setenv("MSPROBE_CONFIG", "c.yaml")
    monkeypatch.setattr(doctor.sys, "path", [str(tmp_path)])
    assert findings()["MSPROBE_CONFIG"].level == "problem"
    (tmp_path / "msprobe.pth").write_text("")
    assert "MSPROBE_CONFIG" not in findings()


def test_a_part_that_fails_stops_nothing(monkeypatch):
    def fail():
        raise OSError("no such device")

    monkeypatch.setitem(doctor._PARTS, "torch", fail)
    found = findings()
    assert found["torch"].text == "cannot be examined: OSError: no such device"
    assert "working folder" in found


def test_without_torch_it_says_what_recording_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert findings()["torch"].hint.endswith("pip install torch")
    monkeypatch.setattr(native.core, "built_with_torch", None)
    assert findings()["torch"].hint.endswith("it needs torch and the wheel +torchX.Y")
