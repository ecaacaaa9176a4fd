# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of a step that are no statistics: loss, learning rates, scale of the gradients, time."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from msprobe.native import core
from msprobe.training.phases import watch_backward, watch_scaler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe._torch import MonitorMeter


class Losses:
    """The losses of a step, which may still be on a device.

    scale: the factor of a scaler that they have.
    """

    def __init__(self, losses: Sequence[Any], scale: float, meter: MonitorMeter) -> None:
        import torch

        self._scale = scale
        self._rows = core.MonitorFrame()
        # The value of a tensor of another kind is known to itself alone, as that of one that is distributed.
        plain = [type(one) is torch.Tensor and one.layout == torch.strided for one in losses]
        self._of_others = [float(one.item()) for one, is_plain in zip(losses, plain) if not is_plain]
        measured = [one for one, is_plain in zip(losses, plain) if is_plain]
        meter.measure(self._rows, list(range(len(measured))), measured, None)

    def bring(self) -> None:
        self._rows.bring()

    def is_complete(self) -> bool:
        return self._rows.is_complete()

    def value(self) -> float | None:
        """The sum, without the factor; None: backward() was not called on a number."""
        self._rows.complete()
        values = [*self._rows.sums(), *self._of_others]
        return sum(values) / self._scale if values else None


class TrainingNumbers:
    """Installed while a step is recorded."""

    def __init__(self) -> None:
        self._losses: list[Any] = []
        self._scale: float | None = None
        self._steps = 0
        self._ended = time.perf_counter()
        self._watches = [*watch_backward(self._backward), *watch_scaler(self._scaled_step)]
        self._installed = False

    def set_recording(self, recording: bool) -> None:
        if recording == self._installed:
            return
        self._installed = recording
        for watch in self._watches if recording else reversed(self._watches):
            if recording:
                watch.install()
            else:
                watch.remove()

    def losses(self, meter: MonitorMeter) -> Losses:
        """What backward() was called on since the last end of a step; a device is not waited for."""
        return Losses(self._losses, self._scale or 1.0, meter)

    def add_to(self, optimizers: Sequence[Any], add: Callable[[str, str, float], None]) -> None:
        """add(quantity, name, value): told of the numbers of the step that ends."""
        if self._scale is not None:
            add("loss_scale", "", self._scale)
        add("step_seconds", "", time.perf_counter() - self._ended)
        for name, rate in _learning_rates(optimizers):
            add("learning_rate", name, rate)

    def end_step(self) -> None:
        self._losses = []
        self._ended = time.perf_counter()
        self._steps += 1

    def _backward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with contextlib.suppress(Exception):  # what cannot be read is no loss
            import torch

            tensors = args[0] if args else kwargs.get("tensors")
            several = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or ())
            disabled: Any = torch._C.DisableTorchFunction  # modes do not see this
            with disabled(), torch.no_grad():
                self._losses += [
                    one.detach().clone() for one in several if one.numel() == 1 and not one.is_complex()
                ]

    def _scaled_step(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            self._scale = float(args[0].get_scale()) if args[0].is_enabled() else None
        before = self._steps
        result = original(*args, **kwargs)
        if self._steps == before:
            self._losses = []  # it found Inf and made no step: the loss belongs to none
        return result


def _learning_rates(optimizers: Sequence[Any]) -> list[tuple[str, float]]:
    """Of each group; "" is the name of the only one."""
    rates = []
    for number, optimizer in enumerate(optimizers):
        groups = getattr(optimizer, "param_groups", ())
        for index, group in enumerate(groups):
            with contextlib.suppress(TypeError, ValueError, KeyError, RuntimeError):
                parts = [str(number)] if len(optimizers) > 1 else []
                parts += [str(index)] if len(groups) > 1 else []
                rates.append((".".join(parts), float(group["lr"])))
    return rates
