# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where the two sides of an online accuracy check meet: keys of the sections `tensor` (the training) and
`run_ut` (the checker), checked natively: cpp/src/config/rules.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Meeting:
    """Either a folder that both sides see, or an address."""

    nfs_path: str = ""
    host: str = ""
    port: int = -1
    tls_path: str = ""
    """Folder with the key and certificates of this side; empty: TCP as it is."""


def meeting_of(section: Mapping[str, Any]) -> Meeting:
    """Of a checked section. A folder wins over an address."""
    if section["nfs_path"]:
        return Meeting(nfs_path=section["nfs_path"])
    return Meeting(host=section["host"], port=section["port"], tls_path=section["tls_path"])
