# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An observer that answers: kinds, rules, modules, and a dump that records what they made of a call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from children import run


class Session:
    """FunctionInterventions with its hooks, for a block."""

    def __init__(self) -> None:
        from msprobe.hooks.functions import Hooks
        from msprobe.hooks.listed_functions import function_exchanges
        from msprobe.native import torch_adapter

        self.adapter = torch_adapter()
        self.session = self.adapter.FunctionInterventions()
        self._hooks = Hooks(function_exchanges(self.session))

    def add(self, kind: str, *, calls: Any = (), first: int = 0, last: int = -1, **settings: Any) -> None:
        intervener = self.adapter.intervener(kind, **settings)
        self.session.interventions.add(intervener, calls=list(calls), first=first, last=last)

    def __enter__(self) -> Session:
        self.session.set_active(True)
        self._hooks.install()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.remove()
        self.session.set_active(False)


def replaced() -> Any:
    import torch

    names: list[str] = []

    def twice(name: str, result: Any, args: Any, kwargs: Any) -> Any:
        names.append(name)
        assert isinstance(args, tuple)
        assert isinstance(kwargs, dict)
        return result * 2

    block = Session()
    block.add("replace_result", calls=["Torch.exp"], first=1, last=2, function=twice)
    block.add("replace_result", calls=["Torch.abs.0.forward"], function=lambda *_: None)
    zero = torch.zeros(1)
    with block:
        results = [torch.exp(zero).item() for _ in range(4)] + [torch.abs(zero).item()]
    return results, names, torch.exp(zero).item()


def test_a_result_is_replaced_in_the_calls_that_a_rule_names():
    results, names, after = run(replaced)
    assert results == [1, 2, 2, 1, 0]
    assert names == ["Torch.exp.1.forward", "Torch.exp.2.forward"]
    assert after == 1


def changed() -> Any:
    import torch
    import torch.nn.functional as F  # noqa: N812

    block = Session()

    def flat(name: str, args: Any, kwargs: Any) -> Any:
        return (args[0] * 0,), {**kwargs, "dim": 0}

    block.add("change_arguments", calls=["Functional.softmax"], function=flat)
    block.add("change_arguments", calls=["Torch.exp"], function=lambda name, args, kwargs: None)
    with block:
        return F.softmax(torch.arange(4.0), dim=-1).tolist(), torch.exp(torch.zeros(1)).item()


def test_arguments_are_changed():
    assert run(changed) == ([0.25] * 4, 1)


def twice() -> Any:
    import torch

    seen: list[Any] = []
    block = Session()
    block.add(
        "call_twice",
        change=lambda name, tensor: tensor + 1,
        compare=lambda name, result, other: seen.append((name, result.tolist(), other.tolist())),
    )
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with block:
        y = torch.square(x)
        y.add_(1)
    return seen, y.tolist(), x._version, y.grad_fn.name()


def test_a_call_is_made_twice_and_the_training_sees_one():
    seen, y, version, node = run(twice)
    assert seen == [("Torch.square.0.forward", [1, 4], [4, 9]), ("Tensor.add_.0.forward", [2, 5], [3, 6])]
    assert (y, version, node) == ([2, 5], 0, "AddBackward0")


def precise() -> Any:
    import torch

    block = Session()
    block.add("precision", calls=["Torch.cumsum"], dtype=torch.float64)
    x = torch.full((1000,), 0.1, dtype=torch.bfloat16, requires_grad=True)
    with block:
        y = torch.cumsum(x, 0)
    y.sum().backward()
    exact = torch.cumsum(x.detach().double(), 0).bfloat16()
    return y.dtype == torch.bfloat16, torch.equal(y, exact), x.grad is not None


def test_a_call_is_made_in_another_precision():
    assert run(precise) == (True, True, True)


def chained() -> Any:
    import torch

    block = Session()
    block.add("replace_result", calls=["Torch.exp"], function=lambda name, result, *_: result + 10)
    block.add(
        "change_arguments", calls=["Torch.exp"], function=lambda name, args, kwargs: ((args[0] * 0,), {})
    )
    with block:
        return torch.exp(torch.ones(1)).item()


def test_rules_work_from_the_outside_in():
    assert run(chained) == 11


def of_modules() -> Any:
    import torch
    from msprobe.hooks.functions import AttributeExchange

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    calls: list[str] = []
    model[1].register_forward_hook(lambda *_: calls.append("hook"))
    block = Session()
    block.add(
        "replace_result",
        calls=["Module.1.ReLU"],
        function=lambda name, result, *_: calls.append(name) or result * 0 + 5,
    )
    forward = block.session.make_forward(model[1].forward, "Module.1.ReLU")
    assert forward.__name__ == "forward"
    exchange = AttributeExchange(model[1], "forward", forward)
    exchange.install()
    with block:
        first = model(torch.ones(1, 2)).tolist()
        model(torch.ones(1, 2))
    block.session.begin_step()
    with block:
        model(torch.ones(1, 2))
    exchange.remove()
    return first, calls, "forward" in vars(model[1])


