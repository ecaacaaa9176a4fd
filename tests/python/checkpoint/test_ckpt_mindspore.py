# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of MindSpore beside those of PyTorch, without MindSpore: tests/data/checkpoint/mindspore."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
import torch
from checkpoint_support import Model, save, write_safetensors
from msprobe import FormatError
from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints, open_checkpoint
from msprobe.checkpoint.tables import load_rules
from msprobe.cli import main

FILES = Path(__file__).resolve().parents[2] / "data/checkpoint/mindspore"

# As MindSpore names them, and as PyTorch does.
NAMES = {
    "emb.embedding_table": ("emb.weight", (7, 4)),
    "fc1.weight": ("fc1.weight", (5, 4)),
    "fc1.bias": ("fc1.bias", (5,)),
    "ln.gamma": ("ln.weight", (5,)),
    "ln.beta": ("ln.bias", (5,)),
    "bn.gamma": ("bn.weight", (5,)),
    "bn.beta": ("bn.bias", (5,)),
    "bn.moving_mean": ("bn.running_mean", (5,)),
    "bn.moving_variance": ("bn.running_var", (5,)),
}


def values(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count, dtype=torch.float64) + len(name)).float().reshape(shape)


@pytest.fixture
def state() -> Model:
    """The parameters of the files, in a state_dict of PyTorch."""
    return {other: values(name, shape) for name, (other, shape) in NAMES.items()}


@pytest.mark.parametrize("name", ["net.ckpt", "checksum.ckpt", "net.safetensors", "training.ckpt"])
@pytest.mark.parametrize("form", ["pt", "safetensors"])
def test_the_same_weights_of_two_frameworks(tmp_path: Path, state: Model, name: str, form: str) -> None:
    if form == "pt":
        reference = save(tmp_path / "model.pt", {"model": state})
    else:
        reference = tmp_path / "model.safetensors"
        write_safetensors(reference, state)
    for pair in ((reference, FILES / name), (FILES / name, reference)):
        result = compare_checkpoints(*pair, CheckpointOptions(hash=True))
        assert result.same, (result.reference_only, result.target_only)
        assert sorted(row.name for row in result.rows) == sorted(state)
        assert "mapping mindspore" in result.notes[0]


