# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files of torch.save, in both directions: what torch writes we read, what we write torch reads."""

from __future__ import annotations

import argparse
import collections
import enum
import os
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msprobe import FormatError, InvalidArgument, IoError, UnsupportedError, _core

DATA = Path(__file__).resolve().parents[2] / "data" / "io"

FLOATS = ("float64", "float32", "float16", "bfloat16")
FP8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
INTS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
COMPLEX = ("complex32", "complex64", "complex128")
WITH_GRAD = (*FLOATS, "complex64", "complex128")  # torch cannot load the others with it
DTYPES = (*FLOATS, *FP8, *INTS, *COMPLEX)
RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
SHAPES = [(), (0,), (3, 0, 2), (1,), (5,), (2, 3), (2, 3, 4, 5), (70000,), (1, 300, 1, 400)]

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf:UserWarning")


def raw_bytes(name: str, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Every bit pattern of the dtype, NaN and Inf included; 0 and 1 for bool."""
    size = torch.tensor([], dtype=getattr(torch, name)).element_size()
    limit = 2 if name == "bool" else 256
    return np.random.default_rng(seed).integers(0, limit, count * size, dtype=np.uint8)


def tensor_of(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    dtype = getattr(torch, name)
    count = int(np.prod(shape))
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(raw_bytes(name, count)).view(dtype).reshape(shape)


def elements(tensor: torch.Tensor) -> bytes:
    """In C order."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def check_equal(read: Any, tensor: torch.Tensor) -> None:
    assert isinstance(read, _core.PtTensor)
    assert f"torch.{read.dtype}" == str(tensor.dtype)
    assert read.shape == tuple(tensor.shape)
    assert read.strides == tensor.stride()
    assert read.requires_grad == tensor.requires_grad
    assert np.asarray(read).tobytes() == elements(tensor.detach())


# ---- writing


@pytest.mark.parametrize("name", DTYPES)
def test_torch_reads_what_we_write(name: str, tmp_path: Path) -> None:
    for shape in SHAPES:
        tensor = tensor_of(name, shape)
        raw = np.frombuffer(elements(tensor), RAW[tensor.element_size()]).reshape(shape)
        for grad in (False, True) if tensor.is_floating_point() or tensor.is_complex() else (False,):
            _core.write_pt(tmp_path / "a.pt", raw, dtype=name, requires_grad=grad)
            for mmap in (False, True):
                read = torch.load(tmp_path / "a.pt", weights_only=True, mmap=mmap)
                assert (read.dtype, read.shape, read.stride()) == (
                    tensor.dtype,
                    tensor.shape,
                    tensor.stride(),
                )
                assert read.requires_grad == (grad and name in WITH_GRAD)
                assert elements(read.detach()) == elements(tensor)


@pytest.mark.parametrize("name", DTYPES)
def test_our_description_has_the_bytes_of_torch(name: str, tmp_path: Path) -> None:
    for shape in SHAPES:
        tensor = tensor_of(name, shape)
        torch.save(tensor, tmp_path / "archive.pt")
        raw = np.frombuffer(elements(tensor), RAW[tensor.element_size()]).reshape(shape)
        _core.write_pt(tmp_path / "ours.pt", raw, dtype=name)
        theirs = dict(entries_of(tmp_path / "archive.pt"))
        theirs.pop("archive/.data/serialization_id")
        assert dict(entries_of(tmp_path / "ours.pt")) == theirs


def test_large_numbers_in_the_description(tmp_path: Path) -> None:
    # BININT2, BININT and LONG1: an empty tensor may have any extents
    for shape in [(0, 255, 256, 65535, 65536), (0, 2**31 - 1, 1), (0, 2**31, 2), (0, 2**39, 3), (0, 2**40)]:
        torch.save(torch.empty(shape), tmp_path / "archive.pt")
        _core.write_pt(tmp_path / "ours.pt", np.empty(shape, np.float32))
        description = "archive/data.pkl"
        ours = dict(entries_of(tmp_path / "ours.pt"))
        assert ours[description] == dict(entries_of(tmp_path / "archive.pt"))[description]
        assert _core.read_pt(tmp_path / "ours.pt").shape == shape


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64, np.complex128])
def test_strides_are_written_in_c_order(dtype: type, tmp_path: Path) -> None:
    base = (np.arange(2 * 300 * 70 * 5) % 200).astype(dtype).reshape(2, 300, 70, 5)
    for view in [
        base.T,
        base.transpose(0, 2, 1, 3),
        base[:, ::-1, ::3],
        base[:, :, :, 2],
        base[1:, 10:20, 3:4],
        np.broadcast_to(base[0, 0], (40, 70, 5)),
        np.broadcast_to(dtype(3), (1000, 100)),
        base[:, :0].T,
    ]:
        _core.write_pt(tmp_path / "a.pt", view)
        read = torch.load(tmp_path / "a.pt", weights_only=True)
        assert read.is_contiguous()
        np.testing.assert_array_equal(read.numpy(), view)


