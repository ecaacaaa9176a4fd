# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The gradient probe of a training process: which parameters are watched, where their record goes, and the
hook.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config import Config, GradProbeConfig, did_you_mean
from msprobe.files.atomic_file import write_text
from msprobe.grad_probe.earlier_record import layout_of, tell_earlier_record
from msprobe.grad_probe.keepers import keepers
from msprobe.native import InvalidArgument, log, torch_adapter
from msprobe.training.model_parts import named_parameters
from msprobe.training.optimizer import OptimizerUpdates
from msprobe.training.partitioned_gradients import gradient_of_part, part_in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from msprobe._torch import GradProbe

    _Parameters = list[tuple[str, Tensor]]

NOTES = "notes.json"


@dataclass(frozen=True)
class _Watch:
    """One model under the probe."""

    parameters: _Parameters
    probe: GradProbe
    hook: OptimizerUpdates

    def is_of(self, parameters: _Parameters) -> bool:
        return len(parameters) == len(self.parameters) and all(
            name == mine_name and parameter is mine
            for (name, parameter), (mine_name, mine) in zip(parameters, self.parameters)
        )


class Probe:
    """Records the gradients of one model at a time."""

    def __init__(self, config: Config) -> None:
        assert isinstance(config.section, GradProbeConfig)
        self._config = config
        self._section = config.section
        self._watch: _Watch | None = None

    def monitor(self, model: object, wrapped: Sequence[Any] = ()) -> None:
        """Starts to record `model`. Raises InvalidArgument, IoError, UnsupportedError.

        wrapped: what it stands for, with what that is wrapped in.
        """
        parameters: _Parameters = list(named_parameters(_module(model)))
        if self._watch is not None and self._watch.is_of(parameters):
            return
        rank, distributed = _rank()
        if distributed and self._config.ranks and rank not in self._config.ranks:
            log.info("rank %d is not in the configured ranks: its gradients are not recorded", rank)
            return
        if self._watch is not None:
            log.warning(
                "%s takes the place of the model monitored so far: one model is recorded at a time, and its "
                "steps count from 0",
                type(model).__name__,
            )
            self.close()
        if rank == 0 and log.isEnabledFor(logging.INFO):
            log.info("> parameter names:")
            for name, _ in parameters:
                log.info("%s", name)
        wanted = _wanted(parameters, self._section.param_list)
        kept = {}
        if layout_of(self._section) == "packed":
            kept = keepers(wrapped or [model], wanted, self._config.ranks)
        self._start(wanted, parameters, rank, kept)

    def start(self, model: object = None) -> None:
        """Nothing: steps are those of the optimizer of the model that monitor() was given."""

    def stop(self) -> None:
        self.flush()

    def flush(self) -> None:
        if self._watch is not None and (lost := self._watch.probe.flush()):
            log.warning("%s: %d steps could not be written", self._config.dump_path, lost)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.hook.remove()
            self.flush()
            self._watch = None

    def release(self) -> None:
        """Nothing: close() lets the model go."""

    def _start(self, wanted: _Parameters, parameters: _Parameters, rank: int, kept: dict[str, int]) -> None:
        section = self._section
        directory = Path(self._config.dump_path, f"rank{rank}")
        tell_earlier_record(directory)
        probe: GradProbe = torch_adapter().GradProbe(
            wanted,
            self._config.dump_path,
            rank=rank,
            level=section.grad_level,
            bounds=[(float(bound), str(bound)) for bound in section.bounds],
            steps=self._config.steps,
            elsewhere=gradient_of_part,
            layout=layout_of(section),
            keepers=kept,
        )
        _write_notes(directory / NOTES, wanted)

        def begin(optimizer: Any, *arguments: Any) -> None:
            if not hook.is_inside_another:
                probe.on_optimizer_step(optimizer, *arguments)

        # A model that is monitored inside of a step has that step recorded, too: it computes the gradients.
        hook = OptimizerUpdates(begin, missed=probe.on_optimizer_step)
        hook.install()
        self._watch = _Watch(parameters, probe, hook)


def _module(model: object) -> nn.Module:
    import torch

    expected = "PrecisionDebugger.monitor(model): expected a torch.nn.Module"
    if not isinstance(model, torch.nn.Module):
        raise InvalidArgument(f"{expected}, found {_type_name(model)}")
    if isinstance(model, torch.jit.ScriptModule):
        raise InvalidArgument(
            f"{expected} that is not traced or scripted by torch.jit, found {_type_name(model)}"
        )
    return model


def _type_name(value: object) -> str:
    kind = value if isinstance(value, type) else type(value)
    name = f"{kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
    return f"the class {name}" if isinstance(value, type) else f"a value of type {name}"


def _rank() -> tuple[int, bool]:
    """The rank of this process, and whether torch.distributed knows it."""
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), True
    if os.environ.get("WORLD_SIZE", "1") not in ("", "1"):
        log.warning(
            "PrecisionDebugger.monitor() is called before torch.distributed.init_process_group() although "
            "WORLD_SIZE is %s: every process records as rank 0",
            os.environ["WORLD_SIZE"],
        )
    return 0, False


def _wanted(parameters: _Parameters, names: tuple[str, ...]) -> _Parameters:
    """The parameters with one of `names`; all, when there are none."""
    if not names:
        return parameters
    known = {name for name, _ in parameters}
    unknown = [name for name in dict.fromkeys(names) if name not in known]
    if unknown:
        hints = [f"{name!r} ({did_you_mean(name, known) or 'nothing is close'})" for name in unknown]
        log.warning("param_list: the model has no parameter of these names: %s", ", ".join(hints))
    listed = frozenset(names)
    wanted = [(name, parameter) for name, parameter in parameters if name in listed]
    if not wanted:
        log.warning("param_list: none of its names is a parameter of the model, no gradient is recorded")
    return wanted


def _write_notes(path: Path, parameters: _Parameters) -> None:
    """Says beside the record which gradients are only this rank's part. Without such parameters there is no
    file.
    """
    shards = {name: text for name, parameter in parameters if (text := _placement(parameter))}
    if shards:
        write_text(path, json.dumps({"local_shards": shards}, indent=1) + "\n")
        log.info("%d parameters are sharded: this rank records its local shards, see %s", len(shards), path)
    else:
        path.unlink(missing_ok=True)


def _is_distributed(parameter: Tensor) -> bool:
    # By what a DTensor has, not by its class: that moved between the modules of several torch releases.
    return hasattr(parameter, "placements") and hasattr(parameter, "to_local")


def _placement(parameter: Any) -> str:
    if not _is_distributed(parameter):
        return part_in_words(parameter)
    placements = ", ".join(map(repr, parameter.placements))
    local = list(parameter.to_local().shape)
    return f"{placements} on mesh {list(parameter.device_mesh.shape)}: {local} of {list(parameter.shape)}"
