# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msprobe.viewer.api import Api
from msprobe.viewer.library import Library
from viewer_page import ViewerPage
from viewer_samples import write

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ViewerPage]:
    """A browser for the tests of a file."""
    page = ViewerPage(tmp_path_factory.mktemp("profile"))
    yield page
    page.close()


@pytest.fixture
def page(running: ViewerPage) -> Iterator[ViewerPage]:
    running.size(1500, 950)
    yield from running.without_faults()


@pytest.fixture
def asking() -> Iterator[Callable[[Path], Ask]]:
    """Asks about a file: `ask("list", text="linear")`, of step 0 and rank 0 unless said otherwise."""
    libraries = []

    def asking(path: Path) -> Ask:
        library = Library(path)
        libraries.append(library)
        api = Api(library)

        def ask(question: str, **members: Any) -> dict[str, Any]:
            return api.answer(question, {"file": path.name, "step": 0, "rank": 0, **members})

        return ask

    yield asking
    for library in libraries:
        library.close()


@pytest.fixture
def ask(tmp_path: Path, asking: Callable[[Path], Ask]) -> Ask:
    """About the sample that most tests take."""
    return asking(write(tmp_path / "a.vis.db"))
