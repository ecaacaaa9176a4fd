# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Settings that a running program holds are found by their types, wherever they are."""

from __future__ import annotations

import argparse
import functools
import gc
import sys
import types
import weakref
from dataclasses import dataclass, field

import pytest
import torch
from msprobe.config_check.checks.check_hyperparameters import check_hyperparameters
from msprobe.config_check.collecting.program_settings import of_program
from msprobe.config_check.packs import pack
from msprobe.config_check.packs.pack_reader import Pack
from msprobe.training import running_program
from torch import nn


@dataclass
class Inner:
    alpha: float = 0.5


@dataclass
class Arguments:
    lr: float = 0.1
    hub_token: str = "hf_abcdefghijklmnopqrstuvwxyz"
    names: list = field(default_factory=lambda: ["q", "v"])
    inner: Inner = field(default_factory=Inner)
    weights: torch.Tensor = field(default_factory=lambda: torch.ones(3))


class Trainer:
    """As libraries have them: settings as an object, and as attributes."""

    def __init__(self, arguments: Arguments) -> None:
        self.args = arguments
        self.gamma = 0.99
        self.output_dir = "/somewhere"
        self.started_at_time = 12345
        self._hidden = 3
        self.buffer = torch.zeros(2)

    @property
    def trap(self) -> int:
        raise RuntimeError("a property was read")

    def train(self, *models):
        return of_program(models)


class Net(nn.Module):
    def __init__(self, **settings) -> None:
        super().__init__()
        for name, value in settings.items():
            setattr(self, name, value)


@pytest.fixture
def main(monkeypatch):
    """An empty main script, started by nothing: what runs the tests has settings of its own."""
    runners = {"__channelexec__", "execnet"}  # of pytest-xdist
    monkeypatch.setattr(running_program, "_LIBRARIES_WITHOUT", running_program._LIBRARIES_WITHOUT | runners)
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


def class_of(library: str, name: str, *bases: type) -> type:
    return type(name, bases, {"__module__": library})


def test_an_object_of_a_trainer_whose_method_runs(main):
    found = Trainer(Arguments(lr=0.2)).train().settings
    assert found["Arguments.lr"] == 0.2
    assert found["Arguments.names"] == ["q", "v"]
    assert found["Arguments.inner.alpha"] == 0.5
    assert found["Arguments.hub_token"].startswith("<secret ")
    assert "Arguments.weights" not in found


def test_attributes_of_an_object_whose_method_runs_are_a_guess(main):
    found = Trainer(Arguments()).train().variables
    assert found == {"Trainer.gamma": 0.99}


def test_an_object_counts_once_and_other_ones_are_numbered(main):
    one = Arguments(lr=0.2)
    main.first = main.second = one
    main.third = Arguments(lr=0.2)
    main.fourth = Arguments(lr=0.3)
    found = of_program().settings
    assert found["Arguments.lr"] == 0.2
    assert found["Arguments.2.lr"] == 0.3
    assert not any(name.startswith("Arguments.3") for name in found)


def test_variables_of_the_main_script(main):
    main.BETA = 0.1
    main.options = {"margin": 2, "batch": torch.ones(2)}
    main.arguments = argparse.Namespace(seed=3)
    main.path = main.folder = "somewhere"
    main.script = "/at/some/place"
    main.tensor = torch.ones(1)
    found = of_program()
    assert found.variables == {"script.BETA": 0.1, "options.margin": 2}
    assert found.settings == {"seed": 3}


def test_what_a_model_holds(main):
    config_class = class_of("transformers.configuration_utils", "PreTrainedConfig")
    config = class_of("mine", "LlamaConfig", config_class)()
    config.rms_norm_eps = 1e-5
    mixin = class_of("peft.config", "PeftConfigMixin")
    lora = dataclass(types.new_class("LoraConfig", (mixin,), exec_body=_lora))
    generation = class_of("transformers.generation.configuration_utils", "GenerationConfig")()
    generation.temperature = 0.7
    parts = Net(config=config, generation_config=generation)
    model = Net(part=parts, peft_config={"default": lora(), "other": lora(lora_alpha=9)})
    found = of_program([model]).settings
    assert found["LlamaConfig.rms_norm_eps"] == 1e-5
    assert found["GenerationConfig.temperature"] == 0.7
    assert found["LoraConfig.lora_alpha"] == 8
    assert found["LoraConfig.other.lora_alpha"] == 9


def _lora(body):
    body["__annotations__"] = {"lora_alpha": int}
    body["lora_alpha"] = 8


