# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which calls are steps, and which modules are models."""

from __future__ import annotations

import copy
import json

import msprobe
import pytest
import torch
from exported_gradients import exported_gradients
from msprobe.files.regular_file import read_text
from recording_support import run_file
from torch import nn


def net(width: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1))


def step(model, optimizer, *, calls: int = 1):
    loss = sum(model(torch.ones(2, 3)).square().mean() for _ in range(calls))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def records(folder, number: int = 0):
    return list(json.loads(read_text(folder / f"dump/step{number}/rank/dump.json"))["data"])


def state(folder, number: int = 0):
    return json.loads(read_text(folder / f"dump/step{number}/rank/diagnosis.json"))


def forwards(folder, number: int = 0):
    """How often the first layer was called."""
    return sum(name.startswith("Module.0.Linear.forward") for name in records(folder, number))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


class TestNoSteps:
    """Each of these comes before the first step and between the next ones, leaves no trace in the records of
    the steps, and is counted as forward only.
    """

    def train(self, out, between, calls=1):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with msprobe.capture(output=out, without=["config"]):
            for _ in range(3):
                between(model)
                step(model, optimizer)
        about = run_file(out)
        assert (about["steps"], about["models"]) == (3, [{"class": "Sequential", "parameters": 21}])
        assert [forwards(out, number) for number in range(3)] == [1, 1, 1]
        assert [len(state(out, number)["inputs"]) for number in range(3)] == [1, 1, 1]
        assert sum(row["calls"] for row in about["forward_only"]) == 3 * calls
        return about

    def test_a_call_for_a_shape(self, out):
        assert self.train(out, lambda model: model(torch.zeros(1, 3)).shape)["notes"] == []

    def test_a_call_of_a_part_for_a_shape(self, out):
        assert self.train(out, lambda model: model[:2](torch.zeros(1, 3)).shape)["notes"] == []

    def test_calls_on_the_meta_device(self, out):
        def count(model):
            copy.deepcopy(model).to("meta")(torch.zeros(1, 3, device="meta")).sum().backward()

        assert self.train(out, count)["notes"] == []

    def test_calls_where_torch_works_out_shapes_alone(self, out):
        from torch._subclasses.fake_tensor import FakeTensorMode

        def trace(model):
            with FakeTensorMode(allow_non_fake_inputs=True):
                model(torch.zeros(1, 3)).sum()

        assert self.train(out, trace)["notes"] == []

    def test_an_evaluation_without_gradients(self, out):
        def evaluate(model):
            with torch.no_grad():
                self.kept = [model(torch.zeros(1, 3)) for _ in range(3)]

        about = self.train(out, evaluate, calls=3)
        assert about["notes"] == []
        (row,) = about["forward_only"]
        assert (row["model"], row["class"]) == ("model", "Sequential")
        assert [gap["calls"] for gap in row["before"].values()] == [3, 3, 3]
        assert len({gap["results"] for gap in row["before"].values()}) == 3  # the model learns

    def test_an_evaluation_in_the_end_is_no_step(self, out):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with msprobe.capture(output=out, without=["config"]):
            step(model, optimizer)
            kept = model.eval()(torch.zeros(1, 3))
        assert kept.requires_grad
        about = run_file(out)
        assert about["steps"] == 1
        assert [row["calls"] for row in about["forward_only"]] == [1]

    def test_what_an_attack_computes_prepares_a_step(self, out):
        def attack(model):
            model.eval()
            x = torch.ones(1, 3, requires_grad=True)
            (slope,) = torch.autograd.grad(model(x).sum(), x)
            self.attacked = torch.add(x.detach(), slope.sign(), alpha=0.1)
            model.train()

        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with msprobe.capture(output=out, without=["config"]):
            for _ in range(3):
                attack(model)
                step(model, optimizer)
        assert any(name.startswith("Torch.add.") for name in records(out, 1))

    def test_a_model_that_is_called_outside_of_the_steps(self, out):
        teacher = net(5).eval()

        def ask(model):
            with torch.no_grad():
                teacher(torch.zeros(1, 3))

        (row,) = self.train(out, ask)["forward_only"]
        assert (row["model"], list(row["before"])) == ("teacher", ["0", "1", "2"])
        assert len({gap["results"] for gap in row["before"].values()}) == 1

    def test_an_evaluation_that_forgets_to_switch_gradients_off(self, out):
        def evaluate(model):
            model.eval()
            self.kept = [model(torch.zeros(1, 3)) for _ in range(3)]
            model.train()

        assert self.train(out, evaluate, calls=3)["notes"] == []

    def test_generation(self, out):
        @torch.inference_mode()
        def generate(model):
            x = torch.zeros(1, 3)
            for _ in range(4):
                x = x + model(x)

        assert self.train(out, generate, calls=4)["notes"] == []

    def test_results_are_measured_where_steps_are_recorded(self, out):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with msprobe.capture(output=out, without=["config"], steps="1"):
            for _ in range(3):
                with torch.no_grad():
                    model(torch.zeros(1, 3))
                step(model, optimizer)
        (row,) = run_file(out)["forward_only"]
        assert (row["calls"], list(row["before"])) == (3, ["1"])