def test_write_refuses_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match='no dtype "float31"'):
        _core.write_pt(tmp_path / "a.pt", np.zeros(2), dtype="float31")
    with pytest.raises(InvalidArgument, match=r"an element of bfloat16 has 2 bytes, found .* items of 4"):
        _core.write_pt(tmp_path / "a.pt", np.zeros(2, np.float32), dtype="bfloat16")
    with pytest.raises(UnsupportedError, match="expected a buffer of numbers"):
        _core.write_pt(tmp_path / "a.pt", np.zeros(2, "S3"))
    with pytest.raises(IoError, match=r"cannot create .*missing"):
        _core.write_pt(tmp_path / "missing" / "a.pt", np.zeros(2))
    assert list(tmp_path.iterdir()) == []


# ---- reading


@pytest.mark.parametrize("name", DTYPES)
def test_we_read_what_torch_writes(name: str, tmp_path: Path) -> None:
    for shape in SHAPES:
        tensor = tensor_of(name, shape)
        torch.save(tensor, tmp_path / "a.pt")
        check_equal(_core.read_pt(tmp_path / "a.pt"), tensor)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", ["float32", "bfloat16", "uint16", "bool"])
def test_layouts(name: str, protocol: int, tmp_path: Path) -> None:
    base = tensor_of(name, (4, 6, 5))
    tensors = {
        "transposed": base.T if base.dim() == 2 else base.transpose(0, 2),
        "sliced": base[1:3, ::2, 4:],
        "expanded": base[:1, :, :1].expand(4, 6, 70),
        "scalar": base[2, 3, 4],
        "empty": base[2:2],
        "whole": base,
    }
    torch.save(tensors, tmp_path / "a.pt", pickle_protocol=protocol)
    read = _core.read_pt(tmp_path / "a.pt")
    assert list(read) == list(tensors)
    for key, tensor in tensors.items():
        check_equal(read[key], tensor)
        assert read[key].offset == tensor.storage_offset()
        assert read[key].storage.key == "0"  # one storage for all


@pytest.mark.parametrize("protocol", [2, 4])
def test_values_of_python(protocol: int, tmp_path: Path) -> None:
    values = {
        "none": None,
        "bools": (True, False),
        "ints": [0, 1, -1, 255, 256, 65536, 2**31, -(2**31), 2**40, 2**63 - 1, -(2**63), 2**63, -(2**200)],
        "floats": [0.5, -0.0, float("inf"), 1e300],
        "texts": ["", "a", "é", "漢字", "\U0001f600", "x" * 300],
        "bytes": [b"", b"ab", bytes(range(256)) * 2],
        "nested": {(1, "a"): {"b": [{}, (), []]}, 3: 1.5, None: 2},
        "size": torch.Size([2, 3]),
        "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
        "default": collections.defaultdict(list, {"k": [1]}),
    }
    torch.save(values, tmp_path / "a.pt", pickle_protocol=protocol)
    read = _core.read_pt(tmp_path / "a.pt")
    assert read == values
    assert list(read["ordered"]) == ["z", "a"]
    assert [type(v) for v in read["bools"]] == [bool, bool]
    assert np.signbit(read["floats"][1])


class Colour(enum.Enum):
    RED = 1


class Own:
    def __init__(self) -> None:
        self.number = 3
        self.me = self


class OwnList(list):  # type: ignore[type-arg]
    pass


class EarlyMember:
    """A member of an enumeration as Python 3.11.0 to 3.11.3 saves it."""

    def __reduce__(self) -> Any:
        return getattr, (Colour, "RED")


class OwnDict(dict):  # type: ignore[type-arg]
    pass


class OwnTensor(torch.Tensor):
    pass


