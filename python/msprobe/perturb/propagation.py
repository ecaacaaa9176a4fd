# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What rounding in each module does to the loss, and what two healthy runs may differ by after some steps.

A copy of the model is called again with the arguments of the training's call, once as it is, and twice for
each group of modules with every result of the group rounded otherwise. What the loss makes of it follows from
the gradients that arrived at the model's results: the loss itself need not be computed again.

A second copy of the parameters, as a run on another device would have them, goes along (its "shadow"): at
each step all of the model is rounded otherwise, and the optimizer's step is taken with the gradients of that.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.hooks.functions import Hooks
from msprobe.hooks.listed_functions import function_exchanges
from msprobe.native import core, log, torch_adapter
from msprobe.perturb.again import (
    autocast_again,
    autocast_of,
    cloned,
    random_state,
    random_state_kept,
    restore_random_state,
    tensors_of,
)
from msprobe.perturb.result import ModuleSensitivity
from msprobe.perturb.second_call import Child, effect_of, pieces, why_no_child
from msprobe.training.steps import calls_of_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TRIES = 2  # forward passes of each group
_MOST_GROUPS = 24
_LONGEST_CHILD = 600.0  # seconds that a child may take for a step
_FEW_GROUPS = 4  # below, the largest group is looked into
_REST = "(the model itself)"

_CONTAINERS = ("ModuleList", "ModuleDict", "Sequential")


