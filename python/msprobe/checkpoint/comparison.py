# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Comparing two checkpoints: the whole of it as one call."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from msprobe.checkpoint.hash_file import HashFile, hashes_of, is_hash_file, read_hash_file
from msprobe.checkpoint.result import CheckpointResult, CheckpointSide, ParameterRow, row_of
from msprobe.checkpoint.tables import Mapping, load_mapping, load_rules, mapping_for_model
from msprobe.native import InvalidArgument, core, log

MINDSPORE = "mindspore"  # type of a model, whatever else it is, in files of MindSpore

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    import os
    from collections.abc import Callable


@dataclass(frozen=True)
class CheckpointOptions:
    mapping: str | None = None
    """A mapping that comes with msprobe, or a file; None: by the config.json of models of Hugging Face that
    are compared with another kind.
    """
    rules: str | None = None
    """A table of rules in place of the one that comes with msprobe."""
    optimizer: bool = False
    hash: bool = False
    threads: int = 0
    progress: Callable[[int, int], None] | None = None
    """Told of the bytes that are compared, and all of them."""
    share: tuple[int, int] = (0, 1)
    """Only this part of the rows, of so many."""


def compare_checkpoints(
    reference: str | os.PathLike[str],
    target: str | os.PathLike[str],
    options: CheckpointOptions | None = None,
) -> CheckpointResult:
    """Compares two checkpoints, of which one or both may be files of hashes. Files are only read; nothing in
    them is run. Raises FormatError, IoError, InvalidArgument, UnsupportedError.
    """
    options = options or CheckpointOptions()
    begin = time.monotonic()
    if is_hash_file(reference) or is_hash_file(target):
        result = _compare_hashes(reference, target, options)
    else:
        result = _compare_content(reference, target, options)
    return CheckpointResult(**{**vars(result), "seconds": time.monotonic() - begin})


def open_checkpoint(
    path: str | os.PathLike[str], rules: core.CheckpointRules, *, optimizer: bool = False
) -> core.Checkpoint:
    checkpoint = core.open_checkpoint(Path(path), rules, optimizer=optimizer)
    log.info("%s: iteration %s, %d parameters", path, checkpoint.iteration, len(checkpoint.parameters))
    for warning in checkpoint.warnings:
        log.warning("%s: %s", path, warning)
    return checkpoint


def side_of(path: str | os.PathLike[str], checkpoint: core.Checkpoint) -> CheckpointSide:
    return CheckpointSide(
        path=str(path),
        kind=checkpoint.kind,
        iteration=checkpoint.iteration,
        parallel_sizes=checkpoint.parallel_sizes,
        parameters=len(checkpoint.parameters),
        bytes=checkpoint.bytes,
        left_out=list(checkpoint.left_out),
        warnings=list(checkpoint.warnings),
    )


def _compare_content(
    reference: str | os.PathLike[str], target: str | os.PathLike[str], options: CheckpointOptions
) -> CheckpointResult:
    rules = load_rules(options.rules)
    first = open_checkpoint(reference, rules, optimizer=options.optimizer)
    second = open_checkpoint(target, rules, optimizer=options.optimizer)
    notes = _map_names(first, second, options)
    found = core.compare_checkpoints(
        first,
        second,
        rules,
        threads=options.threads,
        hash=options.hash,
        share=options.share,
        progress=options.progress,
    )
    return CheckpointResult(
        reference=side_of(reference, first),
        target=side_of(target, second),
        rows=[row_of(row) for row in found["rows"]],
        reference_only=found["reference_only"],
        target_only=found["target_only"],
        notes=[*notes, *found["notes"]],
        row_order=found["names"],
    )


# ---- names of another kind


def _map_names(reference: core.Checkpoint, target: core.Checkpoint, options: CheckpointOptions) -> list[str]:
    """Gives the side with the other naming the names of the mapping. Returns what was done."""
    if options.mapping is not None:
        mapping = load_mapping(options.mapping)
        best = max(
            (
                (_hits(mapping, side, prefix), prefix, side is target)
                for side in (reference, target)
                for prefix in mapping.prefixes
            ),
            key=lambda one: one[0],
        )
        if best[0] == 0:
            raise InvalidArgument(f"mapping {mapping.name}: none of its names is in one of the checkpoints")
        _, prefix, is_target = best
        return [
            _apply(mapping, prefix, *((target, reference) if is_target else (reference, target)), is_target)
        ]
    notes = []
    for side, other, is_target in ((reference, target, False), (target, reference, True)):
        if not side.model_type or side.model_type == other.model_type:
            continue
        found = mapping_for_model(side.model_type)
        own = not other.model_type and other.kind in ("megatron", "distributed", "file")
        if found is not None and (own or side.model_type == MINDSPORE):
            prefix = max(found.prefixes, key=lambda one: _hits(found, side, one))
            if _hits(found, side, prefix) and not _hits(found, other, prefix):
                notes.append(_apply(found, prefix, side, other, is_target))
    return notes


def _hits(mapping: Mapping, side: core.Checkpoint, prefix: str) -> int:
    """How many names of the checkpoint begin and end as the mapping has them."""
    ends = [
        (prefix + first.partition("{")[0], first.rpartition("}")[2] if "{" in first else "")
        for _, (first, *_), *_ in mapping.rules
    ]
    names = [name for name, _, _ in side.parameters]
    return sum(any(name.startswith(begin) and name.endswith(end) for begin, end in ends) for name in names)


def _apply(
    mapping: Mapping, prefix: str, side: core.Checkpoint, other: core.Checkpoint, is_target: bool
) -> str:
    made = side.apply_mapping(mapping.with_prefix(prefix), other)
    where = "target" if is_target else "reference"
    return f"mapping {mapping.name}: {made} parameters of the {where} checkpoint have other names"


# ---- hashes


def _compare_hashes(
    reference: str | os.PathLike[str], target: str | os.PathLike[str], options: CheckpointOptions
) -> CheckpointResult:
    first, second = (_hashes(path, options) for path in (reference, target))
    rows = [
        ParameterRow(
            name=name,
            shapes=(one.shape, other.shape),
            dtypes=(one.dtype, other.dtype),
            compared=False,
            count=one.count,
            hashes=(one.hash, other.hash),
        )
        for name, one in first.parameters.items()
        if (other := second.parameters.get(name)) is not None
    ]
    return CheckpointResult(
        reference=first.side,
        target=second.side,
        rows=rows,
        row_order=[row.name for row in rows],
        reference_only=[name for name in first.parameters if name not in second.parameters],
        target_only=[name for name in second.parameters if name not in first.parameters],
        notes=[
            "only hashes are compared: they tell whether parameters are equal, not by how much they differ"
        ],
    )


def _hashes(path: str | os.PathLike[str], options: CheckpointOptions) -> HashFile:
    if is_hash_file(path):
        return read_hash_file(path)
    checkpoint = open_checkpoint(path, load_rules(options.rules), optimizer=options.optimizer)
    if options.mapping is not None:
        mapping = load_mapping(options.mapping)
        prefix = max(mapping.prefixes, key=lambda one: _hits(mapping, checkpoint, one))
        if _hits(mapping, checkpoint, prefix):
            checkpoint.apply_mapping(mapping.with_prefix(prefix), None)
    return hashes_of(side_of(path, checkpoint), checkpoint, options.threads, options.progress)


def hash_checkpoint(path: str | os.PathLike[str], options: CheckpointOptions | None = None) -> HashFile:
    """The hashes of all parameters, to be written with write_hash_file() and compared later."""
    return _hashes(path, options or CheckpointOptions())
