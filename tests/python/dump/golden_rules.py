# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What may differ from the files of mindstudio-probe, rule by rule (docs/compatibility.md, "Data dump").

Everything that no rule names has to be equal: names, order, structure, types, texts; numbers to 1e-4 of their
size, means to 1e-4 of the largest element: torch's kernels round differently on each kind of processor, also
of one instruction set.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from typing import Any

from dump_support import tensors_of

ROUNDING = 1e-4

# mindstudio-probe's own calls.
NOISE = re.compile(r"Tensor\.view_as\.")

# Backward records mindstudio-probe does not make: of in-place modules, and of what stands before one.
ONLY_HERE = re.compile(
    r"Module\..*\.act\.ReLU\.backward\.\d+|Module\..*0\.shared\.Linear\.backward\.(0|2|4|6)"
    r"|Functional\.linear\.(2|6|11|15)\.backward"
)
# The softmax of the head is not used by the loss: it gets no gradient.
ONLY_THERE = re.compile(r"Torch\.softmax\.\d+\.backward")

# Records that stand elsewhere among the others, because they are made when all of their gradients are there.
MOVED = re.compile(
    r"Module\.(.*\.)?[Hh]ead\.Head\.backward\.\d+|Module\.1\.Head\.backward\.\d+|Functional\.dropout\.\d+\.backward"
    r"|Module\..*\.attn\.proj\.Linear\.backward\.\d+|Functional\.linear\.7\.backward"
)


def expected_names(names: list[str], *, sample: str) -> list[str]:
    """The names of a golden dump.json that have to be there."""
    return [name for name in names if not NOISE.match(name) and not ONLY_THERE.fullmatch(name)]


def in_order(names: list[str]) -> list[str]:
    return [name for name in names if not MOVED.fullmatch(name) and not ONLY_HERE.fullmatch(name)]


# ---- records


def differences(there: Any, here: Any, path: str = "") -> list[str]:
    """Where two element trees differ."""
    if isinstance(there, dict) and isinstance(here, dict):
        wrong, here = without_sketch(here, path)
        if wrong:
            return wrong
        if list(there) != list(here):
            return [f"{path}: keys {list(there)}, here {list(here)}"]
        size = _size(there)
        found = []
        for key in there:
            if key == "Mean" and size is not None:
                found += _number(there[key], here[key], size, f"{path}/Mean")
            else:
                found += differences(there[key], here[key], f"{path}/{key}")
        return found
    if isinstance(there, list) and isinstance(here, list):
        if len(there) != len(here):
            return [f"{path}: {len(there)} elements, here {len(here)}"]
        return [
            text
            for index, (a, b) in enumerate(zip(there, here))
            for text in differences(a, b, f"{path}/{index}")
        ]
    if isinstance(there, float) and isinstance(here, float):
        return _number(there, here, abs(there), path)
    return [] if type(there) is type(here) and there == here else [f"{path}: {there!r}, here {here!r}"]


def without_sketch(element: dict[str, Any], path: str) -> tuple[list[str], dict[str, Any]]:
    """What is wrong with the one key that only ours have (docs/formats/dump.md, "Sketch"), and the element
    without it.
    """
    is_leaf = isinstance(element.get("dtype"), str) and isinstance(element.get("shape"), list)
    if not is_leaf:
        return [], element
    rest = {key: value for key, value in element.items() if key != "sketch"}
    has_elements = bool(element["shape"]) and 0 not in element["shape"]
    if ("sketch" in element) != (has_elements and element["Max"] is not None):
        return [f"{path}: a sketch is {'there' if 'sketch' in element else 'missing'}"], rest
    return (_sketch_problems(element, path) if "sketch" in element else []), rest


