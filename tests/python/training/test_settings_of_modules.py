# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What of an attribute is a setting."""

from __future__ import annotations

from msprobe.training.torch_state import OMITTED, plain


def test_a_place_on_one_machine_is_no_setting():
    """A model that was loaded has its folder as an attribute; another copy of it is no other model."""
    assert plain("/home/a/model") is OMITTED
    assert plain(["/home/a", 1]) is OMITTED
    assert plain("bilinear/nearest") == "bilinear/nearest"
