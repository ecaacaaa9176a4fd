# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Walks over the diagnosis.json of both runs: data, weights, settings, gradients, clipping, optimizer."""

from __future__ import annotations

import json
import math

from msprobe.compare.finding import Finding, Phase
from msprobe.compare.tensor_entry import distance, metrics, negligible, same_value, show
from msprobe.native import FormatError

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from msprobe.compare.finding import Kind

_LARGEST = 2**30  # bytes; the file grows with the parameters, not with the calls


def read_diagnosis(dump: Path) -> dict[str, Any] | None:
    """diagnosis.json beside a dump.json; None where there is none. FormatError: it is something else."""
    path = dump.with_name("diagnosis.json")
    try:
        if path.stat().st_size > _LARGEST:
            raise FormatError(f"{path}: expected at most 1 GiB")
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: {error}; expected JSON") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path}: expected an object")
    return content


class DiagnosisWalk:
    """Compares two diagnoses of one step and rank; findings() has them in the order in which a step runs."""

    def __init__(
        self, target: dict[str, Any], golden: dict[str, Any], previous: DiagnosisWalk | None = None
    ) -> None:
        """`previous`: of the step before, gone through already; without it nothing explains a difference at
        the beginning of the step.
        """
        self._target = target
        self._golden = golden
        self._is_first = previous is None  # nothing has been computed yet
        self._previous = previous._left_behind if previous is not None else {}
        self._previous_worst = max(self._previous.values(), default=0.0)
        self._previous_states = previous._states_left if previous is not None else {}
        self._updated_before = previous._updated if previous is not None else {}
        self._states_left: dict[str, float] = {}
        self._updated: dict[tuple[float, float], float] = {}
        self._left_behind: dict[str, float] = {}
        """How far off the step leaves each parameter and what belongs to it."""
        self._order = 0.0

    def before_calls(self) -> Iterator[Finding]:
        """What the step begins with."""
        yield from self._random_state()
        yield from self._inputs()
        yield from self._parameters()
        yield from self._named(Phase.BUFFERS, "buffer", self._both("buffers"), "buffer")
        yield from self._modules()

    def after_calls(self, of_backward: Mapping[str, float]) -> Iterator[Finding]:
        """What becomes of the gradients. `of_backward`: the distance that the backward of each parameter's
        module explains, by parameter; "" for all others.
        """
        reached = yield from self._backward(of_backward)
        reached = yield from self._clipping(reached)
        reached = yield from self._at_optimizer(reached)
        yield from self._optimizer(reached)

    def keep_updated(self, updated: list[tuple[float, float, float]]) -> None:
        """What the optimizer's calls have left: minimum and maximum in the reference, and the distance."""
        self._updated = {(low, high): apart for low, high, apart in updated}

    # ---- before the calls

    def _both(self, key: str) -> tuple[dict[str, Any], dict[str, Any]]:
        left, right = self._target.get(key), self._golden.get(key)
        return (left if isinstance(left, dict) else {}, right if isinstance(right, dict) else {})

    def _lists(self, key: str) -> tuple[list[Any], list[Any]]:
        left, right = self._target.get(key), self._golden.get(key)
        return (left if isinstance(left, list) else [], right if isinstance(right, list) else [])

    def _start_of(self, key: str) -> tuple[Any, Any]:
        left, right = self._both(key)
        return left.get("start"), right.get("start")

    def _random_state(self) -> Iterator[Finding]:
        left, right = self._start_of("rng")
        if not (isinstance(left, dict) and isinstance(right, dict)):
            return
        for name in left.keys() & right.keys():
            if left[name] != right[name]:
                yield self._finding(
                    "randomness",
                    Phase.RANDOM_STATE,
                    f"rng.{name}",
                    f"the random generator {name} stands elsewhere when the step begins",
                )

    def _inputs(self) -> Iterator[Finding]:
        left, right = self._lists("inputs")
        for call, (a, b) in enumerate(zip(left, right)):
            tensors = a.get("tensors", {}), b.get("tensors", {})
            prefix = f"inputs.{call}." if len(left) > 1 else "inputs."
            yield from self._named(Phase.INPUTS, "input_data", tensors, "input", prefix)
        if len(left) != len(right):
            count = f"{len(left)} times, in the reference {len(right)} times"
            kind: Kind = "extra_call" if len(left) > len(right) else "missing_call"
            yield self._finding(kind, Phase.INPUTS, "model", f"the model is called {count}")

    def _parameters(self) -> Iterator[Finding]:
        left, right = self._both("parameters")
        yield from self._named(Phase.PARAMETERS, "weight", (left, right), "parameter")
        for name in left.keys() & right.keys():
            a, b = left[name].get("requires_grad"), right[name].get("requires_grad")
            if a != b:
                reason = f"parameter {name}: requires_grad is {a}, in the reference {b}"
                yield self._finding("weight", Phase.PARAMETERS, name, reason, module=_module_of(name))

    def _named(
        self,
        phase: Phase,
        kind: Kind,
        both: tuple[dict[str, Any], dict[str, Any]],
        what: str,
        prefix: str = "",
    ) -> Iterator[Finding]:
        left, right = both
        for name, entry in left.items():
            if name in right and (apart := distance(entry, right[name])) > 0:
                before, is_same = self._from_last_step(phase, name, right[name])
                self._left_behind[name] = max(self._left_behind.get(name, 0.0), apart)
                yield self._finding(
                    kind,
                    phase,
                    prefix + name,
                    f"{what} {name} differs before anything was computed",
                    distance=apart,
                    before=before,
                    exact_before=before == 0,
                    is_same_value=is_same,
                    module=_module_of(name),
                    metrics=metrics(entry, right[name]),
                )
        for name in left.keys() ^ right.keys():
            side = "the run under test" if name in left else "the reference"
            yield self._finding(kind, phase, prefix + name, f"only {side} has the {what} {name}")

    def _from_last_step(self, phase: Phase, name: str, golden: Any) -> tuple[float, bool]:
        """How far off the step before left it, and whether that is known of this very value."""
        if phase == Phase.PARAMETERS:
            updated = self._updated_before.get((golden.get("min"), golden.get("max")))
            if updated is not None:
                return updated, True
            return self._previous.get(name, 0.0), self._is_first
        return (self._previous_worst if phase == Phase.BUFFERS else 0.0), False

    def _modules(self) -> Iterator[Finding]:
        left, right = self._both("modules")
        for path in left:
            if path not in right:
                continue
            for setting, a, b in _settings(left[path], right[path]):
                name = f"{path}.{setting}" if path else setting
                yield self._finding(
                    "module_attribute",
                    Phase.MODULES,
                    name,
                    f"module {path or '(the model)'}: {setting} is {show(a)}, in the reference {show(b)}",
                    module=path,
                    metrics={"target": show(a), "golden": show(b)},
                )

    # ---- after the calls

    def _backward(self, explained: Mapping[str, float]) -> _Chain:
        left, right = self._lists("backward")
        reached: dict[str, float] = {}
        for a, b in zip(left, right):
            local = _stage(a, b, "before_reduction")
            floor = _floor(local)
            for name, (x, y) in local.items():
                source = _explained(explained, name)
                yield from self._step(Phase.GRADIENTS, "gradient", name, x, y, source, floor)
            before = _distances(local)
            kind: Kind = "reduction" if local else "gradient"
            phase = Phase.REDUCTION if local else Phase.GRADIENTS
            reduced = _stage(a, b, "after_reduction")
            floor = _floor(reduced)
            for name, (x, y) in reduced.items():
                source = before.get(name, 0.0) if local else _explained(explained, name)
                yield from self._step(phase, kind, name, x, y, source, floor)
            reached |= _distances(reduced)
        if len(left) != len(right):
            count = f"runs {len(left)} times, in the reference {len(right)} times"
            kind = "extra_call" if len(left) > len(right) else "missing_call"
            yield self._finding(kind, Phase.GRADIENTS, "backward", f"backward() {count}")
        return reached

    def _clipping(self, reached: dict[str, float]) -> _Chain:
        left, right = self._lists("clipping")
        for a, b in zip(left, right):
            for name in ("function", "arguments"):
                x, y = a.get(name), b.get(name)
                for key, u, v in _differing(x, y, name):
                    reason = f"gradient clipping: {key} is {show(u)}, in the reference {show(v)}"
                    shown: dict[str, object] = {"target": show(u), "golden": show(v)}
                    yield self._finding("clipping", Phase.CLIPPING, f"clipping.{key}", reason, metrics=shown)
            clipped = _stage(a, b, "after")
            floor = _floor(clipped)
            for name, (x, y) in clipped.items():
                before = max(reached.values(), default=0.0)  # the total norm spreads every difference
                yield from self._step(Phase.CLIPPING, "clipping", name, x, y, before, floor)
            reached = _distances(clipped)
        if len(left) != len(right):
            count = f"clipped {len(left)} times, in the reference {len(right)} times"
            yield self._finding("clipping", Phase.CLIPPING, "clipping", f"gradients are {count}")
        return reached

    def _at_optimizer(self, reached: dict[str, float]) -> _Chain:
        left, right = self._lists("gradients_at_optimizer")
        everything = max(reached.values(), default=0.0)
        for a, b in zip(left, right):
            gradients = _stage(a, b, "gradients")
            floor = _floor(gradients)
            for name, (x, y) in gradients.items():
                before = max(reached.get(name, 0.0), everything)
                yield from self._step(Phase.AT_OPTIMIZER, "gradient", name, x, y, before, floor)
            reached |= _distances(gradients)
        for name, apart in reached.items():
            self._left_behind[name] = max(self._left_behind.get(name, 0.0), apart)
        return reached

    def _optimizer(self, reached: dict[str, float]) -> Iterator[Finding]:
        left, right = self._lists("optimizer")
        if len(left) != len(right):
            count = f"steps {len(left)} times, in the reference {len(right)} times"
            kind: Kind = "missing_call" if len(left) < len(right) else "extra_call"
            yield self._finding(kind, Phase.OPTIMIZER_SETTING, "optimizer.step", f"the optimizer {count}")
        for a, b in zip(left, right):
            yield from self._optimizer_settings(a, b)
            before: dict[str, float] = {}
            for kind_of_state, entries in _states(a, b, "state_before").items():
                floor = _floor(entries)
                for parameter, (x, y) in entries.items():
                    name = f"{parameter}.{kind_of_state}"
                    is_same = name in self._previous_states
                    source = self._previous_states.get(name, self._previous.get(parameter, 0.0))
                    yield from self._step(
                        Phase.OPTIMIZER_STATE, "optimizer_state", name, x, y, source, floor, is_same
                    )
                    before[name] = distance(x, y, floor)
            for kind_of_state, entries in _states(a, b, "state_after").items():
                floor = _floor(entries)
                for parameter, (x, y) in entries.items():
                    name = f"{parameter}.{kind_of_state}"
                    source = max(before.get(name, 0.0), reached.get(parameter, 0.0))
                    yield from self._step(Phase.UPDATE, "optimizer_state", name, x, y, source, floor)
                    self._states_left[name] = distance(x, y, floor)
                    apart = max(distance(x, y, floor), before.get(name, 0.0))
                    self._left_behind[parameter] = max(self._left_behind.get(parameter, 0.0), apart)

    def _optimizer_settings(self, a: Any, b: Any) -> Iterator[Finding]:
        def found(name: str, x: Any, y: Any) -> Finding:
            reason = f"optimizer: {name} is {show(x)}, in the reference {show(y)}"
            shown: dict[str, object] = {"target": show(x), "golden": show(y)}
            return self._finding(
                "optimizer_setting", Phase.OPTIMIZER_SETTING, f"optimizer.{name}", reason, metrics=shown
            )

        if a.get("class") != b.get("class"):
            yield found("class", a.get("class"), b.get("class"))
        groups = a.get("groups", []), b.get("groups", [])
        if len(groups[0]) != len(groups[1]):
            yield found("groups", len(groups[0]), len(groups[1]))
        for index, (x, y) in enumerate(zip(*groups)):
            for key, u, v in _differing(x.get("hyper"), y.get("hyper"), f"groups.{index}"):
                if key.rpartition(".")[2] not in _WITHOUT_EFFECT:
                    yield found(key, u, v)
            if x.get("parameters") != y.get("parameters"):
                yield found(f"groups.{index}.parameters", len(x["parameters"]), len(y["parameters"]))

    # ---- findings

    def _step(
        self,
        phase: Phase,
        kind: Kind,
        name: str,
        left: Any,
        right: Any,
        before: float,
        floor: float,
        is_same: bool = False,
    ) -> Iterator[Finding]:
        apart = distance(left, right, floor)
        if apart > 0:
            yield self._finding(
                kind,
                phase,
                name,
                f"{_WHAT[phase]} {name} differs more than what it is made of",
                distance=apart,
                before=before,
                exact_before=before == 0,
                is_same_value=is_same,
                module=_module_of(name),
                metrics=metrics(left, right),
            )

    def _finding(self, kind: Kind, phase: Phase, name: str, reason: str, **more: Any) -> Finding:
        self._order += 1
        return Finding(kind=kind, phase=phase, name=name, reason=reason, order=self._order, **more)


