# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""ConfigChecker: collects, from a training program, what decides its numbers."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config_check.collecting.collection import (
    as_lines,
    as_text,
    checked_pack_path,
    environment_text,
    packages_text,
)
from msprobe.config_check.collecting.hyperparameters import (
    check_paths,
    merge,
    of_files,
    of_megatron,
    of_objects,
)
from msprobe.config_check.collecting.parsed_arguments import ParsedArguments
from msprobe.config_check.collecting.program_settings import of_program
from msprobe.config_check.collecting.random_calls import RandomCalls
from msprobe.config_check.collecting.run_identity import current_rank, own_run, process_count
from msprobe.config_check.collecting.settings import training_settings
from msprobe.config_check.collecting.tensor_measurement import CHECKSUMS, measure_inputs, measure_weights
from msprobe.config_check.comparison import ConfigComparison, compare_packs
from msprobe.config_check.outputs import check_output, write_outputs
from msprobe.config_check.packs import pack
from msprobe.config_check.packs.pack_reader import read_pack
from msprobe.config_check.packs.pack_writer import PackWriter
from msprobe.hooks.compiled_regions import OffInRegions
from msprobe.native import InvalidArgument, UnsupportedError, import_torch, log, torch_adapter
from msprobe.training.model_parts import unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FRAMEWORKS = ("pytorch", "mindspore")
_DEFAULT_STEPS = 10
# A pack is written after each of the first steps; later, and when a long record is asked for, less often.
_STEPS_WRITTEN_AT_ONCE = 16

_NOTHING_SEEN = (
    "no forward call of the model was seen, so neither its inputs nor its weights are in the pack. A module "
    "inside one that torch.compile made cannot be seen: give ConfigChecker what torch.compile returned"
)

_random_calls = RandomCalls()
_parsed_arguments = ParsedArguments()


