# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Stands for the command msprobe while the commands of the documentation run.

It is that command, but exit code 1 ("they differ") stops no list of commands, and a viewer ends once it has
answered.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request

_ADDRESS = re.compile(r"http://\S+")


def main(words: list[str]) -> int:
    command = [sys.executable, "-m", "msprobe", *words]
    if (words[:1] == ["view"] and "--export" not in words) or "--view" in words:
        return _view([*command, "--no-browser"])
    code = subprocess.run(command, check=False).returncode
    return 0 if code == 1 and "DOC_EXACT_CODES" not in os.environ else code


def _view(command: list[str]) -> int:
    """0 once the address that is printed has been answered."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewer:
        assert viewer.stdout is not None
        try:
            address = next((found[0] for line in viewer.stdout if (found := _ADDRESS.search(line))), None)
            if address is None:
                return 2
            # No proxy; the token of the address becomes a cookie.
            browser = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor()
            )
            with browser.open(address, timeout=60) as page:
                return 0 if page.status == 200 else 2
        finally:
            viewer.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
