# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The data dump of a training process: which steps are recorded, of which model, and into which folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msprobe.config import Config, DumpConfig
from msprobe.dump.capture import make_hooks
from msprobe.feature import Feature
from msprobe.hooks.functions import AttributeExchange, Hooks
from msprobe.hooks.modules import ModuleHooks
from msprobe.native import Error, InvalidArgument, import_torch, log, torch_adapter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


class DataDump(Feature):
    """Records the steps that the configuration names."""

    def __init__(self, config: Config, model: object = None) -> None:
        import_torch()
        assert isinstance(config.section, DumpConfig)
        self._config = config
        self._section = config.section
        self._model = model
        self._watched: object = None
        self._step = 0
        self._hooks: Hooks | None = None
        self._single: Hooks | None = None  # of module_dump
        self._custom: dict[tuple[int, str], AttributeExchange] = {}
        self._collecting = False
        self._ended = False
        self._process = os.getpid()
        os.register_at_fork(after_in_child=self._forget)
        mode = self._section.data_mode
        self._session = torch_adapter().DumpSession(
            task=config.task,
            level=config.level,
            list=list(self._section.list),
            scope=list(self._section.scope or ()),
            tensor_list=list(self._section.tensor_list),
            forward=mode.forward,
            backward=mode.backward,
            input=mode.input,
            output=mode.output,
            data=config.task != "structure",
            checksum=self._section.summary_mode == "md5",
            store_tensors=config.task == "tensor",
            npy=self._section.tensor_format == "npy",
            deferred=self._section.json == "deferred",
            stacks=self._section.stacks,
        )

    # ---- what PrecisionDebugger calls

    def start(self, model: object = None, token_range: list[int] | None = None) -> None:
        if self._config.level == "debug" or self._collecting or not self._wanted():
            return
        if self._config.level in ("L0", "mix"):
            self._watch(model if model is not None else self._model)
        if not self._open():
            return
        if self._hooks is None:
            self._hooks = make_hooks(self._session, self._config.level, list(self._custom.values()))
        self._session.set_collecting(True)
        self._hooks.install()
        self._collecting = True

    def stop(self) -> None:
        if not self._collecting:
            return
        self.module_dump_end()
        self._collecting = False
        assert self._hooks is not None
        self._hooks.remove()
        self._session.set_collecting(False)
        self._session.begin_flush()
        first = self._session.report()["first_non_finite"]
        if first:
            log.warning("step %d: the first NaN or infinity is in the output of %s", self._step, first)

    def step(self) -> None:
        if os.getpid() != self._process:
            return
        self.stop()
        self._session.close()
        self._step += 1

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        if self._config.level != "debug" or not self._wanted():
            return
        problem = _unsavable(variable, name, save_backward)
        if problem:
            log.warning("save: %s; nothing is saved", problem)
            return
        if self._open():
            self._session.save(variable, name, save_backward)

    def set_init_step(self, step: int) -> None:
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise InvalidArgument(f"set_init_step: expected an integer of 0 or more, found {step!r}")
        self._session.close()
        self._step = step

    def module_dump(self, module: object, name: str) -> None:
        """Records this module alone, as `Module.{name}.{Class}`, until module_dump_end()."""
        from torch import nn

        if not isinstance(module, nn.Module):
            raise InvalidArgument(f"module_dump: expected a torch.nn.Module, found {type(module).__name__}")
        if not isinstance(name, str):
            raise InvalidArgument(f"module_dump: expected a str as the name, found {name!r}")
        if not self._collecting:
            return
        assert self._hooks is not None
        if self._watched is not None:
            log.info("module_dump: the model of start() is recorded already, %s with it", name)
            return
        self._hooks.remove()
        self._session.watch_module(module, f"Module.{name}.{type(module).__name__}")
        self._single = Hooks([ModuleHooks(self._session.before_module, self._session.after_module)])
        self._single.install()

    def module_dump_end(self) -> None:
        if self._single is None:
            return
        self._single.remove()
        self._single = None
        self._session.forget_modules()
        if self._collecting and self._hooks is not None:
            self._hooks.install()

    def register_custom_api(self, module: Any, api: str, api_prefix: str | None = None) -> None:
        function = getattr(module, api, None)
        if not callable(function):
            raise InvalidArgument(f"register_custom_api: {module!r} has no function {api!r}")
        prefix = api_prefix or getattr(module, "__name__", "Custom").rpartition(".")[2]
        self.restore_custom_api(module, api)
        wrapper = self._session.wrapper(function, f"{prefix}.{api}")
        self._custom[id(module), api] = AttributeExchange(module, api, wrapper)
        self._renew_hooks()

    def restore_custom_api(self, module: Any, api: str) -> None:
        if self._custom.pop((id(module), api), None) is not None:
            self._renew_hooks()

    def _renew_hooks(self) -> None:
        if self._hooks is not None:
            self._hooks.remove()
        self._hooks = make_hooks(self._session, self._config.level, list(self._custom.values()))
        if self._collecting:
            self._hooks.install()

    def close(self) -> None:
        if os.getpid() == self._process:
            self.stop()
            self._session.end()

    def _forget(self) -> None:
        """In a forked child: the record is the parent's, and so is the thread that writes it."""
        if self._collecting:
            self._collecting = False
            if self._single is not None:
                self._single.remove()
            assert self._hooks is not None
            self._hooks.remove()

    # ---- steps

    def _wanted(self) -> bool:
        if os.getpid() != self._process:
            return False
        if self._config.steps and self._step not in self._config.steps:
            if not self._ended and self._step > self._config.steps[-1]:
                self._ended = True
                log.info("the last configured step has been recorded: the data dump has ended")
            return False
        rank = _rank()
        # As in the existing tool: a filter of ranks leaves a process without a rank out.
        return not self._config.ranks or rank in self._config.ranks

    def _open(self) -> bool:
        rank = _rank()
        folder = "rank" if rank is None else f"rank{rank}"
        directory = os.path.join(self._config.dump_path, f"step{self._step}", folder)
        try:
            self._session.open(directory)
        except Error as error:
            log.warning("step %d is not recorded: %s", self._step, error)
            return False
        return True

    # ---- the model

    def _watch(self, model: object) -> None:
        if self._watched is not None:
            if model is not None and model is not self._watched:
                log.warning("start: another model is given; the one of the first start() is recorded")
            return
        modules = list(_named_modules(model))
        for name, module in modules:
            self._session.watch_module(module, f"Module.{name}.{type(module).__name__}")
        self._watched = model


