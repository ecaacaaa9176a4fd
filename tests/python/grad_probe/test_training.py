# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The probe in training loops of one process: what is a step, and what is recorded of it."""

from __future__ import annotations

import json
import logging
import math
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from msprobe import InvalidArgument, IoError, PrecisionDebugger
from torch import nn


def small_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


NAMES = ["0.weight", "0.bias", "2.weight", "2.bias"]


def backward(model, seed=0, size=4):
    inputs = torch.randn(5, size, generator=torch.Generator().manual_seed(seed))
    loss = model(inputs).square().sum()
    loss.backward()
    return loss


def train(model, optimizer, steps):
    for step in range(steps):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    PrecisionDebugger.stop()


class TestSteps:
    def test_each_optimizer_step_is_one_step(self, monitor, record):
        model = small_model()
        monitor(model)
        train(model, torch.optim.AdamW(model.parameters()), 3)
        assert record.steps() == [0, 1, 2]
        assert [record.names(step) for step in range(3)] == [NAMES] * 3

    def test_the_numbers_are_those_of_the_gradient(self, monitor, record):
        model = small_model()
        monitor(model, {"grad_level": "L2", "bounds": [-0.5, 0, 0.5]})
        backward(model)
        torch.optim.SGD(model.parameters()).step()
        PrecisionDebugger.stop()
        for name, parameter in model.named_parameters():
            row, gradient = record.rows(0)[name], parameter.grad.double()
            assert float(row["max"]) == gradient.max()
            assert float(row["min"]) == gradient.min()
            assert float(row["norm"]) == pytest.approx(gradient.norm().item(), rel=1.2e-7)
            assert row["shape"] == str(list(gradient.shape))
            low = ((gradient > -0.5) & (gradient <= 0)).double().mean()
            assert float(row["(-0.5, 0]"]) == low
            assert float(row["=0"]) == (gradient == 0).double().mean()
            assert np.array_equal(record.signs(0, name), (gradient > 0).numpy())

    def test_several_optimizers_count_together(self, monitor, record):
        model = small_model()
        first = torch.optim.SGD(model[0].parameters(), lr=0.1)
        second = torch.optim.Adam(model[2].parameters())
        monitor(model)
        for _ in range(2):
            model.zero_grad()
            backward(model)
            first.step()
            second.step()
        PrecisionDebugger.stop()
        assert record.steps() == [0, 1, 2, 3]
        assert all(record.names(step) == NAMES for step in range(4))

    def test_parameter_groups(self, monitor, record):
        model = small_model()
        monitor(model)
        groups = [{"params": model[2].parameters(), "lr": 0.5}, {"params": model[0].parameters()}]
        train(model, torch.optim.SGD(groups, lr=0.1), 1)
        assert record.names(0) == NAMES

    def test_accumulation_is_one_step_with_the_sum(self, monitor, record):
        model = small_model()
        monitor(model)
        for seed in range(3):
            backward(model, seed)
        expected = model[0].weight.grad.max().item()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        PrecisionDebugger.stop()
        assert record.steps() == [0]
        assert float(record.rows(0)["0.weight"]["max"]) == expected

    def test_clipped_gradients_are_recorded_clipped(self, monitor, record):
        model = small_model()
        monitor(model)
        backward(model)
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        PrecisionDebugger.stop()
        squares = sum(float(row["norm"]) ** 2 for row in record.rows(0).values())
        assert math.sqrt(squares) == pytest.approx(0.25, rel=1e-4)

    def test_hooks_of_the_optimizer_come_later(self, monitor, record):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.register_step_pre_hook(lambda *_: model.zero_grad())
        monitor(model)
        backward(model)
        optimizer.step()
        PrecisionDebugger.stop()
        assert record.names(0) == NAMES

    @pytest.mark.parametrize("by_name", [False, True])
    def test_a_closure_counts_once_with_its_first_gradients(self, monitor, record, by_name):
        model = small_model()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        monitor(model)
        seen = []

        def closure():
            optimizer.zero_grad()
            loss = backward(model)
            seen.append(model[0].weight.grad.max().item())
            return loss

        for _ in range(2):
            seen.append(None)
            optimizer.step(**{"closure": closure}) if by_name else optimizer.step(closure)
        PrecisionDebugger.stop()
        first, second = (place + 1 for place, value in enumerate(seen) if value is None)
        assert len(seen) > 4
        for step, place in enumerate((first, second)):
            assert record.names(step) == NAMES
            assert float(record.rows(step)["0.weight"]["max"]) == pytest.approx(seen[place], rel=1e-6)

    def test_an_optimizer_that_has_another_one_step_counts_once(self, monitor, record):
        class Around(torch.optim.SGD):
            def __init__(self, parameters):
                super().__init__(parameters, lr=0.1)
                self.inner = torch.optim.SGD(self.param_groups[0]["params"], lr=0.1)

            def step(self, closure=None):
                self.inner.step()

        model = small_model()
        optimizer = Around(model.parameters())
        monitor(model)
        for _ in range(3):
            backward(model)
            optimizer.step()
        PrecisionDebugger.stop()
        assert record.names(2) == NAMES
        with pytest.raises(FileNotFoundError):
            record.names(3)

    def test_a_closure_that_is_not_called(self, monitor, record):
        class Lazy(torch.optim.SGD):
            def step(self, closure=None):
                return super().step()

        model = small_model()
        monitor(model)
        backward(model)
        Lazy(model.parameters(), lr=0.1).step(lambda: 1 / 0)
        PrecisionDebugger.stop()
        assert record.names(0) == NAMES

    def test_a_model_that_is_monitored_inside_of_a_closure(self, monitor, record):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def closure():
            monitor(model)
            return backward(model)

        for _ in range(2):
            optimizer.step(closure)
        PrecisionDebugger.stop()
        assert record.steps() == [0, 1]
        assert record.names(0) == NAMES

    def test_wanted_steps(self, monitor, record):
        model = small_model()
        monitor(model, step=[1, "3-4"])
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 6)
        assert record.steps() == [1, 3, 4]
        assert sorted(path.name for path in record.directory.glob("step*")) == ["step1", "step3", "step4"]

    def test_start_step_and_stop_do_not_count(self, monitor, record):
        model = small_model()
        monitor(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(2):
            PrecisionDebugger.start(model)
            backward(model, step)
            optimizer.step()
            PrecisionDebugger.stop()
            PrecisionDebugger.step()
        assert record.steps() == [0, 1]

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of the compiler
    def test_a_compiled_optimizer_step(self, monitor, record):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        monitor(model)
        compiled = torch.compile(optimizer.step, backend="eager")
        for step in range(2):
            model.zero_grad()
            backward(model, step)
            compiled()
        PrecisionDebugger.stop()
        assert record.steps() == [0, 1]
        assert record.names(1) == NAMES

    def test_a_rank_list_does_not_matter_without_ranks(self, monitor, record):
        model = small_model()
        monitor(model, rank=[5])
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 1)
        assert record.steps() == [0]


