# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of modules made again on what the calls of another run were given: does the module make the
difference, or did it come in?

A call is made again in the process of its training, before the optimizer steps, with the inputs, weights,
buffers and random generator that it had. Where this does not give its own result to the bit nothing is told:
it depends on more than that. Then it is made with those of the other run.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from msprobe.experiment import kept
from msprobe.experiment.at_modules import in_place_of_weights, weights_of
from msprobe.files.atomic_file import write_text
from msprobe.files.json_file import read_object
from msprobe.native import Error
from msprobe.recording.run_file import rank_of_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_FILE = "made_again.rank{}.json"


@dataclass(frozen=True)
class MadeAgain:
    """A call on what the other run's was given."""

    module: str
    call: int
    forward: str
    """What it gives: "reference", the other run's result; "target", its own; "both", which are equal;
    "unknown": its own result does not come again. "to the bit" stands behind where it is.
    """
    backward: str

    @property
    def said(self) -> str:
        words = {
            True: "the target's result: it makes the difference itself",
            False: "the reference's result: the difference came in with its inputs",
        }
        if not (self.makes_difference or self.is_inherited):
            return ""
        what = "result" if self.forward.startswith("target") or self.is_inherited else "gradients"
        text = words[self.makes_difference].replace("result", what)
        return f"{self.module} made again on the reference's inputs gives {text}"

    @property
    def makes_difference(self) -> bool:
        return any(one.startswith("target") for one in (self.forward, self.backward))

    @property
    def is_inherited(self) -> bool:
        """All that differs of it came in."""
        both = (self.forward, self.backward)
        return any(one.startswith("reference") for one in both) and not any(
            one.startswith(("target", "unknown")) for one in both
        )


def given_to(place: str, module: Any, tensors: list[Any]) -> dict[str, Any]:
    """What a call begins with, to be kept. tensors: of its arguments, in their order."""
    values = {f"{place}.given.{number}": kept.copied(one) for number, one in enumerate(tensors)}
    for name, (tensor, _) in weights_of(module).items():
        values[f"{place}.parameter.{name}"] = kept.copied(tensor)
    for name, buffer in module.named_buffers():
        values[f"{place}.buffer_before.{name}"] = kept.copied(buffer)
    values[f"{place}.random_before"] = kept.torch_state()
    return values


def make_again(
    module: Any,
    place: str,
    call: Callable[[list[Any]], list[Any]],
    own: Mapping[str, Any],
    other: Mapping[str, Any],
) -> MadeAgain:
    """call(tensors): the module called with these in the place of the tensors of its arguments; the tensors
    of its result. own, other: what was kept of this run and of the other one.
    """
    path, _, number = place.rpartition(":")
    forward = backward = "unknown"
    with contextlib.suppress(Exception):  # a call of a user: then nothing is told
        control = _made(module, place, call, own)
        again = _made(module, place, call, other)
        forward = _nearer(control, again, own, other, f"{place}.output.")
        backward = _nearer(control, again, own, other, f"{place}.input.", f"{place}.weight.")
    return MadeAgain(path, int(number), forward, backward)


def _made(
    module: Any, place: str, call: Callable[[list[Any]], list[Any]], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Results, and gradients of inputs and weights, under the names under which they are kept."""
    import torch

    def leaf(name: str, gradient: str) -> Any:
        return values[name].clone().requires_grad_(gradient in values)

    count = sum(name.startswith(f"{place}.given.") for name in values)
    given = [leaf(f"{place}.given.{n}", f"{place}.input.{n}") for n in range(count)]
    weights = {
        name: leaf(f"{place}.parameter.{name}", f"{place}.weight.{name}") for name in weights_of(module)
    }
    leaves = {f"{place}.input.{n}": one for n, one in enumerate(given)}
    leaves.update({f"{place}.weight.{name}": one for name, one in weights.items()})
    leaves = {name: one for name, one in leaves.items() if one.requires_grad}
    with torch.enable_grad(), _with_state(module, place, values), in_place_of_weights(module, weights):
        # Copies: a module may write into its inputs.
        results = call([one.clone() for one in given])
        made = {f"{place}.output.{n}": one.detach() for n, one in enumerate(results)}
        pairs = [(one, values.get(f"{place}.gradient.{n}")) for n, one in enumerate(results)]
        pairs = [(one, gradient) for one, gradient in pairs if gradient is not None and one.requires_grad]
        if pairs and leaves:
            # What torch.autograd.grad calls, which is watched.
            engine: Any = torch.autograd.Variable._execution_engine
            found = engine.run_backward(
                tuple(one for one, _ in pairs),
                tuple(gradient for _, gradient in pairs),
                False,
                False,
                tuple(leaves.values()),
                allow_unreachable=True,
                accumulate_grad=False,
            )
            made.update({name: one for name, one in zip(leaves, found) if one is not None})
    return made


@contextlib.contextmanager
def _with_state(module: Any, place: str, values: Mapping[str, Any]) -> Iterator[None]:
    """Buffers and the random generator as the call found them; behind it as they are now."""
    import torch

    buffers = [
        (one, one.clone(), values[f"{place}.buffer_before.{name}"]) for name, one in module.named_buffers()
    ]
    state, states = torch.get_rng_state(), kept.python_states()
    try:
        with torch.no_grad():
            for buffer, _, before in buffers:
                buffer.copy_(before)
        torch.set_rng_state(values[f"{place}.random_before"])
        yield
    finally:
        with torch.no_grad():
            for buffer, now, _ in buffers:
                buffer.copy_(now)
        kept.set_states(state, states)


def _nearer(
    control: Mapping[str, Any],
    again: Mapping[str, Any],
    own: Mapping[str, Any],
    other: Mapping[str, Any],
    *starts: str,
) -> str:
    """To which of the two results that of the call made again is nearer."""
    names, *rest = [{name for name in run if name.startswith(starts)} for run in (own, control, other, again)]
    if not names or rest[0] != names or any(not _equal(control[name], own[name]) for name in names):
        return "unknown"
    if rest[1] != names:  # a gradient that only one of them gives
        return "target" if rest[2] == names else "reference" if rest[2] == rest[1] else "unknown"
    if rest[2] != names:
        return "unknown"
    if all(_equal(own[name], other[name]) for name in names):
        return "both" if all(_equal(again[name], own[name]) for name in names) else "unknown"
    if all(_equal(again[name], other[name]) for name in names):
        return "reference to the bit"
    if all(_equal(again[name], own[name]) for name in names):
        return "target to the bit"
    to_other, to_own = (sum(_apart(again[name], run[name]) for name in names) for run in (other, own))
    return "reference" if to_other < to_own else "target"


def _equal(a: Any, b: Any) -> bool:
    import torch

    return bool(a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b))


def _apart(a: Any, b: Any) -> float:
    """The distance relative to the size of b."""
    difference = float((a.double() - b.double()).norm())
    return difference / max(float(b.double().norm()), 1e-300)


def write_made_again(folder: Path, found: list[MadeAgain]) -> None:
    content = {"format": 1, "calls": [asdict(one) for one in found]}
    write_text(folder / _FILE.format(rank_of_process()), json.dumps(content, indent=1) + "\n")


def read_made_again(folder: Path, rank: int) -> list[MadeAgain]:
    """Empty: none was made."""
    with contextlib.suppress(Error, KeyError, TypeError):
        content = read_object(str(folder / _FILE.format(rank)), "the calls that were made again")
        return [MadeAgain(**one) for one in content["calls"]]
    return []
