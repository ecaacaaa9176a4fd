# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that are damaged or made to do harm: each ends in an error that names the file, in little time
and memory, and nothing in them is run.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import json
import os
import pickle
import random
import resource
import struct
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_support import settings, tensor, write_rank, write_safetensors
from msprobe import FormatError, IoError, UnsupportedError
from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints


@pytest.fixture(autouse=True)
def _little_time_and_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 << 10  # KiB


def archive(path: Path, description: bytes, *, compression: int = zipfile.ZIP_STORED, **data: bytes) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("a/data.pkl", description)
        for key, content in data.items():
            file.writestr(f"a/data/{key[1:]}", content)
    return path


def refused(path: Path, match: str = ".") -> None:
    with pytest.raises(FormatError, match=match) as caught:
        compare_checkpoints(path, path)
    assert path.name in str(caught.value)


# ---- programs in place of data


class Trap:
    """What a pickle of it asks for, `os.mkdir` or something else, is done by whoever loads it."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> Any:
        return self._call


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize("kind", ["file", "metadata"])
def test_members_of_enumerations_are_no_calls(tmp_path: Path, kind: str) -> None:
    """As Python 3.11.0 to 3.11.3 saves them: getattr(Colour, "RED")."""
    member = Trap(getattr, Colour, "RED")
    path = tmp_path / "x.pt"
    if kind == "file":
        torch.save({"w": tensor("w", 3), "extra": member}, path)
    else:
        path = save_distributed(tmp_path / "dcp")
        metadata = load_metadata(path)
        metadata.planner_data = member
        (path / ".metadata").write_bytes(pickle.dumps(metadata))
    assert compare_checkpoints(path, path).reference.warnings == []


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (os.system, ("touch harm",), "posix.system"),
        (os.mkdir, ("harm",), "posix.mkdir"),
        (eval, ("open('harm', 'w')",), "builtins.eval"),
        (getattr, (os, "system"), "builtins.getattr"),
    ],
)
@pytest.mark.parametrize("kind", ["file", "rank", "metadata"])
def test_calls_are_reported_and_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: Any, arguments: Any, name: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if function is getattr:
        arguments = ("text", "upper")
    content = {"model": {"w": tensor("w", 3)}, "args": settings(), "extra": Trap(function, *arguments)}
    if kind == "file":
        path = tmp_path / "x.pt"
        torch.save({"w": tensor("w", 3), "extra": Trap(function, *arguments)}, path)
    elif kind == "rank":
        path = tmp_path / "tree"
        (path / "mp_rank_00").mkdir(parents=True)
        torch.save(content, path / "mp_rank_00/model_optim_rng.pt")
    else:
        path = save_distributed(tmp_path / "dcp")
        metadata = load_metadata(path)
        metadata.planner_data = Trap(function, *arguments)
        (path / ".metadata").write_bytes(pickle.dumps(metadata))
    result = compare_checkpoints(path, path)
    assert result.same
    (warning,) = result.reference.warnings
    assert f'asks to call "{name}", which was not done' in warning
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "description",
    [
        b"\x80\x02" + b"(" * 2_000_000 + b".",
        b"\x80\x02" + b"]" + b"]a" * 10 + b"\x85" * 500_000 + b".",  # nested deeply
        b"\x80\x02" + b"\x8b\xff\xff\xff\x7f" + b"1" * 100 + b".",  # a number of 2 GB
        b"\x80\x04" + b"\x8d" + struct.pack("<Q", 1 << 62) + b".",  # a text of 4 EB
        b"\x80\x02" + b"Nr\xff\xff\xff\x7f" + b".",  # a memo of 2^31 values
        b"\x80\x02" + b"h\x05.",
        b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR",  # no end
        b"\x80\x02"
        + b"]q\x00"
        + b"".join(b"]q%c(h%ch%ce" % (i + 1, i, i) for i in range(100))
        + b".",  # 2^100
        b"\x80\x09.",
        b"",
    ],
)
def test_descriptions_that_are_bombs(tmp_path: Path, description: bytes) -> None:
    refused(archive(tmp_path / "x.pt", description))


def tensor_pickle(
    *, key: str, count: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> bytes:
    """{"w": a tensor}, whatever the numbers are."""

    class Storage:
        def __reduce__(self) -> Any:
            raise AssertionError

    class Pickler(pickle._Pickler):  # type: ignore[name-defined]
        def persistent_id(self, value: object) -> Any:
            if isinstance(value, Storage):
                return ("storage", torch.FloatStorage, key, "cpu", count)
            return None

    class Tensor:
        def __reduce__(self) -> Any:
            arguments = (Storage(), offset, shape, strides, False, collections.OrderedDict())
            return torch._utils._rebuild_tensor_v2, arguments

    import io

    out = io.BytesIO()
    Pickler(out, 2).dump({"w": Tensor()})
    return out.getvalue()


@pytest.mark.parametrize(
    "numbers",
    [
        {"count": 4, "offset": 1, "shape": (4,), "strides": (1,)},
        {"count": 4, "offset": 0, "shape": (5,), "strides": (1,)},
        {"count": 4, "offset": 0, "shape": (2, 2), "strides": (3, 1)},
        {"count": 4, "offset": -1, "shape": (2,), "strides": (1,)},
        {"count": 4, "offset": 0, "shape": (2,), "strides": (-1,)},
        {"count": 4, "offset": 0, "shape": (1 << 40, 1 << 40), "strides": (1, 1)},
        {"count": 4, "offset": 1 << 62, "shape": (4,), "strides": (1,)},
        {"count": 4, "offset": 0, "shape": (4,), "strides": (1 << 62,)},
        {"count": 1 << 61, "offset": 0, "shape": (4,), "strides": (1,)},
        {"count": 5, "offset": 0, "shape": (4,), "strides": (1,)},
        {"count": 4, "offset": 0, "shape": (4,), "strides": (1, 1)},
    ],
)
def test_tensors_outside_of_their_storage(tmp_path: Path, numbers: dict[str, Any]) -> None:
    description = tensor_pickle(key="0", **numbers)
    refused(archive(tmp_path / "x.pt", description, _0=bytes(16)))


def test_expanded_tensors_are_left_out(tmp_path: Path) -> None:
    """Memory of one element for 2^40: comparing it would take hours."""
    description = tensor_pickle(key="0", count=1, offset=0, shape=(1 << 20, 1 << 20), strides=(0, 0))
    path = archive(tmp_path / "x.pt", description, _0=bytes(4))
    result = compare_checkpoints(path, path)
    assert not result.rows
    assert result.reference.left_out == [("w", "a tensor of more elements than its memory has")]


def test_compressed_entries(tmp_path: Path) -> None:
    description = tensor_pickle(key="0", count=4, offset=0, shape=(4,), strides=(1,))
    path = archive(tmp_path / "x.pt", description, compression=zipfile.ZIP_DEFLATED, _0=bytes(1 << 20))
    refused(path, "compressed")


# ---- damage of any kind


@pytest.mark.parametrize("kind", ["zip", "legacy", "safetensors"])
def test_files_with_damage_anywhere(tmp_path: Path, kind: str) -> None:
    """Cut short or with a changed byte at many places: an error of ours, or a result."""
    path = tmp_path / ("x.safetensors" if kind == "safetensors" else "x.pt")
    content = {"w": tensor("w", 8, 4), "b": tensor("b", 4)}
    if kind == "safetensors":
        write_safetensors(path, content)
    else:
        torch.save(content, path, _use_new_zipfile_serialization=kind == "zip")
    good = path.read_bytes()
    generator = random.Random(1)
    for trial in range(300):
        bad = bytearray(good)
        if trial % 3 == 0:
            bad = bad[: generator.randrange(len(bad))]
        else:
            for _ in range(trial % 3):
                bad[generator.randrange(len(bad))] = generator.randrange(256)
        path.write_bytes(bad)
        with contextlib.suppress(FormatError, UnsupportedError):
            compare_checkpoints(path, path, CheckpointOptions(threads=1, hash=True))


def header(text: str | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw + data


def entry(dtype: str = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x01\x00",
        header("", length=1 << 63),
        header("", length=(1 << 64) - 1),
        header("{}", length=100),
        header("{}", length=200_000_000),
        header("[]"),
        header("3"),
        header("{"),
        header('{"a": 1}'),
        header('{"a": {"dtype": "F32"}}'),
        header(json.dumps({"a": entry(offsets=(0, 9))}), bytes(9)),
        header(json.dumps({"a": entry(offsets=(0, 8))}), bytes(4)),
        header(json.dumps({"a": entry(offsets=(8, 0))}), bytes(8)),
        header(json.dumps({"a": entry(offsets=(-8, 0))}), bytes(8)),
        header(json.dumps({"a": entry(offsets=(0, 8, 9))}), bytes(8)),
        header(json.dumps({"a": entry(shape=(-2,))}), bytes(8)),
        header(json.dumps({"a": entry(shape=(1 << 62, 8))}), bytes(8)),
        header(json.dumps({"a": entry(shape=(1 << 70,))}), bytes(8)),
        header(json.dumps({"a": entry(shape=[[2]])}), bytes(8)),
        header(json.dumps({"a": entry(shape=2)}), bytes(8)),
        header(json.dumps({"a": entry(shape=[1] * 65 + [2])}), bytes(8)),
        header(json.dumps({"a": entry(), "b": entry()}), bytes(8)),  # overlap
        header(json.dumps({"a": entry(), "b": entry(offsets=(12, 20))}), bytes(20)),  # a gap
        header(json.dumps({"a": entry()}), bytes(12)),  # more behind the last one
        header('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, '
               '"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}', bytes(8)),
        header(b'{"\xff": 3}'),
        header('{"a": ' + "[" * 100_000),
    ],
)  # fmt: skip
def test_headers_that_lie(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    refused(path)


def test_unknown_dtypes_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(header(json.dumps({"a": entry("F4", (4,), (0, 2))}), bytes(2)))
    assert compare_checkpoints(path, path).reference.left_out == [("a", 'a tensor of dtype "F4"')]


# ---- trees


def test_rank_files_that_are_links_folders_or_missing(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    outside = write_rank(tmp_path / "other", "mp_rank_00", {"w": tensor("w", 3)}, settings())
    rank = tree / "mp_rank_00"
    rank.mkdir(parents=True)
    with pytest.raises(FormatError, match=r'"mp_rank_00": has no file model_optim_rng\.pt'):
        compare_checkpoints(tree, tree)
    file = rank / "model_optim_rng.pt"
    file.symlink_to(outside)
    with pytest.raises(FormatError, match="symbolic link that leads out"):
        compare_checkpoints(tree, tree)
    file.unlink()
    file.mkdir()
    with pytest.raises(FormatError, match="not a regular file"):
        compare_checkpoints(tree, tree)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.pt")
    with pytest.raises((IoError, FormatError), match=r"x\.pt"):
        compare_checkpoints(tmp_path / "x.pt", tmp_path / "x.pt")


def test_ranks_that_do_not_fit_together(tmp_path: Path) -> None:
    args = settings(tensor_model_parallel_size=2)
    name = "decoder.layers.0.mlp.linear_fc1.weight"
    write_rank(tmp_path, "mp_rank_00", {name: tensor("a", 4, 3)}, args)
    write_rank(tmp_path, "mp_rank_01", {name: tensor("a", 4, 5)}, args)
    with pytest.raises(FormatError, match=r"linear_fc1\.weight.*does not go with"):
        compare_checkpoints(tmp_path, tmp_path)
    write_rank(tmp_path, "mp_rank_01", {"other": tensor("a", 4, 5)}, args)
    with pytest.raises(FormatError, match="rank 1 has it, rank 0 does not"):
        compare_checkpoints(tmp_path, tmp_path)
    write_rank(tmp_path, "mp_rank_01", [{name: tensor("a", 4, 3)}, {}], args)
    with pytest.raises(FormatError, match="2 parts of the model"):
        compare_checkpoints(tmp_path, tmp_path)


def test_sizes_that_no_folder_can_have(tmp_path: Path) -> None:
    args = settings(tensor_model_parallel_size=100_000, pipeline_model_parallel_size=1 << 60)
    write_rank(tmp_path, "mp_rank_00", {"w": tensor("a", 4)}, args)
    with pytest.raises(FormatError, match=r"ranks are missing: .* and 99991 more"):
        compare_checkpoints(tmp_path, tmp_path)
    args = settings(tensor_model_parallel_size=100_000, pipeline_model_parallel_size=100_000)
    write_rank(tmp_path / "many", "mp_rank_00_000", {"w": tensor("a", 4)}, args)
    with pytest.raises(FormatError, match="more than 100000 ranks"):
        compare_checkpoints(tmp_path / "many", tmp_path)


# ---- descriptions of distributed checkpoints


def save_distributed(folder: Path) -> Path:
    import warnings

    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"w": tensor("w", 4, 3), "v": tensor("v", 5)}, checkpoint_id=folder, no_dist=True)
    return folder


def load_metadata(folder: Path) -> Any:
    with open(folder / ".metadata", "rb") as file:
        return pickle.load(file)


def chunks_of(metadata: Any) -> Any:
    return metadata.state_dict_metadata["w"].chunks


def change_storage(metadata: Any, **fields: object) -> None:
    import dataclasses

    for index in list(metadata.storage_data):
        if index.fqn == "w":
            metadata.storage_data[index] = dataclasses.replace(metadata.storage_data[index], **fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: chunks_of(m).append(chunks_of(m)[0]), "two parts hold the elements"),
        (lambda m: chunks_of(m).clear(), "its parts hold 0 of 12 elements"),
        (lambda m: setattr(m.state_dict_metadata["w"], "size", torch.Size([8, 3])), "12 of 24 elements"),
        (lambda m: setattr(m.state_dict_metadata["w"], "size", torch.Size([2, 3])), "lies outside"),
        (lambda m: setattr(m.state_dict_metadata["w"], "size", (1 << 62, 1 << 62)), "expected a size"),
        (lambda m: setattr(m.state_dict_metadata["w"], "size", (-4, 3)), "expected a size"),
        (lambda m: change_storage(m, relative_path="../secret"), "expected the name of a file"),
        (lambda m: change_storage(m, relative_path="/etc/passwd"), "expected the name of a file"),
        (lambda m: change_storage(m, relative_path="."), "not a regular file"),
        (lambda m: change_storage(m, offset=1 << 62), "distcp"),
        (lambda m: change_storage(m, length=1 << 62), "distcp"),
        (lambda m: change_storage(m, offset=-1), "is negative"),
        (lambda m: change_storage(m, offset=3), "distcp"),
        (lambda m: m.storage_data.clear(), "is stored nowhere"),
        (lambda m: setattr(m, "storage_data", 3), "storage_data"),
        (lambda m: setattr(m, "state_dict_metadata", None), "state_dict_metadata"),
    ],
)
def test_descriptions_that_lie(tmp_path: Path, change: Any, message: str) -> None:
    folder = save_distributed(tmp_path / "dcp")
    (tmp_path / "secret").write_bytes(b"secret")
    assert compare_checkpoints(folder, folder).same
    metadata = load_metadata(folder)
    change(metadata)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    with pytest.raises(FormatError, match=message):
        compare_checkpoints(folder, folder)
