# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Memory does not grow with checkpoints, and one model in every kind is equal to itself in every other."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_support import Model, write_safetensors
from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints

_GIGABYTE = 1 << 30

_PEAK = """
import re, sys
from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints
result = compare_checkpoints(sys.argv[1], sys.argv[2], CheckpointOptions(hash=True, threads=4))
print(len(result.rows), re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def sparse(path: Path, shapes: list[list[int]]) -> Path:
    """A file of zeros that takes no room on the disk."""
    header: dict[str, Any] = {}
    end = 0
    for number, shape in enumerate(shapes):
        size = 4 * shape[0] * shape[1]
        header[f"w{number}"] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return path


@pytest.mark.parametrize("turned", [False, True])
def test_memory_is_bounded(tmp_path: Path, turned: bool) -> None:
    """2 GB, in parameters of 256 MB, also against their transposes."""
    count = 4
    left = sparse(tmp_path / "a.safetensors", [[16384, 4096]] * count)
    shape = [4096, 16384] if turned else [16384, 4096]
    right = sparse(tmp_path / "b.safetensors", [shape] * count)
    assert os.path.getsize(left) + os.path.getsize(right) > 2 * _GIGABYTE
    arguments = [sys.executable, "-c", _PEAK, left, right]
    if turned:
        mapping = tmp_path / "turn.yaml"
        mapping.write_text('parameters: [{to: "w{i}", from: "w{i}", transpose: true}]')
        script = _PEAK.replace("hash=True", f"mapping={str(mapping)!r}")
        arguments = [sys.executable, "-c", script, left, right]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    found, peak = map(int, done.stdout.split())
    assert found == count
    assert peak < 300 << 10  # KiB


class _Anything:
    def __init__(self, *_: object) -> None:
        pass


class _WithoutMegatron:
    """For torch.load(): classes of a package that is not installed become one that holds anything."""

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            return _Anything if "megatron" in module else super().find_class(module, name)

    load, Pickler = pickle.load, pickle.Pickler


def read_model(path: Path) -> Model:
    """The parameters in a file that Megatron wrote."""
    content = torch.load(path, weights_only=False, pickle_module=_WithoutMegatron)
    return {name: value for name, value in content["model"].items() if torch.is_tensor(value)}


def write_copies(folder: Path, model: Model) -> list[Path]:
    """The same parameters as other programs write them."""
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(dict(model), checkpoint_id=folder / "dcp", no_dist=True)
    write_safetensors(folder / "model.safetensors", model)
    torch.save(model, folder / "zip.pt")
    torch.save({"state_dict": model}, folder / "legacy.pth", _use_new_zipfile_serialization=False)
    return [folder / name for name in ("dcp", "model.safetensors", "zip.pt", "legacy.pth")]


def require_all_equal(paths: list[Path], parameters: int, *, optimizer: bool = False) -> None:
    options = CheckpointOptions(hash=True, threads=1, optimizer=optimizer)
    for left in paths:
        for right in paths:
            result = compare_checkpoints(left, right, options)
            assert result.same, (left, right)
            assert len(result.rows) == parameters


def test_every_kind_against_every_other(samples: Path, tmp_path: Path) -> None:
    """A model that Megatron wrote in five layouts, and its copies by other programs."""
    model = read_model(samples / "c_tp1/iter_0000005/mp_rank_00/model_optim_rng.pt")
    megatron = ("a_tp2_pp2", "c_tp1", "d_legacy_tp1", "e_te_tp2", "i_torch_dist_tp2")
    require_all_equal([*(samples / name for name in megatron), *write_copies(tmp_path, model)], 53)


def test_states_of_both_optimizers_of_megatron(samples: Path) -> None:
    """The distributed optimizer names nothing in its file; the other one has the same states by number."""
    paths = [samples / name for name in ("j_optimizer", "k_optimizer_tp2_dp2")]
    require_all_equal(paths, 4 * 17, optimizer=True)


def written_by_megatron(
    folder: Path, script: str, layouts: dict[str, list[str]], common: list[str]
) -> list[Path]:
    """MSPROBE_TEST_MEGATRON: an interpreter with torch, megatron-core and psutil."""
    python = os.environ.get("MSPROBE_TEST_MEGATRON")
    if not python:
        pytest.skip("MSPROBE_TEST_MEGATRON names no interpreter")
    path = Path(__file__).resolve().parents[2] / "data/checkpoint" / script
    for name, options in layouts.items():
        subprocess.run([python, path, folder / name, *options, *common], check=True, capture_output=True)
    return [folder / name for name in layouts]


def test_written_by_megatron_today(tmp_path: Path) -> None:
    layouts = {
        "one": ["--tp", "1"],
        "shards": ["--tp", "2", "--pp", "2"],
        "chunks": ["--pp", "2", "--vpp", "2"],
        "sharded": ["--tp", "2", "--dist"],
    }
    paths = written_by_megatron(tmp_path, "make_ckpt.py", layouts, ["--layers", "4", "--glu"])
    model = read_model(tmp_path / "one/iter_0000005/mp_rank_00/model_optim_rng.pt")
    copies = write_copies(tmp_path, model)
    require_all_equal([*paths, *copies], len(model))


DENSE = {
    "whole": ["--plain"],
    "shards": ["--tp", "2", "--pp", "2"],
    "buckets": ["--dp", "2", "--bucket", "1000"],
}
EXPERTS = {"whole": ["--plain"], "together": ["--dp", "2"], "apart": ["--ep", "2"]}


@pytest.mark.parametrize(
    ("layouts", "common", "parameters"), [(DENSE, [], 212), (EXPERTS, ["--experts", "4"], 260)]
)
def test_states_written_by_megatron_today(
    tmp_path: Path, layouts: dict[str, list[str]], common: list[str], parameters: int
) -> None:
    """The states of its optimizers, distributed and not, in several layouts."""
    paths = written_by_megatron(tmp_path, "make_distrib_optim.py", layouts, common)
    require_all_equal(paths, parameters, optimizer=True)
