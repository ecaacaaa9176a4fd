# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is shipped: one version, a whole wheel, stubs that tell the truth, and a build that needs no torch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "python" / "msprobe"


def run(*command: str | Path, cwd: Path = REPOSITORY, **environment: str) -> str:
    """Standard output and error of a command, which must succeed."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, ".")
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def declared_version() -> str:
    found = re.search(r"project\(msprobe VERSION ([0-9.]+)", (REPOSITORY / "CMakeLists.txt").read_text())
    assert found
    return found[1]


def test_there_is_one_version() -> None:
    import msprobe

    assert metadata.version("msprobe") == declared_version()
    assert msprobe.__version__ == declared_version()
    assert run(sys.executable, "-m", "msprobe", "--version").split() == ["msprobe", declared_version()]
    script = Path(sys.executable).parent / "msprobe"
    assert run(script, "--version").split() == ["msprobe", declared_version()]


def test_the_stubs_match_the_native_modules() -> None:
    # _torch wants torch to be loaded before.
    stubtest = "import torch; from mypy import stubtest; raise SystemExit(stubtest.main())"
    files = ("--mypy-config-file", "pyproject.toml", "--allowlist", ".ci/stubtest-allowlist.txt")
    assert "Success" in run(sys.executable, "-c", stubtest, *files, "msprobe._core", "msprobe._torch")


def test_the_wheel_has_every_file_of_the_package(names: set[str]) -> None:
    sources = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    expected = {
        "msprobe/py.typed",
        "msprobe/_core.pyi",
        "msprobe/_torch.pyi",
        "msprobe/grad_probe/report.html",
    }
    assert expected <= sources
    assert sources - names == set()
    assert "msprobe.pth" in names  # reads MSPROBE_CONFIG


def test_the_wheel_has_the_licences(names: set[str]) -> None:
    info = f"msprobe-{declared_version()}.dist-info"
    assert {f"{info}/licenses/{file}" for file in ("LICENSE", "NOTICE", "THIRD_PARTY_NOTICES.md")} <= names


def test_the_wheel_has_the_native_part_and_nothing_for_developers(names: set[str]) -> None:
    soversion = ".".join(declared_version().split(".")[:2])
    assert {f"msprobe/libmsprobe.so.{soversion}", f"msprobe/libmsprobe_torch.so.{soversion}"} <= names
    assert (
        sum(name.startswith(("msprobe/_core.", "msprobe/_torch.")) and name.endswith(".so") for name in names)
        == 2
    )
    folders = {"msprobe", "msprobe.pth", f"msprobe-{declared_version()}.dist-info"}
    assert {name.split("/")[0] for name in names} == folders
    assert not [name for name in names if name.endswith((".h", ".cmake", ".a"))]


def test_an_unpacked_wheel_works_anywhere(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    # -S: without what an editable installation puts in the way.
    python = (sys.executable, "-S", "-c")
    path = f"import sys; sys.path[:0] = {[str(tmp_path), sysconfig.get_path('purelib')]!r}; "
    core = run(
        *python, path + "from msprobe import _core as m; print(m.__file__); assert 'torch' not in sys.modules"
    )
    assert core.startswith(str(tmp_path))
    adapter = run(*python, path + "import torch; from msprobe import _torch as m; print(m.__file__)")
    assert adapter.startswith(str(tmp_path))


def test_without_torch_the_core_is_built_and_the_build_says_so(tmp_path: Path) -> None:
    python = tmp_path / "venv"
    venv.create(python, with_pip=False)
    output = run(
        *("cmake", "-S", REPOSITORY, "-B", tmp_path / "build", "-G", "Ninja"),
        *("-DMSPROBE_BUILD_TESTS=OFF", f"-DPython_EXECUTABLE={python / 'bin' / 'python'}"),
        PYTHONPATH="",
    )
    assert "only the core is built, without the part" in " ".join(output.split())
    targets = run("cmake", "--build", tmp_path / "build", "--target", "help")
    assert "msprobe:" in targets
    assert "msprobe_torch" not in targets


def test_the_installed_cmake_package_mentions_no_third_party(tmp_path: Path) -> None:
    run(
        "cmake",
        "-S",
        REPOSITORY,
        "-B",
        tmp_path,
        "-G",
        "Ninja",
        "-DMSPROBE_BUILD_TESTS=OFF",
        "-DMSPROBE_WITH_TORCH=OFF",
    )
    (exported,) = tmp_path.rglob("Export/**/msprobeTargets.cmake")
    text = exported.read_text()
    assert "msprobe::msprobe" in text
    assert not re.search("hwy|deflate|zlib|Threads", text)
