# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""With checkpoints, compilation, transforms, tracing, threads, workers and copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dump_support import LEVELS, Dump, captured, debugger, run, tensors_of

# ---- activation checkpointing


def checkpointed(directory: Path, reentrant: bool, level: str) -> tuple[list[bytes], list[bytes]]:
    import torch
    from dump_models import bits
    from torch.utils.checkpoint import checkpoint

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(4, 4)
            self.second = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Dropout(0.3))

        def forward(self, x: Any) -> Any:
            return checkpoint(self.second, self.first(x), use_reentrant=reentrant).sum()

    def work(model: Any) -> list[bytes]:
        torch.manual_seed(1)
        loss = model(torch.ones(2, 4, requires_grad=True))
        loss.backward()
        result = [bits(loss), *(bits(parameter.grad) for parameter in model.parameters())]
        model.zero_grad()
        return result

    torch.manual_seed(0)
    model = Net()
    without = work(model)
    with captured(directory, model, level=level):
        within = work(model)
    return without, within


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(tmp_path, reentrant, level):
    without, within = run(checkpointed, tmp_path, reentrant, level)
    assert within == without
    data = Dump(tmp_path).check().data
    name = "Functional.linear.{}.forward" if level == "L1" else "Module.second.0.Linear.forward.{}"
    counts = (1, 2) if level == "L1" else (0, 1)
    assert [data[name.format(count)]["is_recompute"] for count in counts] == [False, True]
    # The recomputed call is the same call.
    original, again = (data[name.format(count)]["output"] for count in counts)
    assert [t["Norm"] for t in tensors_of(original)] == [t["Norm"] for t in tensors_of(again)]
    first = "Functional.linear.0.backward" if level == "L1" else "Module.first.Linear.backward.0"
    assert all(gradient is not None for gradient in data[first]["input"])
    if level != "L0":
        assert not any(
            record.get("is_recompute") for key, record in data.items() if key.startswith("Tensor.sum")
        )


# ---- torch.compile


