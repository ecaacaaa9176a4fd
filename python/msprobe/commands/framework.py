# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The framework that -f names. Files say of which one they are: the word decides nothing, and where it is not
that of the files a warning says so.
"""

from __future__ import annotations

from pathlib import Path

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable

asked: str | None = None


def tell_of_other(paths: Iterable[Path | str | None]) -> None:
    """Warns where -f was given and none of the dumps is of that framework."""
    if asked is None:
        return
    from msprobe.files.dump_folders import framework_of
    from msprobe.native import log

    found = {path: name for path in paths if path is not None and (name := framework_of(Path(path)))}
    if found and asked not in found.values():
        dump, name = next(iter(found.items()))
        log.warning("-f %s: %s was recorded of %s; -f is not needed, the files tell", asked, dump, name)