def test_a_module_is_answered_at_its_forward():
    first, calls, left = run(of_modules)
    assert first == [[5, 5]]
    names = [f"Module.1.ReLU.forward.{number}" for number in (0, 1, 0)]
    assert calls == [text for name in names for text in (name, "hook")]
    assert not left


def failing() -> Any:
    import logging

    import torch

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("msprobe").addHandler(handler)
    block = Session()
    block.add("replace_result", calls=["Torch.exp"], function=lambda *_: 1 / 0)
    block.add("change_arguments", calls=["Torch.log"], function=lambda *_: "nonsense")
    block.add("call_twice", calls=["Torch.abs"], compare=lambda *_: 1 / 0)
    with block:
        ones = torch.ones(1)
        results = [torch.exp(ones * 0).item(), torch.log(ones).item(), torch.abs(ones).item()]
        with pytest.raises(RuntimeError, match="must be a matrix"):  # the training's own
            torch.mm(ones, ones)
    return results, lines


def test_an_intervener_that_fails_leaves_the_call_as_it_is():
    results, lines = run(failing)
    assert results == [1, 0, 1]
    assert len(lines) == 3
    assert all("is left as it is" in line for line in lines)


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("nonsense", {}, "expected one of replace_result, change_arguments, call_twice, precision"),
        ("replace_result", {}, "expected a callable as `function`"),
        ("precision", {"dtype": "float32"}, "expected a torch.dtype"),
        ("call_twice", {"colour": 1}, "unknown setting 'colour'"),
    ],
)
def test_wrong_settings_are_refused(kind, settings, expected):
    from msprobe import InvalidArgument
    from msprobe.native import torch_adapter

    with pytest.raises(InvalidArgument, match=expected):
        torch_adapter().intervener(kind, **settings)


def dumped(directory: Path) -> Any:
    import torch
    from msprobe.config import load_config
    from msprobe.dump.data_dump import DataDump
    from msprobe.native import torch_adapter

    dump = DataDump(load_config(None, dump_path=directory, task="statistics", level="L1"))
    interventions = torch_adapter().Interventions()
    replace = torch_adapter().intervener("replace_result", function=lambda name, result, *_: result * 0 + 7)
    interventions.add(replace, calls=["Torch.exp.1.forward"])
    dump._session.intervene(interventions)
    dump.start()
    x = torch.zeros(2)
    values = [torch.exp(x)[0].item(), torch.log(torch.exp(x)).tolist()]
    dump.stop()
    dump.step()
    dump.close()
    data = json.loads((directory / "step0" / "rank" / "dump.json").read_text())["data"]
    maxima = {name: record["output"][0]["Max"] for name, record in data.items() if "exp" in name}
    return values, maxima, data["Torch.log.0.forward"]["input_args"][0]["Max"]


def test_a_dump_records_what_came_of_a_call(tmp_path):
    values, maxima, following = run(dumped, tmp_path)
    assert values[0] == 1
    assert values[1] == pytest.approx([1.9459101] * 2)
    assert maxima == {"Torch.exp.0.forward": 1, "Torch.exp.1.forward": 7}
    assert following == 7


def rounded_otherwise() -> Any:
    import torch

    def work() -> Any:
        torch.manual_seed(0)
        x = torch.randn(50, requires_grad=True)
        y = torch.exp(x)
        part = y[10:20]  # moves: nothing is rounded there
        part.square().sum().backward()
        return y.detach().clone(), part.detach().clone(), x.grad.clone()

    plain = work()
    block = Session()
    block.add("round_otherwise", seed=3)
    with block:
        other = work()
    again = Session()
    again.add("round_otherwise", seed=3)
    with again:
        same = work()
    ulps = (plain[0].view(torch.int32) - other[0].view(torch.int32)).abs()
    return (
        ulps.max().item(),
        (ulps == 1).float().mean().item(),
        torch.equal(other[1], other[0][10:20]),
        torch.equal(plain[2], other[2]),
        all(torch.equal(a, b) for a, b in zip(other, same)),
    )


def test_results_are_rounded_otherwise_under_the_graph():
    largest, share, is_view, same_gradient, same_seed = run(rounded_otherwise)
    assert (largest, share) == (1, 1.0)
    assert is_view
    assert not same_gradient  # the backward works with the results as they are
    assert same_seed
