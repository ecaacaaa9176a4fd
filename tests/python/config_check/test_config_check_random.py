# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The wrappers of random functions: they count, and change nothing."""

from __future__ import annotations

import copy
import os
import pickle
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from msprobe.config_check.collecting.random_calls import RandomCalls
from msprobe.config_check.collecting.random_functions import FUNCTIONS, KNOWN_TO_THE_EXISTING_TOOL


@pytest.fixture
def calls():
    counter = RandomCalls()
    counter.install()
    yield counter
    counter.stop()


def draw() -> list[object]:
    """Something of every generator."""
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(3)
    legacy = np.random.RandomState(5)
    modern = np.random.default_rng(5)
    items = list(range(10))
    random.shuffle(items)
    return [
        random.random(), random.randint(1, 9), random.uniform(1, 2), random.choice("abc"), items,
        random.sample(range(99), 5), random.gauss(0, 1), random.getrandbits(70), random.randbytes(3),
        np.random.rand(2).tobytes(), np.random.randint(0, 9, 4).tobytes(), np.random.choice(9, 3).tobytes(),
        np.random.normal(size=3).tobytes(), np.random.permutation(5).tobytes(), np.random.randn(2).tobytes(),
        legacy.rand(2).tobytes(), modern.random(3).tobytes(), modern.integers(0, 9, 5).tobytes(),
        modern.normal(size=2).tobytes(), modern.choice(5), modern.permutation(4).tobytes(),
        modern.spawn(1)[0].random(), pickle.loads(pickle.dumps(modern)).random(),
        copy.deepcopy(modern).random(),
        *[tensor.numpy().tobytes() for tensor in (
            torch.rand(3), torch.randn(3, generator=generator), torch.randint(0, 9, (3,)), torch.randperm(5),
            torch.rand_like(torch.ones(2)), torch.randn_like(torch.ones(2)), torch.normal(0.0, 1.0, (2,)),
            torch.randint_like(torch.ones(2), 9), torch.bernoulli(torch.full((4,), 0.5)),
            torch.multinomial(torch.ones(4), 2), torch.poisson(torch.ones(3)),
            torch.empty(3).exponential_(), torch.empty(3).geometric_(0.5), torch.empty(3).log_normal_(),
            torch.empty(3).cauchy_(), torch.empty(3).normal_(), torch.empty(3).uniform_(),
            torch.empty(3).bernoulli_(), torch.empty(3).random_(), torch.nn.Linear(2, 2).weight.detach(),
            torch.nn.functional.dropout(torch.ones(9)),
        )],
        random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes(),
    ]  # fmt: skip


def test_streams_are_equal_to_the_bit():
    plain = draw()
    counter = RandomCalls()
    counter.install()
    try:
        counted = draw()
    finally:
        counter.stop()
    assert counted == plain
    assert draw() == plain


def test_everything_is_put_back():
    before = {}
    owners = {"random.": random, "np.random.": np.random, "torch.": torch, "torch.cuda.": torch.cuda}
    for prefix, owner in owners.items():
        before.update({(prefix, name): getattr(owner, name, None) for name in FUNCTIONS[prefix]})
    methods = {name: name in vars(torch.Tensor) for name in FUNCTIONS["torch.Tensor."]}
    counter = RandomCalls()
    counter.install()
    assert random.random is not before["random.", "random"]
    counter.install()  # again: nothing
    counter.stop()
    counter.stop()
    for (prefix, name), function in before.items():
        assert getattr(owners[prefix], name, None) == function
    assert {name: name in vars(torch.Tensor) for name in methods} == methods


def test_counts_by_place(calls):
    for _ in range(3):
        torch.rand(1)
    random.random(), random.random()
    found = calls.counted()
    assert [entry["count"] for entry in found["torch.rand"]] == [3]
    assert sum(entry["count"] for entry in found["random.random"]) == 2
    frame = found["torch.rand"][0]["stack"][-1]
    assert frame.startswith(f"File {os.path.abspath(__file__)}, line ")
    assert frame.endswith(", in test_counts_by_place, torch.rand(1)")
    assert not any(
        "config_check/collecting/random_calls.py" in line for line in found["torch.rand"][0]["stack"]
    )


def test_all_functions_of_the_existing_tool_are_counted(calls):
    draw()
    wanted = {name for name in KNOWN_TO_THE_EXISTING_TOOL if not name.startswith("mindspore")}
    assert wanted <= calls.counted().keys()
    assert "np.random.Generator.normal" in calls.counted()
    # manual_seed calls torch.cuda.manual_seed_all: that is its own affair
    assert "torch.cuda.manual_seed_all" not in calls.counted()


