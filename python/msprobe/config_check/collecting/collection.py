# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a process knows without training: environment, packages, hyper-parameters of scripts, settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config_check.collecting.hyperparameters import check_paths, of_files
from msprobe.config_check.collecting.run_identity import own_run
from msprobe.config_check.collecting.settings import process_settings
from msprobe.config_check.packs import pack
from msprobe.config_check.packs.pack_reader import Pack
from msprobe.config_check.packs.pack_writer import PackWriter
from msprobe.files.credentials import concealed
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence


def collect_static(scripts: Sequence[str], path: str) -> None:
    """Writes a pack without a training; that of an earlier run is replaced. Raises InvalidArgument and
    IoError.
    """
    paths = check_paths(list(scripts))
    target = checked_pack_path(path)
    writer = PackWriter(target, own_run(target), "pytorch")
    writer.append(static_entries(paths))


def live_pack(scripts: Sequence[str]) -> Pack:
    """What collect_static() would write, without a file."""
    about = json.dumps({"format": pack.FORMAT})
    return Pack.of_texts(Path("live"), {pack.ABOUT: about, **static_entries(check_paths(list(scripts)))})


def static_entries(scripts: Sequence[Path]) -> dict[str, str]:
    """Entries of the first process."""
    entries = {pack.ENVIRONMENT: environment_text(), pack.PACKAGES: packages_text()}
    found = of_files(scripts)
    if found:
        entries[pack.STATIC] = as_text(found)
    # The scripts say where the training code is; without them it is here.
    folder = scripts[0].parent if scripts else Path.cwd()
    entries[pack.settings(0)] = as_text(process_settings(folder))
    return entries


def checked_pack_path(path: object) -> Path:
    """Raises InvalidArgument for anything but the name of a zip."""
    if not isinstance(path, (str, os.PathLike)) or not str(path).endswith(".zip"):
        raise InvalidArgument(f"output zip path must be a string and ends with '.zip', found {path!r}")
    return Path(path)


def environment_text() -> str:
    """All variables, credentials as hashes."""
    return as_text({name: concealed(name, value) for name, value in os.environ.items()})


def packages_text() -> str:
    """name=version, one line each, in the order in which Python finds them."""
    from importlib.metadata import distributions

    lines = []
    for one in distributions():
        name = one.metadata["Name"] if one.metadata is not None else None
        if name:
            lines.append(f"{name}={one.version}\n")
    return "".join(lines)


def as_text(tree: Any) -> str:
    return json.dumps(tree, indent=4)


def as_lines(tree: dict[str, Any]) -> str:
    """One line for each key, for what has many: the encoder that indents is written in Python, and slow."""
    lines = (f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in tree.items())
    return "{\n" + ",\n".join(lines) + "\n}"
