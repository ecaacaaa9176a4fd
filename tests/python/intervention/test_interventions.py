# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An observer that answers: functions and modules, what stays of a call, errors of the training."""

from __future__ import annotations

from typing import Any

import pytest
from children import run


class Rounding:
    """FunctionInterventions with its hooks, and results that are rounded otherwise, for a block."""

    def __init__(self, seed: int) -> None:
        from msprobe.hooks.functions import Hooks
        from msprobe.hooks.listed_functions import function_exchanges
        from msprobe.native import torch_adapter

        adapter = torch_adapter()
        self.session = adapter.FunctionInterventions()
        self.session.set_intervener(adapter.RoundOtherwise(seed=seed))
        self._hooks = Hooks(function_exchanges(self.session))

    def __enter__(self) -> Rounding:
        self.session.set_active(True)
        self._hooks.install()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.remove()
        self.session.set_active(False)


def without() -> Any:
    import torch

    x = torch.tensor(1.0)
    plain = torch.exp(x).item()
    with Rounding(seed=0) as block:
        rounded = torch.exp(x).item()
        block.session.set_intervener(None)
        bare = torch.exp(x).item()
    return plain, rounded, bare, torch.exp(x).item()


def test_calls_are_as_they_were_without_an_intervener_and_behind_the_block():
    plain, rounded, bare, after = run(without)
    assert rounded != plain
    assert (bare, after) == (plain, plain)


def of_modules() -> Any:
    import torch
    from msprobe.hooks.functions import AttributeExchange

    class Exp(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(x)

    model = torch.nn.Sequential(Exp())
    calls: list[str] = []
    model[0].register_forward_hook(lambda *_: calls.append("hook"))
    x = torch.ones(4)
    plain = model(x)
    block = Rounding(seed=1)
    forward = block.session.make_forward(model[0].forward, "Module.0.Exp")
    assert forward.__name__ == "forward"
    exchange = AttributeExchange(model[0], "forward", forward)
    exchange.install()
    with block:
        rounded = model(x)
    exchange.remove()
    return torch.equal(plain, rounded), calls, "forward" in vars(model[0])


def test_a_module_is_answered_at_its_forward_and_hooks_stay_around_it():
    equal, calls, left = run(of_modules)
    assert not equal
    assert calls == ["hook"] * 2
    assert not left


def failing() -> Any:
    import torch

    with Rounding(seed=0), pytest.raises(RuntimeError, match="must be a matrix"):
        torch.mm(torch.ones(1), torch.ones(1))
    return True


def test_an_error_of_a_call_is_the_one_of_the_training():
    assert run(failing)


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
    with Rounding(seed=3):
        other = work()
    with Rounding(seed=3):
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