def test_seeds_and_their_arguments(calls):
    torch.manual_seed(42)
    np.random.seed(seed=3)
    np.random.default_rng([1, 2])
    np.random.default_rng(np.arange(2))
    assert [(seed["call"], seed["arguments"]) for seed in calls.seeds()] == [
        ("torch.manual_seed", "42"),
        ("np.random.seed", "seed=3"),
        ("np.random.default_rng", "[1, 2]"),
        ("np.random.default_rng", "ndarray"),
    ]


def test_seeds_of_the_generators_that_draw(calls):
    generator = torch.Generator().manual_seed(11)
    for _ in range(3):
        torch.rand(2, generator=generator)
    torch.empty(2).normal_(generator=torch.Generator().manual_seed(12))
    torch.rand(2, generator=None)
    with pytest.raises(TypeError):
        torch.rand(2, generator="no")
    torch.rand(2)
    assert len(calls.counted()["torch.rand"]) == 4
    found = calls.seeds()
    assert [(seed["call"], seed["arguments"]) for seed in found] == [
        ("torch.Generator", "11"),
        ("torch.Generator", "12"),
    ]
    assert found[0]["where"].endswith("torch.rand(2, generator=generator)")


def test_errors_are_those_of_the_function(calls):
    with pytest.raises(ValueError, match=r"empty range|randrange"):
        random.randint(5, 1)
    with pytest.raises(TypeError):
        torch.rand("x")
    with pytest.raises(TypeError):
        random.random(1)  # type: ignore[call-arg]


def test_generators_stay_generators(calls):
    generator = np.random.default_rng(1)
    assert isinstance(generator, np.random.Generator)
    assert np.random.default_rng(generator) is generator
    plain = np.random.Generator(np.random.PCG64(1))
    assert np.random.default_rng(plain) is plain
    assert (
        np.random.default_rng(np.arange(3)).random()
        == np.random.Generator(np.random.PCG64(np.arange(3))).random()
    )


def test_functions_that_were_taken_by_name_go_on_after_the_end(calls):
    kept = torch.rand
    calls.stop()
    assert kept(2).shape == (2,)
    assert "torch.rand" not in calls.counted()


def test_wrappers_can_be_pickled_and_say_who_they_are(calls):
    for function in (torch.rand, random.random, np.random.rand):
        assert pickle.loads(pickle.dumps(function)) is function
    assert torch.rand.__name__ == "rand"
    assert torch.rand.__doc__


def test_threads(calls):
    def work():
        for _ in range(500):
            random.random()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(entry["count"] for entry in calls.counted()["random.random"]) == 2000


def test_counting_ends_by_itself():
    calls = RandomCalls(most_calls=10)
    calls.install()
    for _ in range(20):
        random.random()
    assert not calls.is_installed
    assert calls.counted()["random.random"][0]["count"] == 10


def test_a_fault_of_ours_stops_counting_and_nothing_else(calls, monkeypatch, caplog):
    monkeypatch.setattr(calls, "_describe", lambda *_: 1 / 0)
    assert 0 <= random.random() < 1
    assert 0 <= random.random() < 1
    assert caplog.text.count("division by zero") == 1


def test_a_forked_child_counts_nothing(calls):
    child = os.fork()
    if child == 0:
        os._exit(0 if random.random.__module__ is None and not calls.is_installed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert calls.is_installed


CODE_OF_OTHERS = """
import torch
from msprobe import ConfigChecker
ConfigChecker.apply_patches()

with torch.device("meta"):
    assert torch.rand(2).device.type == "meta"
    assert torch.randn_like(torch.ones(2)).device.type == "meta"

def draw(x):
    return torch.rand(2) + torch.rand_like(x) + x.normal_()

torch.manual_seed(1)
expected = draw(torch.ones(2))
scripted = torch.jit.script(draw)
torch.manual_seed(1)
assert torch.equal(scripted(torch.ones(2)), expected)

traced = torch.fx.symbolic_trace(lambda x: torch.rand_like(x) * 2)
assert traced(torch.ones(2)).shape == (2,)
"""


def test_what_torch_knows_by_identity(tmp_path: Path):
    script = tmp_path / "others.py"
    script.write_text(CODE_OF_OTHERS)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_compiled_code_in_one_graph(calls):
    torch._dynamo.reset()

    @torch.compile(backend="eager", fullgraph=True)
    def compiled(x):
        return x + torch.rand_like(x) + torch.rand(2)

    torch.manual_seed(1)
    found = compiled(torch.ones(2))
    calls.stop()
    torch.manual_seed(1)
    first = torch.ones(2)
    assert torch.equal(found, first + torch.rand_like(first) + torch.rand(2))