class TestSteps:
    def test_two_calls_that_lead_to_one_loss(self, out):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with msprobe.capture(output=out, without=["config"]):
            step(model, optimizer, calls=2)
        assert forwards(out) == 2

    def test_a_result_that_a_loss_keeps(self, out):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with msprobe.capture(output=out, without=["config"]):
            total = torch.zeros(())
            for _ in range(3):
                total = total + model(torch.ones(2, 3)).square().mean()  # the result itself is gone
            total.backward()
            optimizer.step()
        assert forwards(out) == 3

    def test_a_training_that_changes_to_evaluation_mode(self, out):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with msprobe.capture(output=out, without=["config"], steps="all"):
            for number in range(5):
                step(model, optimizer)
                if number == 1:
                    model.eval()
        about = run_file(out)
        assert about["steps"] == 5
        assert [forwards(out, number) for number in range(5)] == [1] * 5
        assert "evaluation mode counts" in about["notes"][0]

    def test_an_optimizer_that_steps_inside_of_the_backward_pass(self, out):
        model = net()
        optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

        def update(parameter):
            optimizers[parameter].step()
            parameter.grad = None

        handles = [p.register_post_accumulate_grad_hook(update) for p in model.parameters()]
        with msprobe.capture(output=out, without=["config"]):
            for _ in range(3):
                model(torch.ones(2, 3)).square().mean().backward()
        for handle in handles:
            handle.remove()
        assert torch._C._len_torch_function_stack() == 0
        assert run_file(out)["steps"] == 3
        for number in range(3):
            names = records(out, number)
            assert {"Module.0.Linear.backward.0", "Module.2.Linear.backward.0"} <= set(names)

    def test_what_checkpointing_computes_again_is_no_call_of_its_own(self, out):
        from torch.utils.checkpoint import checkpoint

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = net(4), nn.Linear(1, 1)

            def forward(self, x):
                return self.last(checkpoint(self.first, x, use_reentrant=False))

        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with msprobe.capture(output=out, without=["config"]):
            for _ in range(3):
                step(model, optimizer)
        assert run_file(out)["steps"] == 3
        assert [one["model"] for number in range(3) for one in state(out, number)["inputs"]] == [""] * 3


