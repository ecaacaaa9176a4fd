# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trainers that take torch apart: they train as without us, and what could not be recorded is said."""

from __future__ import annotations

import os
import signal
import threading

import msprobe
import pytest
import torch
from msprobe.files.regular_file import is_there
from recording_support import python, recorded, run_file
from torch import nn


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


class Closed(Net):
    """Forbids hooks, and hides what torch calls by these names."""

    def register_forward_pre_hook(self, *_, **__):
        raise RuntimeError("no hooks")

    register_forward_hook = register_full_backward_hook = register_forward_pre_hook
    parameters = named_parameters = modules = named_modules = buffers = children = property(
        lambda self: pytest.fail("asked")
    )


def weights(model):
    return [p for part in model._modules.values() for p in part._parameters.values()]


def train(model, steps=3):
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(weights(model), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(4, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def made(kind):
    torch.manual_seed(0)
    return kind()


def test_a_model_that_forbids_hooks_and_hides_its_parts(tmp_path):
    plain = train(made(Net))
    with msprobe.capture(output=tmp_path / "out"):
        assert train(made(Closed)) == plain
    about = run_file(tmp_path / "out")
    assert (about["steps"], about["notes"]) == (3, [])
    assert set(about["recorded"]) == {"losses", "config", "gradients", "dump"}


def test_a_model_without_tables_of_hooks(tmp_path):
    def stripped():
        model = Net()
        for module in model._modules.values():
            del module._state_dict_hooks, module._load_state_dict_pre_hooks
        return model

    plain = train(made(stripped))
    with msprobe.capture(output=tmp_path / "out"):
        assert train(made(stripped)) == plain
    assert run_file(tmp_path / "out")["steps"] == 3


def test_tensors_with_a_torch_function_of_their_own(tmp_path):
    class Own(nn.Parameter):
        calls = 0

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            Own.calls += 1
            return super().__torch_function__(function, types, args, kwargs or {})

    def model():
        net = Net()
        net[0].weight = Own(net[0].weight.detach())
        return net

    Own.calls = 0
    plain, calls = train(made(model)), Own.calls
    Own.calls = 0
    with msprobe.capture(output=tmp_path / "out"):
        assert train(made(model)) == plain
    assert Own.calls == calls
    assert run_file(tmp_path / "out")["notes"] == []


def test_a_torch_function_of_all_tensors_that_a_program_replaces(tmp_path, monkeypatch):
    original, calls = torch.Tensor.__torch_function__, []

    def replaced(_, function, types, args=(), kwargs=None):
        calls.append(function)
        return original(function, types, args, kwargs)

    def train_replaced():
        calls.clear()
        with monkeypatch.context() as patched:
            patched.setattr(torch.Tensor, "__torch_function__", classmethod(replaced))
            return train(made(Net)), list(calls)

    plain = train_replaced()
    with msprobe.capture(output=tmp_path / "out"):
        assert train_replaced() == plain
    assert (run_file(tmp_path / "out")["steps"], run_file(tmp_path / "out")["notes"]) == (3, [])


def test_a_model_that_loses_what_torch_needs_fails_as_without_us(tmp_path):
    class Losing(Net):
        def forward(self, x):
            result = super().forward(x)
            del self[0]._backward_pre_hooks
            return result

    def error_of_training():
        with pytest.raises(AttributeError) as error:
            train(made(Losing))
        return str(error.value)

    plain = error_of_training()
    with msprobe.capture(output=tmp_path / "out"):
        assert error_of_training() == plain
    assert torch._C._len_torch_function_stack() == 0


def test_a_call_operator_that_a_program_replaces_between_steps(tmp_path, monkeypatch):
    original = nn.Module.__call__

    def train_replaced():
        model = made(Net)
        with monkeypatch.context() as patched:
            losses = train(model, steps=1)
            patched.setattr(nn.Module, "__call__", lambda self, *args: original(self, *args))
            return losses + train(model, steps=2)

    plain = train_replaced()
    with msprobe.capture(output=tmp_path / "out"):
        assert train_replaced() == plain
    assert run_file(tmp_path / "out")["steps"] == 3


def test_a_process_that_forks_inside_of_its_steps(tmp_path):
    def train_forking():
        def forking(*_):
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0) == (child, 0)

        model = made(Net)
        model.register_forward_pre_hook(forking)
        return train(model)

    torch.set_num_threads(1)  # the pool of OpenMP does not survive a fork
    plain = train_forking()
    with msprobe.capture(output=tmp_path / "out"):
        assert train_forking() == plain
    assert run_file(tmp_path / "out")["steps"] == 3


def test_steps_in_a_thread(tmp_path):
    plain, found = train(made(Net)), []
    with msprobe.capture(output=tmp_path / "out"):
        thread = threading.Thread(target=lambda: found.extend(train(made(Net))))
        thread.start()
        thread.join()
    assert found == plain
    assert run_file(tmp_path / "out")["steps"] == 3
    assert torch._C._len_torch_function_stack() == 0


def test_a_model_that_is_called_in_one_thread_and_updated_in_another(tmp_path):
    def train_apart():
        torch.manual_seed(1)
        model = made(Net)
        torch.manual_seed(1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        losses = []

        def forward():
            losses.append(model(torch.randn(4, 3)).square().mean())

        for _ in range(4):
            thread = threading.Thread(target=forward)
            thread.start()
            thread.join()
            optimizer.zero_grad()
            losses[-1].backward()
            optimizer.step()
        return [loss.item() for loss in losses]

    plain = train_apart()
    with msprobe.capture(output=tmp_path / "out"):
        assert train_apart() == plain
    assert run_file(tmp_path / "out")["steps"] == 4
    assert torch._C._len_torch_function_stack() == 0


@pytest.mark.parametrize("where", ["between", "inside"])
def test_an_interrupt_in_a_rollout(tmp_path, where):
    """Of a process of its own: the interrupt ends it."""
    script = tmp_path / "train.py"
    script.write_text(
        f"""
import os, signal, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    if {where!r} == "inside": loss = model(torch.ones(1, 3)).mean()
    with torch.inference_mode():  # a rollout
        x = torch.ones(1, 3)
        for token in range(3):
            if step == 1 and token == 1: os.kill(os.getpid(), signal.SIGINT)
            x = model(x)
    loss = model(torch.ones(1, 3)).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print(step, loss.item().hex(), flush=True)
"""
    )
    plain, run = python("train.py", cwd=tmp_path), recorded("--quiet", "train.py", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (plain.returncode, plain.stdout)
    assert run.returncode == -signal.SIGINT
    about = run_file(tmp_path / "out")
    assert (about["outcome"], about["steps"]) == ("interrupted", 1 + (where == "inside"))
    assert is_there(tmp_path / "out/dump/step0/rank/dump.json")