def _sketch_problems(tensor: dict[str, Any], path: str) -> list[str]:
    keys = list(tensor)
    before = [key for key in ("Norm", "requires_grad") if key in keys]
    if keys.index("sketch") != keys.index(before[-1]) + 1:
        return [f"{path}: keys {keys}"]
    data = base64.b64decode(tensor["sketch"], validate=True)
    wide = tensor["dtype"].rpartition(".")[2] in ("float64", "int64", "uint64", "complex128")
    finite = 89 if wide else 57
    if len(data) not in (finite, finite + 40):
        return [f"{path}: a sketch of {len(data)} bytes"]
    mean, norm = struct.unpack_from("<2d", data, 9)
    size = _size(tensor)
    # Of complex numbers the statistics are those of absolute values; NaN and infinities are left out here.
    if (
        len(data) != finite
        or size is None
        or not isinstance(tensor["Norm"], float)
        or "complex" in tensor["dtype"]
    ):
        return []
    half = tensor["dtype"].endswith("16")
    close = 1e-2 if half else 1e-5
    is_same = math.isclose(norm, tensor["Norm"], rel_tol=close) and abs(mean - tensor["Mean"]) <= close * size
    return [] if is_same or math.isinf(tensor["Norm"]) else [f"{path}: sketch of mean {mean}, norm {norm}"]


def _size(tensor: dict[str, Any]) -> float | None:
    """The largest absolute value of a tensor record, which its mean is measured by."""
    values = [tensor.get("Max"), tensor.get("Min")]
    if not all(isinstance(value, float) and math.isfinite(value) for value in values):
        return None
    return max(abs(value) for value in values)


def _number(there: Any, here: Any, size: float, path: str) -> list[str]:
    if type(there) is not type(here):
        return [f"{path}: {there!r}, here {here!r}"]
    if there == here or (isinstance(there, float) and math.isnan(there) and math.isnan(here)):
        return []
    close = isinstance(there, float) and math.isfinite(size) and abs(there - here) <= ROUNDING * size
    return [] if close else [f"{path}: {there!r}, here {here!r}"]


def record_differences(name: str, there: dict[str, Any], here: dict[str, Any], forward: Any) -> list[str]:
    """Where a record differs from the golden one. `forward`: the forward record of the same call here."""
    if isinstance(here, dict) and here.get("is_recompute"):
        # A repeated call names the one it repeats, behind that key: an earlier one of the same function.
        keys = list(here)
        original = here["recompute_of"]
        assert keys.index("recompute_of") == keys.index("is_recompute") + 1
        assert _call(original)[0] == _call(name)[0]
        assert _call(original)[1] < _call(name)[1]
        here = {key: value for key, value in here.items() if key != "recompute_of"}
    if name.endswith(".backward") and "output" in there:
        rest = differences(*(({**record, "output": []}) for record in (there, here)), path=name)
        return rest + api_gradient_differences(name, there["output"], here, forward)
    if ".Head.backward." in name and "output" in there:
        # Inputs given by keyword have gradients here.
        assert there["output"] == []
        shapes = [tensor["shape"] for tensor in tensors_of(here["output"])]
        wrong = [] if shapes == [[2, 5, 8]] else [f"{name}: shapes of output {shapes}"]
        there, here = {**there, "output": []}, {**here, "output": []}
        return wrong + differences(there, here, name)
    if name == "Functional.linear.3.forward" and "output" in here and "output" not in there:
        # It closes the scope of sample scope_L1: its end is recorded, too.
        here = {key: value for key, value in here.items() if key != "output"}
    return differences(there, here, name)


def _call(name: str) -> tuple[str, int]:
    """Name and number of a call, from that of its forward record: of a function or of a module."""
    stem, _, number = name.removesuffix(".forward").rpartition(".")
    return stem, int(number)


def api_gradient_differences(name: str, there: list[Any], record: dict[str, Any], forward: Any) -> list[str]:
    """There, gradients that leave one node of autograd; here, those of the call's inputs that are floating
    point tensors, each in its shape. What is in both has to be equal.
    """
    found = []
    here = record["output"]
    if forward is not None and "input_args" in forward:
        inputs = tensors_of([forward["input_args"], forward["input_kwargs"]])
        inputs = [tensor for tensor in inputs if "float" in tensor["dtype"] or "complex" in tensor["dtype"]]
        if len(inputs) != len(here):
            found.append(f"{name}: {len(inputs)} inputs that may have gradients, {len(here)} gradients")
        for index, (tensor, gradient) in enumerate(zip(inputs, here)):
            if gradient is None and tensor["requires_grad"]:
                found.append(f"{name}: no gradient of input {index}")
            if gradient is not None and gradient["shape"] != tensor["shape"]:
                found.append(f"{name}: gradient {index} has shape {gradient['shape']}, not {tensor['shape']}")
    if name.startswith("Functional.relu"):  # a view changed in place: docs/compatibility.md
        return [text for text in found if "no gradient of input 0" not in text]
    if name.startswith("Functional.cross_entropy"):  # there, that of the log_softmax inside
        return found
    # The node of a linear with a 3-D input only gives the gradient of the output another shape.
    inner = name.startswith("Functional.linear") and len(there) == 1
    ours = tensors_of(record.get("input", there) if inner else here)
    for gradient in tensors_of(there):
        if not any(_same_but_shape(gradient, candidate) for candidate in ours):
            found.append(f"{name}: nothing here like the gradient {gradient}")
    return found


