# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The file of one step against torch, and trainings that do not notice the diagnosis."""

from __future__ import annotations

import copy
import gc
import random
import weakref
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diagnosis_training import KINDS, SECTIONS, Net, Read, same
from msprobe.dump.surroundings import ModuleSettings
from msprobe.dump.training_state import TrainingState
from msprobe.dump.training_state_file import TrainingStateFile
from torch import nn

clip_early = nn.utils.clip_grad_norm_  # as a script that imports the name has it
ALWAYS = {"version", "kinds", "faults"}


def train(diagnosis: TrainingState | None, folder: Path, *, steps: int = 3, micro: int = 2) -> list[Any]:
    """Everything a training leaves behind, to be compared bit by bit."""
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.8, 0.9))
    left: list[Any] = []
    for step in range(steps):
        if diagnosis is not None:
            diagnosis.begin_step(model, folder / f"step{step}")
        optimizer.zero_grad()
        for _ in range(micro):
            loss = model(torch.randn(5, 6), scale=torch.rand(1)).pow(2).mean()
            loss.backward()
            left.append(loss.detach().clone())
        left.append(clip_early((p for p in model.parameters()), 0.05))
        left += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        optimizer.step()
        if diagnosis is not None:
            diagnosis.end_step()
    left.append(torch.tensor(len(optimizer.state)))  # asking for a state must not create one
    left += [value.clone() for value in model.state_dict().values()]
    left += [torch.get_rng_state(), torch.tensor([random.random(), np.random.random()])]
    return left


def patched() -> list[Any]:
    """What the hooks of the diagnosis change."""
    optimizer: Any = import_module("torch.optim.optimizer")
    functions = (clip_early, nn.utils.clip_grad_value_, torch.autograd.backward, torch.amp.GradScaler.step)
    return [
        nn.Module.__call__,
        *(function.__code__ for function in functions),
        dict(optimizer._global_optimizer_pre_hooks),
        dict(optimizer._global_optimizer_post_hooks),
    ]


@pytest.mark.parametrize("kinds", [(), KINDS, *((kind,) for kind in KINDS)], ids="-".join)
def test_the_training_is_bit_equal_and_the_file_has_the_sections_of_the_kinds(
    tmp_path: Path, read: Read, kinds: tuple[str, ...]
) -> None:
    before = patched()
    plain = train(None, tmp_path)
    observed = train(TrainingState(kinds), tmp_path)
    assert len(plain) == len(observed)
    assert all(torch.equal(a, b) for a, b in zip(plain, observed))
    # no hook is left
    assert patched() == before
    if not kinds:
        assert not list(tmp_path.iterdir())
        return
    for step in range(3):
        record = read(f"step{step}")
        assert set(record) == ALWAYS.union(*(SECTIONS[kind] for kind in kinds))
        assert record["kinds"] == list(kinds)
        assert record["faults"] == []


def test_values_are_those_of_torch(tmp_path: Path, read: Read) -> None:
    torch.manual_seed(1)
    model = Net()
    optimizer = torch.optim.Adam(
        [
            {"params": model.body.parameters(), "lr": 0.5},
            {"params": [model.head.weight], "weight_decay": 0.125},
        ],
        lr=0.25,
    )
    diagnosis = TrainingState(KINDS)
    for step in range(2):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        state = copy.deepcopy(optimizer.state_dict()["state"])
        diagnosis.begin_step(model, tmp_path / f"step{step}")
        optimizer.zero_grad()
        x, scale = torch.randn(5, 6), torch.tensor(2.0)
        model(x, scale=scale).sum().backward()
        raw = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        total = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5, norm_type=1)
        clipped = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
        diagnosis.end_step()

    record = read("step1")
    parameters = dict(model.named_parameters())
    assert list(record["parameters"]) == list(parameters)
    assert list(record["buffers"]) == [name for name, _ in model.named_buffers()]
    for name, entry in {**record["parameters"], **record["buffers"]}.items():
        assert same(entry, before[name]), name
    assert record["parameters"]["frozen.weight"]["requires_grad"] is False
    assert record["parameters"]["head.weight"]["requires_grad"] is True

    (inputs,) = record["inputs"]
    assert inputs["model"] == ""
    assert set(inputs["tensors"]) == {"args.0", "kwargs.scale"}
    assert same(inputs["tensors"]["args.0"], x)
    assert same(inputs["tensors"]["kwargs.scale"], scale)

    (backward,) = record["backward"]
    (clipping,) = record["clipping"]
    (at_optimizer,) = record["gradients_at_optimizer"]
    assert "before_reduction" not in backward
    wanted = {*raw, "unused"}  # a frozen parameter has no entry
    for found, expected in (
        (backward["after_reduction"], raw),
        (clipping["before"], raw),
        (clipping["after"], clipped),
    ):
        assert set(found) == wanted
        assert found["unused"] is None
        assert all(same(found[name], gradient) for name, gradient in expected.items())
    stepped = {name for group in record["optimizer"][0]["groups"] for name in group["parameters"]}
    assert set(at_optimizer["gradients"]) == stepped
    assert all(same(found, clipped[name]) for name, found in at_optimizer["gradients"].items())
    assert not torch.equal(raw["head.weight"], clipped["head.weight"])
    assert clipping["arguments"] == {"max_norm": {"value": 0.5}, "norm_type": {"value": 1}}
    assert same(clipping["result"]["total_norm"], total)

    (step,) = record["optimizer"]
    assert step["class"] == "torch.optim.adam.Adam"
    assert step["groups"][0]["parameters"] == [n for n in parameters if n.startswith("body.")]
    assert step["groups"][1]["parameters"] == ["head.weight"]
    assert step["groups"][0]["hyper"]["lr"] == {"value": 0.5}
    assert step["groups"][1]["hyper"]["weight_decay"] == {"value": 0.125}
    assert step["groups"][1]["hyper"]["betas.1"] == {"value": 0.999}
    head = len(step["groups"][0]["parameters"])
    for moment, states in (("state_before", state), ("state_after", optimizer.state_dict()["state"])):
        for key in ("step", "exp_avg", "exp_avg_sq"):
            assert same(step[moment]["head.weight"][key], states[head][key]), (moment, key)
    assert read("step0")["optimizer"][0]["state_before"] == {}


