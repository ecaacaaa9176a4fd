# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files and folders with tensors: .npy, files of torch.save, safetensors, checkpoints of any layout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.native import core
from msprobe.sources.source import Entry, Row, Source, Text
from msprobe.tensors.content import Content, element_bytes, of_host, open_tensor_file, tensors_in
from msprobe.tensors.text import shape_text, size_text

if TYPE_CHECKING:
    from collections.abc import Sequence


def _row(name: str, dtype: str, shape: Sequence[int]) -> Row:
    elements = 1
    for extent in shape:
        elements *= extent
    size = elements * element_bytes(dtype)
    data = {"name": name, "dtype": dtype, "shape": list(shape), "bytes": size}
    return Row(name, f"{dtype:9} {shape_text(list(shape))}", data)


class TensorFile(Source):
    """One tensor."""

    kind = "tensor"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._content = open_tensor_file(path)

    def title(self) -> str:
        return f"{self.path}: a tensor"

    def rows(self) -> list[Row]:
        return []

    def only(self) -> Entry:
        return self._content

    def entry(self, name: str) -> Entry:
        raise self.missing(name)


class SavedFile(Source):
    """A file of torch.save that holds something else than one tensor: lists and dicts of tensors."""

    kind = "file of torch.save"

    def __init__(self, path: str, value: Any) -> None:
        super().__init__(path)
        self._value = value
        self._tensors = tensors_in(value)

    def title(self) -> str:
        size = sum(of_host(name, tensor).bytes for name, tensor in self._tensors.items())
        return f"{self.path}: a file of torch.save with {len(self._tensors)} tensors, {size_text(size)}"

    def rows(self) -> list[Row]:
        return [_row(name, tensor.dtype, tensor.shape) for name, tensor in self._tensors.items()]

    def entry(self, name: str) -> Entry:
        if name in self._tensors:
            return of_host(name, self._tensors[name])
        found = _walk(self._value, name)
        if found is _ABSENT:
            raise self.missing(name)
        text = repr(found)
        return Text(name, [text[:2000]], {"name": name, "value": text[:2000]})


_ABSENT = object()


def _walk(value: Any, name: str) -> Any:
    """What is no tensor, by the keys that lead to it, joined with dots."""
    if isinstance(value, core.PtObject):
        value = value.entries or value.state
    if isinstance(value, dict):
        for key, entry in value.items():
            text = str(key)
            if text == name:
                return entry
            if name.startswith(f"{text}."):
                found = _walk(entry, name[len(text) + 1 :])
                if found is not _ABSENT:
                    return found
    if isinstance(value, (list, tuple)):
        head, _, rest = name.partition(".")
        if head.isascii() and head.isdigit() and int(head) < len(value):
            return _walk(value[int(head)], rest) if rest else value[int(head)]
    return _ABSENT


class CheckpointSource(Source):
    """Parameters put together from as many files as they are spread over."""

    kind = "checkpoint"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._checkpoint = core.open_checkpoint(Path(path), _rules(path))
        self._parameters = self._checkpoint.parameters

    def title(self) -> str:
        checkpoint = self._checkpoint
        iteration = "" if checkpoint.iteration is None else f", iteration {checkpoint.iteration}"
        names = ("TP", "PP", "EP", "VPP")
        sizes = [f"{name}{size}" for name, size in zip(names, checkpoint.parallel_sizes) if size > 1]
        layout = f", {' x '.join(sizes)}" if sizes else ""
        kind = checkpoint.kind.replace("_", " ")
        return (
            f"{self.path}: a checkpoint ({kind}{layout}{iteration}) with {len(self._parameters)} parameters, "
            f"{size_text(checkpoint.bytes)}"
        )

    def rows(self) -> list[Row]:
        return [_row(*parameter) for parameter in self._parameters]

    def entry(self, name: str) -> Entry:
        if not any(name == known for known, _, _ in self._parameters):
            raise self.missing(name)
        return Content(name, *self._found(name))

    def _found(self, name: str) -> tuple[str, tuple[int, ...], Any]:
        tensor = self._checkpoint.tensor(name)
        return tensor.dtype, tuple(tensor.shape), tensor


def _rules(path: str) -> core.CheckpointRules:
    """Those by which shards are joined. A file alone has none, and keeps its names."""
    if Path(path).is_file():
        return core.CheckpointRules()
    from msprobe.checkpoint.tables import load_rules

    return load_rules()


def open_file(path: str) -> Source:
    """No data is read."""
    if path.lower().endswith(".npy"):
        return TensorFile(path)
    if path.lower().endswith(".safetensors"):
        return CheckpointSource(path)
    value = core.read_pt(path, check=False)
    return TensorFile(path) if isinstance(value, core.PtTensor) else SavedFile(path, value)