def test_a_weight_that_was_changed_is_named(
    tmp_path: Path, state: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    state["ln.weight"] = state["ln.weight"] * 1.01
    pt = save(tmp_path / "model.pt", state)
    assert main(["ckpt", str(pt), str(FILES / "net.ckpt"), "-o", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().out
    assert "1 of 9 parameters" in shown
    assert "ln.weight" in shown
    assert "(mindspore, 9 parameters)" in shown


def test_show_and_diff_read_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["show", str(FILES / "net.ckpt"), "fc1.bias"]) == 0
    shown = capsys.readouterr().out
    assert "fc1.bias" in shown
    assert "float32" in shown
    assert main(["diff", str(FILES / "net.ckpt"), str(FILES / "net.safetensors"), "ln.gamma"]) == 0


def test_two_files_of_mindspore_keep_their_names() -> None:
    result = compare_checkpoints(FILES / "net.ckpt", FILES / "net.safetensors")
    assert result.same
    assert sorted(row.name for row in result.rows) == sorted(NAMES)
    assert not result.notes


def test_states_of_the_optimizer_have_the_names_of_pytorch() -> None:
    checkpoint = open_checkpoint(FILES / "training.ckpt", load_rules(), optimizer=True)
    names = [name for name, _, _ in checkpoint.parameters]
    assert "optimizer.exp_avg.ln.gamma" in names
    assert "optimizer.exp_avg_sq.fc1.weight" in names
    assert not {"global_step", "beta1_power", "epoch", "author"} & set(names)
    without = open_checkpoint(FILES / "training.ckpt", load_rules())
    assert sorted(name for name, _, _ in without.parameters) == sorted(NAMES)


def test_all_kinds_of_elements_are_read(tmp_path: Path) -> None:
    pt = save(
        tmp_path / "kinds.pt",
        {
            "scalar": torch.tensor(1.5),
            "half": torch.arange(6).reshape(2, 3).bfloat16(),
            "truth": torch.tensor([True, False]),
            "wide": torch.tensor([1, 2**40]),
        },
    )
    assert compare_checkpoints(pt, FILES / "kinds.ckpt").same


def test_a_folder_with_one_file(tmp_path: Path) -> None:
    (tmp_path / "net.ckpt").write_bytes((FILES / "net.ckpt").read_bytes())
    assert compare_checkpoints(tmp_path, FILES / "net.ckpt").same


def test_files_of_torch_may_end_in_ckpt(tmp_path: Path, state: Model) -> None:
    assert compare_checkpoints(save(tmp_path / "a.ckpt", {"state_dict": state}), FILES / "net.ckpt").same


# ---- parts, damage, harm


def number(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(which: int, content: bytes) -> bytes:
    return number(which << 3 | 2) + number(len(content)) + content


def parameter(name: bytes, shape: list[int], dtype: bytes, data: bytes) -> bytes:
    extents = b"".join(b"\x08" + number(extent) for extent in shape)
    return field(1, field(1, name) + field(2, extents + field(2, dtype) + field(3, data)))


def test_a_parameter_in_parts_is_put_together(tmp_path: Path) -> None:
    data = bytes(range(24))
    parts = tmp_path / "parts.ckpt"
    parts.write_bytes(
        b"".join(parameter(b"w", [3, 2], b"Float32", data[i : i + 9]) for i in (0, 9, 18))
        + parameter(b"other", [1], b"Int8", b"\1")
    )
    one = tmp_path / "one.ckpt"
    one.write_bytes(parameter(b"w", [3, 2], b"Float32", data) + parameter(b"other", [1], b"Int8", b"\1"))
    assert compare_checkpoints(parts, one).same


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (parameter(b"w", [3], b"Float32", b"0123"), '"w": its data has 4 bytes'),
        (parameter(b"w", [1 << 62, 8], b"Float32", b""), '"w": its data has 0 bytes'),
        (parameter(b"w", [(1 << 64) - 1], b"Float32", b""), r'"w": expected extents from 0 to 2\^63-1'),
        (parameter(b"w", [1] * 65, b"Float32", b""), '"w": expected at most 64 dimensions'),
        (parameter(b"", [1], b"Float32", b"0123"), "without a name"),
        (field(1, field(1, b"w")), "without a name or a tensor"),
        (field(2, b"x"), "found field 2"),
        (b"\x0a\xff\xff\xff\xff\x0f", "found a field of 4294967295 bytes where 0 are left"),
        (b"\x0a" + b"\xff" * 10, "a number of more than 10 bytes"),
        (b"\x0a\x80", "the end within a number"),
        (b"\x0b\x01", "found a field of kind 3"),
        (
            parameter(b"w", [2], b"Int8", b"0") + parameter(b"w", [2], b"Int16", b"1"),
            '"w": its parts have different shapes or dtypes',
        ),
        (parameter(b"author", [1], b"str", b"0123"), "found none"),
        (
            parameter(b"w", [1], b"Int8", b"0") + b"crc_num" + bytes(10),
            '"crc_num": the content has the checksum',
        ),
    ],
)
def test_hostile_files_get_one_sentence(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "bad.ckpt"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=problem) as caught:
        compare_checkpoints(path, path)
    assert str(caught.value).startswith(str(path))


def test_an_encrypted_file_is_refused() -> None:
    with pytest.raises(FormatError, match=r"encrypted.ckpt.*that is not encrypted"):
        compare_checkpoints(FILES / "encrypted.ckpt", FILES / "net.ckpt")


def test_random_damage_never_ends_otherwise(tmp_path: Path) -> None:
    source = random.Random(7)
    whole = (FILES / "training.ckpt").read_bytes()
    path = tmp_path / "damaged.ckpt"
    for _ in range(300):
        content = bytearray(whole[: source.randrange(2, len(whole))])
        for _ in range(source.randrange(4)):
            content[source.randrange(len(content))] = source.randrange(256)
        path.write_bytes(content)
        with contextlib.suppress(FormatError):
            open_checkpoint(path, load_rules(), optimizer=True)
