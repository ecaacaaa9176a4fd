# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe.capture: a block or function is recorded, and nothing is left behind."""

from __future__ import annotations

import asyncio
import csv
import json
import weakref
import zipfile

import msprobe
import pytest
import torch
from exported_gradients import exported_gradients
from msprobe.files.regular_file import is_there, read_text
from msprobe.training.steps import FinishedSteps, OutermostCalls
from recording_support import run_file
from torch import nn


class Model(nn.Sequential):
    pass


class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


def train(model, steps=3, optimizer=torch.optim.SGD):
    torch.manual_seed(1)
    optimizer = optimizer(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(torch.randn(4, 3)), torch.ones(4, 2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


@pytest.fixture
def nothing_is_left():
    """What torch consists of is the same afterwards."""
    from torch.nn.modules import module
    from torch.optim import optimizer

    torch.optim.SGD([torch.zeros(1)], lr=1)  # torch wraps step() at the first object

    def state():
        return (
            nn.Module.__call__,
            nn.Module._call_impl.__code__,
            torch.optim.Optimizer.__init__,
            torch.optim.SGD.step,
            torch.autograd.backward.__code__,
            len(optimizer._global_optimizer_pre_hooks) + len(optimizer._global_optimizer_post_hooks),
            torch.manual_seed,
            torch.rand,
            len(module._global_forward_pre_hooks) + len(module._global_forward_hooks),
        )

    before = state()
    yield
    assert state() == before


@pytest.mark.usefixtures("nothing_is_left")
class TestCapture:
    def test_results_are_bit_equal_and_recorded(self, model, tmp_path):
        twin = Model(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        twin.load_state_dict(model.state_dict())
        plain = train(twin)
        with msprobe.capture(model, tmp_path / "out", steps="0-1"):
            losses = train(model)
        assert losses == plain
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters()))
        assert sorted(path.name for path in (tmp_path / "out/dump").iterdir()) == ["step0", "step1"]
        data = json.loads(read_text(tmp_path / "out/dump/step0/rank/dump.json"))["data"]
        assert "Module.0.Linear.forward.0" in data
        assert is_there(tmp_path / "out/dump/step0/rank/diagnosis.json")
        lines = (tmp_path / "out/losses.rank0.csv").read_text().split()
        assert [float(line.split(",")[1]) for line in lines[1:]] == losses

    def test_a_function_whose_model_is_found(self, model, tmp_path):
        decorated = msprobe.capture(output=tmp_path / "out", without=["dump"])(train)
        decorated(model, 2)
        about = run_file(tmp_path / "out")
        assert (about["models"][0]["class"], about["steps"], about["outcome"]) == ("Model", 2, "ended")
        assert not (tmp_path / "out/dump").exists()

    def test_a_part_that_cannot_be_recorded_is_not_said_to_be(self, model, tmp_path, monkeypatch):
        def fails(*_):
            raise OSError("no _torch here")

        monkeypatch.setattr("msprobe.grad_probe.probe.Probe.monitor", fails)
        with msprobe.capture(model, tmp_path / "out"):
            train(model, 2)
        about = run_file(tmp_path / "out")
        assert set(about["recorded"]) == {"losses", "config", "dump"}
        assert "no _torch here" in about["notes"][0]

    def test_a_model_inside_of_another(self, model, tmp_path):
        with msprobe.capture(model, tmp_path / "out"):
            train(Wrapper(model), 1)
        assert run_file(tmp_path / "out")["models"][0]["class"] == "Model"
        data = json.loads(read_text(tmp_path / "out/dump/step0/rank/dump.json"))["data"]
        assert "Module.0.Linear.forward.0" in data

    def test_a_wrapper_that_is_left_in_evaluation_mode(self, model, tmp_path):
        """As Lightning leaves DistributedDataParallel after its first validation."""
        wrapper = Wrapper(model).eval()
        model.train()
        with msprobe.capture(output=tmp_path / "out", without=["dump"]):
            train(wrapper, 2)
        about = run_file(tmp_path / "out")
        assert [one["class"] for one in about["models"]] == ["Model"]
        assert (about["steps"], about["notes"]) == (2, [])

    def test_a_compiled_model_has_the_names_of_the_model(self, model, tmp_path):
        with msprobe.capture(output=tmp_path / "out"):
            train(torch.compile(model, backend="eager"), 1)
        assert [one["class"] for one in run_file(tmp_path / "out")["models"]] == ["Model"]
        names = [name for name, _ in model.named_parameters()]
        with (exported_gradients(tmp_path / "out") / "rank0/grad_summary_0.csv").open(
            encoding="utf-8-sig"
        ) as file:
            assert [row["param_name"] for row in csv.DictReader(file)] == names
        diagnosis = json.loads(read_text(tmp_path / "out/dump/step0/rank/diagnosis.json"))
        assert list(diagnosis["parameters"]) == names
        with zipfile.ZipFile(tmp_path / "out/config_check.zip") as pack:
            settings = json.loads(pack.read("msprobe/settings/rank0.json"))
            assert list(json.loads(pack.read("weights/step0/rank0/weight.json"))) == names
        assert settings["model"]["compiled"] is True
        assert settings["model"]["class"].endswith(".Model")

    def test_optimizers_that_step_together_end_one_step(self, model, tmp_path):
        class Both:
            def __init__(self, parameters, lr):
                first, *rest = parameters
                self._all = torch.optim.SGD([first], lr=lr), torch.optim.Adam(rest, lr=lr)

            def zero_grad(self):
                for one in self._all:
                    one.zero_grad()

            def step(self):
                for one in self._all:
                    one.step()

        with msprobe.capture(model, tmp_path / "out"):
            train(model, 3, Both)
        about = run_file(tmp_path / "out")
        assert (about["steps"], about["optimizer_steps"]) == (3, 6)

    def test_accumulated_gradients_are_one_step(self, model, tmp_path):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with msprobe.capture(model, tmp_path / "out"):
            for _ in range(2):
                for _ in range(3):
                    model(torch.ones(1, 3)).sum().backward()
                optimizer.step()
        lines = (tmp_path / "out/losses.rank0.csv").read_text().split()
        assert [line.split(",")[2] for line in lines[1:]] == ["3", "3"]

    def test_gradients_computed_inside_of_the_optimizer_step(self, model, tmp_path):
        """As under Lightning's Trainer: what is recorded is that of a loop without a closure."""

        def train_by_closure(model):
            torch.manual_seed(1)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

            def closure():
                loss = nn.functional.mse_loss(model(torch.randn(4, 3)), torch.ones(4, 2))
                optimizer.zero_grad()
                loss.backward()
                return loss

            return [optimizer.step(closure).item() for _ in range(3)]

        twin = Model(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        twin.load_state_dict(model.state_dict())
        with msprobe.capture(model, tmp_path / "plain", without=["config"]):
            losses = train(model, optimizer=torch.optim.Adam)
        with msprobe.capture(twin, tmp_path / "closure", without=["config"]):
            assert train_by_closure(twin) == losses
        gradients = {run: exported_gradients(tmp_path / run) for run in ("plain", "closure")}
        for step in range(3):
            plain, closure = (
                (
                    (gradients[run] / f"rank0/grad_summary_{step}.csv").read_text(),
                    json.loads(read_text(tmp_path / run / f"dump/step{step}/rank/construct.json")),
                    json.loads(read_text(tmp_path / run / f"dump/step{step}/rank/diagnosis.json")),
                )
                for run in ("plain", "closure")
            )
            assert plain[0] == closure[0]
            modules = [
                {name: of for name, of in one[1].items() if "Module." in name} for one in (plain, closure)
            ]
            assert modules[0] == modules[1]
            assert modules[0]["Module.0.Linear.forward.0"] is None
            for part in ("backward", "gradients_at_optimizer", "inputs"):
                assert plain[2][part] == closure[2][part]
                assert len(plain[2][part]) == 1
            ours = closure[2]["optimizer"]
            if step == 0:  # whose model is found inside of the optimizer step
                ours[0]["state_before"] = {}
                ours[0]["update"] = plain[2]["optimizer"][0]["update"]
            assert plain[2]["optimizer"] == ours
        assert run_file(tmp_path / "closure")["steps"] == 3

    def test_closures_that_do_nothing(self, model, tmp_path):
        """As Lightning hands them to optimizers that are stepped by hand."""
        first, *rest = model.parameters()
        optimizers = torch.optim.SGD([first], lr=0.1), torch.optim.Adam(rest, lr=0.1)
        with msprobe.capture(model, tmp_path / "out", steps="all"):
            for _ in range(3):
                model(torch.ones(1, 3)).sum().backward()
                for optimizer in optimizers:
                    optimizer.step(lambda: None)
        about = run_file(tmp_path / "out")
        assert (about["steps"], about["optimizer_steps"]) == (3, 6)
        for step in range(3):
            data = json.loads(read_text(tmp_path / f"out/dump/step{step}/rank/dump.json"))["data"]
            assert "Module.0.Linear.forward.0" in data

    def test_each_call_is_an_input_of_its_own_step_once(self, model, tmp_path):
        batches = [torch.full((1, 3), float(number)) for number in range(6)]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with msprobe.capture(model, tmp_path / "out", steps="0-2"):
            for number, batch in enumerate(batches):
                model(batch).sum().backward()
                if number % 2:
                    optimizer.step()
                    with torch.no_grad():
                        model(torch.ones(2, 3))  # an evaluation
        for step in range(3):
            inputs = json.loads(read_text(tmp_path / f"out/dump/step{step}/rank/diagnosis.json"))["inputs"]
            assert [one["tensors"]["args.0"]["max"] for one in inputs] == [2 * step, 2 * step + 1]

    def test_a_scheduler_that_was_there_before(self, model, tmp_path):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        with msprobe.capture(model, tmp_path / "out"):
            for _ in range(3):
                model(torch.ones(1, 3)).sum().backward()
                optimizer.step()
                scheduler.step()
        assert run_file(tmp_path / "out")["steps"] == 3

    def test_an_exception_goes_through(self, model, tmp_path):
        @msprobe.capture(model, tmp_path / "out")
        def fail():
            train(model, 1)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert run_file(tmp_path / "out")["outcome"] == "ZeroDivisionError"

    def test_a_coroutine_is_recorded_until_it_returns(self, model, tmp_path):
        @msprobe.capture(model, tmp_path / "out")
        async def training(steps):
            train(model, 1)
            await asyncio.sleep(0)
            return train(model, steps - 1)

        assert len(asyncio.run(training(3))) == 2
        assert run_file(tmp_path / "out")["steps"] == 3

    def test_a_generator_is_recorded_until_it_returns(self, model, tmp_path):
        @msprobe.capture(model, tmp_path / "out")
        def training():
            for _ in range(3):
                yield train(model, 1)

        generator = training()
        assert not (tmp_path / "out").exists(), "begun before the first value was asked for"
        assert len(list(generator)) == 3
        assert run_file(tmp_path / "out")["steps"] == 3
        train(model, 1)
        assert run_file(tmp_path / "out")["steps"] == 3, "recorded behind its end"

    def test_an_asynchronous_generator_is_refused(self, model, tmp_path):
        with pytest.raises(msprobe.InvalidArgument, match=r"training: .* asynchronous generator"):

            @msprobe.capture(model, tmp_path / "out")
            async def training():
                yield 1

    def test_a_block_without_a_step_says_so(self, model, tmp_path, caplog):
        with msprobe.capture(model, tmp_path / "out"):
            pass
        assert "capture: nothing is recorded: no step began" in caplog.text
        caplog.clear()
        with msprobe.capture(model, tmp_path / "other"):
            train(model, 1)
        assert "nothing is recorded" not in caplog.text

    def test_the_model_is_not_kept_alive(self, tmp_path):
        def inner():
            model = Model(nn.Linear(3, 2))
            with msprobe.capture(model, tmp_path / "out", without=["config"]):
                train(model, 1)
            return weakref.ref(model)

        import gc

        gone = inner()
        gc.collect()
        assert gone() is None

    def test_wrong_arguments(self, model, tmp_path):
        for arguments, problem in (
            ({"model": 3}, "expected a torch.nn.Module, found int"),
            ({"model": []}, "found an empty list"),
            ({"model": model, "steps": "x"}, "^steps: expected"),
            ({"model": model, "level": "L7"}, '"level"'),
            ({"model": model, "without": ["all"]}, "expected parts out of"),
            ({"model": model, "config": "absent.yaml"}, "cannot read"),
        ):
            with pytest.raises(msprobe.InvalidArgument, match=problem):
                msprobe.capture(output=tmp_path / "out", **arguments)
        assert not (tmp_path / "out").exists()

    def test_a_folder_with_a_run(self, model, tmp_path):
        with msprobe.capture(model, tmp_path):
            train(model, 1)
        with pytest.raises(msprobe.InvalidArgument, match="there is a run already"):
            msprobe.capture(model, tmp_path).__enter__()
        (tmp_path / "mine.txt").write_text("")
        with msprobe.capture(model, tmp_path, without=["dump"], force=True):
            train(model, 1)
        assert (tmp_path / "mine.txt").exists()
        assert not (tmp_path / "dump").exists()
        assert (tmp_path / "run.rank0.json").exists()


class TestHooks:
    @pytest.mark.usefixtures("nothing_is_left")
    def test_outermost_calls(self, model):
        seen = []
        calls = OutermostCalls(lambda module, arguments: seen.append((module, len(arguments))))
        calls.install()
        model(torch.ones(1, 3))
        with pytest.raises(RuntimeError):
            model(torch.ones(1, 7))
        model[0](torch.ones(1, 3))
        calls.remove()
        model(torch.ones(1, 3))
        assert seen == [(model, 1), (model, 1), (model[0], 1)]

    @pytest.mark.usefixtures("nothing_is_left")
    def test_a_call_operator_of_its_own_runs_once(self):
        class Doubling(nn.Module):
            def __call__(self, x):
                return super().__call__(2 * x)

            def forward(self, x):
                return x

        calls = OutermostCalls(lambda module, arguments: None)
        calls.install()
        result = Doubling()(torch.ones(1))
        calls.remove()
        assert result == 2

    @pytest.mark.usefixtures("nothing_is_left")
    def test_finished_steps_of_classes_old_and_new(self):
        class Own(torch.optim.SGD):
            def step(self, closure=None):
                return super().step(closure)

        steps = []
        hook = FinishedSteps(lambda optimizer: steps.append(type(optimizer).__name__))
        parameter = torch.zeros(1, requires_grad=True)
        old = torch.optim.SGD([parameter], lr=1)
        hook.install()
        optimizers = [old, Own([parameter], lr=1), torch.optim.Adam([parameter], lr=1)]
        for optimizer in optimizers:
            handle = optimizer.register_step_post_hook(lambda *_: steps.append("hook"))
            optimizer.step()
            handle.remove()
        hook.remove()
        old.step()
        # torch itself calls hooks for each class whose step runs
        assert steps == ["hook", "SGD", "hook", "hook", "Own", "hook", "Adam"]


def test_it_says_what_it_records_and_where_at_the_start_and_the_end(tmp_path, capsys, monkeypatch):
    import torch

    monkeypatch.chdir(tmp_path)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    capture = msprobe.capture(model, "out", steps="0", without=["config"])
    wish = f"losses, gradients, dump of step 0, level mix: {tmp_path / 'out'}"
    assert repr(capture) == f"<msprobe.capture: will record {wish}>"
    with capture:
        assert repr(capture) == f"<msprobe.capture: records {wish}>"
        model(torch.ones(2)).sum().backward()
        optimizer.step()
    made = f"1 step of Linear seen; recorded: losses, gradients, dump: {tmp_path / 'out'}"
    assert repr(capture) == f"<msprobe.capture: {made}>"
    assert capsys.readouterr().err.splitlines() == [
        f"msprobe: capture: records {wish}",
        f"msprobe: capture: {made}",
    ]