class TestGradScaler:
    @pytest.mark.parametrize("fused", [False, True])
    def test_a_skipped_step_is_no_step(self, monitor, record, fused):
        model = small_model()
        monitor(model)
        optimizer = torch.optim.Adam(model.parameters(), fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        seen = []
        for step in range(4):
            optimizer.zero_grad()
            inputs = torch.randn(5, 4, generator=torch.Generator().manual_seed(step))
            scaler.scale(model(inputs).square().sum()).backward()
            if step == 1:
                model[0].weight.grad[0, 0] = math.inf
            scaler.unscale_(optimizer)
            if step != 1:
                seen.append(model[0].weight.grad.max().item())
            scaler.step(optimizer)
            scaler.update()
        PrecisionDebugger.stop()
        assert record.steps() == [0, 1, 2]
        assert [float(record.rows(step)["0.weight"]["max"]) for step in range(3)] == seen

    def test_without_unscaling_an_inf_is_found_as_well(self, monitor, record):
        model = small_model()
        monitor(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for step in range(3):
            optimizer.zero_grad()
            scaler.scale(backward(model, step))
            if step == 0:
                model[2].bias.grad.fill_(math.nan)
            scaler.step(optimizer)
            scaler.update()
        PrecisionDebugger.stop()
        assert record.steps() == [0, 1]

    def test_a_fused_optimizer_is_recorded_without_the_scale(self, monitor, record):
        """It gets scaled gradients and divides in its kernel; the record is that of any other optimizer."""
        model = small_model()
        monitor(model, {"grad_level": "L0"})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        inputs = torch.randn(5, 4)
        expected = torch.autograd.grad(model(inputs).square().sum(), list(model.parameters()))
        scaler.scale(model(inputs).square().sum()).backward()
        scaler.step(optimizer)
        PrecisionDebugger.stop()
        rows = record.rows(0)
        for name, gradient in zip(NAMES, expected):
            assert rows[name]["MD5"] == f"{zlib.crc32(gradient.numpy().tobytes()):08x}"


class TestParameters:
    def test_frozen(self, monitor, record):
        model = small_model()
        model[0].requires_grad_(False)
        monitor(model)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 1)
        assert record.names(0) == ["2.weight", "2.bias"]

    def test_shared_once_under_the_first_name(self, monitor, record):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
        model[1].weight = model[0].weight
        monitor(model)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 1)
        assert record.names(0) == ["0.weight", "0.bias"]

    def test_without_any_gradient(self, monitor, record):
        model = small_model()
        monitor(model, {"grad_level": "L2"})
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        PrecisionDebugger.stop()
        assert record.names(0) == []

    def test_param_list(self, monitor, record, caplog):
        model = small_model()
        monitor(model, {"param_list": ["2.bias", "0.weight", "0.wieght", "qqqqq"]})
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 1)
        assert record.names(0) == ["0.weight", "2.bias"]
        (warning,) = caplog.messages
        assert warning == (
            "param_list: the model has no parameter of these names: '0.wieght' (did you mean \"0.weight\"?), "
            "'qqqqq' (nothing is close)"
        )

    def test_a_param_list_that_fits_nothing(self, monitor, record, caplog):
        model = small_model()
        monitor(model, {"param_list": ["weight"]})
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 1)
        assert record.names(0) == []
        assert "no gradient is recorded" in caplog.text

    def test_numbers_as_names(self, monitor, record):
        model = nn.ParameterList([torch.ones(3), torch.ones(2)])
        monitor(model)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        PrecisionDebugger.stop()
        assert record.names(0) == ["0", "1"]
        assert record.signs(0, "1").all()

    def test_main_grad_wins_unless_it_is_none(self, monitor, record):
        model = small_model()
        monitor(model)
        backward(model)
        model[0].weight.main_grad = torch.full((8, 4), 7.5)
        model[0].bias.main_grad = None
        model[2].bias.grad = None
        model[2].bias.main_grad = torch.full((3,), -2.5)
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        PrecisionDebugger.stop()
        rows = record.rows(0)
        assert list(rows) == NAMES
        assert rows["0.weight"]["max"] == rows["0.weight"]["min"] == "7.5"
        assert float(rows["0.bias"]["max"]) == model[0].bias.grad.max()
        assert rows["2.bias"]["max"] == "-2.5"

    @pytest.mark.parametrize("stage", [1, 3])
    def test_a_gradient_that_deepspeed_has_in_a_flat_one(self, monitor, record, stage):
        """This process has the second half of the first weight, and all of the bias behind it."""
        model = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 1, bias=False))
        weight, bias, other = model.parameters()
        flat = nn.Parameter(torch.zeros(6))
        if stage == 1:
            for parameter, begin, count, place in ((weight, 4, 4, 0), (bias, 0, 2, 4)):
                address = SimpleNamespace(start=begin, numel=count)
                parameter._hp_mapping = SimpleNamespace(
                    hp_fragment=flat.narrow(0, place, count), lp_fragment_address=address
                )
            other._hp_mapping = None
        else:
            engine = SimpleNamespace(
                get_param_id=id,
                grad_position={id(weight): (0, 0, 4), id(bias): (0, 4, 2), id(other): (1, 0, 0)},
                fp32_partitioned_groups_flat=[flat, nn.Parameter(torch.zeros(0))],
            )
            for parameter, count in ((weight, 4), (bias, 2), (other, 0)):
                parameter._z3_optimizer, parameter.ds_tensor = engine, torch.zeros(count)
                parameter.ds_numel = parameter.numel()
        monitor(model)
        flat.grad = torch.arange(1.0, 7.0)
        torch.optim.SGD([flat], lr=0.1).step()
        PrecisionDebugger.stop()
        rows = record.rows(0)
        assert list(rows) == ["0.weight", "0.bias"]
        assert [(float(row["min"]), float(row["max"])) for row in rows.values()] == [(1, 4), (5, 6)]

    def test_sparse_gradients_are_left_out_with_a_warning(self, monitor, record, caplog):
        model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2))
        monitor(model)
        optimizers = [torch.optim.SparseAdam(model[0].parameters()), torch.optim.SGD(model[1].parameters())]
        for _ in range(2):
            model.zero_grad()
            model(torch.tensor([1, 2, 2])).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
        PrecisionDebugger.stop()
        assert all(record.names(step) == ["1.weight", "1.bias"] for step in range(4))
        (warning,) = caplog.messages
        assert "0.weight" in warning
        assert "sparse" in warning.lower()

    def test_complex_and_empty_gradients_do_not_stop_the_training(self, monitor, record, caplog):
        model = nn.Module()
        model.complex = nn.Parameter(torch.ones(2, dtype=torch.complex64))
        model.empty = nn.Parameter(torch.ones(0, 3))
        model.plain = nn.Parameter(torch.ones(2))
        monitor(model, {"grad_level": "L2"})
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        PrecisionDebugger.stop()
        assert record.names(0) == ["empty", "plain"]
        assert record.rows(0)["empty"]["shape"] == "[0, 3]"
        assert record.signs(0, "empty").shape == (0, 3)
        assert "complex" in caplog.text

    def test_names_are_logged(self, monitor, caplog):
        with caplog.at_level(logging.INFO, logger="msprobe"):
            monitor(small_model())
        assert caplog.messages[-len(NAMES) - 1 :] == ["> parameter names:", *NAMES]

    def test_parameters_of_every_float_dtype(self, monitor, record):
        dtypes = (torch.float64, torch.float16, torch.bfloat16)
        model = nn.ParameterList([torch.ones(3, dtype=dtype) for dtype in dtypes])
        monitor(model, {"grad_level": "L2", "bounds": [0.3]})
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 0.3)
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        PrecisionDebugger.stop()
        for name, parameter in model.named_parameters():
            assert float(record.rows(0)[name]["max"]) == parameter.grad.float()[0]

    def test_bounds_that_are_one_number_in_float32(self, monitor, record):
        model = nn.Linear(2, 2)
        monitor(model, {"grad_level": "L2", "bounds": [-1e-300, 0, 0.1, 0.10000000001]})
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 0.05)
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        PrecisionDebugger.stop()
        row = record.rows(0)["weight"]
        assert row["(0, 0.1]"] == "1.0"
        assert row["(-inf, -1e-300]"] == row["(-1e-300, 0]"] == row["(0.1, 0.10000000001]"] == "0.0"