def test_every_micro_step_is_recorded(tmp_path: Path, read: Read) -> None:
    train(TrainingState(("inputs", "gradients")), tmp_path, steps=1, micro=4)
    record = read()
    assert len(record["inputs"]) == len(record["backward"]) == 4
    sums = [item["tensors"]["args.0"]["crc32"] for item in record["inputs"]]
    assert len(set(sums)) == 4
    assert len(record["clipping"]) == len(record["gradients_at_optimizer"]) == 1


def test_a_list_of_models_gives_names_with_the_index(tmp_path: Path, read: Read) -> None:
    models = [nn.Linear(2, 2), nn.Linear(2, 1)]
    diagnosis = TrainingState(KINDS)
    diagnosis.begin_step(models, tmp_path / "step0")
    models[1](models[0](torch.ones(1, 2))).sum().backward()
    diagnosis.end_step()
    record = read()
    assert [item["model"] for item in record["inputs"]] == ["0", "1"]
    assert set(record["modules"]) == {"0", "1"}
    assert set(record["parameters"]) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert same(record["backward"][0]["after_reduction"]["1.weight"], models[1].weight.grad)
    assert record["optimizer"] == []


def test_settings_of_modules(tmp_path: Path, read: Read) -> None:
    model = Net()
    model.body[3].eval()
    diagnosis = TrainingState(("modules",))
    diagnosis.begin_step(model, tmp_path / "step0")
    diagnosis.end_step()
    modules = read()["modules"]
    assert list(modules) == [name for name, _ in model.named_modules()]
    assert modules[""]["settings"] == {"activation": "torch.nn.functional.softmax", "heads": 4}
    assert modules["body.1"]["settings"]["eps"] == 1e-5
    assert modules["body.1"]["settings"]["momentum"] == 0.1
    assert modules["body.2"]["settings"] == {"inplace": True}
    assert modules["body.3"] == {
        "class": "torch.nn.modules.dropout.Dropout",
        "training": False,
        "settings": {"p": 0.25, "inplace": False},
        "parameters": {},
    }
    assert modules["body.4"]["settings"] == {"approximate": "tanh"}
    assert modules["body.4"]["training"] is True
    assert modules["head"]["parameters"] == {"weight": True, "bias": False}


def test_settings_that_change_between_steps(tmp_path: Path) -> None:
    class Number(int):
        pass

    class Changed(torch.nn.Linear):
        pass

    def of_its_own(x: Any) -> Any:
        return x

    module = torch.nn.Linear(2, 2)
    sizes = [1, 2]

    def drop_bias() -> None:
        module.bias = None

    def become_another() -> None:
        module.__class__ = Changed

    changes: list[Callable[[], object]] = [
        lambda: setattr(module, "p", 0.25),
        lambda: setattr(module, "p", 0.5),
        lambda: setattr(module, "p", Number(3)),
        lambda: setattr(module, "p", Number(4)),
        lambda: setattr(module, "p", (1, sizes)),
        lambda: sizes.append(3),
        lambda: setattr(module, "p", sizes),
        lambda: sizes.append(4),
        lambda: sizes.extend(range(40)),
        lambda: setattr(module, "p", torch.nn.functional.gelu),
        lambda: setattr(module, "p", torch.nn.functional.relu),
        lambda: setattr(module, "p", of_its_own),
        lambda: setattr(module, "p", torch.float16),
        lambda: setattr(module, "p", object()),
        lambda: setattr(module, "p", True),
        lambda: setattr(module, "p", 1),
        lambda: delattr(module, "p"),
        module.eval,
        drop_bias,
        become_another,
    ]
    known = ModuleSettings()
    for number, change in enumerate((lambda: None, *changes)):
        change()
        report = TrainingStateFile(tmp_path / "diagnosis.json", ("modules",))
        text = known.text("", module, report)
        assert text == ModuleSettings().text("", module, report), number
        module.q = number  # in another place than where it was
        del module.q
    assert known.text("", module, report) is known.text("", module, report)


