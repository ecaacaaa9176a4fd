# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""seed_all: two runs give the same bits, dropout does nothing, and wrong arguments change nothing."""

from __future__ import annotations

import hashlib
import inspect
import os
import random
import subprocess
import sys
from collections.abc import Iterator

import msprobe
import numpy as np
import pytest
import torch
from msprobe import InvalidArgument, restore_dropout, seed_all
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
MODULES = {
    nn.Dropout: (8, 9), nn.Dropout1d: (2, 8, 9), nn.Dropout2d: (2, 8, 3, 3), nn.Dropout3d: (2, 8, 3, 3, 3),
    nn.AlphaDropout: (8, 9), nn.FeatureAlphaDropout: (2, 8, 3, 3, 3),
}  # fmt: skip
VARIABLES = ("PYTHONHASHSEED", "HCCL_DETERMINISTIC", "CUBLAS_WORKSPACE_CONFIG")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """seed_all changes the whole process."""
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "")  # so that monkeypatch puts the old value back
        monkeypatch.delenv(variable)
    cudnn = torch.backends.cudnn
    monkeypatch.setattr(cudnn, "deterministic", False)
    monkeypatch.setattr(cudnn, "benchmark", True)
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(deterministic)
    restore_dropout()


def draws() -> list[object]:
    """Something of every generator."""
    return [
        random.random(),
        np.random.rand(3).tolist(),
        torch.rand(3).tolist(),
        torch.randperm(50).tolist(),
        nn.Linear(4, 4).weight.tolist(),
    ]


class TestSeeding:
    def test_the_same_seed_gives_the_same_numbers(self):
        seed_all(7, rm_dropout=False)
        first = draws()
        assert draws() != first
        seed_all(7, rm_dropout=False)
        assert draws() == first
        seed_all(8, rm_dropout=False)
        assert all(a != b for a, b in zip(draws(), first))

    def test_the_defaults(self):
        seed_all()
        by_default = draws()
        seed_all(seed=1234, mode=False, rm_dropout=True)
        assert draws() == by_default

    @pytest.mark.parametrize("seed", [0, 2**32 - 1])
    def test_the_ends_of_the_range(self, seed):
        seed_all(seed)
        assert torch.initial_seed() == seed
        assert os.environ["PYTHONHASHSEED"] == str(seed)

    TRAINING = """
import hashlib, random, sys
import numpy as np, torch
from msprobe.pytorch import seed_all
seed_all(int(sys.argv[1]), mode=True, rm_dropout=False)
nn = torch.nn
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01 + random.random() / 100)
digest = hashlib.sha256()
for _ in range(5):
    batch = torch.from_numpy(np.random.rand(32, 8).astype("float32"))
    loss = model(batch + torch.randn(32, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for tensor in (loss, *model.parameters()):
        digest.update(tensor.detach().numpy().tobytes())
print(digest.hexdigest())
"""

    def test_two_runs_are_bit_identical(self):
        def run(seed):
            command = [sys.executable, "-c", self.TRAINING, str(seed)]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

        first = run(3)
        assert len(first.strip()) == 2 * hashlib.sha256().digest_size
        assert run(3) == first
        assert run(4) != first


class TestDeterminism:
    @pytest.mark.parametrize("mode", [True, False])
    def test_mode(self, mode):
        torch.use_deterministic_algorithms(not mode)
        seed_all(mode=mode)
        assert torch.are_deterministic_algorithms_enabled() is mode
        assert os.environ["HCCL_DETERMINISTIC"] == str(mode)
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark

    @pytest.mark.parametrize(
        ("cuda", "workspace"),
        [(None, None), ("9.2", None), ("10.1", None), ("10.2", ":4096:8"), ("12.8", ":4096:8")],
    )
    def test_the_workspace_of_cublas(self, monkeypatch, cuda, workspace):
        monkeypatch.setattr(torch.version, "cuda", cuda)
        seed_all()
        assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == workspace


