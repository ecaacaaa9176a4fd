# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Rounding through a whole step: which module moves the loss, and what two healthy runs differ by."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from children import run
from perturb_support import PerturbingDebugger, verdict_of

KINDS = ["transformer", "cnn", "lstm"]


def trained(directory: Path, kind: str, mode: str) -> Any:
    from small_models import train

    without = train(kind, steps=4)
    debugger = PerturbingDebugger(directory, mode)
    within = train(kind, steps=4, debugger=debugger)
    debugger.recorder.close()
    return [key for key in without if within[key] != without[key]], verdict_of(directory)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["modules", "all"])
def test_a_training_stays_as_it_is_and_its_modules_are_ranked(tmp_path, kind, mode):
    differing, verdict = run(trained, tmp_path, kind, mode, timeout=120)
    assert differing == []
    assert verdict["notes"] == [] or all("not made again" in note for note in verdict["notes"])
    names = [one["name"] for one in verdict["modules"]]
    children = {"transformer": "head", "cnn": "first", "lstm": "lstm"}
    assert children[kind] in names
    for one in verdict["modules"]:
        assert 0 <= one["loss"] < 1e-4, one
    assert verdict["modules"][0]["loss"] > 1e-9
    expected = [(one["step"], one["relative"]) for one in verdict["expected_loss"]]
    assert [step for step, _ in expected] == [0, 1, 2, 3]
    assert all(1e-9 < value < 1e-3 for _, value in expected), expected


def sensitive(directory: Path) -> Any:
    """The second of three layers works in bfloat16."""
    import torch
    from msprobe.perturb.recorder import Perturbation

    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(8, 8).bfloat16()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x.bfloat16()).float()

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), Half(), torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = Perturbation(directory / "perturb", "modules", (), shows_progress=False)
    recorder.models_found([model])
    for step in range(2):
        recorder.begin_step(step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(0, 4, (16,)))
        loss.backward()
        optimizer.step()
        recorder.end_step(step)
    recorder.close()
    return verdict_of(directory)["modules"]


def test_the_layer_with_few_digits_comes_first(tmp_path):
    modules = run(sensitive, tmp_path)
    assert modules[0]["name"].startswith("1")
    assert modules[0]["dtype"] == "bfloat16"
    assert modules[0]["loss"] > 20 * modules[1]["loss"]
    assert 0.001 < modules[0]["roundings"] < 10


def disturbed(directory: Path) -> Any:
    """What is expected, next to what really comes of two trainings of which one is rounded otherwise."""
    import torch
    from msprobe.hooks.functions import Hooks
    from msprobe.hooks.listed_functions import function_exchanges
    from msprobe.native import torch_adapter
    from msprobe.perturb.recorder import Perturbation

    def losses(recorder: Any = None) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        if recorder is not None:
            recorder.models_found([model])
        found = []
        for step in range(8):
            if recorder is not None:
                recorder.begin_step(step)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(0, 4, (16,)))
            loss.backward()
            optimizer.step()
            if recorder is not None:
                recorder.end_step(step)
            found.append(loss.item())
        return found

    recorder = Perturbation(directory / "perturb", "modules", (), shows_progress=False)
    plain = losses(recorder)
    recorder.close()
    adapter = torch_adapter()
    others = []
    for seed in range(5):
        session = adapter.FunctionInterventions()
        session.set_intervener(adapter.RoundOtherwise(seed=seed))
        hooks = Hooks(function_exchanges(session))
        hooks.install()
        session.set_active(True)
        others.append(losses())
        hooks.remove()
        session.end()
    real = [max(abs(a - run[i]) / a for run in others) for i, a in enumerate(plain)]
    return [recorder.result.expected_loss[step] for step in range(8)], real


def test_what_is_expected_is_about_what_comes(tmp_path):
    expected, real = run(disturbed, tmp_path)
    assert all(value > 0 for value in real), real
    # Of a sample of one against the largest of five.
    assert max(real) < 30 * max(expected), (expected, real)
    assert max(expected) < 30 * max(real), (expected, real)


def uncommon(directory: Path, what: str) -> Any:
    import torch
    from msprobe.perturb.recorder import Perturbation

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    if what == "forward":
        model.forward = model.forward  # as some trainers do
    elif what == "random":
        original = torch.nn.Sequential.forward

        class Counting(torch.nn.Sequential):
            calls = 0

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                Counting.calls += 1
                return original(self, x) * Counting.calls

        model = Counting(*model)
    elif what == "closure":
        inner, buffers = model, [*model.buffers()]
        assert buffers

        class Holding(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = inner
                self.call = lambda x: inner(x)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.call(x)

        model = Holding()
    if what == "sharded":
        model[0].weight.placements = ()
    if what == "compiled":
        model = torch.compile(model, backend="eager")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    recorder = Perturbation(directory / "perturb", "modules", (), shows_progress=False)
    recorder.models_found([model])
    recorder.begin_step(0)
    model(torch.randn(6, 4)).square().sum().backward()
    buffers_there = {name: value.clone() for name, value in model.named_buffers()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.step()
    recorder.end_step(0)
    recorder.close()
    model.eval()(torch.randn(2, 4))  # as it was
    for name, value in model.named_buffers():
        assert torch.equal(value, buffers_there[name]), name
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]), name
    return recorder.result.notes


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("forward", "a forward of it is an attribute"),
        ("sharded", "its parameters are divided among processes"),
        ("compiled", "a forward of it is an attribute"),
        ("random", "it gives other results when it is called again"),
        ("closure", "its copy works on the model itself"),
    ],
)
def test_a_model_that_cannot_be_copied_is_left_out_with_the_reason(tmp_path, what, why):
    notes = run(uncommon, tmp_path, what)
    assert any(why in note for note in notes), notes


