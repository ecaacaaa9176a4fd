# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe.native: where the log goes, and one clear error where torch is missing or is another one."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from msprobe import UnsupportedError, native

LOG = """
{before}
from msprobe.native import core, log
for level in ("debug", "info", "warning", "error", "critical"):
    getattr(log, level)(f"a %s of level {{level}}", "line")
"""


def logged(monkeypatch, value, before=""):
    """Standard error of a process that logs one line at every level."""
    if value is None:
        monkeypatch.delenv("MSPROBE_LOG_LEVEL", raising=False)
    else:
        monkeypatch.setenv("MSPROBE_LOG_LEVEL", value)
    command = [sys.executable, "-c", LOG.format(before=before)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == ""
    return result.stderr.splitlines()


class TestLogLevel:
    LINES = tuple(
        f"msprobe: {level.upper()}: a line of level {level}"
        for level in ("debug", "info", "warning", "error", "critical")
    )

    @pytest.mark.parametrize(("value", "first"), [("0", 0), ("1", 1), ("2", 2), ("3", 3), ("4", 5)])
    def test_every_level(self, monkeypatch, value, first):
        assert logged(monkeypatch, value) == list(self.LINES[first:])

    @pytest.mark.parametrize("value", [None, ""])
    def test_not_set(self, monkeypatch, value):
        expected = [f"a line of level {level}" for level in ("warning", "error", "critical")]
        assert logged(monkeypatch, value) == expected  # Python's own last resort

    @pytest.mark.parametrize("value", ["5", "-1", "info", "1.0", " 1", "\u0663"])
    def test_a_wrong_value_is_said_once_and_ignored(self, monkeypatch, value):
        first, *rest = logged(monkeypatch, value)
        assert first == f"MSPROBE_LOG_LEVEL: expected a number from 0 to 4, found {value!r}: it is ignored"
        assert len(rest) == 3

    def test_the_application_shows_it_once_and_in_its_own_form(self, monkeypatch):
        before = "import logging; logging.basicConfig(format='%(name)s %(levelname)s')"
        assert logged(monkeypatch, "0", before) == [
            f"msprobe {level}" for level in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
        ]
        assert logged(monkeypatch, "3", before) == ["msprobe ERROR", "msprobe CRITICAL"]

    def test_a_command_shows_a_line_once(self, monkeypatch):
        code = "from msprobe.native import log, log_on_stderr\nwith log_on_stderr('WARNING'): log.error('x')"
        monkeypatch.setenv("MSPROBE_LOG_LEVEL", "0")
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert result.stderr == "msprobe: ERROR: x\n"


class TestTorch:
    def test_it_is_there(self):
        import torch

        assert native.import_torch() is torch
        assert native._release(native.torch_adapter().built_with_torch) == native._release(torch.__version__)

    def test_torch_is_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        for call in (native.import_torch, native.torch_adapter):
            with pytest.raises(
                UnsupportedError, match=r"needs torch, which .* in the environment of /"
            ) as caught:
                call()
            assert isinstance(caught.value.__cause__, ImportError)

    def test_torch_is_not_installed(self):
        # -I -S: without site-packages; msprobe itself is found by its path.
        from pathlib import Path

        site = str(Path(native.__file__).parents[1])
        code = f"""
import sys, importlib.abc
class NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, NoTorch())
sys.path.insert(0, {site!r})
from msprobe import seed_all
try:
    seed_all()
except NotImplementedError as error:
    print(error)
"""
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stdout == (
            "this part of msprobe works inside a training program and needs torch, which is not installed in "
            f"the environment of {sys.executable}\n"
        )

    def test_torch_cannot_be_loaded(self, monkeypatch, tmp_path):
        (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')")
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(UnsupportedError, match=r"cannot be imported \(libcudart\.so\.12: cannot open"):
            native.import_torch()

    @pytest.mark.parametrize(
        ("installed", "fits"),
        [
            ("2.13.0", True),
            ("2.13.4+cu128", True),
            ("2.13.0a0+git12", True),
            ("2.12.1", False),
            ("3.13.0", False),
        ],
    )
    def test_the_module_was_built_for_another_torch(self, monkeypatch, caplog, installed, fits):
        import msprobe

        adapter = object()
        monkeypatch.setattr(native.core, "built_with_torch", "2.13.0")
        monkeypatch.setattr(native, "import_torch", lambda: SimpleNamespace(__version__=installed))
        if fits:
            monkeypatch.setattr(msprobe, "_torch", adapter, raising=False)
            monkeypatch.setitem(sys.modules, "msprobe._torch", adapter)
            assert native.torch_adapter() is adapter
            return
        # An attempt to load it would fail in another way.
        monkeypatch.delattr(msprobe, "_torch", raising=False)
        monkeypatch.setitem(sys.modules, "msprobe._torch", None)
        native._python_adapter.cache_clear()
        assert native.torch_adapter().__name__ == "msprobe.frameworks.torch.adapter"
        release = ".".join(installed.split(".")[:2])
        assert f"built with torch 2.13.0, found torch {installed}: it records through Python" in caplog.text
        assert f"install the wheel msprobe-...+torch{release} in the environment" in caplog.text

    def test_the_module_cannot_be_loaded(self, monkeypatch):
        import msprobe

        monkeypatch.setattr(native, "import_torch", lambda: SimpleNamespace(__version__="2.99.0"))
        monkeypatch.setattr(native.core, "built_with_torch", "2.99.1")
        monkeypatch.delattr(msprobe, "_torch", raising=False)
        monkeypatch.setitem(sys.modules, "msprobe._torch", None)
        with pytest.raises(UnsupportedError, match=r"cannot be loaded with torch 2\.99\.0") as caught:
            native.torch_adapter()
        assert "--no-build-isolation" in str(caught.value)

    def test_the_module_was_not_built(self, monkeypatch, caplog):
        monkeypatch.setattr(native.core, "built_with_torch", None)
        native._python_adapter.cache_clear()
        assert native.torch_adapter().__name__ == "msprobe.frameworks.torch.adapter"
        assert "this msprobe was built without torch" in caplog.text

    def test_another_torch_is_told_and_the_core_works(self, tmp_path):
        (tmp_path / "torch.py").write_text("__version__ = '99.0'", encoding="utf-8")
        code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from msprobe import native
print(native.core.instruction_set())
try:
    native.torch_adapter()
except native.UnsupportedError as error:
    print(error)
"""
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        first, second = result.stdout.splitlines()
        assert first == native.core.instruction_set()
        assert second.startswith("torch 99.0 cannot be recorded (")
        assert "install the wheel msprobe-...+torch99.0 in" in second