def _same_but_shape(there: dict[str, Any], here: dict[str, Any]) -> bool:
    if math.prod(there["shape"]) != math.prod(here["shape"]):
        return False
    wrong, here = without_sketch(here, "")
    return not wrong and not differences(
        {**there, "shape": [], "data_name": "", "md5": ""}, {**here, "shape": [], "data_name": "", "md5": ""}
    )


# ---- hierarchy


FILTERED = ("list_linear_mix", "scope_L0")


def construct_differences(
    there: dict[str, Any], here: dict[str, Any], kept: set[str], *, sample: str
) -> list[str]:
    """Forward names hang where they hang there, and backward names below the backward of the same module.
    `kept`: the names of the golden dump.json.
    """
    there = {name: parent for name, parent in there.items() if not NOISE.match(name)}
    found = []
    for name, parent in there.items():
        if ONLY_THERE.fullmatch(name):
            continue
        if name not in here and ".backward" in name and sample in FILTERED and name not in kept:
            continue  # the backward of what a filter leaves out is not looked at here
        if name not in here:
            found.append(f"construct.json: {name} is missing")
        elif ".backward" not in name:
            # Forwards after the backward of an in-place module hang below that module there.
            expected = None if parent is not None and ".backward" in parent else parent
            if here[name] != expected:
                found.append(f"construct.json: {name} hangs below {here[name]}, not {expected}")
    for name, parent in here.items():
        if name not in there and not ONLY_HERE.fullmatch(name) and not after_early_stop(sample, name):
            found.append(f"construct.json: {name} is new")
        forward = name.replace(".backward", ".forward")
        if ".backward" in name and forward in here:
            expected = here[forward] and here[forward].replace(".forward", ".backward")
            if parent != expected:
                found.append(f"construct.json: {name} hangs below {parent}, not {expected}")
    return found


def after_early_stop(sample: str, name: str) -> bool:
    """There, nothing is recorded any more after a recomputation that stopped early: clipping, optimizer.
    Before torch 2.12 checkpointing makes an empty tensor.
    """
    return sample == "recompute_mix" and bool(
        re.fullmatch(
            r"clip_grad|optimizer|Torch\.empty\.\d+\.forward"
            r"|(Torch\.(_foreach_norm|stack|vector_norm|clamp)|Tensor\.(to|add_|__add__|__mul__|reciprocal))"
            r"\.\d+\.forward",
            name,
        )
    )


# ---- call stacks

_FRAME = re.compile(r"File (?P<file>.*), line (?P<line>\d+), in (?P<function>.*), \n (?P<text>.*)")


def frames(texts: list[str]) -> list[tuple[str, ...]]:
    """Frames as far as they can be equal: without mindstudio-probe's own, without torch's way of calling a
    module, which depends on the hooks, without this test, and without lines: those of the script moved, those
    of torch are others in each version.
    """
    result = []
    for text in texts:
        match = _FRAME.fullmatch(text)
        assert match, text
        file, _, function, source = match.groups()
        # Tensor.backward asks for modes of torch, and is then called again.
        if file.endswith("torch/overrides.py") or "return handle_torch_function(" in source:
            continue
        if re.search(
            r"msprobe/|torch/nn/modules/module\.py|dump_support|children\.py|test_dump|multiprocessing|<string>",
            file,
        ):
            continue
        if file.endswith("make_samples.py"):
            if function in ("main", "<module>"):
                continue
            result.append(("make_samples.py", function))
        else:
            result.append((file.partition("site-packages/")[2], function))
    return result