def compiled(directory: Path, backend: str, level: str) -> dict[str, Any]:
    import torch
    import torch._dynamo
    import torch.nn.functional as F  # noqa: N812
    from dump_models import bits
    from torch._dynamo.testing import CompileCounterWithBackend

    class Inner(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return F.gelu(self.linear(x)) + torch.relu(x)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before = torch.nn.Linear(4, 4)
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            return torch.tanh(self.inner(self.before(x))).sum()

    counter = CompileCounterWithBackend(backend)
    torch.manual_seed(0)
    model = Net()
    x = torch.randn(2, 4)
    results = []

    def step(seen: list[int]) -> None:
        model.zero_grad()
        loss = model(x)
        loss.backward()
        results.append([bits(loss), *(bits(parameter.grad) for parameter in model.parameters())])
        seen.append(counter.frame_count)

    model.inner.compile(backend=counter, fullgraph=True)
    frames: list[int] = []
    step(frames)
    probe = debugger(directory, level=level, step=[1, 2])
    for _ in range(4):
        probe.start(model)
        step(frames)
        step(frames)
        probe.stop()
        probe.step()
    return {"frames": frames, "equal": all(result == results[0] for result in results)}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_module_is_compiled_once(tmp_path, backend, level):
    found = run(compiled, tmp_path, backend, level, timeout=120)
    assert found["equal"]
    assert found["frames"] == [1] * 9
    for step in (1, 2):
        data = Dump(tmp_path, step).check().data
        assert "Module.inner.linear.Linear.forward.0" not in data  # inside, nothing is claimed
        assert level == "L1" or "Module.before.Linear.forward.1" in data
        assert level == "L0" or "Torch.tanh.1.forward" in data


def compiled_as_a_whole(directory: Path) -> None:
    import torch
    from msprobe.dump.arguments import compiled_models
    from msprobe.recording.called_models import TrainedModels

    model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    outer = torch.compile(model, backend="eager")
    trained = TrainedModels(None)
    assert trained.enter(outer)
    assert trained.found == [model]
    assert trained.as_called(model) is outer
    other = torch.nn.Linear(4, 2)
    assert list(compiled_models(other)) == []
    other.compile(backend="eager")
    assert list(compiled_models([model, other])) == [("1._orig_mod.Linear", other)]
    probe = debugger(directory, level="mix", step=[0])
    probe.start(outer)
    outer(torch.ones(2, 4)).sum().backward()
    probe.stop()
    probe.step()


def test_a_model_that_is_compiled_as_a_whole_is_one_call(tmp_path):
    run(compiled_as_a_whole, tmp_path, timeout=120)
    data = Dump(tmp_path, 0).check().data
    assert [name for name in data if name.startswith("Module.")] == [
        "Module._orig_mod.Sequential.forward.0",
        "Module._orig_mod.Sequential.backward.0",
    ]
    (given,) = data["Module._orig_mod.Sequential.forward.0"]["input_args"]
    (made,) = data["Module._orig_mod.Sequential.forward.0"]["output"]
    assert (given["shape"], made["shape"]) == ([2, 4], [2, 2])


def compiled_and_trained(directory: Path) -> None:
    import torch

    class Inner(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.linear(x).sigmoid()

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before = torch.nn.Linear(4, 4)
            self.inner = Inner()
            self.inner.compile(backend="aot_eager")

        def forward(self, x: Any) -> Any:
            return torch.tanh(self.inner(self.before(x))).sum()

    model = Net()
    probe = debugger(directory, level="L1", step=[0, 1])
    for _ in range(2):
        probe.start(model)
        model(torch.randn(2, 4)).backward()  # the first one compiles forward and backward
        probe.stop()
        probe.step()


def test_the_backward_of_a_compiled_module_is_its_own_affair(tmp_path):
    run(compiled_and_trained, tmp_path, timeout=120)
    for step in (0, 1):
        assert list(Dump(tmp_path, step).check().data) == [
            "Functional.linear.0.forward",
            "Torch.tanh.0.forward",
            "Tensor.sum.0.forward",
            "Torch.ones_like.0.forward",
            "Tensor.sum.0.backward",
            "Torch.tanh.0.backward",
            "Functional.linear.0.backward",
        ]


def compiled_while_captured(directory: Path, level: str) -> dict[str, Any]:
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    @torch.compile(backend=counter, fullgraph=True)
    def function(x: Any) -> Any:
        return F.softmax(model(x), dim=-1) + x.sin()

    x = torch.randn(3, 4)
    probe = debugger(directory, level=level)
    probe.start(model)
    first = function(x)
    torch.exp(x)
    second = function(x)
    probe.stop()
    probe.step()
    third = function(x)
    return {
        "frames": counter.frame_count,
        "equal": torch.equal(first, second) and torch.equal(second, third),
        "right": torch.allclose(third, F.softmax(model(x), dim=-1) + x.sin()),
    }


@pytest.mark.parametrize("level", ["L0"])
def test_what_is_compiled_while_captured_serves_afterwards(tmp_path, level):
    found = run(compiled_while_captured, tmp_path, level, timeout=120)
    assert found == {"frames": 1, "equal": True, "right": True}
    if level != "L0":
        assert "Torch.exp.0.forward" in Dump(tmp_path).check().names


# ---- transforms, tracing


def transforms(directory: Path) -> None:
    import torch
    from torch.func import functional_call, grad, jvp, vmap

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())
    x = torch.randn(4, 3)
    parameters = dict(model.named_parameters())

    def loss(values: Any, row: Any) -> Any:
        return functional_call(model, values, (row,)).pow(2).sum()

    def work() -> list[Any]:
        per_sample = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
        _, tangent = jvp(torch.sin, (x,), (torch.ones_like(x),))
        hessian = torch.func.hessian(lambda v: (v**3).sum())(x[0])
        return [*per_sample.values(), tangent, hessian, vmap(torch.dot)(x, x)]

    without = work()
    with captured(directory, model):
        within = work()
        torch.exp(x)
    assert all(torch.equal(a, b) for a, b in zip(without, within))


def test_transforms_of_torch_func(tmp_path):
    run(transforms, tmp_path)
    dump = Dump(tmp_path)
    assert "Torch.exp.0.forward" in dump.names
    dump.json("stack.json")


def tracing(directory: Path) -> None:
    import torch
    import torch.fx

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())

    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.relu(x) + x * 2

    x = torch.randn(2, 3)
    with captured(directory, model):
        graph = torch.fx.symbolic_trace(Net())
        traced = torch.jit.trace(Net(), x)
        exported = torch.export.export(Net(), (x,)).module()
        torch.exp(x)
    expected = Net()(x)
    for other in (graph, traced, exported):
        assert torch.equal(other(x), expected)
    assert "operator.add" in str(graph.graph) or "add" in str(graph.graph)


@pytest.mark.filterwarnings("ignore")
def test_tracing(tmp_path):
    run(tracing, tmp_path, timeout=120)
    assert "Torch.exp.0.forward" in Dump(tmp_path).names


