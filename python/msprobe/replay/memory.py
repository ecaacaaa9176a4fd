# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A call may need more memory than there is: it is to fail, and not the process to be killed."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING

from msprobe.files.regular_file import open_text
from msprobe.native import UnsupportedError
from msprobe.replay.arguments import dtype_named, records_in, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msprobe.replay.dump_file import RecordedCall

_SHARE = 0.9
_GIB = 1 << 30
_LITTLE = 1 << 28  # bytes that nobody has to ask for


def available() -> int | None:
    """Bytes that this machine can still give; None: it does not say."""
    try:
        with open_text("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return None


@contextlib.contextmanager
def limited_memory(device: str) -> Iterator[None]:
    """Inside, what this process asks for beyond the memory of the machine is refused: torch's own error, that
    of the one call. Not with an accelerator, whose drivers reserve addresses that no memory stands behind.
    """
    limits = _set_limit() if device == "cpu" else None
    try:
        yield
    finally:
        if limits is not None:
            with contextlib.suppress(OSError, ValueError):
                import resource

                resource.setrlimit(resource.RLIMIT_DATA, limits)


def _set_limit() -> tuple[int, int] | None:
    """Returns the limits as they were; None: nothing was changed."""
    free = available()
    if free is None:
        return None
    try:
        import resource

        with open_text("/proc/self/statm") as file:
            data = int(file.read().split()[5]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = data + int(free * _SHARE)
        if soft != resource.RLIM_INFINITY and soft <= wanted:
            return None
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    except (ImportError, OSError, ValueError, IndexError):
        return None
    return soft, hard


def require_memory(call: RecordedCall, copies: int) -> None:
    """Raises UnsupportedError for a call whose recorded tensors, so many times over, are more than there is.

    copies: in float64, of arguments and results together.
    """
    bytes_ = 0
    for record in records_in([call.args, call.kwargs, call.outputs]):
        dtype = dtype_named(record.get("dtype"))
        size = 8 if dtype.is_floating_point else dtype.itemsize
        bytes_ += math.prod(shape_of(record)) * size
    free = available() if bytes_ * copies > _LITTLE else None
    if free is not None and bytes_ * copies > free:
        raise UnsupportedError(
            f"it needs {bytes_ * copies / _GIB:.1f} GiB of memory, and there are {free / _GIB:.1f}"
        )