class TestDropout:
    @pytest.mark.parametrize("kind", MODULES)
    def test_modules_of_any_age_do_nothing(self, kind):
        x = torch.rand(MODULES[kind]) + 1
        before = kind(p=0.5)
        assert not torch.equal(before(x), x)
        seed_all()
        for module in (before, kind(p=0.9), kind(p=0.5, inplace=True)):
            assert module.training
            assert torch.equal(module(x.clone()), x)
        restore_dropout()
        assert not torch.equal(before(x), x)

    @pytest.mark.parametrize("name", DROPOUTS)
    def test_functions_keep_their_form(self, name):
        original = getattr(functional, name)
        seed_all()
        replacement = getattr(functional, name)
        assert replacement is not original
        ours, theirs = (inspect.signature(function).parameters for function in (replacement, original))
        assert [(p.name, p.kind, p.default) for p in ours.values()] == (
            [(p.name, p.kind, p.default) for p in theirs.values()]
        )
        assert replacement.__name__ == name
        assert replacement.__module__ == "torch.nn.functional"
        x = torch.rand(2, 3, 4) if name == "dropout1d" else torch.rand(2, 3, 4, 4)
        assert torch.equal(replacement(input=x, p=0.8, training=True, inplace=False), x)
        assert torch.equal(replacement(x, 0.8, True, True), x)
        restore_dropout()
        assert getattr(functional, name) is original

    def test_a_second_call_changes_nothing_and_restoring_is_complete(self):
        originals = [getattr(functional, name) for name in DROPOUTS]
        seed_all()
        replacements = [getattr(functional, name) for name in DROPOUTS]
        seed_all()
        seed_all(rm_dropout=False)
        assert [getattr(functional, name) for name in DROPOUTS] == replacements
        for _ in range(2):
            restore_dropout()
            assert [getattr(functional, name) for name in DROPOUTS] == originals

    def test_dropout_stays_when_it_is_not_asked_for(self):
        original = functional.dropout
        seed_all(rm_dropout=False)
        assert functional.dropout is original

    def test_gradients_pass_and_no_random_number_is_taken(self):
        seed_all()
        state = torch.get_rng_state()
        x = torch.rand(100, requires_grad=True)
        torch.set_rng_state(state)
        functional.dropout(x, 0.5).sum().backward()
        assert torch.equal(x.grad, torch.ones(100))
        assert torch.equal(torch.get_rng_state(), state)

    def test_a_mode_sees_the_call_under_its_name(self):
        seen = []

        class Watch(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                seen.append(getattr(function, "__name__", ""))
                return function(*args, **(kwargs or {}))

        seed_all()
        x = torch.rand(20)
        with Watch():
            assert torch.equal(nn.Dropout(0.5)(x), x)
        assert "dropout" in seen

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch.jit
    def test_scripted_code_does_nothing_either(self):
        def scripted():
            def drop(x):  # anew each time: torch.jit keeps what it has compiled
                return functional.dropout(x, 0.5)

            return torch.jit.script(drop)

        x = torch.rand(50)
        assert not torch.equal(scripted()(x), x)
        seed_all()
        assert torch.equal(scripted()(x), x)


class TestArguments:
    @pytest.mark.parametrize("seed", [-1, 2**32, 1.0, "1", None, True, [1]])
    def test_bad_seeds(self, seed):
        with pytest.raises(InvalidArgument, match=r'^seed_all\(\): "seed": expected an integer from 0 to 42'):
            seed_all(seed)

    @pytest.mark.parametrize("name", ["mode", "rm_dropout", "is_enhanced"])
    @pytest.mark.parametrize("value", [1, 0, "True", None])
    def test_bad_switches(self, name, value):
        with pytest.raises(
            InvalidArgument, match=rf'^seed_all\(\): "{name}": expected True or False, found '
        ):
            seed_all(**{name: value})

    def test_a_keyword_of_newer_releases_is_accepted_with_a_word(self, caplog):
        seed_all(1, rm_dropout=False, is_enhanced=True)
        assert "seed_all: is_enhanced has no effect" in caplog.text

    def test_a_wrong_call_changes_nothing(self):
        original, state = functional.dropout, torch.get_rng_state()
        with pytest.raises(ValueError, match="rm_dropout"):
            seed_all(1, True, 2)
        assert functional.dropout is original
        assert torch.equal(torch.get_rng_state(), state)
        assert not set(VARIABLES) & set(os.environ)


def test_where_it_is_found():
    from msprobe import pytorch

    assert pytorch.seed_all is msprobe.seed_all
    code = "from msprobe.pytorch import seed_all; import sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
