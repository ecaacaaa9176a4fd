# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The script of the samples gives the files of mindstudio-probe (tests/data/dump), but for what
docs/compatibility.md lists and golden_rules.py says in code.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from archives import unpack
from dump_support import Dump, run, run_ranks
from golden_rules import (
    MOVED,
    ONLY_HERE,
    ROUNDING,
    after_early_stop,
    construct_differences,
    expected_names,
    frames,
    in_order,
    record_differences,
)

DATA = Path(__file__).parents[2] / "data" / "dump"

SAMPLES = [
    "statistics_L0",
    "statistics_L1",
    "statistics_mix",
    "md5_mix",
    "tensor_mix",
    "structure_mix",
    "types_L1",
    "types_L1_md5",
    "data_mode_backward_mix",
    "scope_L1",
    "tensor_list_mix",
    "recompute_mix",
    "module_list_L0",
    "module_dump_L1",
    "gloo2_L1",
    "data_mode_forward_output_L1",
    "debug_statistics",
    "debug_tensor",
    "list_linear_mix",
    "scope_L0",
    "micro_steps_mix",
    "nan_mix",
    "types_L1_tensor",
    "overflow_check_L1",
]
DISTRIBUTED = {"gloo2_L1"}


def make_sample(name: str, directory: str) -> None:
    specification = importlib.util.spec_from_file_location("make_samples", DATA / "make_samples.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.child(name, directory)


class Sample:
    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        unpack(DATA / f"{name}.tar.gz", directory / "there")
        if name in DISTRIBUTED:
            run_ranks(make_sample, name, str(directory))
        else:
            run(make_sample, name, str(directory))
        self.there = directory / "there" / name
        self.here = directory / name
        self.folders = sorted(
            path.relative_to(self.there) for path in self.there.glob("dump/step*/rank*") if path.is_dir()
        )
        assert self.folders

    def each(self, file: str) -> list[tuple[Any, Any]]:
        """The golden file and ours, of each step and rank that has the golden one."""
        pairs = []
        for folder in self.folders:
            if (self.there / folder / file).exists():
                there = json.loads((self.there / folder / file).read_text(encoding="utf-8"))
                pairs.append((there, self.reader(folder).json(file)))
        return pairs

    def reader(self, folder: Path) -> Dump:
        dump = Dump(self.here)
        dump.folder = self.here / folder
        return dump


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """made(name): both sides of a sample, made once."""
    samples: dict[str, Sample] = {}

    def get(name: str) -> Sample:
        if name not in samples:
            samples[name] = Sample(name, tmp_path_factory.mktemp(name))
        return samples[name]

    return get


@pytest.mark.parametrize("name", SAMPLES)
def test_records(made, name):
    sample = made(name)
    file = "debug.json" if name.startswith("debug") else "dump.json"
    for there, here in sample.each(file):
        assert list(here) == list(there)
        assert [here[key] for key in ("task", "level", "framework")] == [
            there[key] for key in ("task", "level", "framework")
        ]
        assert (here["dump_data_dir"] is None) == (there["dump_data_dir"] is None)
        wanted, found = expected_names(list(there["data"]), sample=name), list(here["data"])
        assert [n for n in wanted if n not in found] == []
        extra = [n for n in found if n not in wanted]
        assert [n for n in extra if not ONLY_HERE.fullmatch(n) and not after_early_stop(name, n)] == []
        assert [n for n in in_order(found) if n in wanted] == in_order(wanted)
        assert all(
            MOVED.fullmatch(n) for n in set(wanted) - set(in_order(wanted)) if not ONLY_HERE.fullmatch(n)
        )
        wrong = []
        for record in wanted:
            forward = here["data"].get(record.replace(".backward", ".forward"))
            wrong += record_differences(record, golden(name, record, there), here["data"][record], forward)
        if name == "md5_mix":
            wrong = [one for one in wrong if not is_of_other_bits(one, made("tensor_mix"))]
        assert wrong == []


def is_of_other_bits(difference: str, stored: Sample) -> bool:
    """Whether a checksum is another one because another processor made the sample, which rounds differently:
    both are right for the tensors that the same training stored there and here.
    """
    found = re.fullmatch(r"(.+)/md5: '(\w{8})', here '(\w{8})'", difference)
    if found is None:
        return False
    place, *checksums = found.groups()
    (folder,) = stored.folders
    record, *keys = place.split("/")
    element = stored.reader(folder).data[record]
    for key in keys:
        element = element[int(key)] if isinstance(element, list) else element[key]
    files = [
        side / folder / "dump_tensor_data" / element["data_name"] for side in (stored.there, stored.here)
    ]
    return checksums == [f"{zlib.crc32(torch.load(file).numpy().tobytes()):08x}" for file in files]


def golden(sample: str, record: str, there: dict[str, Any]) -> dict[str, Any]:
    return there["data"][record]


@pytest.mark.parametrize("name", SAMPLES)
def test_hierarchy(made, name):
    sample = made(name)
    for (there, here), (records, _) in zip(sample.each("construct.json"), sample.each("dump.json")):
        assert construct_differences(there, here, set(records["data"]), sample=name) == []


WITH_STACKS = ["statistics_L0", "statistics_L1", "statistics_mix", "types_L1", "module_dump_L1"]


@pytest.mark.parametrize("name", [name for name in WITH_STACKS if name in SAMPLES])
def test_call_stacks(made, name):
    for there, here in made(name).each("stack.json"):
        assert list(here) == [str(index) for index in range(len(here))]
        wanted = {record: frames(texts) for names, texts in there.values() for record in names}
        for names, texts in here.values():
            for record in names:
                assert without_shell(frames(texts)) == without_shell(wanted[record])
        ours = [record for names, _ in here.values() for record in names]
        assert len(set(ours)) == len(ours)
        assert set(ours) == {record for record in wanted if not record.startswith("Tensor.view_as.")}


def without_shell(found: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Without the frame of a function of torch that is recorded itself: there, the tool's own stood there."""
    return [frame for frame in found if not frame[-1].startswith("def ")]


@pytest.mark.parametrize("name", ["tensor_mix", "tensor_list_mix"])
def test_tensor_files(made, name):
    sample = made(name)
    for folder in sample.folders:
        theirs = sample.there / folder / "dump_tensor_data"
        ours = sample.here / folder / "dump_tensor_data"
        named = data_names(sample.reader(folder).data)
        assert sorted(named) == sorted(os.listdir(ours))
        compared = 0
        for path in sorted(theirs.iterdir()):
            if ".backward.output." in path.name or path.name.startswith("Torch.softmax.0.backward"):
                continue  # of one node there, of the call's inputs here: test_records compares them
            compared += 1
            there = torch.load(path, weights_only=True)
            here = torch.load(ours / path.name, weights_only=True)
            assert (here.dtype, here.shape) == (there.dtype, there.shape)
            assert here.is_contiguous()
            torch.testing.assert_close(here, there, rtol=ROUNDING, atol=ROUNDING / 10, equal_nan=True)
        assert compared > 20


def data_names(element: Any) -> list[str]:
    if isinstance(element, list):
        return [name for item in element for name in data_names(item)]
    if isinstance(element, dict):
        own = [element["data_name"]] if "data_name" in element else []
        return own + [name for item in element.values() for name in data_names(item)]
    return []