if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Union

    _Chain = Generator[Finding, None, dict[str, float]]
    _Entry = Union[dict[str, Any], None]

_WHAT = {
    Phase.GRADIENTS: "the gradient of",
    Phase.REDUCTION: "the reduced gradient of",
    Phase.CLIPPING: "the clipped gradient of",
    Phase.AT_OPTIMIZER: "the gradient that the optimizer gets for",
    Phase.OPTIMIZER_STATE: "before the step, the optimizer's state of",
    Phase.UPDATE: "after the step, the optimizer's state of",
}

# Ways to compute the same thing.
_WITHOUT_EFFECT = frozenset(("foreach", "fused", "capturable", "differentiable"))

# What a module says of itself that changes nothing it computes.
_HARMLESS_SETTINGS = frozenset(
    ("inplace", "recompute", "checkpoint", "use_checkpoint", "gradient_checkpointing")
)


def _module_of(name: str) -> str:
    return name.rpartition(".")[0]


def _explained(explained: Mapping[str, float], name: str) -> float:
    return explained.get(name, explained.get("", math.inf))


def _stage(a: Any, b: Any, key: str) -> dict[str, tuple[Any, Any]]:
    """Entries of both sides by parameter; null where a parameter got none."""
    left, right = a.get(key), b.get(key)
    if not (isinstance(left, dict) and isinstance(right, dict)):
        return {}
    return {name: (left[name], right[name]) for name in left if name in right}