def test_a_plain_object_and_a_mapping_as_the_config_of_a_model(main):
    config = types.SimpleNamespace(n_embd=32)
    assert of_program([Net(config=config)]).settings == {"config.n_embd": 32}
    assert of_program([Net(_hparams={"lr": 0.1})]).settings == {"config.lr": 0.1}


def test_the_engine_of_deepspeed(main):
    kept = types.SimpleNamespace(_param_dict={"zero_optimization": {"stage": 2}})
    engine = class_of("deepspeed.runtime.engine", "DeepSpeedEngine")()
    engine._config = kept
    main.engine = engine
    assert of_program().settings == {"DeepSpeed.zero_optimization.stage": 2}


def test_configurations_of_omegaconf_and_diffusers(main, monkeypatch):
    container = class_of("omegaconf.basecontainer", "Container")
    kept = {"optimizer": {"lr": 0.1}}
    library = types.SimpleNamespace(
        OmegaConf=types.SimpleNamespace(to_container=lambda one, *, resolve: None if resolve else kept)
    )
    monkeypatch.setitem(sys.modules, "omegaconf", library)
    main.config = class_of("omegaconf.dictconfig", "DictConfig", container)()
    main.noise = class_of("diffusers", "DDPMScheduler", class_of("diffusers", "ConfigMixin"))()
    main.noise._internal_dict = {"beta_end": 0.02}
    assert of_program().settings == {"optimizer.lr": 0.1, "DDPMScheduler.beta_end": 0.02}


def test_a_schedule_of_the_learning_rate_and_what_its_function_was_made_with(main):
    def schedule(optimizer, num_warmup_steps):
        return torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1, (step + 1) / num_warmup_steps)
        )

    def decayed(step, *, decay):
        return decay**step

    optimizer = torch.optim.SGD(Net(weight=nn.Parameter(torch.ones(1))).parameters(), lr=0.1)
    main.warmup = schedule(optimizer, 4)
    main.decay = torch.optim.lr_scheduler.LambdaLR(optimizer, functools.partial(decayed, decay=0.9))
    main.steps = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3)
    assert of_program().settings == {
        "LambdaLR.num_warmup_steps": 4,
        "LambdaLR.2.decay": 0.9,
        "StepLR.step_size": 3,
        "StepLR.gamma": 0.1,
    }


def test_what_objects_of_accelerate_share(main, monkeypatch):
    state = types.SimpleNamespace(
        AcceleratorState=types.SimpleNamespace(_shared_state={"_mixed_precision": "bf16", "device": "cpu"}),
        GradientState=types.SimpleNamespace(_shared_state={"plugin_kwargs": {"num_steps": 4}}),
    )
    monkeypatch.setitem(sys.modules, "accelerate.state", state)
    assert of_program().settings == {
        "AcceleratorState.mixed_precision": "bf16",
        "GradientState.plugin_kwargs.num_steps": 4,
    }


def test_a_configuration_that_cannot_be_read_is_left_out(main):
    broken = class_of("omegaconf.dictconfig", "Container")()
    main.broken = broken  # omegaconf itself was never imported
    main.BETA = 0.1
    assert of_program().variables == {"script.BETA": 0.1}


def test_no_local_variable_is_kept_alive(main):
    class Large:
        pass

    def step():
        large = Large()
        of_program()
        return weakref.ref(large)

    gone = step()
    gc.collect()
    assert gone() is None


def test_modules_beside_the_models_have_settings_as_an_object_has(main):
    main.model = Net(hidden=4)
    main.wrapped = Net(module=main.model, bucket=25)
    main.loss = Net(smoothing=0.1, module=Net(inner=1))
    found = of_program([main.model])
    assert found.variables == {"Net.smoothing": 0.1}
    assert found.settings == {}


def test_how_far_a_training_is_is_no_setting(main):
    main.state = dataclass(type("TrainerState", (), {"__annotations__": {"epoch": float}, "epoch": 0.5}))()
    assert of_program().settings == {}


def test_results_of_a_model_are_no_settings(main):
    kind = dataclass(type("Output", (dict,), {"__annotations__": {"loss": float}, "loss": 0.5}))
    main.output = kind()
    assert of_program().settings == {}


def test_a_variable_that_differs_fails_no_check():
    def made(value):
        return Pack.of_texts(None, {pack.VARIABLES: f'{{"script.BETA": {value}, "script.only": 1}}'})

    result = check_hyperparameters(made(0.1), made(0.2))
    assert result.passed
    assert [(one.name, one.reference, one.target, one.level) for one in result.differences] == [
        ("script.BETA", "0.1", "0.2", "warning")
    ]
