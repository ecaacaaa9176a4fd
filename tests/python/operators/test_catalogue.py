# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The catalogue of operators knows the functions that people call, but for a list that only gets shorter."""

from __future__ import annotations

import json
import re
import types
from pathlib import Path

import msprobe
import pytest
from msprobe.native import core

HERE = Path(__file__).parent
API_LIST = Path(msprobe.__file__).parent / "hooks" / "api_list.json"


def lines(name: str) -> list[str]:
    return [line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]


def listed_names() -> set[str]:
    sets = json.loads(API_LIST.read_text(encoding="utf-8"))["sets"]
    return {f"{one['prefix']}.{name}" for one in sets for name in one["names"]}


def names_of_torch() -> set[str]:
    import torch

    def functions(home: object, prefix: str) -> set[str]:
        found = {name: getattr(home, name, None) for name in dir(home)}
        kinds = (type, types.ModuleType)
        return {prefix + name for name, one in found.items() if callable(one) and not isinstance(one, kinds)}

    functional = {
        name for name in functions(torch.nn.functional, "Functional.") if not name.startswith("Functional._")
    }
    aten = set()
    for schema in torch._C._jit_get_all_schemas():
        values = [*schema.arguments, *schema.returns]
        if schema.name.startswith("aten::") and any("Tensor" in str(value.type) for value in values):
            aten.add("Aten." + schema.name.removeprefix("aten::"))
    return functional | functions(torch.Tensor, "Tensor.") | aten


def unknown(names: set[str]) -> list[str]:
    return sorted(name for name in names if not core.find_operator(name).is_known)


def test_the_catalogue_has_no_double_names_and_no_words_without_a_meaning() -> None:
    assert core.operator_problems() == []
    names = core.operator_names()
    assert len(names) == len(set(names))
    assert "" not in names


def test_every_listed_function_and_every_name_that_is_mapped_is_known() -> None:
    assert unknown(listed_names()) == []
    assert unknown(set(lines("names_of_other_frameworks.txt"))) == []


def test_every_function_of_torch_is_known_or_in_the_list_that_gets_shorter() -> None:
    import torch

    found = unknown(names_of_torch())
    listed = lines("unknown_operators.txt")
    assert set(found) - set(listed) == set() or not torch.__version__.startswith("2.13.")
    if torch.__version__.startswith("2.13."):
        assert [name for name in listed if name not in found] == [], "take these out of unknown_operators.txt"


def test_what_torch_calls_nondeterministic_is() -> None:
    """By its documentation: kernels whose additions race, forward or backward, on the CPU or on CUDA."""
    import torch

    text = torch.use_deterministic_algorithms.__doc__ or ""
    listed = text.partition("normally-nondeterministic")[2].partition("In addition")[0]
    entries = re.findall(
        r"\* :(?:class|func):`(torch\.[\w.]+)`(.*?)(?=\* :|The following|$)", listed, re.DOTALL
    )
    names = {name for name, when in entries if "sparse" not in when and "quantized" not in when}
    assert len(names) > 40
    assert {name for name in names if not core.find_operator(name).is_nondeterministic} == set()


@pytest.mark.parametrize(
    ("name", "gain"),
    [
        ("Tensor.subtract", "sum"),
        ("Tensor.ravel", "moves"),
        ("NPU.npu_rms_norm", "scale_free"),
        ("NPU.npu_fusion_attention", "attention"),
        ("MintFunctional.silu", "elementwise"),
        ("Primitive.matmul", "product"),
        ("mine.unheard_of", "other"),
    ],
)
def test_names_of_all_frameworks_have_a_gain(name: str, gain: str) -> None:
    assert core.find_operator(name).gain == gain