class ConfigChecker:
    """Collects into a pack: at construction the environment and packages (of the first process), at each of
    the first forward calls of the model its inputs and weights, and at the very first the hyper-parameters
    (of the first process), the random operations so far and the settings of torch (every process).

    model: a torch.nn.Module, or a list of which the first is taken. Without one neither inputs nor weights
        are collected.
    shell_path: list of launch scripts (.sh) and files of settings (.yaml, .yml, .json).
    output_zip_path: the pack; that of an earlier run is replaced, all processes of this run share it.
    fmk: "pytorch"; "mindspore" for what needs no model.
    steps: after how many forward calls collecting ends; None: never.
    hyperparameters: objects that hold them: namespaces of argparse, dataclasses (TrainingArguments),
        OmegaConf, mappings, objects with to_dict(), paths of files; one or a list. The arguments of a
        Megatron, and else those that argparse parsed since apply_patches(), are found without it, and so is
        what program_settings.py finds in the program.
    checksum: "crc32", or "md5" for a stronger and slower one.
    called: a module whose calls stand for those of the model: what it is wrapped in, or the first of its
        parts that is called.

    Raises InvalidArgument for wrong arguments. After that nothing here stops a training: a fault is logged
    once, and what it concerns is missing in the pack.
    """

    def __init__(
        self,
        model: Any = None,
        shell_path: Sequence[str] | None = None,
        output_zip_path: str = "./config_check_pack.zip",
        fmk: str = "pytorch",
        *,
        steps: int | None = _DEFAULT_STEPS,
        hyperparameters: object = None,
        checksum: str = "crc32",
        called: Any = None,
    ) -> None:
        _check_framework(fmk)
        self._path = checked_pack_path(output_zip_path)
        scripts = check_paths(shell_path) if shell_path else []
        if checksum not in CHECKSUMS:
            raise InvalidArgument(f"checksum: expected {' or '.join(CHECKSUMS)}, found {checksum!r}")
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 0):
            raise InvalidArgument(f"steps: expected a number of forward calls or None, found {steps!r}")
        watched = None if model is None else _checked_model(model, fmk)
        self._steps = steps
        self._checksum = checksum
        self._step = 0  # forward calls so far
        self._warned: set[str] = set()
        self._pending: dict[str, str] = {}
        self._handle: Any = None
        self._model: Any = None  # a weak reference

        self._given: dict[str, Any] = {}
        try:
            self._given = {} if hyperparameters is None else of_objects(hyperparameters)
        except InvalidArgument:
            raise
        except Exception as error:  # of the program's objects, which are asked
            self._warn("hyperparameters", error)

        _close_earlier(self._path)
        self._writer = PackWriter(self._path, own_run(self._path), fmk, processes=process_count())
        self._collect_first(scripts)
        if watched is not None and steps != 0:
            with self._safely("watching the model"):  # TorchScript has no hooks
                self._handle = _Watch(watched if called is None else called, _ForwardHook(self))
                self._model = weakref.ref(watched)
        else:
            self._collect_of_process(watched)
        self._write()
        _open_checkers[os.path.realpath(self._path)] = self

    # ---- the patches

    @staticmethod
    def apply_patches(fmk: str = "pytorch") -> None:
        """Counts the calls of random functions from now on, until the first forward call of a checked model,
        and remembers what argparse makes of the command line. Call it in the first lines of the first script:
        functions that were imported by name before are not seen. Raises InvalidArgument for an unknown
        framework.
        """
        _check_framework(fmk)
        if fmk == "pytorch":
            import_torch()
        try:
            _random_calls.install()
            _parsed_arguments.install()
        except Exception as error:
            ConfigChecker.remove_patches()
            log.warning("config check: random calls are not counted: %s", error)

    @staticmethod
    def remove_patches() -> None:
        """Takes apply_patches() back; what was counted stays for the pack."""
        _random_calls.stop()
        _parsed_arguments.stop()

    # ---- comparing

    @staticmethod
    def compare(
        bench_zip_path: str, cmp_zip_path: str, output_path: str, fmk: str = "pytorch", *, force: bool = False
    ) -> ConfigComparison:
        """As `msprobe config_check -c`. Raises InvalidArgument, FormatError and IoError."""
        _check_framework(fmk)
        folder = Path(output_path)
        check_output(folder, (Path(bench_zip_path), Path(cmp_zip_path)), force=force)
        with read_pack(bench_zip_path) as reference, read_pack(cmp_zip_path) as target:
            result = compare_packs(reference, target)
            write_outputs(folder, result, reference, target)
        return result

    def compare_with(self, bench_zip_path: str, output_path: str, *, force: bool = False) -> ConfigComparison:
        """Compares this run, as far as it was collected, with an earlier one; for example after the first
        step, to end a training that is not set up alike. As compare(); call it in one process.
        """
        self._write()
        return self.compare(bench_zip_path, str(self._path), output_path, force=force)

    def close(self) -> None:
        """Takes the hook off and writes what is left. Happens by itself after the last step, and at the end
        of the process.
        """
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
            if self._step == 0:
                self._collect_hyperparameters(None)
                log.warning("config check: %s: %s", self._path, _NOTHING_SEEN)
        self._write()
        with self._safely("joining the pack"):
            self._writer.finish()
        if _open_checkers.get(os.path.realpath(self._path)) is self:
            del _open_checkers[os.path.realpath(self._path)]

    # ---- collecting

    def _collect_first(self, scripts: list[Path]) -> None:
        if current_rank() != 0:
            return
        with self._safely("environment variables"):
            self._pending[pack.ENVIRONMENT] = environment_text()
        with self._safely("packages"):
            self._pending[pack.PACKAGES] = packages_text()
        with self._safely("hyper-parameters of scripts"):
            found = of_files(scripts)
            if found:
                self._pending[pack.STATIC] = as_text(found)

    def _collect_hyperparameters(self, model: Any) -> None:
        """Of the running program, when all that trains is there."""
        if current_rank() != 0:
            return
        with self._safely("hyper-parameters of the program"):
            dynamic = of_megatron()
            if dynamic is None:  # a Megatron changes what it parsed
                dynamic = of_objects(_parsed_arguments.namespaces())
            merge(dynamic, self._given)
            program = of_program([] if model is None else [model])
            merge(dynamic, program.settings)
            if dynamic:
                self._pending[pack.DYNAMIC] = as_text(dynamic)
            if program.variables:
                self._pending[pack.VARIABLES] = as_text(program.variables)

    def before_forward(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Collects a step, before the model does it."""
        with self._safely("a forward call"), torch_adapter().NoModes():
            if self._handle is not None and not _is_recorded():
                of_model = self._model()  # no bool() of it: a wrapper may have no length
                if of_model is None:
                    of_model = model
                self._collect_step(model if unwrapped(model) is of_model else of_model, args, kwargs)

    def _collect_step(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        step, self._step = self._step, self._step + 1
        if step == 0:
            self._collect_of_process(model)
        rank = current_rank()
        with self._safely("inputs"):
            tree, fingerprints = measure_inputs(args, kwargs, self._checksum)
            self._pending[pack.dataset(step, rank)] = as_text(tree)
            self._pending[pack.fingerprints("dataset", step, rank)] = as_lines(fingerprints)
        with self._safely("weights"):
            tree, fingerprints = measure_weights(model, self._checksum)
            self._pending[pack.weights(step, rank)] = as_text(tree)
            self._pending[pack.fingerprints("weights", step, rank)] = as_lines(fingerprints)
        if self._steps is not None and self._step >= self._steps:
            self.close()
        elif self._step <= _STEPS_WRITTEN_AT_ONCE or self._step % _STEPS_WRITTEN_AT_ONCE == 0:
            self._write()

    def _collect_of_process(self, model: Any) -> None:
        """Random operations and settings, as they are when training begins."""
        self.remove_patches()
        self._collect_hyperparameters(model)
        rank = current_rank()
        with self._safely("random operations"):
            counted = _random_calls.counted()
            if counted:
                self._pending[pack.random_calls(rank)] = as_text(counted)
        with self._safely("seeds"):
            from msprobe.training.torch_state import random_states

            states = {name: read() for name, read in random_states().items()}
            self._pending[pack.seeds(rank)] = as_text({"calls": _random_calls.seeds(), "states": states})
        with self._safely("settings"):
            script = getattr(sys.modules.get("__main__"), "__file__", None)
            folder = Path(script).parent if script else Path.cwd()
            self._pending[pack.settings(rank)] = as_text(training_settings(model, folder, script))

    def _write(self) -> None:
        entries, self._pending = self._pending, {}
        with self._safely("writing the pack"):
            self._writer.append(entries)

    @contextlib.contextmanager
    def _safely(self, what: str) -> Iterator[None]:
        """A fault of ours must not stop the training."""
        try:
            yield
        except Exception as error:
            self._warn(what, error)

    def _warn(self, what: str, error: Exception) -> None:
        if what not in self._warned:
            self._warned.add(what)
            log.warning(
                "config check: %s: %s: %s (further faults of this kind are not logged)",
                what,
                type(error).__name__,
                error,
            )


class _ForwardHook:
    """A hook of a module that stays behind when the module is copied or saved."""

    def __init__(self, checker: ConfigChecker) -> None:
        self._checker = checker

    def __call__(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import torch

        if not torch.compiler.is_compiling():  # a graph must not hold us
            self._checker.before_forward(model, args, kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """In its place: a function of Python's own that does nothing, so that msprobe is not needed there."""
        return getattr, (contextlib.nullcontext(), "__exit__")


class _CompiledCall:
    """In the place of a model's compiled call."""

    def __init__(self, compiled: Any, hook: _ForwardHook, model: weakref.ref[Any]) -> None:
        self.compiled = compiled
        self.hook = hook
        self._model = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.hook(self._model(), args, kwargs)
        return self.compiled(*args, **kwargs)


class _HookInPlace(OffInRegions):
    """The hook of a module, off while a compiled region runs: the compiler would have to trace it."""

    def __init__(self, model: Any, hook: _ForwardHook) -> None:
        self._model = weakref.ref(model)
        self._hook = hook
        self._handle: Any = None

    def put(self) -> None:
        from torch import nn

        model = self._model()
        register: Any = nn.Module.register_forward_pre_hook  # not one of the module's own class
        if model is not None:
            self._handle = register(model, self._hook, with_kwargs=True)

    def take(self) -> None:
        if self._handle is not None:
            self._handle.remove()
        self._handle = None


class _Watch:
    """The hook on a model until remove(). A model that was compiled in place, by model.compile(), has its
    hooks inside the graph: there the compiled call is exchanged. Keeps no model alive.
    """

    def __init__(self, model: Any, hook: _ForwardHook) -> None:
        self._model = weakref.ref(model)
        self._hook = hook
        self._in_place = None
        compiled = getattr(model, "_compiled_call_impl", None)
        if compiled is None:
            self._in_place = _HookInPlace(model, hook)
            self._in_place.install()
        else:
            model._compiled_call_impl = _CompiledCall(compiled, hook, self._model)

    def remove(self) -> None:
        if self._in_place is not None:
            self._in_place.remove()
            return
        model: Any = self._model()
        call = getattr(model, "_compiled_call_impl", None)
        if isinstance(call, _CompiledCall) and call.hook is self._hook:  # nobody exchanged it since
            model._compiled_call_impl = call.compiled


def _is_recorded() -> bool:
    """Whether the call is recorded to be repeated: reading a tensor would become part of it, or end it."""
    torch: Any = import_torch()
    if torch.jit.is_tracing():
        return True
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


# The checker that fills each pack of this process: another one for the same path takes its place.
_open_checkers: dict[str, ConfigChecker] = {}


@atexit.register
def _close_all() -> None:
    for checker in list(_open_checkers.values()):
        checker.close()


def _close_earlier(path: Path) -> None:
    earlier = _open_checkers.pop(os.path.realpath(path), None)
    if earlier is not None:
        earlier.close()


def _check_framework(fmk: object) -> None:
    if fmk not in _FRAMEWORKS:
        raise InvalidArgument(f"init framework adapter error, not in {list(_FRAMEWORKS)}: found {fmk!r}")


def _checked_model(model: Any, fmk: str) -> Any:
    if fmk != "pytorch":
        raise UnsupportedError(
            f"ConfigChecker(model=...) of fmk {fmk!r} is not supported, expected 'pytorch'"
        )
    torch = import_torch()
    first = model[0] if isinstance(model, (list, tuple)) and model else model
    if not isinstance(first, torch.nn.Module):
        raise InvalidArgument(
            f"model is not torch.nn.Module/mindspore.nn.Cell or module list. Found {type(first).__name__}"
        )
    return first
