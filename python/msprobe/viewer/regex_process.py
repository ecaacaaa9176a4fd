# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs one query with regular expressions, as a program of its own: a pattern can take for ever, and only a
process can be ended. Input: JSON with database, sql, values, pattern, from, to, and how many seconds of a
processor it may take; output: how many rows, and those between. Started by regex_search.py with the path of
this file, without the package.
"""

import contextlib
import json
import re
import sqlite3
import sys


def main() -> None:
    asked = json.load(sys.stdin)
    connection = sqlite3.connect(f"file:{asked['database']}?mode=ro", uri=True)
    connection.execute("PRAGMA mmap_size=1000000000")
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (asked["seconds"], asked["seconds"] + 1))
    search = re.compile(asked["pattern"], re.IGNORECASE).search
    connection.create_function(
        "regexp", 2, lambda _, text: search(text or "") is not None, deterministic=True
    )
    for sql in asked["before"]:
        connection.execute(sql)
    found = connection.execute(asked["sql"], asked["values"]).fetchall()
    json.dump([len(found), found[asked["from"] : asked["to"]]], sys.stdout)


if __name__ == "__main__":
    main()
