# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients before they are reduced over processes: of Megatron, of FSDP, and of anything else when they
arrive.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from msprobe.engines import shards_flat
from msprobe.hooks.functions import AttributeExchange
from msprobe.native import log
from msprobe.training.model_parts import modules
from msprobe.training.phases import ArrivedGradients, CallWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from msprobe._core import MonitorCalls
    from msprobe._torch import MonitorMeter
    from msprobe.compat.trainer_mon.outputs import Task

_MEGATRON = "megatron.core.distributed.param_and_grad_buffer"
_BUCKETS = ("Bucket", "_ParamAndGradBucketGroup")  # the 2nd: from 0.9 on
_FSDP = "torch.distributed.fsdp._runtime_utils"


class UnreducedGradients:
    """Measures the gradients of parameters, given with their labels, into the frame of `task`; sets its tag.

    each_micro_step: the accumulated gradient behind each micro batch, not only behind the last one.
    """

    def __init__(
        self,
        parameters: Sequence[tuple[int, Any]],
        task: Task,
        meter: MonitorMeter,
        calls: MonitorCalls,
        *,
        micro_steps: int,
        main_grad: bool,
        each_micro_step: bool,
    ) -> None:
        self._parameters = list(parameters)
        self._labels = {id(parameter): label for label, parameter in parameters}
        self._task = task
        self._meter = meter
        self._calls = calls
        self._micro_steps = micro_steps
        self._main_grad = main_grad
        self._each_micro_step = each_micro_step
        self._arrived: dict[int, int] = {}  # by label, in this step
        self._recording = False
        self._installed: list[Any] = []

    def install(self, chunks: Sequence[nn.Module]) -> None:
        if _is_sharded_by_fsdp(chunks):
            self._task.tag = "pre_grad"
            self._installed = self._fsdp()
        elif not self._each_micro_step and (exchanges := self._megatron()):
            self._task.tag = "pre_grad"
            self._installed = exchanges
        else:
            named = [(str(label), parameter) for label, parameter in self._parameters]
            self._installed = [ArrivedGradients(named, self._gradient_arrived)]
        for one in self._installed:
            one.install()

    def remove(self) -> None:
        for one in reversed(self._installed):
            one.remove()
        self._installed = []

    def set_recording(self, recording: bool) -> None:
        self._recording = recording

    def end_step(self) -> None:
        self._arrived.clear()

    def _gradient_arrived(self, name: str, parameter: Any) -> None:
        if not self._recording:
            return
        label = int(name)
        micro_step = self._arrived.get(label, 0)
        self._arrived[label] = micro_step + 1
        if not self._each_micro_step and micro_step + 1 != self._micro_steps:
            self._calls.next()  # mindstudio-probe numbers these, too
            return
        self._measure([(label, self._gradient(parameter))], micro_step if self._each_micro_step else -1)

    def _gradient(self, parameter: Any) -> Any:
        return getattr(parameter, "main_grad", None) if self._main_grad else parameter.grad

    def _measure(self, found: Sequence[tuple[int, Any]], micro_step: int = -1) -> None:
        try:
            present = [(label, gradient) for label, gradient in found if gradient is not None]
            labels, gradients = [label for label, _ in present], [gradient for _, gradient in present]
            self._meter.measure(self._task.frame, labels, gradients, self._calls, micro_step)
        except Exception as error:
            log.warning("monitor: a gradient is not measured: %s: %s", type(error).__name__, error)

    # ---- Megatron

    def _megatron(self) -> list[AttributeExchange]:
        module = sys.modules.get(_MEGATRON)
        kinds = [getattr(module, name, None) for name in _BUCKETS]
        return [
            AttributeExchange(kind, "start_grad_sync", self._around_sync(kind.start_grad_sync))
            for kind in kinds
            if kind is not None and "start_grad_sync" in vars(kind)
        ]

    def _around_sync(self, original: Any) -> Any:
        def start_grad_sync(bucket: Any, *args: Any, **kwargs: Any) -> Any:
            if self._recording:
                present = {id(parameter) for parameter in bucket.params}
                self._measure(
                    [
                        (label, self._gradient(parameter))
                        for label, parameter in self._parameters
                        if id(parameter) in present
                    ]
                )
            return original(bucket, *args, **kwargs)

        return start_grad_sync

    # ---- FullyShardedDataParallel

    def _fsdp(self) -> list[CallWatch]:
        function = getattr(sys.modules.get(_FSDP), "_post_backward_hook", None)
        if not isinstance(function, types.FunctionType):
            log.warning("monitor: this torch has no place before the reduction of FSDP: it is not recorded")
            return []
        return [CallWatch(function, self._post_backward)]

    def _post_backward(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """(state, handle, ...): the gradients of a handle are those of its parameters, one behind another."""
        if self._recording and len(args) > 1:
            try:
                self._measure(list(self._pieces(args[1].flat_param)))
            except Exception as error:
                log.warning(
                    "monitor: gradients of FSDP are not measured: %s: %s", type(error).__name__, error
                )
        return original(*args, **kwargs)

    def _pieces(self, flat: Any) -> Any:
        if flat.grad is None:
            return
        offset = 0
        parameters = getattr(flat, "_params", None) or [None] * len(flat._numels)
        padding = getattr(flat, "_is_padding_mask", None) or [False] * len(flat._numels)
        real = iter(parameters)
        for numel, is_padding in zip(flat._numels_with_padding if any(padding) else flat._numels, padding):
            if not is_padding:
                label = self._labels.get(id(next(real)))
                if label is not None:
                    yield label, flat.grad[offset : offset + numel]
            offset += numel


def _is_sharded_by_fsdp(chunks: Sequence[nn.Module]) -> bool:
    return any(shards_flat(module) for chunk in chunks for module in modules(chunk))
