# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PtdbgDispatch: inside of its `with`, every operator is run on the CPU as well, and compared."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.compat.online_dispatch.judging import (
    DETAILS_HEADER,
    RESULT_HEADER,
    Judged,
    judge_operator,
    raised_dtypes,
    values_of,
)
from msprobe.compat.online_dispatch.live_call import Snapshot
from msprobe.compat.online_dispatch.operators import are_plain, is_compared, plain_name
from msprobe.compat.online_dispatch.workers import Workers
from msprobe.files.appending import append_rows, csv_text
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.regular_file import open_to_write
from msprobe.files.result_time import unused_time
from msprobe.hooks.compiled_regions import OffInRegions
from msprobe.native import Error, InvalidArgument, import_torch, log
from msprobe.replay.arguments import tensors_in
from msprobe.replay.execution import quiet
from msprobe.training.wanted_steps import rank_in_group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.replay.dump_file import RecordedCall

_MODES = ("all", "list", "auto", "OFF")
_BOM = "\ufeff"
_FILE_MODE = 0o640


class PtdbgDispatch:
    """Compares every operator of torch that runs inside with the same operator on the CPU, for a forward or
    a backward:

        with PtdbgDispatch(dump_mode="auto", dump_path="dispatch") as dispatch:
            output = model(x)
        print(dispatch.folder, dispatch.failed)

    dump_mode: "all": keep the tensors of every operator; "list": of those in `api_list`; "auto": of those
        that fail; "OFF": of none.
    dump_path: a folder that exists; a new folder in it has the results (docs/formats/online_dispatch.md).
    tag: part of the name of that folder.
    api_list: names in torch.ops.aten, for "list".
    process_num: processes that judge beside the program, at most a quarter of the CPUs; 0: none.
    debug: log every operator.

    The program's numbers stay the same. Raises InvalidArgument for arguments that make no sense, IoError
    where the folder cannot be written. What goes wrong later with an operator is told in the result.
    """

    def __init__(
        self,
        dump_mode: str = "OFF",
        api_list: Sequence[str] | None = None,
        debug: bool = False,
        dump_path: str | os.PathLike[str] | None = None,
        tag: str | None = None,
        process_num: int = 0,
    ) -> None:
        import_torch()
        self._mode = _checked_mode(dump_mode)
        self._listed = frozenset(_checked_list(api_list, self._mode))
        self._debug = bool(debug)
        self._count = _checked_count(process_num)
        self._parent = _checked_path(dump_path)
        self._tag = _checked_tag(tag)
        self._numbers: Counter[str] = Counter()
        self._device = "cpu"
        self._lock = threading.Lock()
        self._workers: Workers | None = None
        self._operators = _Operators(self._around)
        self._is_used = self._cannot_write = False
        self.folder: Path | None = None
        """Of the results; None before the `with`."""
        self.failed: list[str] = []
        """Names of the operators that failed, as the result has them."""
        self.compared = 0
        """How many operators were compared."""

    def __enter__(self) -> PtdbgDispatch:
        if self._is_used:
            raise InvalidArgument("PtdbgDispatch: expected one `with` for each object")
        self._is_used = True
        self._device = _device()
        self.folder, self._results, self._details = _make_folder(
            self._parent, self._tag, _rank(), self._mode != "OFF"
        )
        if self._count:
            self._workers = Workers(self._count, self._finish)
        self._operators.install()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._operators.remove()
        if self._workers is not None:
            self._workers.close()
        log.info(
            "PtdbgDispatch: %d of %d operators failed: %s", len(self.failed), self.compared, self._results
        )

    # ---- one operator

    def _around(self, operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if not is_compared(operator, asked_for=plain_name(operator) in self._listed):
            return operator(*args, **kwargs)
        if not are_plain(tensors_in([args, kwargs])):
            return operator(*args, **kwargs)
        seen = _copied(Snapshot, args, kwargs)
        result = operator(*args, **kwargs)
        if seen is not None and are_plain(tensors_in(result)):
            seen = _copied(seen.with_result, result)
            if seen is not None:
                self._see(operator, seen)
        return result

    def _see(self, operator: Any, seen: Snapshot) -> None:
        plain = plain_name(operator)
        self._numbers[plain] += 1
        number = self._numbers[plain]
        call = seen.call(f"Aten.{plain}.{number}", operator)
        raised = raised_dtypes(self._device)
        name = f"{plain}_{number}_output"
        if self._workers is not None:
            self._workers.submit(name, call, raised)
            return
        try:
            with quiet():
                self._finish(call, judge_operator(name, call, raised))
        except Exception as error:  # a fault of ours: the program goes on
            log.warning("PtdbgDispatch: %s was not judged: %s: %s", name, type(error).__name__, error)

    def _finish(self, call: RecordedCall, judged: Judged) -> None:
        """Never raises: the program goes on."""
        try:
            self._write(call, judged)
        except Error as error:
            if not self._cannot_write:
                log.warning("PtdbgDispatch: the results are not complete: %s", error)
            self._cannot_write = True

    def _write(self, call: RecordedCall, judged: Judged) -> None:
        with self._lock:
            self.compared += judged.status != "SKIP"
            if judged.fails:
                self.failed.append(judged.name)
            if judged.status == "SKIP":
                log.warning("PtdbgDispatch: %s: %s", judged.name, judged.message)
            elif self._debug:
                log.info("PtdbgDispatch: %s: %s, %s", judged.name, judged.status, judged.verdict)
            if judged.details:
                append_rows(self._details, judged.details)
            append_rows(self._results, [judged.result_row])
        if self._keeps(call, judged):
            self._save(call, judged)

    def _keeps(self, call: RecordedCall, judged: Judged) -> bool:
        if self._mode == "auto":
            return judged.fails
        return self._mode == "all" or (self._mode == "list" and call.function in self._listed)

    def _save(self, call: RecordedCall, judged: Judged) -> None:
        assert self.folder is not None
        base = judged.name.removesuffix("_output")
        for place, value in values_of(call, "input"):
            _save(self.folder / "npu" / f"{base}_input.{place}.npy", value)
        outputs = [value for _, value in values_of(call, "output")]
        for side, tensors in (("npu", outputs), ("cpu", judged.reference)):
            for i, tensor in enumerate(tensors):
                end = f".{i}" if len(tensors) > 1 else ""
                _save(self.folder / side / f"{base}_output{end}.npy", tensor)


def _copied(copy: Callable[..., Snapshot], *given: Any) -> Snapshot | None:
    """None: the copy does not fit, and the program goes on."""
    try:
        return copy(*given)
    except (MemoryError, RuntimeError) as error:
        log.warning("PtdbgDispatch: an operator is left out: %s", str(error).partition("\n")[0])
        return None


def _save(path: Path, value: Any) -> None:
    """NumPy has no bfloat16: that and 8-bit floats stand there in float32."""
    import numpy as np
    import torch

    temporary = path.with_name(f".{path.name}.tmp")
    plain = torch.as_tensor(value).detach().resolve_conj().resolve_neg()
    if plain.is_floating_point() and plain.dtype not in (torch.float16, torch.float32, torch.float64):
        plain = plain.float()
    try:
        with open_to_write(temporary) as file:
            np.save(file, plain.numpy(), allow_pickle=False)
        os.replace(temporary, path)
    except OSError as error:  # a full disk: the program goes on
        temporary.unlink(missing_ok=True)
        log.warning("PtdbgDispatch: cannot write %s: %s", path, os.strerror(error.errno or 0))


class _Operators(OffInRegions):
    """A mode of torch that sees every operator. With one torch does not compile, so it is off for regions."""

    def __init__(self, around: Callable[[Any, Sequence[Any], dict[str, Any]], Any]) -> None:
        self._around = around
        self._mode: Any = None

    def put(self) -> None:
        from torch.utils._python_dispatch import TorchDispatchMode

        around = self._around

        class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return around(func, args, kwargs or {})

        self._mode = Mode()  # type: ignore[no-untyped-call]
        self._mode.__enter__()

    def take(self) -> None:
        """Others may have been entered on top of it, and stay."""
        from torch.utils import _python_dispatch

        modes: Any = _python_dispatch
        above = []
        while modes._len_torch_dispatch_stack() > 0:
            top = modes._pop_mode()
            if top is self._mode:
                modes._push_mode(top)
                top.__exit__(None, None, None)
                break
            above.append(top)
        for mode in reversed(above):
            modes._push_mode(mode)


def _make_folder(parent: Path, tag: str, rank: int, keeps: bool) -> tuple[Path, Path, Path]:
    middle = f"_{tag}" if tag else ""

    def folder(time: str) -> Path:
        return parent / f"msprobe{middle}_rank{rank}_{time}"

    time = unused_time(lambda text: folder(text).exists())
    found = make_directory(folder(time))
    for side in ("cpu", "npu") if keeps else ():
        make_directory(found / side)
    results = found / f"accuracy_checking_result_{time}.csv"
    details = found / f"accuracy_checking_details_{time}.csv"
    for path, header in ((details, DETAILS_HEADER), (results, RESULT_HEADER)):
        write_text(path, _BOM + csv_text([header]))
        os.chmod(path, _FILE_MODE)
    return found, results, details


def _device() -> str:
    """Of the program: "npu", "cuda", or "cpu" where there is neither."""
    import torch

    npu = getattr(torch, "npu", None)
    if npu is not None and npu.is_available():
        return "npu"
    return "cuda" if torch.cuda.is_available() else "cpu"


def _rank() -> int:
    """The number of the device; on the CPU that of the process in torch.distributed."""
    import torch

    kind = _device()
    if kind != "cpu":
        return int(getattr(torch, kind).current_device())
    return rank_in_group() or 0


# ---- arguments


def _checked_mode(value: object) -> str:
    for mode in _MODES:
        if isinstance(value, str) and value.lower() == mode.lower():
            return mode
    raise InvalidArgument(f"PtdbgDispatch: dump_mode: expected one of {', '.join(_MODES)}, found {value!r}")


def _checked_list(value: object, mode: str) -> list[str]:
    import torch

    names = [] if value is None else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"PtdbgDispatch: api_list: expected a list of names, found {value!r}")
    if mode == "list" and not names:
        raise InvalidArgument('PtdbgDispatch: api_list: expected names of operators with dump_mode "list"')
    known = [name for name in names if name.isidentifier() and hasattr(torch.ops.aten, name)]
    for name in names:
        if name not in known:
            log.warning("PtdbgDispatch: api_list: %r is not in torch.ops.aten: it is left out", name)
    return known


def _checked_count(value: object) -> int:
    most = max((len(os.sched_getaffinity(0)) + 1) // 4, 1)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidArgument(
            f"PtdbgDispatch: process_num: expected 0 to {most}, a quarter of the CPUs, found {value!r}"
        )
    return value


def _checked_path(value: object) -> Path:
    if not isinstance(value, (str, os.PathLike)) or not os.path.isdir(value):
        raise InvalidArgument(f"PtdbgDispatch: dump_path: expected a folder that exists, found {value!r}")
    return Path(os.path.abspath(value))


def _checked_tag(value: object) -> str:
    text = "" if value is None else value
    plain = isinstance(text, str) and len(text) <= 64 and text.replace("-", "_").replace("_", "a").isalnum()
    if text != "" and not plain:
        raise InvalidArgument(
            f'PtdbgDispatch: tag: expected letters, digits, "_" and "-", at most 64, found {value!r}'
        )
    return str(text)