@dataclass
class _Call:
    """The call of the model that is made again."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    autocast: tuple[str, bool, Any]
    random_state: Any
    outputs: list[Any]
    gradients: dict[int, Any]


class Propagation:
    """Of one model. Everything is done on copies; random generators stand afterwards where they stood."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._copy: Any = None
        self._groups: dict[str, list[Any]] = {}
        self._call: _Call | None = None
        self._forward: Any = None  # ours, which stands at the model
        self._loss = 0.0
        self._found: dict[str, tuple[float, float, str]] = {}
        self._offset: dict[str, Any] = {}  # of the shadow's parameters
        self._share: dict[str, Any] = {}  # of the optimizer's step, that the shadow takes more
        self.expected: dict[int, float] = {}
        self.notes: list[str] = []
        self._session = torch_adapter().FunctionInterventions()
        self._hooks: Hooks | None = None
        self._seed = 0
        self._in_child = False

    # ---- along a step

    def begin_step(self) -> None:
        """Before the model is called, and before anything is hooked to it."""
        self._call = None
        self._loss = 0.0
        if self.notes:
            return
        if any("forward" in vars(module) for module in self._model.modules()):
            # What stands there may be bound to the model itself, in its copy as well.
            self._give_up("a forward of it is an attribute of the object")
            return
        if any(map(_is_sharded, self._model.parameters())):
            self._give_up("its parameters are divided among processes")
            return
        effect = effect_of(self._model)
        why = None if effect is None else why_no_child(self._model)
        self._in_child = effect is not None
        if why is not None:
            self._give_up(f"a second call may have an effect ({effect}), and {why}")
            return
        try:
            with _unseen():
                self._copy = copy.deepcopy(self._model)
            _take_hooks_off(self._copy)
        except Exception as error:
            self._give_up(f"it cannot be copied ({type(error).__name__}: {str(error).splitlines()[0]})")
            return
        self._groups = _groups_of(self._copy)
        self._watch_call()

    def note_loss(self, value: float) -> None:
        """What backward is called on. The first one of a step counts: it belongs to the call that is kept."""
        if self._loss == 0.0:
            self._loss = value

    def before_optimizer(self, step: int) -> None:
        """Backward is over, and the parameters are still those of the call."""
        self._stop_watching()
        call, self._call = self._call, None
        if call is None or not call.gradients or self.notes:
            return
        _leave_out_overflown(call)
        try:
            with random_state_kept(), calls_of_ours(), self._buffers_kept():
                if self._in_child:
                    self._measure_in_child(call, step)
                else:
                    self._measure(call, step)
        except Exception as error:
            log.debug("perturb: %s", error, exc_info=True)
            self._give_up(f"calling it again failed ({type(error).__name__}: {str(error).splitlines()[0]})")

    def end_step(self) -> None:
        """The optimizer has stepped."""
        import torch

        self._stop_watching()
        share, self._share = self._share, {}
        if self._copy is None:
            return
        with torch.no_grad(), _unseen():
            before = dict(self._copy.named_parameters())
            for name, parameter in self._model.named_parameters():
                if name in share and name in before:
                    more = (parameter.detach() - before[name].detach()) * share[name]
                    known = self._offset.get(name)
                    self._offset[name] = more if known is None else known + more
        self._copy = None
        self._groups = {}

    def sensitivities(self) -> list[ModuleSensitivity]:
        """The largest first."""
        found = [
            ModuleSensitivity(name, loss, output, loss / core.unit_roundoff(dtype), dtype)
            for name, (loss, output, dtype) in self._found.items()
        ]
        return sorted(found, key=lambda one: -one.loss)

    def _give_up(self, why: str) -> None:
        self._stop_watching()
        self._copy = None
        self._share = {}
        self.notes.append(f"rounding was not followed through the model: {why}")

    # ---- the call that is made again

    def _watch_call(self) -> None:
        """At the forward of the model, an attribute of the instance for the time of the step."""
        original = self._model.forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            import torch

            if self._call is not None or not torch.is_grad_enabled():
                return original(*args, **kwargs)
            call = None
            with contextlib.suppress(Exception), _unseen():
                call = _Call(cloned(args), cloned(kwargs), autocast_of(self._model), random_state(), [], {})
            result = original(*args, **kwargs)
            if call is not None:
                with contextlib.suppress(Exception):
                    self._keep(call, result)
            return result

        self._model.forward = self._forward = forward

    def _stop_watching(self) -> None:
        """Takes off what is ours: some models have a forward of their own there."""
        if self._forward is not None and vars(self._model).get("forward") is self._forward:
            del self._model.forward
        self._forward = None

    def _keep(self, call: _Call, result: Any) -> None:
        with _unseen():
            for place, tensor in enumerate(tensors_of(result)):
                if tensor.requires_grad and tensor.is_floating_point():
                    tensor.register_hook(lambda gradient, place=place: _note(call, place, gradient))
        self._call = call

    @contextlib.contextmanager
    def _buffers_kept(self) -> Iterator[None]:
        """A copy may hold on to a part of its original in ways that nobody sees."""
        import torch

        # By their values: a normalisation changes its own without telling autograd.
        kept = [(buffer, buffer.clone()) for buffer in self._model.buffers()]
        try:
            yield
        finally:
            changed = [(buffer, value) for buffer, value in kept if not _same(buffer, value)]
            with torch.no_grad():
                for buffer, value in changed:
                    buffer.copy_(value)
            if changed:
                self._give_up("its copy works on the model itself")

    # ---- measuring

    def _measure_in_child(self, call: _Call, step: int) -> None:
        sizes = {name: int(p.numel()) for name, p in self._copy.named_parameters() if p.requires_grad}
        memory = mmap.mmap(-1, max(1, 4 * sum(sizes.values())))

        def work() -> dict[str, Any]:
            notes = len(self.notes)
            self._share = {}
            self._measure(call, step)
            for name, piece in pieces(memory, sizes):
                if name in self._share:
                    piece.copy_(self._share[name].reshape(-1))
            return {
                "found": self._found,
                "expected": self.expected.get(step),
                "notes": self.notes[notes:],
                "shares": list(self._share),
                "seed": self._seed,
            }

        answer = Child(_LONGEST_CHILD).run(work, memory)
        self._found = {name: (loss, output, dtype) for name, (loss, output, dtype) in answer["found"].items()}
        self._seed = answer["seed"]
        if answer["expected"] is not None:
            self.expected[step] = answer["expected"]
        parameters = dict(self._copy.named_parameters())
        for name, piece in pieces(memory, sizes):
            if name in answer["shares"]:
                like = parameters[name]
                self._share[name] = piece.clone().reshape(like.shape).to(like.dtype)
        if answer["notes"]:
            self._stop_watching()
            self._copy, self._share = None, {}
            self.notes += answer["notes"]

    def _measure(self, call: _Call, step: int) -> None:
        import torch

        state = {name: value.clone() for name, value in self._copy.named_buffers()}
        with _unseen():
            weights = {place: gradient for place, gradient in call.gradients.items()}

        def again(switch: Callable[[], None] | None = None) -> list[Any]:
            with torch.no_grad():
                for name, value in self._copy.named_buffers():
                    if name in state and state[name].shape == value.shape:
                        value.copy_(state[name])
            restore_random_state(call.random_state)
            if switch is not None:
                switch()
            with autocast_again(call.autocast):
                return tensors_of(self._copy.forward(*cloned(call.args), **cloned(call.kwargs)))

        with torch.no_grad():
            plain = again()
            twice = again()
        if any(not torch.equal(a, b) for a, b in zip(plain, twice)):
            self._give_up("it gives other results when it is called again")
            return
        noise = _Noise(self._copy, self._groups)
        with noise.installed():
            squares = 0.0  # of what each group does to the loss
            for name in noise.names:
                largest = 0.0
                for _ in range(_TRIES):
                    self._seed += 1
                    with torch.no_grad():
                        other = again(functools.partial(noise.choose, name, self._seed))
                    noise.choose(None, 0)
                    dtype = _coarser(noise.dtype_of(name), call.autocast)
                    largest = max(largest, self._note_change(name, dtype, plain, other, weights))
                squares += largest**2
            self._follow(step, again, plain, weights, noise)
            if step in self.expected:  # one sample may be 0 by chance
                self.expected[step] = max(self.expected[step], math.sqrt(squares))

    def _note_change(
        self, name: str, dtype: str, plain: list[Any], other: list[Any], weights: dict[int, Any]
    ) -> float:
        loss, output = _changes(plain, other, weights)
        relative = loss / abs(self._loss) if self._loss else 0.0
        known = self._found.get(name, (0.0, 0.0, dtype))
        self._found[name] = (max(known[0], relative), max(known[1], output), dtype)
        return relative

    def _follow(
        self,
        step: int,
        again: Callable[..., list[Any]],
        plain: list[Any],
        weights: dict[int, Any],
        noise: _Noise,
    ) -> None:
        """One step of the shadow."""
        import torch

        parameters = {name: p for name, p in self._copy.named_parameters() if p.requires_grad}

        def gradients(switch: Callable[[], None] | None = None) -> tuple[list[Any], list[Any]]:
            with torch.enable_grad():
                outputs = again(switch)
                wanted = [place for place in weights if outputs[place].requires_grad]
                given = torch.autograd.grad(
                    [outputs[place] for place in wanted],
                    list(parameters.values()),
                    [weights[place].to(outputs[place].dtype) for place in wanted],
                    allow_unused=True,
                )
            return [output.detach() for output in outputs], list(given)

        _, exact = gradients()
        with torch.no_grad():
            for name, parameter in parameters.items():
                if name in self._offset:
                    parameter.add_(self._offset[name])
        self._seed += 1
        outputs, disturbed = gradients(functools.partial(noise.choose, "", self._seed))
        noise.choose(None, 0)
        loss, _ = _changes(plain, outputs, weights)
        if self._loss:
            self.expected[step] = loss / abs(self._loss)
        live = dict(self._model.named_parameters())
        with torch.no_grad():
            for (name, parameter), a, b in zip(parameters.items(), exact, disturbed):
                parameter.copy_(live[name])
                if a is not None and b is not None:
                    share = ((b - a) / a).nan_to_num(0.0, 0.0, 0.0).clamp(-2.0, 2.0)
                    self._share[name] = share


