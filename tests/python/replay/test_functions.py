# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A name of a file is looked up in tables of functions that compute, and nowhere else."""

from __future__ import annotations

import pytest
from msprobe.replay.functions import function_named, functions_named, parts_of


@pytest.mark.parametrize(
    ("prefix", "name"),
    [
        ("Torch", "load"),
        ("Torch", "save"),
        ("Torch", "compile"),
        ("Torch", "from_file"),
        ("Torch", "hub"),
        ("Torch", "os"),
        ("Torch", "set_default_device"),
        ("Torch", "__builtins__"),
        ("Torch", "_C"),
        ("Torch", "Tensor"),
        ("Functional", "importlib"),
        ("Functional", "torch"),
        ("Functional", "__import__"),
        ("Tensor", "__reduce_ex__"),
        ("Tensor", "__class__"),
        ("Tensor", "__init_subclass__"),
        ("Tensor", "register_hook"),
        ("Tensor", "numpy"),
        ("Tensor", "share_memory_"),
        ("Tensor", "a b"),
        ("Os", "system"),
        ("", ""),
    ],
)
def test_names_that_do_not_compute_are_not_found(prefix: str, name: str) -> None:
    assert function_named(prefix, name) is None


def test_functions_that_compute_are_found() -> None:
    for prefix, name in (
        ("Torch", "matmul"),
        ("Torch", "einsum"),
        ("Torch", "svd"),
        ("Torch", "vector_norm"),
        ("Functional", "linear"),
        ("Functional", "max_pool2d"),
        ("Tensor", "__add__"),
        ("Tensor", "__rsub__"),
        ("Tensor", "__pow__"),
        ("Tensor", "split"),
    ):
        assert callable(function_named(prefix, name)), name


def test_names_have_their_parts() -> None:
    assert parts_of("Functional.linear.0") == ("Functional", "linear")
    assert parts_of("Torch.linalg.inv.12") == ("Torch", "linalg.inv")
    for name in (
        "Torch.exp",
        "Torch.exp.0/../../x",
        "Torch.a.b.c.0",
        "Torch.exp.-1",
        "",
        "exp",
        "Torch.exp.x",
    ):
        assert parts_of(name) == ("", ""), name


def test_a_name_that_two_functions_share_has_both() -> None:
    import torch

    assert functions_named("Torch", "norm") == (torch.norm, torch.linalg.norm)
    assert functions_named("Torch", "linalg.norm") == (torch.linalg.norm,)
    assert functions_named("Torch", "hub.load") == ()


def test_operators_of_a_library_take_tensors_and_no_names_of_files() -> None:
    assert callable(function_named("Aten", "add"))
    assert callable(function_named("Aten", "_softmax"))
    assert callable(function_named("Torch", "_add_relu"))
    for name in (
        "from_file",
        "save",
        "_print",
        "empty",
        "wait_tensor",
        "__init__",
        "os.system",
        "numpy_T.x y",
    ):
        assert function_named("Aten", name) is None, name
