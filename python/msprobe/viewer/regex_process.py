# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs one query with regular expressions, as a program of its own: a pattern can take for ever, and only a
process can be ended. Input: JSON with database, sql, values; output: the rows as JSON. Started by
graph_query.py with the path of this file, without the package.
"""

import functools
import json
import re
import sqlite3
import sys


def main() -> None:
    asked = json.load(sys.stdin)
    connection = sqlite3.connect(f"file:{asked['database']}?mode=ro", uri=True)
    connection.execute("PRAGMA mmap_size=1000000000")
    compiled = functools.lru_cache(lambda pattern: re.compile(pattern, re.IGNORECASE).search)
    connection.create_function(
        "regexp", 2, lambda pattern, text: compiled(pattern)(text or "") is not None, deterministic=True
    )
    for sql in asked["before"]:
        connection.execute(sql)
    json.dump(connection.execute(asked["sql"], asked["values"]).fetchall(), sys.stdout)


if __name__ == "__main__":
    main()
