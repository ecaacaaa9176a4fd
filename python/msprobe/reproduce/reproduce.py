# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A script that repeats one recorded call with its recorded tensors, and asserts its result: what a user
attaches to a report of a fault.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.dump_folders import dump_file
from msprobe.files.page import file_beside
from msprobe.native import InvalidArgument, IoError, __version__, import_torch
from msprobe.replay.arguments import ArgumentBuilder
from msprobe.replay.dump_file import Dump, RecordedCall
from msprobe.replay.judgement import Setting, judge
from msprobe.reproduce.code import ArgumentCode, function_code, identifier, literal
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    import torch

_MOST_IN_SCRIPT = 1 << 16  # bytes of a tensor; a larger one stands in a file


def reproduce(
    dump: str, name: str, output: str, *, step: int | None = None, rank: int | None = None
) -> list[Path]:
    """Writes {output}/{name}.py, and {name}.{i}.pt for large tensors; returns their paths, the script first.

    dump: a dump.json, or a folder with it: of a rank, a step, a dump path or `msprobe run`; of several dumps
    that of this step and rank, else the first one. Tensors that were not saved are drawn with the recorded
    statistics, and stand in the script as well.

    Raises InvalidArgument for a call that the dump does not have; UnsupportedError, FormatError and
    IoError for one that cannot be made again.
    """
    import_torch()
    opened = Dump(str(dump_file(Path(dump), step, rank)))
    if name not in opened.names:
        raise InvalidArgument(
            f"{opened.path}: there is no call {name!r}; expected a name such as Functional.softmax.3"
        )
    call = opened.call(name)
    tensors = _Tensors(call, make_directory(output))
    text = script(call, tensors)
    target = tensors.folder / f"{call.name}.py"
    write_text(target, text)
    return [target, *tensors.files]


@dataclass
class _Tensors:
    """Turns records of tensors into source, and writes those that are too large for a script."""

    call: RecordedCall
    folder: Path
    files: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._builder = ArgumentBuilder(self.call.folder, "cpu", seed=self.call.name)
        self.drawn = self.call.folder is None

    def __call__(self, record: dict[str, Any]) -> str:
        tensor = self._builder.build(record)
        flag = ", requires_grad=True" if tensor.requires_grad else ""
        tensor = tensor.detach()
        if tensor.numel() * tensor.element_size() > _MOST_IN_SCRIPT:
            return f"tensor_in({literal(self._file(tensor))}{flag})"
        memory = _memory(tensor)
        text = base64.b64encode(memory).decode("ascii")
        shape, strides = (_tuple(tensor.shape), _tuple(tensor.stride()))
        return f"tensor({literal(text)}, {tensor.dtype}, {shape}, {strides}{flag})"

    def _file(self, tensor: torch.Tensor) -> str:
        import torch

        path = self.folder / f"{self.call.name}.{len(self.files)}.pt"
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            torch.save(tensor, temporary)
            os.replace(temporary, path)
        except (OSError, RuntimeError) as error:  # torch's writer raises RuntimeError on a full disk
            temporary.unlink(missing_ok=True)
            raise IoError(f"cannot write {path}: {str(error).partition(chr(10))[0]}") from error
        self.files.append(path)
        return path.name


def _memory(tensor: torch.Tensor) -> bytes:
    """From the first to the last element, so that the strides stay."""
    import torch

    if tensor.numel() == 0:
        return b""
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride()))
    flat = tensor.as_strided((span,), (1,)).contiguous().view(torch.uint8)
    return bytes(flat.numpy())


def _tuple(extents: Any) -> str:
    return f"({', '.join(map(str, extents))}{',' if len(extents) == 1 else ''})"


def script(call: RecordedCall, tensors: _Tensors) -> str:
    """The whole text."""
    function = function_code(call)  # also refuses names that would be no file name
    bounds, finding = _bounds(call)
    code = ArgumentCode(tensors)
    args = [code.add(f"arg_{i}", value) for i, value in enumerate(call.args)]
    kwargs = [
        f"{literal(key)}: {code.add(f'kwarg_{identifier(key)}', value)}"
        for key, value in call.kwargs.items()
        if key != "out"
    ]
    recorded = [] if call.backward is None else call.backward.get("input", [])
    gradients = [
        "None" if value is None else code.add(f"gradient_{i}", value)
        for i, value in enumerate(recorded if isinstance(recorded, list) else [])
    ]
    body = "\n".join(f"    {line}" for line in code.lines)
    origin = "drawn with the recorded statistics" if tensors.drawn else "as they were recorded"
    entries = "\n".join(f"    {literal(place)}: {literal(bound)}," for place, bound in bounds.items())
    return f'''"""The call {call.name} of a training, repeated; its tensors are {origin}.

Needs torch and nothing else: python {call.name}.py [DEVICE]. Exits with 0 when the result is as accurate
as its dtype allows, against the same call in float64 on the CPU, and with 1 when it is not. Written by
msprobe {__version__}.
"""

{finding}{file_beside(__file__, "reproduce.txt")}

# Largest error of each result: an a-priori bound from its dtype and the number of its terms.
BOUNDS = {{
{entries}
}}


def arguments():
    """The arguments, the keyword arguments, and the gradients of the results."""
{body}
    return [{", ".join(args)}], {{{", ".join(kwargs)}}}, [{", ".join(gradients)}]


def main() -> int:
    device, cpu = find_device(), torch.device("cpu")
    print(f"{call.name} on {{device}}, torch {{torch.__version__}}")
    function = {function}
    found = run(function, *moved(list(arguments()), device))
    truth = run(function, *moved(list(arguments()), cpu, torch.float64))
    return 0 if check(found, truth, BOUNDS) else 1


if __name__ == "__main__":
    sys.exit(main())
'''


def _bounds(call: RecordedCall) -> tuple[dict[str, float], str]:
    """The largest error that each result may have, and what this machine says of the call."""
    judgement = judge(call, Setting(source="recorded" if call.folder is not None else "device"))
    if judgement.status == "skipped":
        judgement = judge(call, Setting())
    bounds = {output.place: output.bound for output in judgement.outputs if output.bound is not None}
    if judgement.status == "good":
        return bounds, ""
    return bounds, f"# msprobe found it {judgement.status}: {printable(judgement.reason)}\n\n"