@pytest.mark.parametrize("protocol", [2, 4])
def test_objects_become_descriptions(protocol: int, tmp_path: Path) -> None:
    values = {
        "namespace": argparse.Namespace(lr=0.1, layers=[1, 2]),
        "enum": Colour.RED,
        "early": EarlyMember(),
        "own": Own(),
        "list": OwnList([1, 2]),
        "dict": OwnDict(a=1),
        "set": {7},
        "device": torch.device("cuda:1"),
        "dtype": torch.bfloat16,
        "function": os.path.join,
    }
    torch.save(values, tmp_path / "a.pt", pickle_protocol=protocol)
    read = _core.read_pt(tmp_path / "a.pt")
    assert read["namespace"].class_name == "argparse.Namespace"
    assert read["namespace"].state == {"lr": 0.1, "layers": [1, 2]}
    assert read["early"].name.endswith(".Colour.RED")
    if Colour.RED.__reduce_ex__(protocol)[0] is getattr:
        assert read["enum"].name == read["early"].name
    else:
        assert read["enum"].class_name.endswith(".Colour")
        assert read["enum"].arguments == (1,)
    assert read["own"].class_name.endswith(".Own")
    assert read["own"].state["number"] == 3
    assert read["own"].state["me"].class_name == "(cycle)"
    assert read["list"].items == [1, 2]
    assert read["dict"].entries == {"a": 1}
    assert (read["set"].class_name, read["set"].arguments) == ("builtins.set", ([7],))
    assert (read["device"].class_name, read["device"].arguments) == ("torch.device", ("cuda", 1))
    assert read["dtype"].name == "torch.bfloat16"
    assert read["function"].name == "posixpath.join"


def test_parameters_subclasses_and_lazy_bits(tmp_path: Path) -> None:
    x = tensor_of("complex64", (3,))
    with_state = torch.nn.Parameter(torch.ones(2))
    with_state.label = "mine"  # type: ignore[attr-defined]
    values = {
        "parameter": torch.nn.Parameter(torch.ones(2, 3)),
        "frozen": torch.nn.Parameter(torch.ones(2, 3), requires_grad=False),
        "with_state": with_state,
        "own": torch.arange(3.0).as_subclass(OwnTensor),
        "conj": x.conj(),
        "neg": x.clone().conj().imag,
        "storage": torch.arange(3.0).untyped_storage(),
    }
    torch.save(values, tmp_path / "a.pt")
    read = _core.read_pt(tmp_path / "a.pt")
    for key in ("parameter", "frozen", "with_state"):
        assert read[key].class_name == "torch.nn.parameter.Parameter"
        check_equal(read[key], values[key])  # type: ignore[arg-type]
    assert read["with_state"].state == {"label": "mine"}
    assert read["own"].class_name.endswith(".OwnTensor")
    check_equal(read["own"], torch.arange(3.0))
    assert (read["conj"].conjugate, read["conj"].negative) == (True, False)
    assert np.asarray(read["conj"]).tobytes() == elements(x)
    assert (read["neg"].conjugate, read["neg"].negative) == (False, True)
    expected = values["neg"].resolve_neg().numpy()
    np.testing.assert_array_equal(-np.asarray(read["neg"]), expected)  # type: ignore[union-attr]
    assert np.asarray(read["storage"]).tobytes() == np.arange(3, dtype=np.float32).tobytes()


@pytest.mark.filterwarnings("ignore:torch.quantize:UserWarning")
def test_kinds_of_tensors_we_do_not_have_become_descriptions(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = {
            "sparse": torch.eye(3).to_sparse(),
            "quantised": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
            "meta": torch.ones(3, device="meta"),
            "fp4": torch.zeros(3, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
            "fine": torch.ones(3),
        }
        torch.save(values, tmp_path / "a.pt")
    read = _core.read_pt(tmp_path / "a.pt")
    assert read["sparse"].class_name == "torch._utils._rebuild_sparse_tensor"
    assert read["quantised"].class_name == "torch._utils._rebuild_qtensor"
    assert read["meta"].class_name == "torch._utils._rebuild_meta_tensor_no_storage"
    assert read["fp4"].class_name == "torch._utils._rebuild_tensor_v3"
    check_equal(read["fine"], torch.ones(3))


def test_a_checkpoint(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}, tmp_path / "a.pt"
    )
    read = _core.read_pt(tmp_path / "a.pt")
    assert list(read["model"]) == list(model.state_dict())
    for name, tensor in model.state_dict().items():
        check_equal(read["model"][name], tensor)
    moments = read["optimizer"]["state"][0]["exp_avg"]
    check_equal(moments, optimizer.state_dict()["state"][0]["exp_avg"])


def test_a_whole_module_runs_nothing(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "a.pt")
    read = _core.read_pt(tmp_path / "a.pt")
    assert read.class_name == "torch.nn.modules.linear.Linear"
    assert read.state["_parameters"]["weight"].shape == (2, 2)


def test_what_is_shared_stays_shared(tmp_path: Path) -> None:
    inner = [1]
    torch.save([inner, inner], tmp_path / "a.pt")
    read = _core.read_pt(tmp_path / "a.pt")
    assert read[0] is read[1]


def test_a_tensor_outlives_its_file(tmp_path: Path) -> None:
    torch.save(torch.arange(100000.0), tmp_path / "a.pt")
    array = np.asarray(_core.read_pt(tmp_path / "a.pt"))
    (tmp_path / "a.pt").unlink()
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, np.arange(100000.0, dtype=np.float32))


