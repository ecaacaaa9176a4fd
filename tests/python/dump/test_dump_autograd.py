# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients in the records are those of the calls, however the backward is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dump_support import Dump, captured, run


def recorded_gradients(directory: Path, scenario: str) -> dict[str, Any]:
    """Runs a scenario with the tool, and gives what autograd says of it without."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    with torch.no_grad():
        model[0].weight.copy_(torch.arange(9.0).reshape(3, 3) / 9)
    x = (torch.arange(6.0).reshape(2, 3) - 2).requires_grad_()
    with captured(directory, model, level="mix"):
        truth = SCENARIOS[scenario](torch, model, x)
    return {key: None if value is None else value.tolist() for key, value in truth.items()}


def simple(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    y = torch.tanh(x)
    y.retain_grad()
    torch.exp(y).sum().backward()
    return {"Torch.tanh.0.backward/input/0": y.grad, "Torch.tanh.0.backward/output/0": x.grad}


def used_twice(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    """Two uses of one tensor: each call has its own gradient, not the sum."""
    a, b = torch.exp(x), torch.sin(x)
    (a * 2 + b).sum().backward()
    return {
        "Torch.exp.0.backward/output/0": 2 * a.detach(),
        "Torch.sin.0.backward/output/0": torch.cos(x.detach()),
    }


def same_tensor_twice(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    y = torch.mul(x, x)
    y.sum().backward()
    return {"Torch.mul.0.backward/output/0": x.detach(), "Torch.mul.0.backward/output/1": x.detach()}


def retained(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    """A graph that runs twice: the last gradients stand, as in mindstudio-probe."""
    y = torch.exp(x)
    y.backward(torch.ones_like(y), retain_graph=True)
    y.backward(torch.full_like(y, 3.0))
    return {
        "Torch.exp.0.backward/output/0": 3 * y.detach(),
        "Torch.exp.0.backward/input/0": torch.full_like(y, 3.0),
    }


def retained_for_more(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    """The first pass through a call of several nodes wants some of its gradients, the second all."""
    y = torch.nn.functional.linear(x[None], model[0].weight, model[0].bias)
    torch.autograd.grad(y.sum(), x, retain_graph=True)
    y.backward(torch.full_like(y, 3.0))
    return {
        "Functional.linear.0.backward/input/0": torch.full_like(y, 3.0),
        "Functional.linear.0.backward/output/0": x.grad[None],
        "Functional.linear.0.backward/output/1": model[0].weight.grad,
    }


def double_backward(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    y = torch.exp(x).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(2).sum(), x)
    torch.testing.assert_close(second, 2 * torch.exp(2 * x.detach()))
    return {}


def several_roots(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    a, b = torch.exp(x), torch.sin(x)
    torch.autograd.backward([a, b], [torch.ones_like(a), torch.full_like(b, 2.0)])
    return {
        "Torch.exp.0.backward/output/0": a.detach(),
        "Torch.sin.0.backward/output/0": 2 * torch.cos(x.detach()),
    }


def autograd_grad(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    y = torch.exp(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert x.grad is None
    return {"Torch.exp.0.backward/output/0": gradient}


def in_place(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    y = torch.sin(x)
    z = y.mul_(2).add_(1)
    z.backward(torch.full_like(z, 5.0))
    return {
        "Tensor.add_.0.backward/output/0": torch.full_like(z, 5.0),
        "Tensor.mul_.0.backward/output/0": torch.full_like(z, 10.0),
    }


def in_place_module(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    y = torch.exp(x)
    z = torch.nn.functional.relu(torch.mul(y, 1.0), inplace=True)
    z.backward(torch.full_like(z, 5.0))
    return {
        "Functional.relu.0.backward/input/0": torch.full_like(z, 5.0),
        "Functional.relu.0.backward/output/0": torch.full_like(z, 5.0),
        "Torch.mul.0.backward/input/0": torch.full_like(z, 5.0),
    }


def parameters(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    (model(x) * 3).sum().backward()
    layer = model[0]
    return {
        "Module.0.Linear.parameters_grad/weight/0": layer.weight.grad,
        "Module.0.Linear.parameters_grad/bias/0": layer.bias.grad,
        "Functional.linear.0.backward/output/1": layer.weight.grad,
        "Functional.linear.0.backward/output/2": layer.bias.grad,
        "Functional.linear.0.backward/output/0": x.grad,
        "Module.0.Linear.backward.0/output/0": x.grad,
    }


def accumulated(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    """parameters_grad: of the last backward, not the sum."""
    model(x).sum().backward()
    before = model[0].weight.grad.clone()
    (model(x) * 2).sum().backward()
    return {"Module.0.Linear.parameters_grad/weight/0": model[0].weight.grad - before}


def no_gradients(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    with torch.no_grad():
        torch.exp(x)
        model(x)
    with torch.inference_mode():
        y = torch.sin(x)
        y.add_(1)
        model(y)
    return {}


def user_hooks(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    order = []
    y = torch.exp(x)
    y.register_hook(lambda g: order.append("tensor") or g * 2)
    model[0].register_forward_hook(lambda *_: order.append("forward"))
    model[0].register_forward_pre_hook(lambda *_: order.append("before"))
    model[0].register_full_backward_hook(lambda *_: order.append("backward"))
    model[0].weight.register_post_accumulate_grad_hook(lambda _: order.append("accumulated"))
    z = model(y)
    z.grad_fn.register_hook(lambda *_: order.append("node"))
    z.sum().backward()
    assert sorted(order) == ["accumulated", "backward", "before", "forward", "node", "tensor"], order
    return {"Torch.exp.0.backward/output/0": x.grad}


def custom_function(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            return torch.mul(value, 2)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 2

    torch.exp(Twice.apply(torch.sin(x))).sum().backward()
    return {"Torch.sin.0.backward/output/0": x.grad}


def view_in_place(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    """An in-place call on a view of something: later gradients of all of it are right."""
    y = torch.mul(x, 2)
    view = y[0]
    view.mul_(3)
    torch.sin(y).sum().backward()
    return {"Torch.mul.0.backward/output/0": x.grad}


def complex_numbers(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    z = torch.complex(x, x * 2)
    w = torch.exp(z)
    torch.abs(w).sum().backward()
    return {"Torch.exp.0.backward/output/0": None, "Torch.abs.0.backward/input/0": torch.ones_like(x)}


def several_outputs(torch: Any, model: Any, x: Any) -> dict[str, Any]:
    a, b = torch.split(torch.exp(x), 1)
    (a + 2 * b).sum().backward()
    return {"Torch.exp.0.backward/output/0": x.grad}


SCENARIOS = {
    function.__name__: function
    for function in (
        simple,
        used_twice,
        same_tensor_twice,
        retained,
        retained_for_more,
        double_backward,
        several_roots,
        autograd_grad,
        in_place,
        in_place_module,
        parameters,
        accumulated,
        no_gradients,
        user_hooks,
        custom_function,
        view_in_place,
        complex_numbers,
        several_outputs,
    )
}


def at(data: Any, path: str) -> Any:
    for part in path.split("/"):
        data = data[int(part)] if isinstance(data, list) else data[part]
    return data


@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_gradients(tmp_path, scenario):
    import torch

    truth = run(recorded_gradients, tmp_path, scenario)
    data = Dump(tmp_path).check().data
    for path, value in truth.items():
        found = at(data, path)
        if value is None:
            continue
        tensor = torch.tensor(value)
        assert found is not None, path
        assert found["shape"] == list(tensor.shape), path
        for key, expected in (("Max", tensor.max()), ("Min", tensor.min()), ("Norm", tensor.norm())):
            assert found[key] == pytest.approx(float(expected), rel=1e-5), (path, key)
        assert found["requires_grad"] is False
    if scenario == "no_gradients":
        assert not [name for name in data if ".backward" in name]


# ---- several passes


def second_derivative(directory: Path) -> None:
    import torch

    x = torch.ones(3, requires_grad=True)
    with captured(directory, level="L1"):
        y = torch.exp(x)
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        torch.square(slope).sum().backward()


def test_what_several_passes_go_through_is_recorded_where_the_last_one_does(tmp_path):
    run(second_derivative, tmp_path)
    data = Dump(tmp_path).check().data
    names = list(data)
    assert names.index("Torch.exp.0.backward") > names.index("Torch.square.0.backward")
    assert data["Torch.exp.0.backward"]["passes"] == 2
    assert "passes" not in data["Torch.square.0.backward"]


# ---- what only some of the outputs or paths use


def partial(directory: Path, keep: bool) -> None:
    """One of two outputs is not used. The graph is gone, or not, when the step ends."""
    import torch

    class Two(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.sin(x), torch.cos(x)

    model = torch.nn.Sequential(Two())
    x = torch.ones(3, requires_grad=True)
    with captured(directory, model):
        a, _ = model(torch.exp(x))
        loss = a.sum()
        loss.backward()
        if not keep:
            del a, _, loss


@pytest.mark.parametrize("keep", [True, False])
def test_a_module_with_an_unused_output_has_its_backward(tmp_path, keep):
    run(partial, tmp_path, keep)
    dump = Dump(tmp_path).check()
    record = dump.data["Module.0.Two.backward.0"]
    assert [value and value["shape"] for value in record["input"]] == [[3], None]
    assert [value["shape"] for value in record["output"]] == [[3]]
    assert dump.json("summary.json")["records"] == len(dump.names)  # once, by stop() or when the graph goes


def late(directory: Path) -> None:
    """stop() before backward: records of functions are still made; step() before it: lost, with a warning."""
    import torch
    from dump_support import debugger

    probe = debugger(directory, level="L1")
    x = torch.ones(3, requires_grad=True)
    probe.start()
    y = torch.exp(x).sum()
    probe.stop()
    y.backward()
    probe.step()
    probe.start()
    y = torch.sin(x).sum()
    probe.stop()
    probe.step()
    y.backward()
    probe.start()
    torch.cos(x).sum().backward()
    probe.stop()
    probe.step()


def test_a_backward_after_stop_is_recorded_and_one_after_step_is_not(tmp_path):
    run(late, tmp_path)
    assert "Torch.exp.0.backward" in Dump(tmp_path, 0).check().names
    assert Dump(tmp_path, 1).check().names == ["Torch.sin.0.forward", "Tensor.sum.0.forward"]
    assert "Torch.sin.0.backward" not in Dump(tmp_path, 2).check().names
    assert "Torch.cos.0.backward" in Dump(tmp_path, 2).names


# ---- the hierarchy


def after_exception(directory: Path) -> None:
    import torch

    class Fails(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            torch.sin(x)
            raise RuntimeError("of the user")

    model = torch.nn.ModuleDict(
        {"fails": torch.nn.Sequential(Fails()), "works": torch.nn.Sequential(torch.nn.Tanh())}
    )
    x = torch.ones(2, requires_grad=True)
    with captured(directory, model):
        with pytest.raises(RuntimeError, match="of the user"):
            model["fails"](x)
        with pytest.raises(RuntimeError):
            torch.reshape(x, (7,))
        torch.exp(model["works"](x)).sum().backward()


def test_the_hierarchy_is_right_after_an_exception(tmp_path):
    run(after_exception, tmp_path)
    dump = Dump(tmp_path).check()
    assert dump.parents["Torch.sin.0.forward"] == "Module.fails.0.Fails.forward.0"
    assert dump.parents["Torch.exp.0.forward"] is None
    assert dump.parents["Torch.exp.0.backward"] is None
    assert dump.parents["Module.works.0.Tanh.forward.0"] == "Module.works.Sequential.forward.0"
    assert list(dump.data["Torch.reshape.0.forward"]) == ["input_args", "input_kwargs", "is_recompute"]


def recursion(directory: Path) -> None:
    import torch

    class Again(torch.nn.Module):
        def forward(self, x: Any, depth: int) -> Any:
            return torch.sin(x) if depth == 0 else torch.exp(self(x, depth - 1))

    shared = torch.nn.Linear(2, 2)
    model = torch.nn.Module()
    model.again = Again()
    model.a = torch.nn.Sequential(shared)
    model.b = torch.nn.Sequential(shared)
    x = torch.ones(1, 2, requires_grad=True)
    with captured(directory, model):
        y = model.again(x, 2)
        y = model.b(model.a(y))
        model.a(y).sum().backward()


def test_recursion_and_shared_modules(tmp_path):
    run(recursion, tmp_path)
    parents = Dump(tmp_path).check().parents
    assert parents["Module.again.Again.forward.0"] is None
    assert parents["Module.again.Again.forward.1"] == "Module.again.Again.forward.0"
    assert parents["Module.again.Again.forward.2"] == "Module.again.Again.forward.1"
    assert parents["Torch.sin.0.forward"] == "Module.again.Again.forward.2"
    assert parents["Torch.exp.0.forward"] == "Module.again.Again.forward.1"
    assert parents["Torch.exp.1.forward"] == "Module.again.Again.forward.0"
    linear = {name: parent for name, parent in parents.items() if ".Linear.forward." in name}
    assert linear == {
        "Module.a.0.Linear.forward.0": "Module.a.Sequential.forward.0",
        "Module.a.0.Linear.forward.1": "Module.b.Sequential.forward.0",
        "Module.a.0.Linear.forward.2": "Module.a.Sequential.forward.1",
    }
    assert parents["Module.a.0.Linear.backward.1"] == "Module.b.Sequential.backward.0"
