# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is shipped: one version, a whole wheel that needs nothing of the system, sources that can be built,
stubs that tell the truth, and a build that needs no torch.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
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
        "msprobe/files/report/report.js",
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


# Of the C and C++ compilers, and what torch brings.
RUNTIME = re.compile(
    r"(libc|libm|libdl|librt|libpthread)\.so\.\d+|libstdc\+\+\.so\.6|libgcc_s\.so\.1|ld-linux-.*\.so\.\d+"
)
TORCH = re.compile(r"lib(torch|torch_cpu|torch_python|c10)\.so")
OURS = re.compile(r"libmsprobe(_torch)?\.so\.[\d.]+")
# Beside ours, where the static library of the system cannot become part of a shared one (docs/adr/0026).
CARRIED = re.compile(r"libyaml-cpp\.so\.[\d.]+")


@pytest.fixture(scope="module")
def libraries(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    found = sorted(folder.glob("msprobe/*.so*"))
    assert sum(not CARRIED.fullmatch(library.name) for library in found) == 4
    return found


def test_nothing_of_the_system_is_needed(libraries: list[Path]) -> None:
    carried = {library.name for library in libraries if CARRIED.fullmatch(library.name)}
    for library in libraries:
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library))
        assert "libstdc++.so.6" in needed
        other = [name for name in needed if not RUNTIME.fullmatch(name) and not OURS.fullmatch(name)]
        other = [name for name in other if name not in carried]
        if "_torch" in library.name:
            other = [name for name in other if not TORCH.fullmatch(name)]
        assert other == [], library.name


def test_nothing_of_others_can_be_seen(libraries: list[Path]) -> None:
    """Another extension with its own zlib or SQLite neither takes ours nor gives us its own."""
    # Inline functions of the standard library and of torch are the same in every library that has them.
    shared = re.compile(r"\b(msprobe|std|__gnu_cxx|c10|at|torch)::|^(PyInit_\w+|__bss_start|_edata|_end)$")
    # The libraries for C++ programs export their own names only (cmake/exports.map).
    own = re.compile(r"(^|for |to )msprobe::")
    for library in libraries:
        if CARRIED.fullmatch(library.name):
            continue
        lines = run("nm", "--dynamic", "--demangle", "--defined-only", library).splitlines()
        symbols = [line.split(None, 2)[2] for line in lines]
        assert symbols
        allowed = own if library.name.startswith("libmsprobe") else shared
        assert [symbol for symbol in symbols if not allowed.search(symbol)] == [], library.name


@pytest.fixture(scope="module")
def without_torch(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--python", folder)
    run(*pip, "install", "--no-index", "--no-deps", wheel, PYTHONPATH="")
    return folder / "bin"


def test_an_empty_environment_has_the_core(without_torch: Path, tmp_path: Path) -> None:
    empty = {"PYTHONPATH": "", "MSPROBE_CONFIG": ""}
    version = run(without_torch / "msprobe", "--version", cwd=tmp_path, **empty)
    assert version.split() == ["msprobe", declared_version()]
    help_text = run(without_torch / "msprobe", "compare", "--help", cwd=tmp_path, **empty)
    assert "usage: msprobe compare" in help_text
    doctor = subprocess.run(
        [without_torch / "msprobe", "doctor"],
        cwd=tmp_path,
        env={**os.environ, **empty},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "comparing works without it, recording does not: pip install torch" in doctor.stdout


def test_an_empty_environment_says_what_recording_needs(without_torch: Path, tmp_path: Path) -> None:
    ask = (
        "import msprobe\n"
        "try:\n"
        "    msprobe.PrecisionDebugger(task='statistics', dump_path='out').start()\n"
        "except msprobe.UnsupportedError as error:\n"
        "    print(error)\n"
    )
    said = run(without_torch / "python", "-c", ask, cwd=tmp_path, PYTHONPATH="")
    assert "needs torch, which is not installed in the environment of" in said


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    build = f"from scikit_build_core.build import build_sdist; build_sdist({str(folder)!r})"
    run(sys.executable, "-c", build)
    (archive,) = folder.glob("*.tar.gz")
    assert archive.name == f"msprobe-{declared_version()}.tar.gz"
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        assert all(name.startswith(f"msprobe-{declared_version()}") and ".." not in name for name in names)
        tar.extractall(folder)
    return folder / f"msprobe-{declared_version()}"


def test_the_sdist_has_what_a_build_reads(sources: Path) -> None:
    for folder in ("cmake", "cpp", "bindings", "python"):
        expected = {
            path.relative_to(REPOSITORY)
            for path in (REPOSITORY / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert [str(path) for path in sorted(expected) if not (sources / path).is_file()] == []
    assert (sources / "PKG-INFO").is_file()
    assert not [
        name for name in ("build", ".venv", ".git", "out", "viewer/node_modules") if (sources / name).exists()
    ]


def test_the_sdist_can_be_configured(sources: Path, tmp_path: Path) -> None:
    output = run(
        *("cmake", "-S", sources, "-B", tmp_path, "-G", "Ninja", "-DMSPROBE_BUILD_PYTHON=ON"),
        *("-DMSPROBE_BUILD_TESTS=OFF", "-DMSPROBE_STATIC_DEPENDENCIES=ON", "-DMSPROBE_WITH_TORCH=OFF"),
        f"-DPython_EXECUTABLE={sys.executable}",
    )
    assert "Configuring done" in output
    assert "msprobe_python" in run("cmake", "--build", tmp_path, "--target", "help")


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
    assert not re.search("hwy|deflate|zlib|yaml|json|[Ee]igen|Threads", text)
    for_pkg_config = (tmp_path / "cpp/msprobe.pc").read_text()
    assert f"Version: {declared_version()}\n" in for_pkg_config
    assert "prefix=${pcfiledir}/../.." in for_pkg_config
    assert "-lmsprobe\n" in for_pkg_config
    assert "@" not in for_pkg_config


@pytest.mark.parametrize("wanted", [True, False])
def test_the_start_hook_can_be_left_out(tmp_path: Path, wanted: bool) -> None:
    run(
        *("cmake", "-S", REPOSITORY, "-B", tmp_path, "-G", "Ninja", "-DMSPROBE_BUILD_PYTHON=ON"),
        *("-DMSPROBE_BUILD_TESTS=OFF", "-DMSPROBE_WITH_TORCH=OFF", f"-DPython_EXECUTABLE={sys.executable}"),
        *([] if wanted else ["-DMSPROBE_START_HOOK=OFF"]),
    )
    installed = (tmp_path / "bindings" / "cmake_install.cmake").read_text()
    assert ("msprobe.pth" in installed) == wanted


def test_the_start_hook_imports_nothing_where_the_variable_is_not_set(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "msprobe.pth").write_bytes((REPOSITORY / "python" / "msprobe.pth").read_bytes())
    ask = f"import site, sys; site.addsitedir({str(tmp_path / 'site')!r}); print('msprobe' in sys.modules)"
    # -S: without the hook of the environment under test.
    for value, imported in (("", "False"), ("config.yaml", "True")):
        answer = run(
            *(sys.executable, "-S", "-c", ask),
            cwd=tmp_path,
            MSPROBE_CONFIG=value,
            PYTHONPATH=os.pathsep.join([str(PACKAGE.parent), sysconfig.get_path("purelib")]),
        )
        assert answer.split()[-1] == imported
