# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors as JSON: `msprobe show --json` and `msprobe diff --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.tensors.content import Content
    from msprobe.tensors.measuring import Measured
    from msprobe.tensors.pairing import Paired


def tensor_data(content: Content, measured: Measured) -> dict[str, Any]:
    histogram = measured.histogram
    return {
        **_head(content),
        "statistics": measured.statistics,
        "histogram": None
        if histogram is None
        else {"borders": histogram.borders, "counts": histogram.counts},
        "first": measured.first,
    }


def pair_data(a: Content, b: Content, paired: Paired) -> dict[str, Any]:
    return {
        "reference": _head(a),
        "target": _head(b),
        "equal": paired.equal,
        "cosine": paired.cosine,
        "l2": paired.l2,
        "relative_tolerance": paired.relative,
        "absolute_tolerance": paired.absolute,
        "not_close": paired.not_close,
        "first_not_close": [list(row) for row in paired.first],
        "metrics": paired.metrics,
    }


def _head(content: Content) -> dict[str, Any]:
    return {
        "name": content.name,
        "dtype": content.dtype,
        "shape": list(content.shape),
        "elements": content.elements,
    }
