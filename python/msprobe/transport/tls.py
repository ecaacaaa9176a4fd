# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TLS of at least 1.2 in which both sides show a certificate of one authority, which is theirs alone: trust
is in the authority (ca.crt), names in certificates are not looked at.
"""

from __future__ import annotations

import getpass
import os
import ssl
import sys
from typing import TYPE_CHECKING, Literal

from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable


def context(folder: str, side: Literal["client", "server"]) -> ssl.SSLContext:
    """Of a folder with {side}.key, {side}.crt, ca.crt and, where certificates were called back, crl.pem.
    The passphrase of a key is asked for on the terminal. Raises InvalidArgument.
    """
    protocol = ssl.PROTOCOL_TLS_SERVER if side == "server" else ssl.PROTOCOL_TLS_CLIENT
    made = ssl.SSLContext(protocol)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    key, certificate = (os.path.join(folder, f"{side}.{end}") for end in ("key", "crt"))
    authority, revoked = (os.path.join(folder, name) for name in ("ca.crt", "crl.pem"))
    _load(key, lambda: made.load_cert_chain(certificate, key, password=lambda: _passphrase(key)))
    _load(authority, lambda: made.load_verify_locations(authority))
    if os.path.exists(revoked):
        _load(revoked, lambda: made.load_verify_locations(revoked))
        made.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return made


def _load(path: str, load: Callable[[], object]) -> None:
    try:
        load()
    except InvalidArgument:
        raise
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise InvalidArgument(f"{path}: cannot be used for TLS: {reason}") from error
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{path}: cannot be used for TLS: {error}") from error


def _passphrase(key: str) -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidArgument(f"{key}: the key has a passphrase, and there is no terminal to ask for it")
    return getpass.getpass(f"Passphrase of {key}: ")


def reason_of(error: Exception) -> str:
    """Of a failed connection, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other side is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