# ---- a second call that the training would see


CALLS = 0
SEEN: list[int] = []
KEPT: Any = None


def with_effect(directory: Path, kind: str, mode: str) -> Any:
    """The numbers of a training, and what its forward has left behind outside of the model."""
    import torch
    from msprobe.perturb.recorder import Perturbation

    global CALLS, KEPT
    CALLS = 0
    SEEN.clear()
    KEPT = torch.zeros(())
    count = 0

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(8, 16)
            self.last = torch.nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            global CALLS
            nonlocal count
            x = torch.tanh(self.first(x))
            if kind == "a global that is written":
                CALLS += 1
                x = x * (1 + CALLS * 0.1)
            elif kind == "a list":
                SEEN.append(len(x))
            elif kind == "an outer variable":
                count += 1
            elif kind == "a tensor":
                KEPT.add_(x.detach().sum())
            return self.last(x)

    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook = None
    if kind == "a hook of all modules":
        hook = torch.nn.modules.module.register_module_forward_hook(lambda *_: SEEN.append(0))
    recorder = Perturbation(directory / "perturb", mode, (), shows_progress=False) if mode else None
    if recorder is not None:
        recorder.models_found([model])
    losses = []
    for step in range(3):
        if recorder is not None:
            recorder.begin_step(step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(0, 4, (16,)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if recorder is not None:
            recorder.end_step(step)
    if hook is not None:
        hook.remove()
    if recorder is None:
        return (losses, CALLS, len(SEEN), count, KEPT.item()), None
    recorder.close()
    return (losses, CALLS, len(SEEN), count, KEPT.item()), verdict_of(directory)


@pytest.mark.parametrize(
    "kind",
    ["a global that is written", "a list", "an outer variable", "a tensor", "a hook of all modules"],
)
def test_what_a_forward_does_outside_of_the_model_is_done_once(tmp_path, kind):
    plain, _ = run(with_effect, tmp_path, kind, "")
    found, verdict = run(with_effect, tmp_path, kind, "modules")
    assert found == plain
    if kind == "a global that is written":  # by which the results differ
        assert "it gives other results when it is called again" in verdict["notes"][0]
    else:  # measured all the same, in a child
        assert {"first", "last"} <= {one["name"] for one in verdict["modules"]}
        assert [one["step"] for one in verdict["expected_loss"]] == [0, 1, 2]


def effects() -> Any:
    import torch
    from msprobe.perturb import second_call
    from torch import nn

    class Pure(nn.Module):
        sizes = (1, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.relu(self.double(x)) * math.sqrt(self.sizes[0])

        def double(self, x: torch.Tensor) -> torch.Tensor:
            return torch.add(x, x)

    class Helped(Pure):
        def double(self, x: torch.Tensor) -> torch.Tensor:
            return noted(x)

    class Printing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print(x)
            return x

    models = {
        "torch": nn.Sequential(nn.Linear(2, 2), nn.TransformerEncoderLayer(4, 2)),
        "scripted": torch.jit.script(nn.Linear(2, 2)),
        "pure": Pure(),
        "helped": nn.Sequential(Helped()),
        "printing": Printing(),
    }
    return {name: second_call.effect_of(model) for name, model in models.items()}


def noted(x: Any) -> Any:
    SEEN.append(1)
    return x


def test_effects_are_told_from_the_code_of_a_model():
    assert run(effects) == {
        "torch": None,
        "scripted": None,
        "pure": None,
        "helped": "noted uses SEEN, which may change",
        "printing": "effects.<locals>.Printing.forward calls print()",
    }


def on_a_device(directory: Path) -> Any:
    from msprobe.perturb import propagation

    propagation.why_no_child = lambda _: "it is on a device"  # type: ignore[assignment]
    return with_effect(directory, "a list", "modules")


def test_without_a_child_it_is_left_out_and_said(tmp_path):
    plain, _ = run(with_effect, tmp_path, "a list", "")
    found, verdict = run(on_a_device, tmp_path)
    assert found == plain
    assert verdict["modules"] == []
    assert verdict["notes"] == [
        "rounding was not followed through the model: a second call may have an effect "
        "(with_effect.<locals>.Model.forward writes the global CALLS), and it is on a device"
    ]