def test_settings_keep_nothing_alive(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 2)
    module.function = lambda held=module: held
    module.held = tensor = torch.ones(3)
    report = TrainingStateFile(tmp_path / "diagnosis.json", ("modules",))
    known = ModuleSettings()
    known.text("", module, report)
    ends = weakref.ref(module), weakref.ref(tensor)
    del module, tensor
    gc.collect()
    assert [end() for end in ends] == [None, None]


def test_checksums_of_random_generators(tmp_path: Path, read: Read) -> None:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    diagnosis = TrainingState(("rng",))
    expected = f"{zlib.crc32(torch.get_rng_state().numpy().tobytes()):08x}"
    diagnosis.begin_step(None, tmp_path / "step0")
    torch.rand(1)
    diagnosis.end_step()
    first = read()["rng"]
    assert first["start"]["torch.cpu"] == expected
    assert first["start"]["torch.cpu"] != first["step"]["torch.cpu"]
    assert first["start"]["python"] == first["step"]["python"]
    assert first["start"]["numpy"] == first["step"]["numpy"]
    diagnosis.begin_step(None, tmp_path / "step1")
    random.random()
    np.random.random()
    diagnosis.end_step()
    second = read("step1")["rng"]
    assert second["start"] == first["step"]
    assert {name for name in second["start"] if second["start"][name] != second["step"][name]} == {
        "python",
        "numpy",
    }


def test_switches_at_start_and_in_the_forward(tmp_path: Path, read: Read) -> None:
    model = nn.Linear(2, 2)
    diagnosis = TrainingState(("determinism",))
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        diagnosis.begin_step(model, tmp_path / "step0")
    finally:
        torch.use_deterministic_algorithms(False)
    with torch.autocast("cpu", torch.float16), torch.no_grad():
        model(torch.ones(1, 2))
    model(torch.ones(1, 2))
    diagnosis.end_step()
    found = read()["determinism"]
    assert found["start"]["are_deterministic_algorithms_enabled"] is True
    assert found["start"]["is_deterministic_algorithms_warn_only_enabled"] is True
    assert found["start"]["autocast.cpu"] is False
    assert found["start"]["is_grad_enabled"] is True
    assert found["forward"]["are_deterministic_algorithms_enabled"] is False
    assert found["forward"]["autocast.cpu"] == "torch.float16"
    assert found["forward"]["is_grad_enabled"] is False
    assert found["start"]["get_num_threads"] == torch.get_num_threads()
    assert found["start"]["get_default_dtype"] == "torch.float32"
    assert found["start"]["backends.cuda.flash_sdp_enabled"] is True


def scaled_step(scaler: Any, optimizer: Any, loss: Any) -> None:
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.filterwarnings("ignore:.*GradScaler")
def test_scaled_gradients(tmp_path: Path, read: Read) -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    diagnosis = TrainingState(("gradients", "optimizer"))
    for step, factor in enumerate((1.0, float("inf"))):
        diagnosis.begin_step(model, tmp_path / f"step{step}")
        optimizer.zero_grad()
        scaled_step(scaler, optimizer, model(torch.ones(1, 2)).sum() * factor)
        diagnosis.end_step()
    good, skipped = read("step0"), read("step1")
    assert good["backward"][0]["after_reduction"]["weight"]["max"] == 256.0
    assert good["gradients_at_optimizer"][0]["gradients"]["weight"]["max"] == 1.0
    assert good["scaler"] == [{"enabled": True, "scale": 256.0, "optimizer_stepped": True}]
    assert skipped["scaler"] == [{"enabled": True, "scale": 256.0, "optimizer_stepped": False}]
    assert skipped["optimizer"] == skipped["gradients_at_optimizer"] == []
    assert skipped["backward"][0]["after_reduction"]["weight"]["pos_inf_count"] == 2


