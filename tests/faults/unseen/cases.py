# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The held-out sets by name."""

from __future__ import annotations

import eighth
import eleventh
import fifteenth
import fifth
import first
import fourteenth
import fourth
import ninth
import second
import seventh
import sixteenth
import sixth
import tenth
import third
import thirteenth
import twelfth

SETS = {
    name: (*of.FAULTS, *of.HEALTHY)
    for name, of in (
        ("first", first),
        ("second", second),
        ("third", third),
        ("fourth", fourth),
        ("fifth", fifth),
        ("sixth", sixth),
        ("seventh", seventh),
        ("eighth", eighth),
        ("ninth", ninth),
        ("tenth", tenth),
        ("eleventh", eleventh),
        ("twelfth", twelfth),
        ("thirteenth", thirteenth),
        ("fourteenth", fourteenth),
        ("fifteenth", fifteenth),
        ("sixteenth", sixteenth),
    )
}
CASES = tuple(case for cases in SETS.values() for case in cases)
assert len({case.name for case in CASES}) == len(CASES)
