# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The YAML file of the layer mapping."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msprobe.files.layer_rules import read_layer_rules
from msprobe.native import InvalidArgument


def rules_of(folder: Path, text: str) -> dict[str, list[tuple[str, str]]]:
    path = folder / "map.yaml"
    path.write_text(text, encoding="utf-8")
    return read_layer_rules(str(path))


def test_rules_of_several_classes(tmp_path: Path) -> None:
    text = "TopLayer:\n  emb: embedding\nSelfAttention:\n  qkv: query_key_value\n  proj: dense\n"
    assert rules_of(tmp_path, text) == {
        "TopLayer": [("emb", "embedding")],
        "SelfAttention": [("qkv", "query_key_value"), ("proj", "dense")],
    }


def test_paths_of_several_parts(tmp_path: Path) -> None:
    text = "Block:\n  linear_attn.qkv: query_key_value\n  decoder: language_model.encoder\n"
    assert rules_of(tmp_path, text) == {
        "Block": [("linear_attn.qkv", "query_key_value"), ("decoder", "language_model.encoder")]
    }


def test_the_old_name_of_the_model(tmp_path: Path) -> None:
    assert rules_of(tmp_path, "Cell: {a: b}") == {"TopLayer": [("a", "b")]}
    both = "Cell: {a: b, c: d}\nTopLayer: {e: f, a: b}"
    assert rules_of(tmp_path, both) == {"TopLayer": [("a", "b"), ("c", "d"), ("e", "f")]}
    with pytest.raises(InvalidArgument, match='"TopLayer": "a": found both "b" and "x"'):
        rules_of(tmp_path, "Cell: {a: b}\nTopLayer: {a: x}")


@pytest.mark.parametrize("value", ["dense(in=3)", "dense (Linear)", "dense("])
def test_classes_behind_a_name_are_left_out(tmp_path: Path, value: str) -> None:
    assert rules_of(tmp_path, f"A:\n  proj: {value}\n") == {"A": [("proj", "dense")]}


def test_no_rules(tmp_path: Path) -> None:
    assert rules_of(tmp_path, "{}") == {}
    assert rules_of(tmp_path, "A: {}") == {"A": []}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a", "expected a YAML mapping, found a list"),
        ("", "expected a YAML mapping, found nothing"),
        ("A: b", '"A": expected a mapping of names of its parts, found text'),
        ("A:", '"A": expected a mapping of names of its parts, found nothing'),
        ("A: [b]", '"A": expected a mapping of names of its parts, found a list'),
        ("A: {b: 1}", '"A": "b": expected the name of a part, found a number'),
        ("A: {b: true}", '"A": "b": expected the name of a part, found true or false'),
        ("A: {b: {c: d}}", '"A": "b": expected the name of a part, found a mapping'),
        ("A: {b: }", '"A": "b": expected the name of a part, found nothing'),
        ("A: {~: b}", "line 1: expected a key that is text, found nothing"),
        ("A: {b: ''}", '"A": "b": expected names joined by dots, found ""'),
        ("A: {b: (Linear)}", '"A": "b": expected names joined by dots, found ""'),
        ("A: {b..c: d}", '"A": the key "b..c": expected names joined by dots, found "b..c"'),
        ("A: {b: .c}", '"A": "b": expected names joined by dots, found ".c"'),
        ("A: {b: c, b: d}", '"b": the key stands twice'),
        ("A: {b: c", "expected YAML"),
        ("A: !!python/object:os.system {b: c}", 'python/object:os.system" is not read'),
        (f"A: {{{'b' * 100}: 1}}", f'"A": "{"b" * 57}...": expected'),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(problem)) as error:
        rules_of(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'map.yaml'}: ")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot read the YAML file: No such file"):
        read_layer_rules(str(tmp_path / "none.yaml"))