def scripting(directory: Path) -> None:
    import torch

    def train(record: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        outer = torch.nn.Linear(3, 3)
        if not record:
            inner: Any = torch.jit.script(torch.nn.Linear(3, 3))
            return steps(outer, inner)
        with captured(directory, outer):
            inner = torch.jit.script(torch.nn.Linear(3, 3))  # compiled while calls are recorded
            return steps(outer, inner)

    def steps(outer: Any, inner: Any) -> list[torch.Tensor]:
        parameters = [*outer.parameters(), *inner.parameters()]
        optimizer = torch.optim.SGD(parameters, 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            inner(torch.relu(outer(torch.ones(2, 3)))).sum().backward()
            optimizer.step()
        return [parameter.detach() for parameter in parameters]

    for plain, recorded in zip(train(False), train(True)):
        assert torch.equal(plain, recorded)


@pytest.mark.filterwarnings("ignore")
def test_a_scripted_submodule_trains_unchanged(tmp_path):
    run(scripting, tmp_path, timeout=120)
    assert "Torch.relu.0.forward" in Dump(tmp_path).names


# ---- threads, workers, copies


def threads(directory: Path) -> None:
    import threading

    import torch

    model = torch.nn.ModuleList(
        [torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh()) for _ in range(4)]
    )
    results: list[Any] = [None] * 4
    expected = [part(torch.full((1, 2), float(i))) for i, part in enumerate(model)]

    def work(i: int) -> None:
        for _ in range(25):
            y = model[i](torch.full((1, 2), float(i)))
            y.sum().backward()
        results[i] = y

    with captured(directory, model, level="L0"):
        workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert all(torch.equal(a, b) for a, b in zip(results, expected))


def test_modules_that_run_in_several_threads(tmp_path):
    run(threads, tmp_path)
    dump = Dump(tmp_path).check()
    for i in range(4):
        for call in range(25):
            name = f"Module.{i}.0.Linear.forward.{call}"
            assert dump.parents[name] == f"Module.{i}.Sequential.forward.{call}"
            assert name in dump.data
            assert f"Module.{i}.0.Linear.backward.{call}" in dump.data


class Squares:
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.full((2,), float(index)).pow(2)


def loaders(directory: Path, method: str) -> None:
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    loader = DataLoader(Squares(), batch_size=3, num_workers=2, multiprocessing_context=method)
    probe = debugger(directory)
    for step, batch in enumerate(loader):
        assert torch.equal(batch[:, 0], torch.arange(step * 3, step * 3 + 3).float() ** 2)
        probe.start(model)
        model(batch)
        torch.sin(batch)
        probe.stop()
        probe.step()
    probe.start(model)
    for batch in loader:
        model(batch)  # the workers were forked while recording
    probe.stop()
    probe.step()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader(tmp_path, method):
    run_daemonless(loaders, tmp_path, method)
    for step in range(4):
        assert "Torch.sin.0.forward" in Dump(tmp_path, step).check().names
    assert "Module.0.Linear.forward.3" in Dump(tmp_path, 4).check().names


def run_daemonless(function: Any, *arguments: Any) -> None:
    run(function, *arguments, timeout=120)


def copies(directory: Path) -> None:
    import copy
    import io
    import pickle

    import torch
    from dump_models import bits, build, loss_of

    model = build("cnn")
    expected = None
    for step in range(3):
        with_tool = step == 1
        if with_tool:
            probe = debugger(directory)
            probe.start(model)
        twin = pickle.loads(pickle.dumps(copy.deepcopy(model)))
        buffer = io.BytesIO()
        torch.save(twin.state_dict(), buffer)
        buffer.seek(0)
        twin.load_state_dict(torch.load(buffer, weights_only=True))
        loss = loss_of(twin, "cnn", 0)
        loss.backward()
        values = [bits(loss), *(bits(parameter.grad) for parameter in twin.parameters())]
        expected = expected or values
        assert values == expected
        model.zero_grad()
        loss_of(copy.deepcopy(model), "cnn", 0)
        if with_tool:
            loss_of(model, "cnn", 0).backward()
            copy.deepcopy(model)  # parameters and modules have hooks of ours at no time
            pickle.dumps(model)
            probe.stop()
            probe.step()


def test_models_can_be_copied_and_saved_while_captured(tmp_path):
    run(copies, tmp_path)
    assert "Module.first.Conv2d.backward.0" in Dump(tmp_path).check().names


_OPERATORS = (
    "and", "or", "xor", "eq", "ne", "lt", "gt", "add", "sub", "mul", "mod", "ror", "rxor", "radd", "lshift",
    "rshift", "iand", "ior", "ixor",
)  # fmt: skip


def operators_through_the_class(directory: Path) -> None:
    import torch

    with captured(directory, level="L1"):
        for name in _OPERATORS:
            getattr(torch.Tensor, f"__{name}__")(torch.tensor([6]), torch.tensor([3]))


def test_operators_that_are_called_through_the_class(tmp_path):
    run(operators_through_the_class, tmp_path)
    assert Dump(tmp_path).check().names == [f"Tensor.__{name}__.0.forward" for name in _OPERATORS]
