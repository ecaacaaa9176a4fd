# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe.capture: what `msprobe run` does, for a part of a program."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any

from msprobe.native import InvalidArgument, import_torch, log
from msprobe.recorders import RunRecording
from msprobe.recording.run_file import earlier_run, rank_of_process, remove_run
from msprobe.recording.settings import run_settings
from msprobe.recording.telling import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class capture(ContextDecorator):  # noqa: N801
    """Records the training inside of `with msprobe.capture(model, "out"):`, or of a function with
    `@msprobe.capture(output="out")`. Steps are found at the optimizer, and without a model the models, too.
    A coroutine function is recorded until it returns, a generator function from the first value asked for
    until it returns or is closed, with what runs between its values.

    model: a torch.nn.Module or a list of them; None: those that are called in training.
    output: folder of the run; without it the `dump_path` of the configuration, else ./msprobe_run.
    config: config.yaml or config.json; optional.
    steps: "0-2,10" or a list; "all" for all. Counted from 0 at the beginning of the block.
    level: "L0", "L1" or "mix".
    without: parts to leave out: "config", "losses", "gradients", "dump".
    force: replace a run that is in the folder already.

    Raises InvalidArgument for wrong arguments, and without `force` for a folder that holds a run already,
    before the block begins. Inside of it nothing of msprobe stops the training.
    """

    def __init__(
        self,
        model: Any = None,
        output: str | os.PathLike[str] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        steps: str | Sequence[int | str] | None = None,
        level: str | None = None,
        without: Sequence[str] = (),
        force: bool = False,
    ) -> None:
        self._models = None if model is None else _modules(model)
        self._force = force
        self._settings = run_settings(config, output, steps, level, without)
        self._recording: RunRecording | None = None
        self._ended = ""

    def __repr__(self) -> str:
        said = self._ended or f"{'records' if self._recording else 'will record'} {self._settings.words}"
        return f"<msprobe.capture: {said}>"

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:  # type: ignore[override]
        # The block of ContextDecorator would end when the object is made, before its first line runs.
        if inspect.isasyncgenfunction(function):
            raise InvalidArgument(
                f"capture: {function.__qualname__}: expected a function, coroutine function or generator "
                "function, found an asynchronous generator function; `with msprobe.capture(...)` records it"
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def recorded_coroutine(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return recorded_coroutine
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def recorded_generator(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return (yield from function(*args, **kwargs))

            return recorded_generator
        return super().__call__(function)

    def __enter__(self) -> capture:
        import_torch()
        if self._recording is not None:
            raise InvalidArgument("capture: expected one block after the other, found one inside of itself")
        earlier = earlier_run(self._settings) if rank_of_process() == 0 else None
        if earlier is not None and not self._force:
            raise InvalidArgument(
                f"capture: {earlier}: there is a run already; choose another folder, or replace it with "
                "force=True"
            )
        if earlier is not None:
            remove_run(self._settings.output)
        self._recording = RunRecording(self._settings, list(sys.argv), self._models)
        self._recording.begin()
        tell(f"capture: records {self._settings.words}")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        recording, self._recording = self._recording, None
        assert recording is not None
        recording.end("ended" if kind is None else kind.__name__, always=True)
        self._ended = recording.summary
        if kind is None and not recording.recorded:
            log.warning("capture: %s", recording.summary)
        elif recording.summary:
            tell(f"capture: {recording.summary}")
        recording.release()


def _modules(model: Any) -> list[Any]:
    torch = import_torch()
    models = list(model) if isinstance(model, (list, tuple)) else [model]
    for one in models:
        if not isinstance(one, torch.nn.Module):
            raise InvalidArgument(f"capture: expected a torch.nn.Module, found {type(one).__name__}")
    if not models:
        raise InvalidArgument("capture: expected a torch.nn.Module, found an empty list")
    return models