class TestModels:
    def test_parts_that_are_called_one_by_one_are_one_model(self, out):
        class Policy(nn.Module):
            def __init__(self):
                super().__init__()
                self.features, self.action, self.value = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 1)

        policy = Policy()
        optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
        with msprobe.capture(output=out):
            for _ in range(2):
                h = policy.features(torch.ones(2, 3)).tanh()
                loss = policy.action(h).square().mean() + policy.value(h).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        assert run_file(out)["models"] == [{"class": "Policy", "parameters": 31}]
        assert {"Module.features.Linear.forward.0", "Module.value.Linear.forward.0"} <= set(records(out))
        assert set(state(out)["parameters"]) == {name for name, _ in policy.named_parameters()}
        assert [one["model"] for one in state(out)["inputs"]] == ["features"]
        inputs = state(out, 1)["inputs"]
        # What one part gives to the next is computed, and no data.
        assert [list(one["tensors"]) for one in inputs] == [["args.0"], [], []]

    def test_a_model_whose_optimizer_has_its_turn_later_is_recorded(self, out):
        actor, critic = net(), net(5)
        first = torch.optim.SGD(actor.parameters(), lr=0.1)
        with msprobe.capture(output=out, without=["config"]):
            second = torch.optim.SGD(critic.parameters(), lr=0.1)
            for _ in range(2):
                with torch.no_grad():
                    critic(torch.zeros(1, 3))
                step(actor, first)
                step(critic, second)
        assert run_file(out)["steps"] == 4
        assert any(name.startswith("Module.critic.0.Linear.forward") for name in records(out, 1))
        assert {"critic.0.weight", "0.weight"} <= state(out, 1)["parameters"].keys()
        (update,) = state(out, 1)["optimizer"]
        assert "critic.0.weight" in update["groups"][0]["parameters"]

    def test_a_frozen_model_has_the_name_that_the_program_gives_it(self, out):
        class Trainer:
            def __init__(self):
                self.model = net()
                self.ref_model = copy.deepcopy(self.model).requires_grad_(False)
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

            def log_probability(self, model, x):
                return model(x).mean()

            def train(self):
                x = torch.ones(2, 3)
                loss = self.log_probability(self.model, x) - self.log_probability(self.ref_model, x)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

        trainer = Trainer()
        with msprobe.capture(output=out, without=["config"]):
            for _ in range(2):
                trainer.train()
        for number in range(2):
            assert "Module.ref_model.0.Linear.forward.0" in records(out, number)
            assert "ref_model.2" in state(out, number)["modules"]
            assert "ref_model.2.weight" in state(out, number)["parameters"]

    def test_wrappers_of_every_kind_in_one_another(self, out):
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        class Around(nn.Module):
            def __init__(self, name, inner):
                super().__init__()
                self.add_module(name, inner)
                self.parameters = self.children = self.named_modules = None  # nobody's business

            def forward(self, x):
                return next(iter(self._modules.values()))(x)

        plain, wrapped = net(), net()
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
        with msprobe.capture(output=out, without=["config"]):
            step(plain, optimizer)
        wrapped[0] = checkpoint_wrapper(wrapped[0])
        leaves = [p for p in wrapped.parameters()]
        model = Around("_forward_module", Around("module", Around("_fsdp_wrapped_module", wrapped)))
        with msprobe.capture(output=out.parent / "wrapped", without=["config"]):
            step(model, torch.optim.SGD(leaves, lr=0.1))
        other = out.parent / "wrapped"
        assert set(state(other)["parameters"]) == set(state(out)["parameters"])
        assert set(state(other)["modules"]) == set(state(out)["modules"])
        modules = [{name for name in records(one) if name.startswith("Module.")} for one in (out, other)]
        assert modules[0] <= modules[1]
        tables = [(exported_gradients(one) / "rank0/grad_summary_0.csv").read_text() for one in (out, other)]
        assert tables[0] == tables[1]


def test_what_a_call_puts_in_the_place_of_parameters_is_none(out):
    writer, inner = nn.Linear(1, 3), nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(writer.parameters(), lr=0.1)
    with msprobe.capture(output=out, without=["config"]):
        written = {"weight": writer(torch.ones(1, 1))}
        torch.func.functional_call(inner, written, (torch.ones(2, 3),)).sum().backward()
        optimizer.step()
    assert list(state(out)["parameters"]) == ["weight", "bias"]
