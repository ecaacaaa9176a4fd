# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One comparison in a process of its own, for grad_compare.py. Runs with either tool.

    grad_compare_worker.py RUN1 RUN2 OUT {ours,ours-pictures,theirs,theirs-pictures}

Prints the seconds of the comparison (without imports) and how far memory grew meanwhile, as JSON on the last
line.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from measure import memory_mib, reset_peak


class _NoPyplot:
    """Takes every call and draws nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: None


def main() -> None:
    run1, run2, out, kind = sys.argv[1:]
    from msprobe import GradComparator

    options: dict[str, Any] = {}
    if kind.startswith("ours"):
        options["pictures"] = kind == "ours-pictures"
    elif kind == "theirs":
        # It cannot leave the pictures out, so their drawing is taken from it.
        from msprobe.core.grad_probe import grad_compare

        grad_compare.plt = _NoPyplot()  # type: ignore[attr-defined]
        grad_compare.plt_savefig = lambda *arguments, **more: None  # type: ignore[attr-defined]
    reset_peak()
    start = time.perf_counter()
    GradComparator.compare_distributed(run1, run2, out, **options)
    seconds = time.perf_counter() - start
    print("\n" + json.dumps({"seconds": seconds, "peak_mib": memory_mib("VmHWM")}))


if __name__ == "__main__":
    main()
