# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the monitor measures of module calls: activations, their gradients, attention, routers of experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.engines import WRAPPERS
from msprobe.hooks.functions import (
    AttributeExchange,
    Exchange,
    HiddenFromQuestions,
    Hooks,
    ModeExchange,
)
from msprobe.hooks.modules import ModuleCalls, ModuleHooks
from msprobe.monitoring.layers import PlainNames
from msprobe.monitoring.parameter_rows import is_wanted
from msprobe.monitoring.quantities import quantity
from msprobe.native import torch_adapter
from msprobe.training.model_parts import compiled_around, named_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from msprobe._core import MonitorSession
    from msprobe._torch import MonitorMeter
    from msprobe.config import MonitorConfig

_CONTAINERS = frozenset(("Sequential", "ModuleList", "ModuleDict"))
_ROUTERS = frozenset(("router", "gate", "gating", "wg"))
_TOP = ("top_k", "num_experts_per_tok", "topk", "k", "moe_router_topk", "num_selects")


class ModuleRows:
    """Hooks on the modules of the models, installed for recorded steps only.

    label: makes a label for a quantity and a module. merges: values are put together with those of other
        processes, so what several have is measured by one.
    """

    def __init__(
        self,
        models: Sequence[tuple[str, Any]],
        settings: MonitorConfig,
        meter: MonitorMeter,
        session: MonitorSession,
        label: Callable[[str, str], int],
        *,
        merges: bool,
    ) -> None:
        quantities = settings.quantities
        self._attention = "attention" in quantities
        self._watch: Any = torch_adapter().MonitorModules(
            meter,
            session.calls,
            session.labels,
            session.frame("activation"),
            session.frame("activation_gradient"),
            measure_forward="activation" in quantities,
            measure_inputs=False,
            measure_backward="activation_gradient" in quantities,
            gradient_group=quantity("activation_gradient").number,
            micro_steps=0,
            merges=merges,
            settles=True,
        )
        measured = "activation" in quantities or "activation_gradient" in quantities
        self.count = 0
        self.expert_counts: dict[int, int] = {}  # by label of the load
        compiled = []
        if measured or self._attention or "experts" in quantities:
            for prefix, model in models:
                compiled += self._watch_model(prefix, model, settings, measured=measured, label=label)
        if self._attention:
            self._watch.set_attention(
                settings.attention_queries,
                quantity("attention_logit").number,
                quantity("attention_entropy").number,
            )
        self._hooks = Hooks(self._exchanges(compiled)) if self.count else None

    def set_recording(self, recording: bool) -> None:
        if self._hooks is None:
            return
        self._watch.set_recording(recording)
        if recording:
            self._hooks.install()
        else:
            self._hooks.remove()

    def end_step(self) -> None:
        self._watch.end_step()

    def close(self) -> None:
        self.set_recording(False)
        self._watch.retire_mode()
        self._watch.forget_modules()

    def _watch_model(
        self,
        prefix: str,
        model: Any,
        settings: MonitorConfig,
        *,
        measured: bool,
        label: Callable[[str, str], int],
    ) -> list[Any]:
        routers = dict(_routers(model)) if "experts" in settings.quantities else {}
        compiled = []
        names = PlainNames(model)
        outside = compiled_around(model)
        for name, inner in named_modules(model):
            module = outside.get(id(inner), inner)
            full = prefix + names.of(name)
            is_compiled = getattr(module, "_compiled_call_impl", None) is not None
            # A container has the outputs of its last module, which is not seen inside of what is compiled.
            is_seen = is_compiled or type(module).__name__ not in _CONTAINERS
            wanted = is_seen and is_wanted(full, settings.targets)
            if type(module).__name__ in WRAPPERS:
                continue
            self.count += 1
            self._watch.watch(module, 0, full, measured and wanted, quantity("activation").number)
            if is_compiled:
                compiled.append(module)
            if id(module) in routers:
                experts, top = routers[id(module)]
                load = label("expert_load", full)
                self.expert_counts[load] = experts
                self._watch.watch_router(
                    module,
                    experts,
                    settings.expert_top or top,
                    settings.expert_capacity,
                    load,
                    label("router_probability", full),
                    label("router_entropy", full),
                )
        return compiled

    def _exchanges(self, compiled: Sequence[Any]) -> list[Exchange]:
        """Inside of what is compiled nothing is hooked; a compiled module itself is called through us."""
        watch = self._watch
        hooks = ModuleHooks(watch.before_module, watch.after_module, watch.settle_module)
        inner: list[Exchange] = [ModuleCalls(hooks, self._watch.module_call)]
        if self._attention:
            inner.append(HiddenFromQuestions(torch_adapter().call_without_mode))
            inner.append(ModeExchange(self._watch.function_mode(), self._watch.push_mode))
        outer: list[Exchange] = [
            AttributeExchange(
                module, "_compiled_call_impl", self._observed(module, module._compiled_call_impl)
            )
            for module in compiled
        ]
        return [*outer, *inner]

    def _observed(self, module: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._watch.before_module(module, args)
            try:
                result = compiled(*args, **kwargs)
            except Exception:
                self._watch.after_module(module, args, None)
                raise
            self._watch.after_module(module, args, kwargs, result)
            return result

        return call


def _routers(model: Any) -> Iterator[tuple[int, tuple[int, int]]]:
    """Modules that decide which experts a token goes to, by id: how many experts there are, and how many a
    token has.

    A module called router or gate beside one called experts.
    """
    for _, parent in named_modules(model):
        children = dict(parent.named_children())
        experts = next((child for name, child in children.items() if name.endswith("experts")), None)
        for name, child in children.items():
            if name in _ROUTERS and experts is not None:
                count = _expert_count(parent, experts, child)
                if count > 1:
                    yield id(child), (count, _top(parent, child))


def _expert_count(parent: Any, experts: Any, router: Any) -> int:
    for holder in (router, parent, experts):
        for attribute in ("num_experts", "n_routed_experts", "n_experts", "num_local_experts"):
            value = getattr(holder, attribute, None)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    out = getattr(router, "out_features", None)
    if isinstance(out, int):
        return out
    try:
        return len(experts)
    except TypeError:
        return 0


def _top(parent: Any, router: Any) -> int:
    for holder in (router, parent, getattr(parent, "config", None), getattr(router, "config", None)):
        for attribute in _TOP:
            value = getattr(holder, attribute, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return 1