class _Noise:
    """Rounds what the modules of one group compute otherwise."""

    def __init__(self, model: Any, groups: dict[str, list[Any]]) -> None:
        self.names = [*groups, _REST]
        self._session = torch_adapter().FunctionInterventions()
        self._hooks = Hooks(function_exchanges(self._session))
        self._chosen: str | None = None  # "": all of the model
        self._inside: list[str] = []
        self._rounding: Any = None
        self._is_on = False
        self._dtypes: dict[str, str] = {}
        for module, name in [(model, _REST), *((one, name) for name, of in groups.items() for one in of)]:
            self._dtypes.setdefault(name, _dtype_of(module))
            module.forward = self._around(module.forward, name)

    def dtype_of(self, name: str) -> str:
        return self._dtypes.get(name, "float32")

    def choose(self, name: str | None, seed: int) -> None:
        """None: nothing is rounded otherwise."""
        self._chosen = name
        self._rounding = torch_adapter().RoundOtherwise(seed=seed)
        self._switch()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        self._hooks.install()
        self._session.set_active(True)
        try:
            yield
        finally:
            self._session.set_active(False)
            self._hooks.remove()
            self._session.end()

    def _around(self, original: Any, name: str) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            self._inside.append(name)
            self._switch()
            try:
                return original(*args, **kwargs)
            finally:
                self._inside.pop()
                self._switch()

        return forward

    def _switch(self) -> None:
        """Calls are seen all the time; the rounding is there while the chosen group computes."""
        is_on = bool(self._inside) and self._chosen is not None and self._chosen in ("", self._inside[-1])
        if is_on != self._is_on or not is_on:
            self._session.set_intervener(self._rounding if is_on else None)
            self._is_on = is_on


# ---- modules