def test_clipping_by_value_an_unnamed_tensor_and_the_old_name(tmp_path: Path, read: Read) -> None:
    stranger = torch.ones(3, requires_grad=True)
    model = nn.Linear(3, 1)
    diagnosis = TrainingState(("gradients",))
    diagnosis.begin_step(model, tmp_path / "step0")
    (stranger * 5).sum().backward()
    nn.utils.clip_grad_value_(stranger, 2)
    with pytest.warns(FutureWarning):
        nn.utils.clip_grad_norm(iter([stranger]), 1.0)
    with pytest.warns(UserWarning, match="empty generator"):
        nn.utils.clip_grad_norm_((p for p in ()), 1.0)
    with pytest.raises(TypeError, match="max_norm"):
        nn.utils.clip_grad_norm_([stranger])
    diagnosis.end_step()
    by_value, by_norm, empty = read()["clipping"]
    assert by_value["before"]["parameters.0"]["max"] == 5
    assert by_value["after"]["parameters.0"]["max"] == 2
    assert by_value["result"] == {"total_norm": {"value": None}}
    assert by_norm["result"]["total_norm"]["max"] == pytest.approx(12**0.5)
    assert empty["before"] == {}
    assert read()["faults"] == []


def test_clipping_with_a_norm_is_recorded_once_whoever_calls_it(tmp_path: Path, read: Read) -> None:
    model = nn.Linear(3, 1)
    diagnosis = TrainingState(("gradients",))
    diagnosis.begin_step(model, tmp_path / "step0")
    model(torch.ones(3)).sum().backward()
    norm = nn.utils.get_total_norm([parameter.grad for parameter in model.parameters()])
    nn.utils.clip_grads_with_norm_(model.parameters(), 0.5, norm)
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)  # by the same function
    diagnosis.end_step()
    alone, whole = read()["clipping"]
    assert (alone["function"], whole["function"]) == ("clip_grads_with_norm_", "clip_grad_norm_")
    assert alone["before"]["weight"]["norm"] == pytest.approx(3**0.5)
    assert alone["after"] == whole["before"]
    assert whole["after"]["bias"]["norm"] == pytest.approx(0.125, rel=1e-5)


def test_backward_inside_of_backward_is_one_backward(tmp_path: Path, read: Read) -> None:
    from torch.utils.checkpoint import checkpoint

    model = nn.Linear(2, 2)
    diagnosis = TrainingState(("gradients",))
    diagnosis.begin_step(model, tmp_path / "step0")
    checkpoint(model, torch.ones(1, 2, requires_grad=True), use_reentrant=True).sum().backward()
    diagnosis.end_step()
    (backward,) = read()["backward"]
    assert same(backward["after_reduction"]["weight"], model.weight.grad)


def test_an_optimizer_that_calls_backward_itself(tmp_path: Path, read: Read) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x = torch.randn(4, 3)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        return loss

    diagnosis = TrainingState(KINDS)
    diagnosis.begin_step(model, tmp_path / "step0")
    optimizer.step(closure)
    diagnosis.end_step()
    record = read()
    assert record["faults"] == []
    assert len(record["backward"]) == len(record["inputs"]) > 1
    state = record["optimizer"][0]["state_after"]["weight"]
    assert "old_dirs.0" in state
    assert state["n_iter"]["value"] > 1


def test_unusual_tensors(tmp_path: Path, read: Read) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 2, sparse=True)
            self.lazy = nn.LazyLinear(2)
            self.register_buffer("nothing", torch.empty(0, 3))
            self.register_buffer("bad", torch.tensor([1.0, float("nan"), float("-inf")]))
            self.register_buffer("wave", torch.tensor([3 + 4j]))
            self.register_buffer("meta", torch.empty(2, device="meta"))

        def forward(self, batch: Any) -> Any:
            return self.table(batch["ids"][0])

    model = Odd()
    diagnosis = TrainingState(("inputs", "parameters", "gradients"))
    diagnosis.begin_step(model, tmp_path / "step0")
    model({"ids": (torch.tensor([1, 1, 2]), "text"), "other": object(), 3: None}).sum().backward()
    diagnosis.end_step()
    record = read()
    assert record["faults"] == []
    assert record["inputs"][0]["tensors"].keys() == {
        "args.0.ids.0",
        "args.0.ids.1",
        "args.0.other",
        "args.0.3",
    }
    assert record["inputs"][0]["tensors"]["args.0.other"] == {"type": "object"}
    assert "unmeasured" in record["parameters"]["lazy.weight"]
    assert record["buffers"]["nothing"]["shape"] == [0, 3]
    assert record["buffers"]["bad"]["nan_count"] == record["buffers"]["bad"]["neg_inf_count"] == 1
    assert record["buffers"]["wave"]["mean_imag"] == 4
    assert "meta" in record["buffers"]["meta"]["unmeasured"]
    gradient = record["backward"][0]["after_reduction"]["table.weight"]
    assert gradient["part"] == "values of a sparse tensor"
    assert gradient["max"] == 1