def test_files_of_the_existing_tool() -> None:
    for path in sorted(DATA.glob("*.pt")):
        check_equal(_core.read_pt(path), torch.load(path, weights_only=True))


# ---- broken and hostile files


def test_without_checksums(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(torch.arange(3.0), tmp_path / "a.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    check_equal(_core.read_pt(tmp_path / "a.pt"), torch.arange(3.0))


def test_damaged_data(tmp_path: Path) -> None:
    _core.write_pt(tmp_path / "a.pt", np.arange(300, dtype=np.float64))
    content = bytearray((tmp_path / "a.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(FormatError, match=r'a.pt: "archive/data/0": .*checksum'):
        _core.read_pt(tmp_path / "a.pt")
    assert _core.read_pt(tmp_path / "a.pt", check=False).shape == (300,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex128])
def test_format_before_torch_1_6(tmp_path: Path, dtype: torch.dtype) -> None:
    path = tmp_path / "a.pt"
    expected = torch.arange(12).reshape(3, 4).to(dtype).t()
    torch.save(expected, path, _use_new_zipfile_serialization=False)
    check_equal(_core.read_pt(path), expected)


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    with pytest.raises(UnsupportedError, match="TorchScript"):
        _core.read_pt(path)
    path.write_bytes(b"hello")
    with pytest.raises(FormatError, match="expected a zip archive"):
        _core.read_pt(path)
    path.write_bytes(b"")
    with pytest.raises(FormatError, match="expected a zip archive"):
        _core.read_pt(path)
    with pytest.raises(IoError):
        _core.read_pt(tmp_path)
    with pytest.raises(IoError):
        _core.read_pt(tmp_path / "missing.pt")


def entries_of(path: Path) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        return [(entry.filename, archive.read(entry)) for entry in archive.infolist()]


def test_compressed(tmp_path: Path) -> None:
    torch.save(torch.ones(2), tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in entries_of(tmp_path / "a.pt"):
            new.writestr(name, content)
    with pytest.raises(FormatError, match=r'"a/version": the entry is compressed'):
        _core.read_pt(tmp_path / "b.pt")


def with_description(path: Path, description: bytes, byteorder: str = "little") -> Path:
    """An archive around any pickle, with 16 bytes of data."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", description)
        archive.writestr("archive/byteorder", byteorder)
        archive.writestr("archive/data/0", bytes(range(16)))
    return path


class Attack:
    def __reduce__(self) -> Any:
        return os.system, ("touch attacked",)


def test_nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for protocol in (2, 3, 4, 5):
        read = _core.read_pt(with_description(tmp_path / "a.pt", pickle.dumps([Attack()], protocol)))
        assert read[0].class_name == f"{os.system.__module__}.system"
        assert read[0].arguments == ("touch attacked",)
        assert not (tmp_path / "attacked").exists()


def test_dict_with_a_list_as_key(tmp_path: Path) -> None:
    path = with_description(tmp_path / "a.pt", b"\x80\x02}]K\x01s.")
    with pytest.raises(FormatError, match="a list with changeable parts as a key"):
        _core.read_pt(path)


def test_big_endian(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="big-endian"):
        _core.read_pt(with_description(tmp_path / "a.pt", b"\x80\x02N.", "big"))


def test_unaligned_data(tmp_path: Path) -> None:
    """An archive that another program packed again does not align its data."""
    torch.save(torch.arange(5.0, dtype=torch.float64), tmp_path / "a.pt")
    for pad in range(8):
        with zipfile.ZipFile(tmp_path / "b.pt", "w") as new:
            new.writestr("a/" + "x" * pad, b"")
            for name, content in entries_of(tmp_path / "a.pt"):
                new.writestr(name, content)
        check_equal(_core.read_pt(tmp_path / "b.pt"), torch.arange(5.0, dtype=torch.float64))