def _groups_of(model: Any) -> dict[str, list[Any]]:
    """Parts of a model whose calls are told apart: its children, in place of containers what is in them.
    Name -> modules; long lists are cut into pieces.
    """
    parts = {name: child for name, child in model.named_children() if any(True for _ in child.modules())}
    while True:
        bare = [name for name, part in parts.items() if type(part).__name__ in _CONTAINERS[:2]]
        rows = [name for name, part in parts.items() if type(part).__name__ == _CONTAINERS[2]]
        large = sorted(parts, key=lambda name: -_size(parts[name])) if len(parts) < _FEW_GROUPS else []
        chosen = next(
            (name for name in [*bare, *rows, *large] if any(True for _ in parts[name].children())), None
        )
        if chosen is None or (chosen not in bare and len(parts) >= _MOST_GROUPS):
            break
        inner = {f"{chosen}.{name}": child for name, child in parts[chosen].named_children()}
        if chosen not in bare and len(parts) + len(inner) - 1 > _MOST_GROUPS:
            break
        parts = {
            key: value
            for name, part in parts.items()
            for key, value in (inner.items() if name == chosen else [(name, part)])
        }
    names = list(parts)
    each = math.ceil(len(names) / _MOST_GROUPS) if names else 1
    groups: dict[str, list[Any]] = {}
    for first in range(0, len(names), each):
        piece = names[first : first + each]
        title = piece[0] if len(piece) == 1 else f"{piece[0]} ... {piece[-1]}"
        groups[title] = [parts[name] for name in piece]
    return groups


def _is_sharded(parameter: Any) -> bool:
    """A DTensor, or what FSDP makes of parameters: a copy would take part in collectives of its own."""
    return hasattr(parameter, "placements") or "FlatParameter" in type(parameter).__name__


def _size(module: Any) -> int:
    return sum(int(parameter.numel()) for parameter in module.parameters())


def _dtype_of(module: Any) -> str:
    """That of its first parameter."""
    for parameter in module.parameters():
        if parameter.is_floating_point():
            return str(parameter.dtype).rpartition(".")[2]
    return "float32"


def _coarser(dtype: str, autocast: tuple[str, bool, Any]) -> str:
    """What a module computes in, where autocast is on."""
    _, enabled, other = autocast
    name = str(other).rpartition(".")[2]
    return name if enabled and core.unit_roundoff(name) > core.unit_roundoff(dtype) else dtype


def _take_hooks_off(model: Any) -> None:
    """Those of the program would see calls of a model that it does not know; those of torch, as of the norm
    of a weight, are part of what a module computes.
    """
    for module in model.modules():
        for name, hooks in vars(module).items():
            if name.endswith("_hooks") and isinstance(hooks, dict):
                for key, hook in list(hooks.items()):
                    home = getattr(hook, "__module__", None) or type(hook).__module__
                    if not str(home).startswith("torch."):
                        del hooks[key]


# ---- tensors and states


def _changes(plain: list[Any], other: list[Any], weights: dict[int, Any]) -> tuple[float, float]:
    """Of the loss, and of the results relative to their size. The loss moves by the sum over all elements of
    gradient times change, whose terms may cancel by chance: it is taken for as large as random terms make it.
    """
    loss, spread, moved, size = 0.0, 0.0, 0.0, 0.0
    for place, (a, b) in enumerate(zip(plain, other)):
        if not a.is_floating_point() or a.shape != b.shape:
            continue
        apart = b.detach().double() - a.detach().double()
        moved += float(apart.square().sum())
        size += float(a.detach().double().square().sum())
        if place in weights:
            terms = apart * weights[place].double()
            loss += float(terms.sum())
            spread += float(terms.square().sum())
    return max(abs(loss), math.sqrt(spread)), math.sqrt(moved / size) if size else 0.0


def _same(a: Any, b: Any) -> bool:
    import torch

    return torch.equal(a, b) or torch.equal(a.nan_to_num(), b.nan_to_num())


def _note(call: _Call, place: int, gradient: Any) -> None:
    with contextlib.suppress(Exception), _unseen():
        call.gradients.setdefault(place, gradient.detach().clone())


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Modes of torch, ours among them, do not see what is done."""
    import torch

    disabled: Any = torch._C.DisableTorchFunction
    with disabled():
        yield


def _leave_out_overflown(call: _Call) -> None:
    """Of a loss that is scaled. The scale itself is no matter: loss and gradients have it both."""
    import torch

    call.gradients = {
        place: gradient for place, gradient in call.gradients.items() if bool(torch.isfinite(gradient).all())
    }