def _states(a: Any, b: Any, key: str) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Entries of both sides by what they are ("exp_avg") and parameter. One that a side lacks is null."""
    left, right = a.get(key) or {}, b.get(key) or {}
    result: dict[str, dict[str, tuple[Any, Any]]] = {}
    for parameter in {**left, **right}:
        x, y = left.get(parameter) or {}, right.get(parameter) or {}
        for path in {**x, **y}:
            result.setdefault(path, {})[parameter] = (x.get(path), y.get(path))
    return result


def _floor(entries: dict[str, tuple[Any, Any]]) -> float:
    return negligible(golden for _, golden in entries.values())


def _distances(entries: dict[str, tuple[Any, Any]]) -> dict[str, float]:
    floor = _floor(entries)
    return {name: distance(x, y, floor) for name, (x, y) in entries.items()}


def _differing(left: Any, right: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Entries of two objects that differ, or the two values themselves."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in {**left, **right}:
            if not same_value(left.get(key), right.get(key)):
                yield f"{name}.{key}", left.get(key), right.get(key)
    elif not same_value(left, right):
        yield name, left, right


def _settings(left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    for key in ("class", "training"):
        if left.get(key) != right.get(key):
            yield key, left.get(key), right.get(key)
    for name, a, b in _differing(left.get("settings"), right.get("settings"), "settings"):
        setting = name.partition(".")[2]
        if setting not in _HARMLESS_SETTINGS:
            yield setting, a, b