class TestMonitor:
    def test_the_same_model_twice_is_monitored_once(self, monitor, record, caplog):
        model = small_model()
        monitor(model)
        PrecisionDebugger.monitor(model)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 2)
        assert record.steps() == [0, 1]
        assert caplog.text == ""

    def test_another_model_takes_the_place_of_the_first(self, monitor, record, caplog):
        first, second = small_model(), nn.Linear(4, 2)
        monitor(first)
        PrecisionDebugger.monitor(second)
        train(first, torch.optim.SGD(first.parameters(), lr=0.1), 1)
        train(second, torch.optim.SGD(second.parameters(), lr=0.1), 1)
        assert record.steps() == [0, 1]
        assert record.names(0) == []
        assert record.names(1) == ["weight", "bias"]
        assert "takes the place" in caplog.text

    def test_an_earlier_record_in_the_way_is_mentioned(self, monitor, record, caplog):
        model = small_model()
        monitor(model)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 3)
        PrecisionDebugger._reset()
        caplog.clear()
        monitor(model)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 1)
        assert "holds an earlier record" in caplog.text
        assert record.steps() == [0, 1, 2]

    def test_what_is_not_a_module(self, monitor):
        for value, found in ((None, "NoneType"), (nn.Linear, "the class"), ([nn.Linear(1, 1)], "type list")):
            with pytest.raises(InvalidArgument, match=f"expected a torch.nn.Module, found .*{found}"):
                monitor(value)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
    def test_traced_and_scripted_models(self, monitor):
        for model in (torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)), torch.jit.script(nn.Linear(2, 2))):
            with pytest.raises(
                InvalidArgument, match=r"not traced or scripted by torch.jit, found a value of type t"
            ):
                monitor(model)

    def test_a_dump_path_below_a_file(self, monitor, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(IoError, match="file"):
            monitor(small_model(), dump_path=str(tmp_path / "file" / "probe"))

    def test_reset_takes_the_hook_off(self, monitor, record):
        from torch.optim import optimizer as torch_optimizer

        before = len(torch_optimizer._global_optimizer_pre_hooks)
        model = small_model()
        monitor(model)
        assert len(torch_optimizer._global_optimizer_pre_hooks) == before + 1
        PrecisionDebugger._reset()
        assert len(torch_optimizer._global_optimizer_pre_hooks) == before

    def test_no_notes_for_ordinary_parameters(self, monitor, record):
        record.directory.mkdir(parents=True)
        (record.directory / "notes.json").write_text(json.dumps({"local_shards": {"old": "x"}}))
        monitor(small_model())
        assert not (record.directory / "notes.json").exists()

    def test_a_process_of_a_job_whose_ranks_are_not_known_yet(self, monitor, monkeypatch, caplog):
        monkeypatch.setenv("WORLD_SIZE", "4")
        monitor(small_model())
        assert "before torch.distributed.init_process_group()" in caplog.text


class TestBitEquality:
    @pytest.mark.parametrize("level", ["L0", "L1", "L2"])
    def test_training_is_the_same_with_and_without_the_probe(self, monitor, level):
        def run(probed):
            model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.2), nn.Linear(16, 3)).to(torch.bfloat16)
            torch.manual_seed(3)
            for parameter in model.parameters():
                nn.init.normal_(parameter)
            if probed:
                monitor(model, {"grad_level": level})
            optimizer = torch.optim.AdamW(model.parameters())
            for step in range(5):
                optimizer.zero_grad()
                inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(step)).to(torch.bfloat16)
                model(inputs).square().sum().backward()
                optimizer.step()
            return [*model.parameters(), *(p.grad for p in model.parameters()), torch.get_rng_state()]

        assert all(torch.equal(a, b) for a, b in zip(run(False), run(True)))
