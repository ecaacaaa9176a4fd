# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where the two sides of an online accuracy check meet: keys of the sections `tensor` (the training) and
`run_ut` (the checker).
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from msprobe.config.values import Section, Value

_LARGEST_PORT = 65535


@dataclass(frozen=True)
class Meeting:
    """Either a folder that both sides see, or an address."""

    nfs_path: str = ""
    host: str = ""
    port: int = -1
    tls_path: str = ""
    """Folder with the key and certificates of this side; empty: TCP as it is."""


def read_meeting(section: Section, side: Literal["client", "server"], tls_default: str) -> Meeting:
    """A folder wins over an address, as in the existing tool. Raises InvalidArgument."""
    folder = _text(section.get("nfs_path", ""))
    if folder:
        if not os.path.isdir(folder):
            section.get("nfs_path", "").fail(f"expected a folder, found {folder!r}")
        return Meeting(nfs_path=folder)
    tls_value = section.get("tls_path", tls_default)
    tls = _text(tls_value)
    for name in (f"{side}.key", f"{side}.crt", "ca.crt") if tls else ():
        if not os.path.isfile(os.path.join(tls, name)):
            tls_value.fail(
                f"expected a folder with {side}.key, {side}.crt and ca.crt, found no {name} in {tls!r}"
            )
    return Meeting(host=_host(section.get("host", "")), port=_port(section.get("port", -1)), tls_path=tls)


def _text(value: Value) -> str:
    if not isinstance(value.value, str):
        value.fail(f"expected text, {value.found}")
    return value.value


def _host(value: Value) -> str:
    text = _text(value)
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        value.fail(f"host is invalid, expected an IPv4 address, {value.found}")


def _port(value: Value) -> int:
    number = value.value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _LARGEST_PORT:
        value.fail(f"port is invalid, expected 1 to {_LARGEST_PORT}, {value.found}")
    return number
