# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a script asks for that no two runs have alike: time, random bytes, the number of the process,
generators without a seed. It is noted with its line in sources.jsonl; with fix() it is answered as in every
run.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import os
import sys
import sysconfig
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.append_file import append_lines
from msprobe.files.regular_file import read_text
from msprobe.hooks.arming import when_imported
from msprobe.native import IoError

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = "sources.jsonl"

_MOST_NOTES = 3  # of one line of a script
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(
    os.path.join(sysconfig.get_paths()[name], "") for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_CLOCK = itertools.count()  # of answers

# Module, function: what it is called, and the answer in place of its own. A function of the interpreter's own
# modules and of libraries keeps what it is given: only lines of the user are answered.
_FUNCTIONS: dict[tuple[str, str], tuple[str, Callable[..., Any]]] = {
    ("time", "time"): ("time", lambda: 1.7e9 + next(_CLOCK) / 1000),
    ("time", "time_ns"): ("time", lambda: 1_700_000_000_000_000_000 + next(_CLOCK) * 1_000_000),
    ("time", "perf_counter"): ("time", lambda: next(_CLOCK) / 1000),
    ("time", "perf_counter_ns"): ("time", lambda: next(_CLOCK) * 1_000_000),
    ("time", "monotonic"): ("time", lambda: next(_CLOCK) / 1000),
    ("os", "urandom"): ("urandom", lambda size: bytes(next(_CLOCK) % 256 for _ in range(size))),
    ("secrets", "randbits"): ("urandom", lambda bits: next(_CLOCK) % (1 << bits)),
    ("secrets", "token_bytes"): ("urandom", lambda size=32: bytes(size)),
    ("secrets", "randbelow"): ("urandom", lambda limit: next(_CLOCK) % limit),
    ("uuid", "uuid4"): ("urandom", lambda: __import__("uuid").UUID(int=next(_CLOCK))),
    ("os", "getpid"): ("pid", lambda: 4242),
}


def note(folder: str) -> None:
    """From here on, in this process and those forked of it."""
    path = Path(folder) / FILE
    seen: dict[str, int] = {}
    lock = threading.Lock()

    def told(source: str, place: str) -> None:
        with lock:
            seen[place] = count = seen.get(place, 0) + 1
        if count <= _MOST_NOTES:
            with contextlib.suppress(IoError):
                append_lines(path, json.dumps({"source": source, "at": place}) + "\n")

    _exchange(told, frozenset())


def fix(sources: frozenset[str]) -> None:
    """Those of them are answered alike in every run, where a line of the user asks."""
    _exchange(lambda *_: None, sources)


def _exchange(told: Callable[[str, str], None], fixed: frozenset[str]) -> None:
    """fixed: those that are answered; empty: all are noted."""
    for (module_name, name), (source, answer) in _FUNCTIONS.items():
        if not fixed or source in fixed:
            module = importlib.import_module(module_name)
            given = _told(getattr(module, name), source, told, answer if source in fixed else None)
            setattr(module, name, given)
    if not fixed or "generators" in fixed:
        _seed_new_generators(told, seeds="generators" in fixed)


def _told(original: Any, source: str, told: Callable[[str, str], None], answer: Any) -> Any:
    name = f"{original.__module__}.{original.__name__}()"

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        place = line_of_user(sys._getframe(1))
        if place:
            told(source, f"{name} at {place}")
        return original(*args, **kwargs) if answer is None or not place else answer(*args, **kwargs)

    return call


def _seed_new_generators(told: Callable[[str, str], None], *, seeds: bool) -> None:
    """Those that are made, or seeded anew, without a seed."""
    import random

    base: Any = random.Random

    class Random(base):  # type: ignore[misc]
        def __init__(self, x: Any = None) -> None:
            place = line_of_user(sys._getframe(1)) if x is None else ""
            if place:
                told("generators", f"random.Random() at {place}")
            super().__init__(0 if place and seeds else x)

    Random.__module__, Random.__qualname__ = "random", "Random"
    random.Random = Random  # type: ignore[misc]
    _seed_calls("random", ("seed",), told, seeds=seeds)
    for module, names in (("torch", ("seed",)), ("numpy.random", ("default_rng", "seed"))):
        when_imported(module, functools.partial(_seed_calls, module, names, told, seeds=seeds))


def _seed_calls(
    module_name: str, names: tuple[str, ...], told: Callable[[str, str], None], *, seeds: bool
) -> None:
    module: Any = sys.modules[module_name]
    for name in names:
        original = getattr(module, name)

        def call(*args: Any, original: Any = original, name: str = name, **kwargs: Any) -> Any:
            asks = not kwargs and args in ((), (None,))
            place = line_of_user(sys._getframe(1), behind_ours=True) if asks else ""
            if place:
                told("generators", f"{module_name}.{name}() at {place}")
            if not (place and seeds):
                return original(*args, **kwargs)
            return module.manual_seed(0).initial_seed() if module_name == "torch" else original(0)

        setattr(module, name, functools.wraps(original)(call))


def line_of_user(frame: Any, *, behind_ours: bool = False) -> str:
    """ "train.py:12" where the frame is code of the user, else "".

    behind_ours: frames of msprobe, which passes calls of the user on, are passed over.
    """
    while behind_ours and frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    file = frame.f_code.co_filename
    if file.startswith(("<", _PACKAGE, *_LIBRARIES)) or "site-packages" in file:
        return ""
    return f"{os.path.basename(file)}:{frame.f_lineno}"


def read_notes(folder: Path) -> dict[str, list[str]]:
    """Source -> the lines that ask for it."""
    result: dict[str, list[str]] = {}
    try:
        text = read_text(folder / FILE)
    except OSError:
        return result
    for line in text.splitlines():
        try:
            one = json.loads(line)
            places = result.setdefault(str(one["source"]), [])
        except (ValueError, KeyError, TypeError):
            continue
        if one["at"] not in places:
            places.append(one["at"])
    return result
