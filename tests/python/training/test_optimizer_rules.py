# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Steps of torch's optimizers are within rounding of their formulas; steps by another rule are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from msprobe.training.optimizer_rules import RULES, StepCheck

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "maximize": True}),
    ("Adam", {"lr": 1e-3, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 1e-3, "fused": True}),
    ("AdamW", {"lr": torch.tensor(1e-3), "foreach": False}),
    ("AdamW", {"lr": 1e-3, "foreach": True}),
    ("AdamW", {"lr": 1e-3, "fused": True}),
    ("Adagrad", {"lr": 0.01, "lr_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "centered": True}),
    ("Adafactor", {"weight_decay": 0.1}),
    ("Muon", {"lr": 0.01}),
    ("Muon", {"lr": 0.01, "adjust_lr_fn": "match_rms_adamw"}),
]


def parameters_for(name: str, dtype: torch.dtype) -> list[torch.nn.Parameter]:
    torch.manual_seed(1)
    shapes = [(30, 20), (7, 300)] if name == "Muon" else [(30, 20), (7,), (2, 3, 4)]
    return [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]


def checked_step(optimizer: torch.optim.Optimizer, scale: float = 1.0) -> dict[str, Any] | None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.randn_like(parameter) * scale
    check = StepCheck(optimizer, lambda group, position, _: f"{group}.{position}")
    optimizer.step()
    return check.after()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("name", "settings"), OPTIMIZERS)
def test_a_step_is_within_rounding_of_its_formula(
    name: str, settings: dict[str, Any], dtype: torch.dtype
) -> None:
    optimizer = getattr(torch.optim, name)(parameters_for(name, dtype), **settings)
    for step in range(4):
        found = checked_step(optimizer, 10.0**-step)
        assert found is not None
        assert found["rule"] == name
        assert found["off"] < 2, found


def test_a_single_number_steps_as_others_do() -> None:
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.tensor(0.5))])
    for _ in range(2):
        found = checked_step(optimizer)
        assert found is not None
        assert found["off"] < 2


def test_nothing_is_said_of_a_class_that_keeps_other_states() -> None:
    class Adam(torch.optim.Adam):
        def step(self, closure: Any = None) -> Any:
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter]["mean"] = parameter.grad.clone()

    assert checked_step(Adam(parameters_for("Adam", torch.float32))) is None


def renamed(name: str, base: type[torch.optim.Optimizer], **changed: Any) -> type[torch.optim.Optimizer]:
    """An optimizer of `name` that steps with other settings than it has."""

    def step(self: Any, closure: Any = None) -> Any:
        kept = [dict(group) for group in self.param_groups]
        for group in self.param_groups:
            group.update(changed)
        base.step(self, closure)
        for group, settings in zip(self.param_groups, kept):
            group.update(settings)

    return type(name, (base,), {"step": step})


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("SGD", {"weight_decay": 0.02}),
        ("SGD", {"nesterov": True}),
        ("Adam", {"betas": (0.9, 0.99)}),
        ("AdamW", {"eps": 1e-5}),
        ("AdamW", {"weight_decay": 0.0}),
        ("AdamW", {"decoupled_weight_decay": False}),
        ("Adagrad", {"lr_decay": 0.0}),
        ("RMSprop", {"alpha": 0.98}),
        ("Adafactor", {"beta2_decay": -0.7}),
        ("Muon", {"nesterov": False}),
    ],
)
def test_another_rule_is_seen(name: str, changed: dict[str, Any]) -> None:
    base = getattr(torch.optim, name)
    settings: dict[str, Any] = {"SGD": {"momentum": 0.9}, "Adagrad": {"lr_decay": 0.1}}.get(name, {})
    optimizer = renamed(name, base, **changed)(parameters_for(name, torch.float32), **settings)
    found = [checked_step(optimizer, 1e-2) for _ in range(2)]
    assert max(one["off"] for one in found if one is not None) > 8, found


def test_the_worst_parameter_is_named() -> None:
    class SGD(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step(closure)
            with torch.no_grad():
                self.param_groups[0]["params"][1][3] += 1e-3

    found = checked_step(SGD(parameters_for("SGD", torch.float32), lr=0.1))
    assert found is not None
    assert (found["parameter"], found["of"]) == ("0.1", "parameter")
    assert found["off"] > 1000


def test_an_unknown_rule_is_none() -> None:
    assert "Rprop" not in RULES
    assert checked_step(torch.optim.Rprop(parameters_for("Rprop", torch.float32))) is None


def test_what_cannot_be_checked_is_left_out() -> None:
    whole = torch.nn.Parameter(torch.randn(4))
    empty = torch.nn.Parameter(torch.randn(0))
    complex_one = torch.nn.Parameter(torch.randn(4, dtype=torch.complex64))
    assert checked_step(torch.optim.SGD([empty, complex_one], lr=0.1)) is None
    found = checked_step(torch.optim.SGD([empty, complex_one, whole], lr=0.1))
    assert found is not None
    assert found["off"] < 2


def test_a_step_that_a_scaler_stops_is_not_checked() -> None:
    optimizer = torch.optim.AdamW(parameters_for("AdamW", torch.float32), fused=True)
    optimizer.found_inf = torch.tensor(1.0)  # type: ignore[attr-defined]
    assert checked_step(optimizer) is None


def test_nothing_of_the_training_changes() -> None:
    states = []
    for checks in (False, True):
        optimizer = torch.optim.Adam(parameters_for("Adam", torch.float32))
        torch.manual_seed(5)
        for _ in range(3):
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad = torch.randn_like(parameter)
            check = StepCheck(optimizer, lambda *_: "") if checks else None
            optimizer.step()
            assert check is None or check.after()
        states.append([*optimizer.param_groups[0]["params"], torch.get_rng_state()])
    assert all(torch.equal(a, b) for a, b in zip(*states))