def _named_modules(model: object) -> Iterator[tuple[str, nn.Module]]:
    """The modules below the model, or below each model of a list, whose index then begins the path."""
    import torch
    from torch import nn

    expected = "start(model): levels L0 and mix expected a torch.nn.Module, or a list or tuple of modules"
    if isinstance(model, nn.Module):
        models = [("", model)]
    elif isinstance(model, (list, tuple)) and model:
        models = [(f"{index}.", item) for index, item in enumerate(model)]
    else:
        raise InvalidArgument(f"{expected}, found {type(model).__name__}")
    for prefix, root in models:
        if not isinstance(root, nn.Module):
            raise InvalidArgument(f"{expected}, found a {type(root).__name__} in the list")
        for name, module in root.named_modules():
            if name and not isinstance(module, torch.jit.ScriptModule) and not _is_fsdp_wrapper(module):
                yield prefix + name, module


def _is_fsdp_wrapper(module: nn.Module) -> bool:
    return type(module).__name__ == "FullyShardedDataParallel"


def _rank() -> int | None:
    """The rank in torch.distributed, None outside of it."""
    from torch import distributed

    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else None


def _unsavable(variable: object, name: object, save_backward: object) -> str:
    """Why a value cannot be saved, or an empty text."""
    if not isinstance(name, str):
        return f"expected a str as the name, found {name!r}"
    if not isinstance(save_backward, bool):
        return f"expected a bool as save_backward, found {save_backward!r}"
    return _unsavable_value(variable, 0)


def _unsavable_value(value: object, depth: int) -> str:
    from torch import Tensor

    if depth > 50:
        return "expected values nested at most 50 deep"
    if isinstance(value, (list, tuple)):
        return next(filter(None, (_unsavable_value(item, depth + 1) for item in value)), "")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return "expected str as keys of a dict"
        return next(filter(None, (_unsavable_value(item, depth + 1) for item in value.values())), "")
    if not isinstance(value, (Tensor, int, float, str)):
        return f"expected tensors, int, float, str, or list, tuple and dict of them, found {type(value).__name__}"
    return ""
